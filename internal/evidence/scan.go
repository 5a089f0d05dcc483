package evidence

import (
	"bytes"
	"iter"

	"github.com/go-json-experiment/json/jsontext"
)

// Span is a part of a text. The zero Span means that there is no such part.
type Span struct{ Start, End int }

// Of returns the part of text, nil if there is none.
func (s Span) Of(text []byte) []byte {
	if s.End == 0 {
		return nil
	}
	return text[s.Start:s.End:s.End]
}

// Shift returns the span moved by n bytes.
func (s Span) Shift(n int) Span { return Span{Start: s.Start + n, End: s.End + n} }

// Scan yields the members of the object at the start of text: each unquoted name, and where its value is. It looks only at quotes,
// brackets, colons and commas. In broken text it yields what comes before the break, whatever the depth.
func Scan(text []byte) iter.Seq2[[]byte, Span] {
	return func(yield func([]byte, Span) bool) {
		for m := range members(text) {
			if !yield(m.meaning(), Span{Start: m.at, End: m.at + len(m.value)}) {
				return
			}
		}
	}
}

// Find returns where the value of a member is in the object at the start of text. If the name stands twice, the last value counts.
func Find(text []byte, name string) Span {
	var found Span
	for m := range members(text) {
		if m.named(name) {
			found = Span{Start: m.at, End: m.at + len(m.value)}
		}
	}
	return found
}

// member is one member of an object as it is written: the name with its quotes, and the value, which begins at index at.
type member struct {
	name, value jsontext.Value
	at          int
}

func (m member) named(name string) bool { return string(m.meaning()) == name }

// meaning is the unquoted name; of a name that cannot be unquoted, what is between its quotes.
func (m member) meaning() []byte {
	raw := m.name[1 : len(m.name)-1]
	if !hasEscape(raw) {
		return raw
	}
	if text, err := jsontext.AppendUnquote(nil, []byte(m.name)); err == nil {
		return text
	}
	return raw
}

func hasEscape(raw []byte) bool { return bytes.IndexByte(raw, '\\') >= 0 }

// members walks the members of obj without judging their content, up to the first byte that breaks the object. A value without a
// comma or a bracket behind it is not yielded, because it may have been cut.
func members(obj []byte) iter.Seq[member] {
	return func(yield func(member) bool) {
		i := skipSpace(obj, 0)
		if i == len(obj) || obj[i] != '{' {
			return
		}
		for i = skipCommas(obj, i+1); i < len(obj) && obj[i] == '"'; i = skipCommas(obj, i) {
			nameEnd := skipString(obj, i)
			if nameEnd < 0 {
				return
			}
			colon := skipSpace(obj, nameEnd)
			if colon == len(obj) || obj[colon] != ':' {
				return
			}
			start := skipSpace(obj, colon+1)
			end := skipValue(obj, start)
			if end < 0 || !isFollowed(obj, end, '}') || !yield(member{name: obj[i:nameEnd:nameEnd], value: obj[start:end:end], at: start}) {
				return
			}
			i = end
		}
	}
}

// isFollowed reports whether a comma or the closing bracket comes after the value that ends at i.
func isFollowed(text []byte, i int, closing byte) bool {
	i = skipSpace(text, i)
	return i < len(text) && (text[i] == ',' || text[i] == closing)
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

func skipCommas(b []byte, i int) int {
	for i = skipSpace(b, i); i < len(b) && b[i] == ','; i = skipSpace(b, i+1) {
	}
	return i
}

// skipString returns the index behind the string that starts at i, or -1 if it does not end.
func skipString(b []byte, i int) int {
	for i++; ; i++ {
		quote := bytes.IndexByte(b[i:], '"')
		if quote < 0 {
			return -1
		}
		i += quote
		slashes := 0
		for b[i-1-slashes] == '\\' { // the opening quote ends the run at the latest
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
}

// skipValue returns the index behind the value that starts at i, or -1 if there is none or it does not end. A number or a word also
// ends with the text.
func skipValue(b []byte, i int) int {
	if i == len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		end, _ := skipBrackets(b, i, len(b))
		return end
	}
	start := i
	for i < len(b) && !isDelimiter(b[i]) {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

// skipBrackets returns the index behind the object or array that starts at i, or -1 if it does not end. If it opens more than limit
// levels, it returns the index of the first bracket beyond them, and true.
func skipBrackets(b []byte, i, limit int) (end int, deep bool) {
	for depth := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			end := skipString(b, i)
			if end < 0 {
				return -1, false
			}
			i = end - 1
		case '{', '[':
			if depth++; depth > limit {
				return i, true
			}
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1, false
			}
		}
	}
	return -1, false
}

func isDelimiter(c byte) bool {
	switch c {
	case ' ', '\n', '\r', '\t', ',', ':', '{', '}', '[', ']', '"':
		return true
	}
	return false
}

// NestsDeeper says whether raw opens more than limit levels of objects and arrays. It reads no further than that.
func NestsDeeper(raw []byte, limit int) bool {
	_, deep := tooDeep(raw, limit)
	return deep
}

// tooDeep returns where raw opens its level limit+1. It reads no further than that.
func tooDeep(raw []byte, limit int) (at int, deep bool) {
	i := skipSpace(raw, 0)
	if i == len(raw) || raw[i] != '{' && raw[i] != '[' {
		return 0, false
	}
	return skipBrackets(raw, i, limit)
}
