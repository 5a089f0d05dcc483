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
	in       *bufio.Reader
	started  bool
	awaiting chan readLine // the line that is being read ahead; nil if none is
}

// readLine is what was read up to the end of a line.
type readLine struct {
	text    []byte // without blanks around it, in memory of its own
	tooLong bool   // it was longer than maxLine: text is its outline
	err     error  // what ended the input behind it
	wasHeld bool   // see [intake]
}

func newLineReader(in io.Reader) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, readBuffer)}
}

// byteOrderMark is what .NET and PowerShell put before the first byte that they send.
const byteOrderMark = "\ufeff"

// next returns the next line. An error ends the input; what was read of the last line comes with it.
func (r *lineReader) next() readLine {
	if r.awaiting != nil {
		defer r.taken()
		return <-r.awaiting
	}
	return r.read()
}

// ahead reads the next line on a goroutine, so that the caller can wait for something else too. The caller that receives it calls taken.
func (r *lineReader) ahead() <-chan readLine {
	if r.awaiting == nil {
		awaiting := make(chan readLine, 1)
		r.awaiting = awaiting
		go func() { awaiting <- r.read() }()
	}
	return r.awaiting
}

func (r *lineReader) taken() { r.awaiting = nil }

func (r *lineReader) read() readLine {
	if !r.started {
		r.started = true
		if first, _ := r.in.Peek(1); string(first) == byteOrderMark[:1] { // no more than one byte is sure to come
			if start, _ := r.in.Peek(len(byteOrderMark)); string(start) == byteOrderMark {
				_, _ = r.in.Discard(len(byteOrderMark))
			}
		}
	}
	var line []byte
	var long lineOutline
	tooLong := false
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
		return readLine{text: bytes.Trim(line, " \t\r\n"), tooLong: tooLong, err: err}
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
