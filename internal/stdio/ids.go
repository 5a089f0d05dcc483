package stdio

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// isID reports whether a JSON value may be a request id.
func isID(raw []byte) bool {
	return len(raw) > 0 && (raw[0] == '"' || raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9')
}

// requestKey is one spelling for all spellings of a request id. It is JSON itself.
func requestKey(id []byte) string {
	if id[0] != '"' || bytes.IndexByte(id, '\\') < 0 {
		return string(id)
	}
	meant, err := jsontext.AppendUnquote(nil, id)
	if err != nil {
		return string(id) // half a surrogate pair: its spelling is all there is
	}
	spelled, err := jsontext.AppendQuote(nil, meant)
	if err != nil {
		return string(id)
	}
	return string(spelled)
}

// stringOf is the string that a JSON string means, or "" for anything else.
func stringOf(raw []byte) string {
	s, _ := evidence.Unquote(raw)
	return s
}

// respelled undoes what usableParams and requestKey did for go-sdk: the JSON string at the path in object
// is replaced by the JSON text that it holds.
func respelled(object []byte, path ...string) []byte {
	at := evidence.Span{End: len(object)}
	for _, name := range path {
		inner := evidence.Find(at.Of(object), name)
		if inner.End == 0 {
			return object
		}
		at = inner.Shift(at.Start)
	}
	if spelling := stringOf(at.Of(object)); isID([]byte(spelling)) {
		return splice(object, replacement{at, []byte(spelling)})
	}
	return object
}

// replacement replaces a part of a text. An edit of the zero evidence.Span changes nothing.
type replacement struct {
	at  evidence.Span
	new []byte
}

// splice makes the edits, which are in the order of the text. Without any it returns text itself.
func splice(text []byte, edits ...replacement) []byte {
	var out []byte
	done := 0
	for _, e := range edits {
		if e.at.End == 0 {
			continue
		}
		out = append(append(out, text[done:e.at.Start]...), e.new...)
		done = e.at.End
	}
	if done == 0 {
		return text
	}
	return append(out, text[done:]...)
}
