package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Commitment returns the SHA-256, in lower-case hexadecimal, of the canonical form of a JSON value. It is what LoopGrid answers
// as payload_commitment of an event whose clear payload is v. Errors are those of [AppendCanonical].
func Commitment(v []byte) (string, error) {
	canonical, err := AppendCanonical(make([]byte, 0, len(v)), v)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}

// AppendCanonical appends the form of a JSON value that LoopGrid hashes, which is what Python's json.dumps writes with
// sort_keys=True, separators=(",", ":") and ensure_ascii=False after json.loads has read the value: names in the order of their
// code points, the last of equal names, integers of any size exactly, floats in Python's shortest spelling.
//
// The error tells of text that is no JSON value, of a lone surrogate, and of a number that a 64-bit float cannot hold: Python
// has no canonical form for these.
func AppendCanonical(dst, v []byte) ([]byte, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(v), jsontext.AllowDuplicateNames(true))
	value, err := d.ReadValue()
	if err != nil {
		return dst, fmt.Errorf("canonical form: %w", err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return dst, errors.New("canonical form: more than one JSON value")
	}
	c := canonicalizer{src: value, dst: dst}
	c.value()
	if c.err != nil {
		return dst, fmt.Errorf("canonical form: %w", c.err)
	}
	return c.dst, nil
}

// canonicalizer walks src, which is one valid JSON value, and writes its canonical form to dst.
type canonicalizer struct {
	src     []byte
	i       int
	dst     []byte
	scratch []byte
	err     error
}

func (c *canonicalizer) value() {
	switch c.i = skipSpace(c.src, c.i); c.src[c.i] {
	case '{':
		c.object()
	case '[':
		c.array()
	case '"':
		c.text()
	case 't', 'f', 'n':
		end := skipValue(c.src, c.i)
		c.dst = append(c.dst, c.src[c.i:end]...)
		c.i = end
	default:
		end := skipValue(c.src, c.i)
		c.number(c.src[c.i:end])
		c.i = end
	}
}

func (c *canonicalizer) array() {
	c.dst = append(c.dst, '[')
	for c.i = skipSpace(c.src, c.i+1); c.src[c.i] != ']'; c.i = skipSpace(c.src, c.i) {
		if c.src[c.i] == ',' {
			c.dst = append(c.dst, ',')
			c.i++
		}
		c.value()
	}
	c.dst = append(c.dst, ']')
	c.i++
}

// written is a member that stands in dst from start to end, without a comma.
type written struct {
	name       []byte
	start, end int
}

func (c *canonicalizer) object() {
	var all []written
	sorted := true
	c.dst = append(c.dst, '{')
	from := len(c.dst)
	for c.i = skipSpace(c.src, c.i+1); c.src[c.i] != '}'; c.i = skipSpace(c.src, c.i) {
		if c.src[c.i] == ',' {
			c.dst = append(c.dst, ',')
			c.i = skipSpace(c.src, c.i+1)
		}
		start := len(c.dst)
		name := c.text()
		c.i = skipSpace(c.src, c.i) + 1 // the colon
		c.dst = append(c.dst, ':')
		c.value()
		if n := len(all); n > 0 && bytes.Compare(all[n-1].name, name) >= 0 {
			sorted = false
		}
		all = append(all, written{name: name, start: start, end: len(c.dst)})
	}
	c.i++
	if !sorted {
		c.reorder(from, all)
	}
	c.dst = append(c.dst, '}')
}

// reorder sorts the members that stand in dst behind from. Of equal names the last one stays, as in a Python dict.
func (c *canonicalizer) reorder(from int, all []written) {
	c.scratch = append(c.scratch[:0], c.dst[from:]...)
	c.dst = c.dst[:from]
	slices.SortStableFunc(all, func(a, b written) int { return bytes.Compare(a.name, b.name) })
	for i, m := range all {
		if i+1 < len(all) && bytes.Equal(m.name, all[i+1].name) {
			continue
		}
		if len(c.dst) > from {
			c.dst = append(c.dst, ',')
		}
		c.dst = append(c.dst, c.scratch[m.start-from:m.end-from]...)
	}
}

// text writes the string at i as Python does and returns its unquoted bytes.
func (c *canonicalizer) text() []byte {
	end := skipString(c.src, c.i)
	quoted := c.src[c.i:end]
	c.i = end
	raw := quoted[1 : len(quoted)-1]
	if !hasEscape(raw) {
		c.dst = append(c.dst, quoted...) // JSON allows nothing unescaped that Python would escape
		return raw
	}
	text, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		c.err = err
	}
	c.dst = appendPythonString(c.dst, text)
	return text
}

func appendPythonString(dst, text []byte) []byte {
	const hexDigits = "0123456789abcdef"
	dst = append(dst, '"')
	for _, b := range text {
		switch {
		case b == '"' || b == '\\':
			dst = append(dst, '\\', b)
		case b >= 0x20:
			dst = append(dst, b)
		case b == '\n':
			dst = append(dst, `\n`...)
		case b == '\r':
			dst = append(dst, `\r`...)
		case b == '\t':
			dst = append(dst, `\t`...)
		case b == '\b':
			dst = append(dst, `\b`...)
		case b == '\f':
			dst = append(dst, `\f`...)
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&0xF])
		}
	}
	return append(dst, '"')
}

func (c *canonicalizer) number(number []byte) {
	if isInteger(number) {
		if string(number) == "-0" { // Python reads it as the integer 0
			number = number[1:]
		}
		c.dst = append(c.dst, number...)
		return
	}
	f, err := strconv.ParseFloat(string(number), 64)
	if err != nil {
		c.err = errors.New("a number that a 64-bit float cannot hold")
		return
	}
	c.dst = AppendFloat(c.dst, f)
}

// AppendFloat appends f in Python's shortest spelling: 720.0, 1e-05, 1e+16, -0.0. f has to be finite.
func AppendFloat(dst []byte, f float64) []byte {
	// Python writes an exponent where the decimal point would stand more than 4 places before the digits or 16 behind.
	from := len(dst)
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	e := from + bytes.LastIndexByte(dst[from:], 'e')
	exponent, _ := strconv.Atoi(string(dst[e+1:]))
	if exponent < -4 || exponent >= 16 {
		return dst // Go writes two digits of exponent at least, as Python does
	}
	dst = strconv.AppendFloat(dst[:from], f, 'f', -1, 64)
	if bytes.IndexByte(dst[from:], '.') < 0 {
		dst = append(dst, ".0"...)
	}
	return dst
}
