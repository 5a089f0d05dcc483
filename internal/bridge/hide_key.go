package bridge

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

const (
	// shortestSecret is the length of the shortest key that is looked for. Hiding a shorter one would tear up every text.
	shortestSecret = 8

	// telling is how much of the beginning of a key is recognized, in bytes: LoopGrid's keys all begin with the same eight.
	telling = 12

	hiddenKey = "[service key]"
)

// error hides the key in an error that go-sdk sends as one of JSON-RPC.
func (h keyHider) error(err error) error {
	coded, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || h.plain == "" {
		return err
	}
	return &jsonrpc.Error{Code: coded.Code, Message: h.text(coded.Message), Data: h.json(coded.Data)}
}

// keyHider knows the key as it is, and as it stands in a JSON string. The zero keyHider hides nothing.
type keyHider struct{ plain, quoted string }

func newKeyHider(key string) keyHider {
	if len(key) < shortestSecret {
		return keyHider{}
	}
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
	if h.plain == "" {
		return s
	}
	return masked(masked(s, h.plain), h.quoted)
}

// masked hides a secret, and the beginning of one: texts of the service are cut before they come here.
func masked(s, secret string) string {
	start := beginning(secret)
	var out strings.Builder
	for {
		i := strings.Index(s, start)
		if i < 0 {
			break
		}
		n := len(start)
		for n < len(secret) && i+n < len(s) && s[i+n] == secret[n] {
			n++
		}
		for i+n < len(s) && !utf8.RuneStart(s[i+n]) {
			n--
		}
		out.WriteString(s[:i] + hiddenKey)
		s = s[i+n:]
	}
	return out.String() + s
}

// beginning is what a secret is recognized by.
func beginning(secret string) string { return secret[:min(len(secret), telling)] }

// json hides the key in the strings of a JSON text alone: a key of digits could be a part of a number. A string may spell any
// character of the key as an escape.
func (h keyHider) json(text []byte) []byte {
	if h.plain == "" || !bytes.Contains(text, []byte(beginning(h.quoted))) && bytes.IndexByte(text, '\\') < 0 {
		return text
	}
	return evidence.MapStrings(text, func(s string) string { return masked(s, h.plain) })
}
