package stdio

import (
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestACallTakesItsPlaceBeforeTheNextIsHandedOver(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	var tr Transport
	tr.unstarted.Store(&unstartedCall{key: "1", id: "01", arguments: []byte(`{"a":1}`), begun: begun})
	request := &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Name: "echo"}}
	call := tr.TakeCall(request)
	assert.Equal(t, `{"a":1}`, string(request.Params.Arguments))
	assert.Equal(t, "01", call.ID)
	select {
	case <-begun:
		t.Fatal("the next message was let through")
	default:
	}
	call.Started()
	<-begun
}

// go-sdk's session keeps the version that the client asked for instead of the one that was agreed.
func TestTheAgreedVersionDecides(t *testing.T) {
	t.Parallel()
	for asked, agreed := range map[string]string{
		"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
		"2026-07-28": "2025-11-25", "2099-01-01": "2025-11-25", "1999-01-01": "2025-11-25", "draft": "2025-11-25", "": "2025-11-25",
	} {
		t.Run("asked for "+asked, func(t *testing.T) {
			t.Parallel()
			h := newWireHost(t)
			require.Contains(t, h.ask(strings.Replace(wireInitialize, "2025-11-25", asked, 1)), `"protocolVersion":"`+agreed+`"`)
			h.send(wireInitialized)
			require.Equal(t, wireText("1", "{}"), h.ask(wireCall("1", "echo", "{}")))
			require.Contains(t, h.ask(wireCall("2", "ask", "{}")), `{"jsonrpc":"2.0","id":1,"method":"elicitation/create"`)
			require.Equal(t, wireText("2", "accept approve with {}"),
				h.ask(`{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"action":"approve"}}}`))
			require.NoError(t, h.end())
		})
	}
}

func TestTheVersionWithoutInitialize(t *testing.T) {
	t.Parallel()
	h := newWireHost(t)
	require.Contains(t, h.ask(`{"jsonrpc":"2.0","id":"é","method":"server/discover","params":{`+wireModern+`}}`), `{"jsonrpc":"2.0","id":"é","result":{`)
	answer := h.ask(`{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"name":"echo","arguments":{"a":1.0},` + wireModern + `}}`)
	require.Contains(t, answer, `{"jsonrpc":"2.0","id":9007199254740993,"result":{`)
	require.Contains(t, answer, `"resultType":"complete"`)
	require.Equal(t, `{"a":1.0}`, wireTextOf(t, answer))

	asked := h.ask(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask","arguments":{"a":1.0},` + wireModern + `}}`)
	require.Contains(t, asked, `"content":[]`)
	require.Contains(t, asked, `"resultType":"input_required"`)
	require.Contains(t, asked, `"requestState":"state"`)
	require.Equal(t, `accept reject with {"a":1.0}`, wireTextOf(t, h.ask(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"ask",`+
		`"inputResponses":{"confirm":{"action":"accept","content":{"action":"reject"}}},"requestState":"state","arguments":{"a":1.0},`+wireModern+`}}`)))

	require.Contains(t, h.ask(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"echo","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`),
		`{"jsonrpc":"2.0","id":4,"error":{"code":-32602,`)
	require.Contains(t, h.ask(strings.Replace(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"echo",`+wireModern+`}}`, "2026-07-28", "2027-01-01", 1)),
		`{"jsonrpc":"2.0","id":5,"error":{"code":-32022,"message":"unsupported protocol version","data":{"supported":["2026-07-28",`)
	require.NoError(t, h.end())
}

func TestDiscoverDoesNotChangeAnAgreedVersion(t *testing.T) {
	t.Parallel()
	h := newInitializedWireHost(t)
	h.expect(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{`+wireModern+`}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found: \"server/discover\""}}`)
	require.Contains(t, h.ask(wireCall("2", "ask", "{}")), `"method":"elicitation/create"`)
	h.expect(`{"jsonrpc":"2.0","id":1,"result":{"action":"decline"}}`, wireText("2", "decline <nil> with {}"))
	require.NoError(t, h.end())
}

func TestOtherTransportsAreServedToo(t *testing.T) {
	t.Parallel()
	unused := NewTransport(strings.NewReader(""), io.Discard, slog.New(slog.DiscardHandler))
	s := newWireServer(unused, slog.New(slog.DiscardHandler))
	here, there := mcp.NewInMemoryTransports()
	_, err := s.Connect(t.Context(), here, nil)
	require.NoError(t, err)
	client, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil).Connect(t.Context(), there, nil)
	require.NoError(t, err)
	result, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: json.RawMessage(`{"a":720.0}`)})
	require.NoError(t, err)
	assert.Equal(t, []mcp.Content{&mcp.TextContent{Text: `{"a":720.0}`}}, result.Content)
	require.NoError(t, client.Close())
}
