package stdio

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/text"
)

// callParams returns the params of a tools/call for go-sdk: without the arguments, which reach the tool
// past it (see [Transport.startInOrder]), and with the progress token as a JSON string that holds the
// token's own JSON text, because go-sdk would make a float64 of a number. It returns that text as well.
func (e *envelope) callParams() (params []byte, progressToken string) {
	arguments, token := replacement{new: []byte("null")}, replacement{}
	if e.arguments.End > 0 {
		arguments.at = e.arguments.Shift(-e.paramsAt)
	}
	if meta := evidence.Find(e.params, "_meta"); meta.End > 0 {
		if at := evidence.Find(meta.Of(e.params), "progressToken"); isID(at.Of(meta.Of(e.params))) {
			token.at = at.Shift(meta.Start)
			progressToken = string(token.at.Of(e.params))
			token.new = evidence.Text(progressToken)
		}
	}
	if token.at.Start < arguments.at.Start {
		return splice(e.params, token, arguments), progressToken
	}
	return splice(e.params, arguments, token), progressToken
}

// errorLine is the answer that refuses a request, in parts.
func errorLine(id []byte, err *jsonrpc.Error) [][]byte {
	tail := strconv.AppendInt([]byte(`,"error":{"code":`), err.Code, 10)
	tail = append(append(tail, `,"message":`...), evidence.Text(err.Message)...)
	if len(err.Data) > 0 {
		tail = append(append(tail, `,"data":`...), err.Data...)
	}
	return [][]byte{[]byte(`{"jsonrpc":"2.0","id":`), id, append(tail, "}}"...)}
}

// wireError is err as the host sees it. go-sdk repeats the whole params in an error about their shape
// (mcp/shared.go, unmarshalParams) and sends code 0 for every error without one.
func wireError(method string, err error) *jsonrpc.Error {
	wire := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	if coded, ok := errors.AsType[*jsonrpc.Error](err); ok {
		wire.Data = coded.Data
		if coded.Code != 0 {
			wire.Code = coded.Code
		}
	}
	if strings.Contains(wire.Message, "unmarshaling ") {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("invalid params: %s does not take params of this shape", method)}
	}
	wire.Message = text.Clip(wire.Message, ErrorLimit)
	return wire
}

// respelled undoes what callParams and requestKey did for go-sdk: the JSON string at the path in object
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

// keepContent keeps the content of a result for the answer to the call under key, and returns the result
// without it for go-sdk to complete. go-sdk would copy and check every byte three times, and spell <, > and
// & as escapes. A result that is more than text and raw JSON is left to go-sdk.
func (t *Transport) keepContent(key string, result *mcp.CallToolResult) *mcp.CallToolResult {
	if len(result.Content) == 0 {
		return result
	}
	text := []byte("[")
	for i, block := range result.Content {
		content, ok := block.(*mcp.TextContent)
		if !ok || content.Meta != nil || content.Annotations != nil {
			return result
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(append(text, `{"type":"text","text":`...), evidence.Text(content.Text)...), '}')
	}
	text = append(text, ']')
	switch structure := result.StructuredContent.(type) {
	case nil:
	case json.RawMessage:
		if len(structure) == 0 || bytes.ContainsAny(structure, "\r\n") {
			return result
		}
		text = append(append(text, `,"structuredContent":`...), structure...)
	default:
		return result
	}
	if !t.calls.keepContent(key, text) {
		return result
	}
	rest := *result
	rest.Content, rest.StructuredContent = []mcp.Content{}, nil
	return &rest
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
