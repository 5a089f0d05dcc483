package stdio

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHeadersOfTheLanguageServerProtocol(t *testing.T) {
	t.Parallel()
	frame := func(message string) string {
		return fmt.Sprintf("Content-Length: %d\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n%s", len(message), message)
	}
	const refusal = `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request: MCP over stdio has no Content-Length headers: ` +
		`send each message as one line of JSON; messages in frames are ignored"}}`
	for name, sent := range map[string]string{
		"one frame":                     frame(wirePing) + "\n",
		"frames in a row":               frame(wirePing) + frame(wireInitialize) + frame(wireInitialized) + frame(wirePing) + "\n",
		"headers in lower case":         strings.ToLower(frame(wirePing)) + "\n",
		"a frame with a line end":       frame(wirePing+"\n") + frame(wirePing+"\r\n"),
		"a broken message":              frame(`{"jsonrpc":`) + "\n",
		"a message behind a frame":      "",
		"a header alone":                "Content-Length: 17\n\n" + frame(wirePing) + "\n",
		"a write in a frame is no call": frame(wireCall("1", "echo", `"framed"`)) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newWireHost(t)
			if sent == "" {
				sent = frame(wirePing)
			}
			go h.send(sent + wireInitialize)
			require.Equal(t, refusal, h.next())
			require.Contains(t, h.next(), `"protocolVersion":"2025-11-25"`, "the process lives on")
			h.expect(wirePing, wirePong)
			require.NoError(t, h.end())
			assert.Equal(t, 1, strings.Count(h.log.String(), "Content-Length"))
			assert.Empty(t, h.wire.starts)
		})
	}
}

func TestAByteOrderMarkAtTheStartIsNoPartOfTheFirstLine(t *testing.T) {
	t.Parallel()
	h := newWireHost(t)
	require.Contains(t, h.ask("\ufeff"+wireInitialize), `"protocolVersion":"2025-11-25"`)
	require.Contains(t, h.ask("\ufeff"+wirePing), "byte order mark")
	require.NoError(t, h.end())
}
