package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

func TestAnUnusableAnswerEndsTheQuestion(t *testing.T) {
	t.Parallel()
	const unfit = "The answer to the question does not fit its form: action has to be approve or reject, and reason a text of at most 1000 characters. Nothing was recorded."
	for _, test := range []struct{ name, answer, want string }{
		{"outside the enum", `"result":{"action":"accept","content":{"action":"secret"}}`, unfit},
		{"member missing", `"result":{"action":"accept","content":{}}`, unfit},
		{"wrong shape", `"result":"secret"`, "The answer to the question could not be used. Nothing was recorded."},
		{
			"error", `"error":{"code":-32601,"message":"no such method."}`,
			"The client did not put the question to a person: no such method. Nothing was recorded.",
		},
		{
			"error of the wrong shape", `"error":"secret"`,
			"The client did not put the question to a person: the error of the client is not usable. Nothing was recorded.",
		},
		{
			"member twice", `"result":{"action":"accept","action":"accept","content":{"action":"secret"}}`,
			"The client answered the question, but its answer is not usable (invalid request: a member name stands twice in an object). Nothing was recorded.",
		},
		{
			"invalid UTF-8", "\"result\":{\"action\":\"accept\",\"content\":{\"action\":\"\xff\"}}",
			"The client answered the question, but its answer is not usable (parse error: the line is not valid UTF-8). Nothing was recorded.",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := newInitializedWireHost(t)
			require.Contains(t, h.ask(wireCall("7", "ask", "{}")), "elicitation/create")
			require.Equal(t, wireFailure("7", test.want), h.ask(`{"jsonrpc":"2.0","id":1,`+test.answer+`}`))
			assert.NotContains(t, h.log.String(), "secret")
			require.NoError(t, h.end())
		})
	}
}
