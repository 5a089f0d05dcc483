package sandbox

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// appendPython appends v as Python's json.dumps(v, ensure_ascii=False) spells it, with indent=2 or on one line: the order of names is kept, numbers
// and strings come in the canonical spelling (1e-05 where the service's answers say 0.00001).
func appendPython(dst []byte, v jsontext.Value, indent bool) ([]byte, error) {
	return appendPythonValue(dst, jsontext.NewDecoder(bytes.NewReader(v)), indent, 0)
}

func appendPythonValue(dst []byte, dec *jsontext.Decoder, indent bool, depth int) ([]byte, error) {
	kind := dec.PeekKind()
	if kind != jsontext.KindBeginObject && kind != jsontext.KindBeginArray {
		v, err := dec.ReadValue()
		if err != nil {
			return dst, err
		}
		return evidence.AppendCanonical(dst, v)
	}
	if _, err := dec.ReadToken(); err != nil {
		return dst, err
	}
	dst = append(dst, byte(kind))
	empty := true
	for dec.PeekKind() != jsontext.KindEndObject && dec.PeekKind() != jsontext.KindEndArray {
		if !empty {
			dst = append(dst, ',')
		}
		switch {
		case indent:
			dst = appendNewline(dst, depth+1)
		case !empty:
			dst = append(dst, ' ')
		}
		empty = false
		var err error
		if kind == jsontext.KindBeginObject {
			if dst, err = appendPythonValue(dst, dec, indent, depth+1); err != nil {
				return dst, err
			}
			dst = append(dst, ": "...)
		}
		if dst, err = appendPythonValue(dst, dec, indent, depth+1); err != nil {
			return dst, err
		}
	}
	end, err := dec.ReadToken()
	if err != nil {
		return dst, err
	}
	if indent && !empty {
		dst = appendNewline(dst, depth)
	}
	return append(dst, byte(end.Kind())), nil
}

func appendNewline(dst []byte, depth int) []byte {
	dst = append(dst, '\n')
	for range depth {
		dst = append(dst, "  "...)
	}
	return dst
}

// memberOf returns the member of that name, nil where v is no object or has none.
func memberOf(v jsontext.Value, name string) jsontext.Value {
	for n, value := range evidence.Members(v) {
		if n == name {
			return value
		}
	}
	return nil
}

// orNull stands in for a value that is not there, where LoopGrid writes null.
func orNull(v jsontext.Value) jsontext.Value {
	if v == nil {
		return null()
	}
	return v
}

func null() jsontext.Value {
	return jsontext.Value("null")
}

func number(n int) jsontext.Value {
	return jsontext.Value(strconv.Itoa(n))
}

func boolean(b bool) jsontext.Value {
	return strconv.AppendBool(nil, b)
}
