package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

const (
	// shortestSecret is the length of the shortest key that is looked for. Hiding a shorter one would tear up every text.
	shortestSecret = 8

	hiddenKey = "[service key]"
)

// hideKey returns the middleware that takes the service key out of every answer, should a service or something in front of it send
// it back: in an event, a verification or an error, it would end up in the transcript of the host.
func hideKey(key string) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		if len(key) < shortestSecret {
			return next
		}
		hide := newKeyHider(key)
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			res, err := next(ctx, method, req)
			if coded, ok := errors.AsType[*jsonrpc.Error](err); ok {
				return res, &jsonrpc.Error{Code: coded.Code, Message: hide.text(coded.Message), Data: coded.Data}
			}
			if answer, ok := res.(*mcp.CallToolResult); ok && answer != nil {
				hide.result(answer)
			}
			return res, err
		}
	}
}

// keyHider knows the key as it is, and as it stands in a JSON string.
type keyHider struct{ plain, quoted string }

func newKeyHider(key string) keyHider {
	quoted := evidence.Text(key)
	return keyHider{plain: key, quoted: string(quoted[1 : len(quoted)-1])}
}

func (h keyHider) result(answer *mcp.CallToolResult) {
	structured, isJSON := answer.StructuredContent.(json.RawMessage)
	for i, block := range answer.Content {
		content, ok := block.(*mcp.TextContent)
		if !ok {
			continue
		}
		if i == 0 && isJSON {
			content.Text = string(h.json([]byte(content.Text)))
			continue
		}
		content.Text = h.text(content.Text)
	}
	if isJSON {
		answer.StructuredContent = json.RawMessage(h.json(structured))
	}
}

func (h keyHider) text(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, h.plain, hiddenKey), h.quoted, hiddenKey)
}

// json hides the key in the strings of a JSON text alone: a key of digits could be a part of a number.
func (h keyHider) json(text []byte) []byte {
	if !bytes.Contains(text, []byte(h.quoted)) {
		return text
	}
	var out []byte
	for i := 0; i < len(text); {
		start := bytes.IndexByte(text[i:], '"')
		if start < 0 {
			return append(out, text[i:]...)
		}
		start += i
		end := skipString(text, start)
		if end < 0 {
			return append(out, text[i:]...) // no JSON: see isValidStructure
		}
		out = append(out, text[i:start+1]...)
		out = append(out, bytes.ReplaceAll(text[start+1:end-1], []byte(h.quoted), []byte(hiddenKey))...)
		out = append(out, '"')
		i = end
	}
	return out
}
