package sandbox

import (
	"bytes"
	"math"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// JSON is kept as text, without blanks and in Python's spelling: this is what LoopGrid hashes, stores and exports. The API's serialiser spells
// floats differently in answers: 0.00001 instead of 1e-05.

// The deepest nesting that LoopGrid's parser reads and its serialiser writes.
const (
	maxNesting       = 970
	maxAnswerNesting = 255
)

// readJSON returns a request body as the sandbox keeps it. Text that is not JSON becomes a problem of f. Unlike LoopGrid it accepts no UTF-16, no
// NaN and no duplicate names.
func readJSON(f *form, body []byte) (jsontext.Value, error) {
	if !utf8.Valid(body) || evidence.NestsDeeper(body, maxNesting) {
		return nil, errUnreadable()
	}
	value := jsontext.Value(bytes.TrimPrefix(body, []byte("\ufeff")))
	if err := value.Format(); err != nil {
		if value.IsValid(jsontext.AllowInvalidUTF8(true)) {
			return nil, errInternal // Half a surrogate pair, which Python can read but not write.
		}
		return nil, f.syntax(err)
	}
	return respell(value, evidence.AppendFloat)
}

// errUnreadable is LoopGrid's answer to bytes that are not UTF-8, and to an integer or a nesting that Python refuses.
func errUnreadable() error {
	return refuse(http.StatusBadRequest, "There was an error parsing the body")
}

// respell returns JSON text without blanks with its floats spelled by appendFloat.
func respell(text []byte, appendFloat func([]byte, float64) []byte) (jsontext.Value, error) {
	dst := make([]byte, 0, len(text)+len(text)/32)
	for i := 0; i < len(text); {
		end := i + 1
		switch b := text[i]; {
		case b == '"':
			for ; text[end] != '"'; end++ {
				if text[end] == '\\' {
					end++
				}
			}
			end++
		case b == '-' || b >= '0' && b <= '9':
			for end < len(text) && bytes.IndexByte([]byte("0123456789.eE+-"), text[end]) >= 0 {
				end++
			}
			var err error
			if dst, err = appendNumber(dst, text[i:end], appendFloat); err != nil {
				return nil, err
			}
			i = end
			continue
		}
		dst = append(dst, text[i:end]...)
		i = end
	}
	return dst, nil
}

func appendNumber(dst, number []byte, appendFloat func([]byte, float64) []byte) ([]byte, error) {
	if bytes.ContainsAny(number, ".eE") {
		f, err := strconv.ParseFloat(string(number), 64)
		if err != nil {
			return nil, errInternal // Python reads it as infinity, which it cannot write.
		}
		return appendFloat(dst, f), nil
	}
	switch digits := bytes.TrimPrefix(number, []byte("-")); {
	case len(digits) > evidence.MaxIntegerDigits:
		return nil, errUnreadable()
	case string(digits) == "0":
		return append(dst, '0'), nil
	}
	return append(dst, number...), nil
}

// appendAnswerFloat appends f as the service's serialiser spells it: shortest digits, plain between 1e-5 and 1e16, else with an exponent
// that is not padded.
func appendAnswerFloat(dst []byte, f float64) []byte {
	if size := math.Abs(f); size != 0 && (size < 1e-5 || size >= 1e16) {
		short := strconv.AppendFloat(nil, f, 'e', -1, 64)
		mantissa, exponent, _ := bytes.Cut(short, []byte("e"))
		dst = append(dst, mantissa...)
		dst = append(dst, 'e', exponent[0])
		return append(dst, bytes.TrimLeft(exponent[1:], "0")...)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	if !bytes.ContainsRune(dst[start:], '.') {
		dst = append(dst, ".0"...)
	}
	return dst
}

// kv is one member of an object.
func kv(name string, value any) evidence.Field {
	return evidence.Field{Name: name, Value: encode(value)}
}

// encode returns a value as JSON text: null for nil and for an absent value.
func encode(value any) jsontext.Value {
	switch v := value.(type) {
	case string:
		return evidence.Text(v)
	case int:
		return strconv.AppendInt(nil, int64(v), 10)
	case bool:
		return strconv.AppendBool(nil, v)
	case []string:
		list := make([]jsontext.Value, len(v))
		for i, s := range v {
			list[i] = evidence.Text(s)
		}
		return evidence.Array(list...)
	case []jsontext.Value:
		return evidence.Array(v...)
	case jsontext.Value:
		if v != nil {
			return v
		}
	}
	return jsontext.Value("null")
}

// truthy is Python's bool() of a value.
func truthy(value jsontext.Value) bool {
	switch string(value) {
	case "", "null", "false", "0", "0.0", "-0.0", `""`, "[]", "{}":
		return false
	}
	return true
}

// isFloat says whether a number is a float to Python.
func isFloat(number jsontext.Value) bool { return bytes.ContainsAny(number, ".eE") }
