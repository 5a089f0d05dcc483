package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

func TestWhatGoesWrongInAToolIsAToolError(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, tool, arguments, want string }{
		{
			"panic", "panic", `{"a":"secret"}`,
			"loopgrid-mcp failed with an internal error; its log on stderr has the details. Known about panic.",
		},
		{
			"runtime error", "index", `{"a":"secret"}`,
			"loopgrid-mcp failed with an internal error; its log on stderr has the details. Known about index.",
		},
		{"error", "error", `{"a":"secret"}`, "connection refused. Known about error."},
		{"no result", "nil", `{"a":"secret"}`, "loopgrid-mcp failed with an internal error: the tool gave no result. Known about nil."},
		{"malformed result", "malformed", `"{\"a\":}"`, // go-sdk never answers it
			"loopgrid-mcp failed with an internal error: the result of the tool is not valid JSON. Known about malformed."},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := newInitializedWireHost(t)
			require.Equal(t, wireFailure("1", test.want), h.ask(wireCall("1", test.tool, test.arguments)))
			require.Equal(t, wireText("2", "{}"), h.ask(wireCall("2", "echo", "{}")))
			require.NoError(t, h.end())
			assert.NotContains(t, h.log.String(), "secret")
			assert.Equal(t, 2, h.wire.left)
		})
	}
}

func TestACallThatWasCancelledFromOurSide(t *testing.T) {
	t.Parallel()
	call := answerErrors(nil, func(context.Context) string { return "Nothing was recorded." })(
		func(context.Context, string, mcp.Request) (mcp.Result, error) {
			return nil, fmt.Errorf("wait for the lock: %w", context.Canceled)
		})
	result, err := call(t.Context(), "tools/call", &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Name: "echo"}})
	require.NoError(t, err)
	assert.Equal(t, failed("The call was cancelled. Nothing was recorded."), result)
}

func TestTheLogOfAPanicHasTheStackAndNotTheValue(t *testing.T) {
	t.Parallel()
	h := newInitializedWireHost(t)
	h.ask(wireCall("1", "panic", "{}"))
	h.ask(wireCall("1", "index", "{}"))
	require.NoError(t, h.end())
	log := h.log.String()
	assert.Contains(t, log, `level=ERROR msg=panic method=tools/call panic=string stack=`)
	assert.Contains(t, log, `panic="runtime error: index out of range [1] with length 1" stack=`)
	assert.Contains(t, log, "newWireServer")
	assert.NotContains(t, log, "secret")
}

func TestAPanicOutsideATool(t *testing.T) {
	t.Parallel()
	list := recoverPanics(slog.New(slog.DiscardHandler), func(context.Context) string { return "" })(
		func(context.Context, string, mcp.Request) (mcp.Result, error) { panic(errors.New("no")) })
	_, err := list(t.Context(), "tools/list", &mcp.ListToolsRequest{})
	var coded *jsonrpc.Error
	require.ErrorAs(t, err, &coded)
	assert.Equal(t, &jsonrpc.Error{Code: -32603, Message: "internal error"}, coded)
}

func TestEveryCallIsLoggedWithoutItsArguments(t *testing.T) {
	t.Parallel()
	h := newInitializedWireHost(t)
	for _, tool := range []string{"echo", "error", "panic", "nothing", strings.Repeat("x", 100)} {
		h.ask(wireCall(`"é"`, tool, `{"a":"secret"}`))
	}
	require.NoError(t, h.end())
	modern := newWireHost(t)
	modern.ask(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"ask","arguments":{"a":"secret"},` + wireModern + `}}`)
	require.NoError(t, modern.end())
	var got []string
	for line := range strings.Lines(h.log.String() + modern.log.String()) {
		if _, call, found := strings.Cut(line, `msg="tool call" `); found {
			tool, rest, _ := strings.Cut(call, " took=")
			_, rest, _ = strings.Cut(rest, " ")
			got = append(got, tool+" "+strings.TrimSpace(rest))
		}
	}
	assert.Equal(t, []string{
		`tool=echo outcome=ok request_id=request-1 id="\"é\""`,
		`tool=error outcome=error request_id=request-1 id="\"é\""`,
		`tool=panic outcome=error request_id=request-1 id="\"é\""`,
		`tool=nothing outcome=refused request_id=request-1 id="\"é\""`,
		`tool=` + strings.Repeat("x", 80) + `… outcome=refused request_id=request-1 id="\"é\""`,
		`tool=ask outcome=asked request_id=request-1 id=7`,
	}, got)
	assert.NotContains(t, h.log.String()+modern.log.String(), "secret")
}

func TestAnUnknownToolListsTheTools(t *testing.T) {
	t.Parallel()
	h := newInitializedWireHost(t)
	for name, told := range map[string]string{
		"record":                 `"record"`,
		"":                       `""`,
		strings.Repeat("x", 200): `"` + strings.Repeat("x", 80) + `…"`,
	} {
		want := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":%s}}`, evidence.Text("unknown tool "+told+"; the tools are echo, slow"))
		require.Equal(t, want, h.ask(wireCall("1", name, `{}`)))
	}
	require.NoError(t, h.end())
}

func TestACallArrivesBeforeTheNextIsHandedOver(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	var tr transport
	tr.unstarted.Store(&unstartedCall{key: "1", arguments: []byte(`{"a":1}`), begun: begun})
	var events []string
	open := func() bool {
		select {
		case <-begun:
			return true
		default:
			return false
		}
	}
	call := tr.startInOrder(func(ctx context.Context, req *mcp.CallToolRequest) (context.Context, func()) {
		events = append(events, fmt.Sprintf("arrive with %s, open %t", req.Params.Arguments, open()))
		return ctx, func() { events = append(events, "leave") }
	})(func(_ context.Context, method string, _ mcp.Request) (mcp.Result, error) {
		events = append(events, fmt.Sprintf("%s, open %t", method, open()))
		return nil, nil
	})
	_, err := call(t.Context(), "tools/list", &mcp.ListToolsRequest{})
	require.NoError(t, err)
	_, err = call(t.Context(), "tools/call", &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Name: "echo"}})
	require.NoError(t, err)
	assert.Equal(t, []string{"tools/list, open false", `arrive with {"a":1}, open false`, "tools/call, open true", "leave"}, events)
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

func TestTheStructureOfAResultIsChecked(t *testing.T) {
	t.Parallel()
	h := newInitializedWireHost(t)
	h.expect(wireCall("1", "malformed", `"{\"a\":720.0,\"a\":1E400}"`),
		`{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{"a":720.0,"a":1E400}}}`)
	require.NoError(t, h.end())
	assert.True(t, isValidStructure(map[string]any{"a": 1}))
	assert.False(t, isValidStructure(make(chan int)))
	assert.False(t, isValidStructure(json.RawMessage("{\"a\":\"\xff\"}")), "go-sdk would send the bytes as they are")
	assert.False(t, isValidStructure(jsontext.Value("{")))
}

func TestTheMiddlewareServesOtherTransportsToo(t *testing.T) {
	t.Parallel()
	unused := newTransport(strings.NewReader(""), io.Discard, slog.New(slog.DiscardHandler))
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
