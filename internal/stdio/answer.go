package stdio

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/text"
)

// resultLine is the answer to a request, in parts.
func resultLine(id, result []byte) [][]byte {
	return [][]byte{[]byte(`{"jsonrpc":"2.0","id":`), id, []byte(`,"result":`), result, []byte(`}`)}
}

// toolError is the result of a tools/call that never reached its tool.
func toolError(reason string, stateless bool) []byte {
	result := append(append([]byte(`{"content":[{"type":"text","text":`), evidence.Text(reason)...), `}],"isError":true`...)
	if stateless {
		result = append(result, `,"resultType":"complete"`...)
	}
	return append(result, '}')
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
