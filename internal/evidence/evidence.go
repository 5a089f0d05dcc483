// Package evidence handles JSON as evidence: nothing is rounded, re-spelled, reordered or dropped on its way through.
//
// It knows how a free-form object of a caller is checked ([CheckObject]), how fields are joined to it ([Merge], [Object]), how
// it is read back ([Members]) and what LoopGrid hashes of it ([AppendCanonical], [Commitment]). It must not know of MCP, of
// HTTP or of any LoopGrid route, and it never decodes a value into Go numbers or maps on the way to the service.
package evidence

import (
	"bytes"
	"iter"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Field is one member of an object that is built or merged: its name, not yet quoted, and its value as JSON text.
type Field struct {
	Name  string
	Value jsontext.Value
}

// Text returns s as a JSON string. Only what JSON requires is escaped; invalid UTF-8 becomes U+FFFD.
func Text(s string) jsontext.Value {
	// AppendQuote reports invalid UTF-8 as an error, after writing U+FFFD for it: the result is valid JSON either way.
	quoted, err := jsontext.AppendQuote(make([]byte, 0, len(s)+2), s)
	if err != nil {
		quoted, _ = jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "\uFFFD"))
	}
	return quoted
}

// Object returns the text of an object with these fields in this order. A field whose Value is nil is left out.
// The values are copied as they are and have to be valid JSON.
func Object(fields ...Field) jsontext.Value {
	size := 2
	for _, f := range fields {
		size += len(f.Name) + len(f.Value) + 4
	}
	dst := append(make([]byte, 0, size), '{')
	for _, f := range fields {
		if f.Value != nil {
			dst = appendMember(dst, Text(f.Name), f.Value)
		}
	}
	return append(dst, '}')
}

// Array returns the text of an array with these elements, which are copied as they are and have to be valid JSON.
func Array(elements ...jsontext.Value) jsontext.Value {
	dst := []byte{'['}
	for i, e := range elements {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, e...)
	}
	return append(dst, ']')
}

// Merge returns obj with the fields set: a field that obj has already is replaced where it stands, the others follow at the
// end, as Python's {**obj, "name": value} does. Every name stands once. A field with a nil Value is left as obj has it. Names
// and values that are not replaced keep their text, number by number and escape by escape.
//
// The obj has to have passed [CheckObject]; a missing one (nil) counts as {}.
func Merge(obj jsontext.Value, fields ...Field) jsontext.Value {
	size := len(obj)
	for _, f := range fields {
		size += len(f.Name) + len(f.Value) + 4
	}
	dst := append(make([]byte, 0, size), '{')
	done := make([]bool, len(fields))
	for m := range members(obj) {
		value := m.value
		for i, f := range fields {
			if f.Value != nil && m.named(f.Name) {
				value, done[i] = f.Value, true
			}
		}
		dst = appendMember(dst, m.name, value)
	}
	for i, f := range fields {
		if f.Value != nil && !done[i] {
			dst = appendMember(dst, Text(f.Name), f.Value)
		}
	}
	return append(dst, '}')
}

func appendMember(dst []byte, name, value []byte) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	dst = append(dst, name...)
	dst = append(dst, ':')
	return append(dst, value...)
}

// Members yields the members of an object in their order: the unquoted name and the text of the value, which shares memory
// with obj. Text that is not a JSON object yields what can be read of it, or nothing: check it first.
//
// Not inlined: its loops are in many places, and the binary is meant to be small.
//
//go:noinline
func Members(obj jsontext.Value) iter.Seq2[string, jsontext.Value] {
	return func(yield func(string, jsontext.Value) bool) {
		for m := range members(obj) {
			if !yield(string(m.meaning()), m.value) {
				return
			}
		}
	}
}

// Get returns the value at a path of member names below obj, nil where there is none. A name that stands twice means its last value,
// as LoopGrid reads it. The obj has to be valid JSON.
func Get(obj jsontext.Value, path ...string) jsontext.Value {
	for _, name := range path {
		var found jsontext.Value
		if obj.Kind() == '{' {
			for m := range members(obj) {
				if m.named(name) {
					found = m.value
				}
			}
		}
		obj = found
	}
	return obj
}

// GetText returns the string at a path below obj, empty where there is none.
func GetText(obj jsontext.Value, path ...string) string {
	s, _ := Unquote(Get(obj, path...))
	return s
}

// Elements yields the elements of an array in their order; each shares memory with arr. Text that is not a JSON array yields
// what can be read of it, or nothing.
//
//go:noinline
func Elements(arr jsontext.Value) iter.Seq[jsontext.Value] {
	return func(yield func(jsontext.Value) bool) {
		i := skipSpace(arr, 0)
		if i >= len(arr) || arr[i] != '[' {
			return
		}
		for i = skipCommas(arr, i+1); i < len(arr) && arr[i] != ']'; i = skipCommas(arr, i) {
			end := skipValue(arr, i)
			if end < 0 || !isFollowed(arr, end, ']') || !yield(arr[i:end:end]) {
				return
			}
			i = end
		}
	}
}

// Compact returns a copy of value, which is valid JSON, without the blanks between its parts. Names, strings and numbers keep their
// text. Nothing (nil) stays nothing.
func Compact(value jsontext.Value) jsontext.Value {
	if value == nil {
		return nil
	}
	out := make([]byte, 0, len(value))
	for i := 0; i < len(value); {
		end := i + 1
		switch value[i] {
		case ' ', '\n', '\r', '\t':
			i = end
			continue
		case '"':
			end = skipString(value, i)
		}
		out = append(out, value[i:end]...)
		i = end
	}
	return out
}

// MapStrings returns value with every string in it, the names of members too, replaced by what change returns for its meaning. A string
// that change returns unchanged keeps its text. Without a change it returns value itself. It expects valid JSON, and leaves what follows
// a string without an end as it is.
func MapStrings(value jsontext.Value, change func(string) string) jsontext.Value {
	var out jsontext.Value
	done := 0
	for i := 0; ; {
		start := bytes.IndexByte(value[i:], '"')
		if start < 0 {
			break
		}
		start += i
		if i = skipString(value, start); i < 0 {
			break
		}
		meant, ok := Unquote(value[start:i])
		if !ok {
			break
		}
		if changed := change(meant); changed != meant {
			out = append(append(out, value[done:start]...), Text(changed)...)
			done = i
		}
	}
	if done == 0 {
		return value
	}
	return append(out, value[done:]...)
}

// Unquote returns the text of a JSON string, and whether value is one.
func Unquote(value jsontext.Value) (string, bool) {
	if value.Kind() != '"' {
		return "", false
	}
	text, err := jsontext.AppendUnquote(nil, []byte(value))
	return string(text), err == nil
}

// HasLineBreakers says whether a string inside value, or the name of a member, holds U+2028, U+2029 or U+0085, written out or
// as an escape. LoopGrid records them faithfully, but loopgrid-verify 0.1.0 splits lines at them and cannot read such a bundle.
func HasLineBreakers(value jsontext.Value) bool {
	for i := 0; i < len(value); i++ {
		rest := value[i:]
		switch value[i] {
		case 0xE2: // U+2028 and U+2029 are E2 80 A8 and E2 80 A9
			if len(rest) > 2 && rest[1] == 0x80 && (rest[2] == 0xA8 || rest[2] == 0xA9) {
				return true
			}
		case 0xC2: // U+0085 is C2 85
			if len(rest) > 1 && rest[1] == 0x85 {
				return true
			}
		case '\\':
			if len(rest) >= 6 && rest[1] == 'u' {
				switch string(rest[2:6]) {
				case "2028", "2029", "0085":
					return true
				}
			}
			i++ // the escaped byte: in \\u2028 the second backslash starts no escape
		}
	}
	return false
}
