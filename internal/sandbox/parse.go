package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A request body is read as LoopGrid reads it, with the rules of Python's json module: duplicate names are allowed and the last value wins in
// the place of the first, NaN and Infinity are numbers, a lone surrogate is a character, UTF-16 and UTF-32 are recognised. Go's JSON packages
// refuse all of these, and the service's answers to them are part of what a client has to survive.
//
// A parsed value is nil, bool, string, integer, float64, []any or *object. A lone surrogate stands in a string as its three bytes, which
// makes the string invalid UTF-8.

// integer is the decimal text of a JSON number without fraction and exponent: it may be of any size.
type integer string

// object is a JSON object with its names in order of first appearance.
type object struct {
	names  []string
	values map[string]any
}

func newObject() *object { return &object{values: map[string]any{}} }

func (o *object) set(name string, value any) {
	if _, known := o.values[name]; !known {
		o.names = append(o.names, name)
	}
	o.values[name] = value
}

// get returns the member of that name, nil where there is none. It may be called on a nil object.
func (o *object) get(name string) any {
	if o == nil {
		return nil
	}
	return o.values[name]
}

// Limits of Python's parser.
const (
	maxIntegerDigits = 4300
	maxNesting       = 970
)

// errUnreadable is what LoopGrid answers with 400: bytes that are no text, an integer or a nesting that Python refuses.
var errUnreadable = errors.New("unreadable body")

// syntaxError is a JSON syntax error, which LoopGrid answers with 422.
type syntaxError struct {
	// Position counts characters from the start of the text.
	Position int
	// Message is that of Python's decoder.
	Message string
}

func (e *syntaxError) Error() string { return e.Message }

// parseBody parses a request body.
func parseBody(body []byte) (any, error) {
	text, err := decodeText(body)
	if err != nil {
		return nil, err
	}
	p := parser{text: text}
	p.skipSpace()
	value, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if p.skipSpace(); p.i < len(p.text) {
		return nil, p.fault(p.i, "Extra data")
	}
	return value, nil
}

// decodeText returns the body as UTF-8 in which surrogates are allowed. The encoding is told from the zero bytes and the byte order mark.
func decodeText(body []byte) ([]byte, error) {
	zero := func(i int) bool { return i < len(body) && body[i] == 0 }
	switch {
	case bytes.HasPrefix(body, []byte{0xff, 0xfe, 0, 0}):
		return decodeUnits(body[4:], 4, binary.LittleEndian)
	case bytes.HasPrefix(body, []byte{0, 0, 0xfe, 0xff}):
		return decodeUnits(body[4:], 4, binary.BigEndian)
	case bytes.HasPrefix(body, []byte{0xff, 0xfe}):
		return decodeUnits(body[2:], 2, binary.LittleEndian)
	case bytes.HasPrefix(body, []byte{0xfe, 0xff}):
		return decodeUnits(body[2:], 2, binary.BigEndian)
	case len(body) >= 4 && zero(0) && zero(1):
		return decodeUnits(body, 4, binary.BigEndian)
	case len(body) >= 4 && zero(1) && zero(2) && zero(3):
		return decodeUnits(body, 4, binary.LittleEndian)
	case zero(0) && len(body) >= 2:
		return decodeUnits(body, 2, binary.BigEndian)
	case zero(1):
		return decodeUnits(body, 2, binary.LittleEndian)
	}
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	for i := 0; i < len(body); {
		if _, size := decodeRune(body[i:]); size > 0 {
			i += size
			continue
		}
		return nil, errUnreadable
	}
	return body, nil
}

// decodeUnits turns UTF-16 (width 2) or UTF-32 (width 4) into UTF-8. Lone surrogates survive.
func decodeUnits(body []byte, width int, order binary.ByteOrder) ([]byte, error) {
	if len(body)%width != 0 {
		return nil, errUnreadable
	}
	var text []byte
	for i := 0; i < len(body); i += width {
		var r rune
		if width == 2 {
			r = rune(order.Uint16(body[i:]))
			if i+4 <= len(body) {
				if pair := utf16.DecodeRune(r, rune(order.Uint16(body[i+2:]))); pair != utf8.RuneError {
					r, i = pair, i+2
				}
			}
		} else {
			unit := order.Uint32(body[i:])
			if unit > utf8.MaxRune {
				return nil, errUnreadable
			}
			r = rune(unit)
		}
		text = appendRune(text, r)
	}
	return text, nil
}

// appendRune is [utf8.AppendRune] that also encodes a lone surrogate.
func appendRune(dst []byte, r rune) []byte {
	if utf16.IsSurrogate(r) {
		return append(dst, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f) //nolint:gosec // Cut on purpose.
	}
	return utf8.AppendRune(dst, r)
}

// decodeRune is [utf8.DecodeRune] that also decodes a lone surrogate. The size is 0 where text is neither.
func decodeRune(text []byte) (rune, int) {
	if r, size := utf8.DecodeRune(text); r != utf8.RuneError || size > 1 {
		return r, size
	}
	if len(text) >= 3 && text[0] == 0xed && text[1] >= 0xa0 && text[1] <= 0xbf && text[2]&0xc0 == 0x80 {
		return 0xd000 | rune(text[1]&0x3f)<<6 | rune(text[2]&0x3f), 3
	}
	return 0, 0
}

type parser struct {
	text []byte
	i    int
}

// fault is a syntax error at a place in bytes, told in characters as Python counts them.
func (p *parser) fault(at int, message string) error {
	characters := 0
	for _, b := range p.text[:at] {
		if b&0xc0 != 0x80 {
			characters++
		}
	}
	return &syntaxError{Position: characters, Message: message}
}

// peek returns the next byte, 0 at the end.
func (p *parser) peek() byte {
	if p.i < len(p.text) {
		return p.text[p.i]
	}
	return 0
}

func (p *parser) skipSpace() {
	for p.i < len(p.text) && strings.IndexByte(" \t\n\r", p.text[p.i]) >= 0 {
		p.i++
	}
}

func (p *parser) value(depth int) (any, error) {
	if depth >= maxNesting {
		return nil, errUnreadable
	}
	switch p.peek() {
	case '{':
		return p.object(depth)
	case '[':
		return p.array(depth)
	case '"':
		return p.string()
	}
	for _, literal := range []struct {
		text  string
		value any
	}{
		{"null", nil},
		{"true", true},
		{"false", false},
		{"NaN", math.NaN()},
		{"Infinity", math.Inf(1)},
		{"-Infinity", math.Inf(-1)},
	} {
		if bytes.HasPrefix(p.text[p.i:], []byte(literal.text)) {
			p.i += len(literal.text)
			return literal.value, nil
		}
	}
	return p.number()
}

func (p *parser) object(depth int) (any, error) {
	o := newObject()
	p.i++
	if p.skipSpace(); p.peek() == '}' {
		p.i++
		return o, nil
	}
	for {
		if p.peek() != '"' {
			return nil, p.fault(p.i, "Expecting property name enclosed in double quotes")
		}
		name, err := p.string()
		if err != nil {
			return nil, err
		}
		if p.skipSpace(); p.peek() != ':' {
			return nil, p.fault(p.i, "Expecting ':' delimiter")
		}
		p.i++
		p.skipSpace()
		value, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		o.set(name, value)
		if done, err := p.next('}'); done || err != nil {
			return o, err
		}
	}
}

func (p *parser) array(depth int) (any, error) {
	list := []any{}
	p.i++
	if p.skipSpace(); p.peek() == ']' {
		p.i++
		return list, nil
	}
	for {
		value, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
		if done, err := p.next(']'); done || err != nil {
			return list, err
		}
	}
}

// next reads what follows a member or an element: the end, which is reported as done, or a comma.
func (p *parser) next(end byte) (done bool, err error) {
	p.skipSpace()
	switch p.peek() {
	case end:
		p.i++
		return true, nil
	case ',':
		p.i++
		p.skipSpace()
		return false, nil
	}
	return false, p.fault(p.i, "Expecting ',' delimiter")
}

func (p *parser) string() (string, error) {
	start := p.i
	var text []byte
	for p.i++; p.i < len(p.text); {
		switch b := p.text[p.i]; {
		case b == '"':
			p.i++
			return string(text), nil
		case b < ' ':
			return "", p.fault(p.i, "Invalid control character at")
		case b == '\\':
			r, err := p.escape(start)
			if err != nil {
				return "", err
			}
			text = appendRune(text, r)
		default:
			text = append(text, b)
			p.i++
		}
	}
	return "", p.fault(start, "Unterminated string starting at")
}

// escape reads an escape sequence of the string that began at start.
func (p *parser) escape(start int) (rune, error) {
	p.i++
	if p.i >= len(p.text) {
		return 0, p.fault(start, "Unterminated string starting at")
	}
	const short, meant = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if n := strings.IndexByte(short, p.text[p.i]); n >= 0 {
		p.i++
		return rune(meant[n]), nil
	}
	if p.text[p.i] != 'u' {
		return 0, p.fault(p.i-1, `Invalid \escape`)
	}
	r, ok := p.hex(p.i + 1)
	if !ok {
		return 0, p.fault(p.i, `Invalid \uXXXX escape`)
	}
	p.i += 5
	if utf16.IsSurrogate(r) && bytes.HasPrefix(p.text[p.i:], []byte(`\u`)) {
		if low, ok := p.hex(p.i + 2); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				p.i += 6
				return pair, nil
			}
		}
	}
	return r, nil
}

// hex reads four hexadecimal digits, which something has to follow: a string does not end with them.
func (p *parser) hex(at int) (rune, bool) {
	if at+4 >= len(p.text) {
		return 0, false
	}
	digits := string(p.text[at : at+4])
	if strings.Trim(digits, "0123456789abcdefABCDEF") != "" {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 16, 16)
	return rune(n), err == nil
}

func (p *parser) number() (any, error) {
	start := p.i
	digits := func(at int) int {
		for at < len(p.text) && p.text[at] >= '0' && p.text[at] <= '9' {
			at++
		}
		return at
	}
	at := start
	if p.peek() == '-' {
		at++
	}
	end := digits(at)
	if end == at {
		return nil, p.fault(start, "Expecting value")
	}
	if p.text[at] == '0' {
		end = at + 1
	}
	whole := end
	if end < len(p.text) && p.text[end] == '.' {
		if to := digits(end + 1); to > end+1 {
			end = to
		}
	}
	if end < len(p.text) && p.text[end]|0x20 == 'e' {
		from := end + 1
		if from < len(p.text) && (p.text[from] == '+' || p.text[from] == '-') {
			from++
		}
		if to := digits(from); to > from {
			end = to
		}
	}
	p.i = end
	text := string(p.text[start:end])
	if end > whole {
		// A number beyond the range becomes infinite, as in Python.
		f, err := strconv.ParseFloat(text, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return nil, err
		}
		return f, nil
	}
	if whole-at > maxIntegerDigits {
		return nil, errUnreadable
	}
	if text == "-0" {
		text = "0"
	}
	return integer(text), nil
}

// truthy is Python's truth of a value.
func truthy(value any) bool {
	switch v := value.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case integer:
		return v != "0"
	case float64:
		return v != 0
	case []any:
		return len(v) > 0
	case *object:
		return v != nil && len(v.names) > 0
	}
	return true
}
