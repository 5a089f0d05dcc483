package stdio

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

const (
	// maxLine is the longest line in bytes, its line end not counted, that is read as a message.
	maxLine = 16 << 20

	// outlineLimit is how much of a line beyond maxLine is kept to find its id.
	outlineLimit = 64 << 10

	// readBuffer holds a usual message whole, so that most lines are copied once.
	readBuffer = 64 << 10
)

// lineReader cuts its input into lines. Nothing that stands in a line makes it fail.
type lineReader struct {
	in *bufio.Reader
}

func newLineReader(in io.Reader) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, readBuffer)}
}

// next returns the next line without blanks around it, in memory of its own. Of a line longer than
// maxLine it returns the outline alone, and tooLong. An error ends the input; what was read of the
// last line comes with it.
func (r *lineReader) next() (line []byte, tooLong bool, err error) {
	var long lineOutline
	for {
		part, err := r.in.ReadSlice('\n')
		switch {
		case tooLong:
			long.add(part)
		case len(line)+len(bytes.TrimRight(part, "\r\n")) > maxLine:
			tooLong = true
			long.add(line)
			long.add(part)
			line = nil
		default:
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if tooLong {
			line = long.kept
		}
		return bytes.Trim(line, " \t\r\n"), tooLong, err
	}
}

// lineOutline is what remains of an object when the inside of its members' objects and arrays is left
// out. It takes a line in parts, so that the id of a line of any length is found in flat memory.
type lineOutline struct {
	kept            []byte
	depth           int
	quoted, escaped bool
}

func (o *lineOutline) add(part []byte) {
	for _, c := range part {
		before := o.depth
		switch {
		case o.escaped:
			o.escaped = false
		case o.quoted:
			o.escaped = c == '\\'
			o.quoted = c != '"'
		case c == '"':
			o.quoted = true
		case c == '{', c == '[':
			o.depth++
		case c == '}', c == ']':
			o.depth--
		}
		if min(before, o.depth) <= 1 && len(o.kept) < outlineLimit {
			o.kept = append(o.kept, c)
		}
	}
}

// scanObject calls visit for each member of the object at the start of text, with the name as it is
// meant and the place of the value. It returns the index behind the object, or -1 where the object
// does not end or cannot be told apart further. It looks at quotes, brackets, colons and commas only:
// of a broken line it finds what can be found, and it follows nesting of any depth.
func scanObject(text []byte, visit func(name []byte, value textSpan)) int {
	i := skipBlanks(text, 0)
	if i == len(text) || text[i] != '{' {
		return -1
	}
	i++
	for {
		i = skipBlanks(text, i)
		if i == len(text) {
			return -1
		}
		switch text[i] {
		case '}':
			return i + 1
		case ',':
			i++
			continue
		case '"':
		default:
			return -1
		}
		end := skipString(text, i)
		if end < 0 {
			return -1
		}
		name := unquoteJSON(text[i:end])
		i = skipBlanks(text, end)
		if i == len(text) || text[i] != ':' {
			return -1
		}
		value := textSpan{start: skipBlanks(text, i+1)}
		if value.end = skipValue(text, value.start); value.end < 0 {
			return -1
		}
		visit(name, value)
		i = value.end
	}
}

// textSpan is a part of a text. The zero textSpan stands for a part that is not there.
type textSpan struct{ start, end int }

func (s textSpan) of(text []byte) []byte {
	if s.end == 0 {
		return nil
	}
	return text[s.start:s.end]
}

func (s textSpan) shifted(by int) textSpan { return textSpan{start: s.start + by, end: s.end + by} }

// memberOf returns the last member of that name in the object text, or the zero textSpan.
func memberOf(text []byte, name string) textSpan {
	var found textSpan
	scanObject(text, func(n []byte, value textSpan) {
		if string(n) == name {
			found = value
		}
	})
	return found
}

func skipBlanks(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n') {
		i++
	}
	return i
}

// skipString returns the index behind the string that begins at i, or -1.
func skipString(text []byte, i int) int {
	for i++; i < len(text); i++ {
		next := bytes.IndexByte(text[i:], '"')
		if next < 0 {
			return -1
		}
		i += next
		slashes := 0
		for text[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
	return -1
}

// skipValue returns the index behind the value that begins at i, or -1 where it does not end.
func skipValue(text []byte, i int) int {
	if i == len(text) {
		return -1
	}
	switch text[i] {
	case '"':
		return skipString(text, i)
	case '{', '[':
	default:
		n := bytes.IndexAny(text[i:], ",}]")
		if n < 0 {
			return -1
		}
		return i + len(bytes.TrimRight(text[i:i+n], " \t\r\n"))
	}
	for depth := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			end := skipString(text, i)
			if end < 0 {
				return -1
			}
			i = end - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// nestingOf is the depth of the objects and arrays in text: 0 for a scalar, 1 for {}.
func nestingOf(text []byte) int {
	depth, deepest := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			end := skipString(text, i)
			if end < 0 {
				return deepest
			}
			i = end - 1
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest
}
