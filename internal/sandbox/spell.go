package sandbox

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// JSON leaves LoopGrid in two spellings that differ in their floats. What is hashed, stored and exported, and what an error echoes, is
// Python's: 1e-05. The answers of the API are those of its serialiser: 0.00001. Everything in this package is kept in Python's spelling and
// respelled when it is answered.

// appendValue appends a parsed value in Python's spelling, names in their order. NaN, infinite numbers and lone surrogates are written in a
// way that [evidence.AppendCanonical] refuses: LoopGrid fails where it hashes or answers them.
func appendValue(dst []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case string:
		return appendText(dst, v)
	case integer:
		return append(dst, v...)
	case float64:
		if math.IsNaN(v) {
			return append(dst, "NaN"...)
		}
		if math.IsInf(v, 0) {
			return append(dst, map[bool]string{true: "Infinity", false: "-Infinity"}[v > 0]...)
		}
		return evidence.AppendFloat(dst, v)
	case []any:
		dst = append(dst, '[')
		for i, element := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendValue(dst, element)
		}
		return append(dst, ']')
	case *object:
		dst = append(dst, '{')
		for i, name := range v.names {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendText(dst, name)
			dst = append(dst, ':')
			dst = appendValue(dst, v.values[name])
		}
		return append(dst, '}')
	}
	return dst
}

// appendText appends a JSON string. Control characters, quotes, backslashes and lone surrogates are escaped, nothing else.
func appendText(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		b := s[i]
		surrogate := b == 0xed && i+2 < len(s) && s[i+1] >= 0xa0
		if b >= ' ' && b != '"' && b != '\\' && !surrogate {
			continue
		}
		dst = append(dst, s[from:i]...)
		if short := strings.IndexByte("\"\\\b\f\n\r\t", b); short >= 0 {
			dst = append(dst, '\\', `"\bfnrt`[short])
		} else {
			unit := uint16(b)
			if surrogate {
				unit = 0xd000 | uint16(s[i+1]&0x3f)<<6 | uint16(s[i+2]&0x3f)
				i += 2
			}
			dst = append(dst, '\\', 'u', digits[unit>>12], digits[unit>>8&0xf], digits[unit>>4&0xf], digits[unit&0xf])
		}
		from = i + 1
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}

// text returns a parsed value as JSON text in Python's spelling.
func text(value any) jsontext.Value { return appendValue(nil, value) }

// quoted returns s as JSON text.
func quoted(s string) jsontext.Value { return appendText(nil, s) }

// parseStored parses text that this package wrote.
func parseStored(stored []byte) any {
	value, err := parseBody(stored)
	if err != nil {
		return nil
	}
	return value
}

// appendAnswer appends stored JSON text in the spelling of the API's answers.
func appendAnswer(dst, stored []byte) []byte {
	for i := 0; i < len(stored); {
		end := i + 1
		switch b := stored[i]; {
		case b == '"':
			for ; stored[end] != '"'; end++ {
				if stored[end] == '\\' {
					end++
				}
			}
			end++
		case b == '-' || b >= '0' && b <= '9':
			for end < len(stored) && bytes.IndexByte([]byte("0123456789.eE+-"), stored[end]) >= 0 {
				end++
			}
			if f, err := strconv.ParseFloat(string(stored[i:end]), 64); err == nil && bytes.ContainsAny(stored[i:end], ".eE") {
				dst = appendAnswerFloat(dst, f)
				i = end
				continue
			}
		}
		dst = append(dst, stored[i:end]...)
		i = end
	}
	return dst
}

// appendAnswerFloat appends f as the service's serialiser spells it: shortest digits, plain between 1e-5 and 1e16, else with an exponent
// that is not padded. The table of recorded spellings is transcripts' _table_float_spelling.
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

// nesting returns how deep JSON text nests: 0 for a scalar, 1 for {}.
func nesting(stored []byte) int {
	depth, deepest := 0, 0
	for i := 0; i < len(stored); i++ {
		switch stored[i] {
		case '"':
			for i++; stored[i] != '"'; i++ {
				if stored[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest
}

// kv is one member of an answer.
func kv(name string, value jsontext.Value) evidence.Field {
	return evidence.Field{Name: name, Value: value}
}
