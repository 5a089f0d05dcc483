package bridge

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
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

// keyHider hides the service key, and those that it replaced, in what leaves. The zero keyHider hides nothing.
type keyHider struct {
	all func() []string
}

// keys returns the keys to hide.
func (h keyHider) keys() []string {
	if h.all == nil {
		return nil
	}
	return slices.DeleteFunc(h.all(), func(key string) bool { return len(key) < shortestSecret })
}

// error hides the key in an error that go-sdk sends as one of JSON-RPC.
func (h keyHider) error(err error) error {
	coded, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || len(h.keys()) == 0 {
		return err
	}
	return &jsonrpc.Error{Code: coded.Code, Message: h.text(coded.Message), Data: h.json(coded.Data)}
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
	for _, key := range h.keys() {
		s = masked(masked(s, key), quoted(key))
	}
	return s
}

// quoted is how a key stands in a JSON string.
func quoted(key string) string {
	text := evidence.Text(key)
	return string(text[1 : len(text)-1])
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
	for _, key := range h.keys() {
		if bytes.Contains(text, []byte(beginning(quoted(key)))) || bytes.IndexByte(text, '\\') >= 0 {
			text = evidence.MapStrings(text, func(s string) string { return masked(s, key) })
		}
	}
	return text
}
