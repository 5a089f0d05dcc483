package stdio

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// wireLine is a line and the answer to it, "" for none.
type wireLine struct{ name, line, want string }

// badLines are lines that no well-behaved host sends, and some that look like it.
func badLines() []wireLine {
	brackets := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	const (
		twice   = "invalid params: a member name appears twice in an object"
		notUTF8 = "parse error: the line is not valid UTF-8"
		tooDeep = "invalid request: it nests deeper than 1000 levels"
		badID   = `invalid request: "id" must be a string or a number`
		noBatch = "invalid request: batches are not supported, send one message a line"
		notAn   = "invalid request: a message is a JSON object"
		version = `invalid request: "jsonrpc" must be "2.0"`
		method  = `invalid request: "method" must be a string`
		absent  = `invalid request: there is no "method"`
		ends    = "parse error: the line ends inside a value"
	)
	failure := func(id string, code int, message string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, id, code, evidence.Text(message))
	}
	return []wireLine{
		// Blanks.
		{"blank", "", ""},
		{"blanks", " \t ", ""},
		{"CRLF", "\r", ""},
		{"trailing blanks", wirePing + " \t", wirePong}, // ends the session of go-sdk's own Transport
		{"leading blanks", "  " + wirePing, wirePong},
		{"CRLF after a message", wirePing + "\r", wirePong},
		// Not a message.
		{"garbage", "hello", failure("null", -32700, "parse error: invalid character 'h' at start of value (at byte 0)")},
		{"NUL", "\x00", failure("null", -32700, `parse error: invalid character '\x00' at start of value (at byte 0)`)},
		{"NUL in a string", "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"pi\x00ng\"}", failure("7", -32700,
			`parse error: invalid character '\x00' in string (expecting non-control character) (at byte 36)`)},
		{"byte order mark", "\ufeff" + wirePing, failure(`"ping"`, -32700, "parse error: the line begins with a byte order mark")},
		{"batch", "[" + wirePing + "]", failure("null", -32600, noBatch)},
		{"empty batch", "[]", failure("null", -32600, noBatch)},
		{"number", "42", failure("null", -32600, notAn)},
		{"string", `"ping"`, failure("null", -32600, notAn)},
		{"null", "null", failure("null", -32600, notAn)},
		{"true", "true", failure("null", -32600, notAn)},
		{"empty object", "{}", failure("null", -32600, version)},
		{"truncated", wirePing[:len(wirePing)-1], failure(`"ping"`, -32700, ends)},
		{"truncated in a string", `{"jsonrpc":"2.0","id":7,"method":"pi`, failure("7", -32700, ends)},
		{"two values", wirePing + wirePing, failure(`"ping"`, -32700, "parse error: more than one JSON value on the line")},
		{"value and garbage", wirePing + " x", failure(`"ping"`, -32700, "parse error: invalid character 'x' at start of value (at byte 46)")},
		{"line of brackets", brackets(20000), failure("null", -32600, tooDeep)},
		// Envelope.
		{"jsonrpc 1.0", `{"jsonrpc":"1.0","method":"ping","id":7}`, failure("7", -32600, version)},
		{"jsonrpc number", `{"jsonrpc":2.0,"method":"ping","id":7}`, failure("7", -32600, version)},
		{"no jsonrpc", `{"method":"ping","id":7}`, failure("7", -32600, version)},
		{"method number", `{"jsonrpc":"2.0","method":5,"id":7}`, failure("7", -32600, method)},
		{"method null", `{"jsonrpc":"2.0","method":null,"id":7}`, failure("7", -32600, method)},
		{"no method", `{"jsonrpc":"2.0","id":7}`, failure("7", -32600, absent)},
		{"Method", `{"jsonrpc":"2.0","id":7,"Method":"ping"}`, failure("7", -32600, absent)},
		{"unknown method", `{"jsonrpc":"2.0","id":7,"method":"pong"}`, failure("7", -32601, `method not found: "pong"`)},
		{"empty method", `{"jsonrpc":"2.0","id":7,"method":""}`, failure("7", -32601, `method not found: ""`)},
		{"id null", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, failure("null", -32600, badID)},
		{"id true", `{"jsonrpc":"2.0","id":true,"method":"ping"}`, failure("null", -32600, badID)},
		{"id array", `{"jsonrpc":"2.0","id":[1],"method":"ping"}`, failure("null", -32600, badID)},
		{"id object", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, failure("null", -32600, badID)},
		{"id not JSON", `{"jsonrpc":"2.0","id":01,"method":"ping"}`, failure("null", -32700,
			"parse error: invalid character '1' after object value (expecting ',' or '}') (at byte 23)")},
		{"id twice", `{"jsonrpc":"2.0","id":7,"method":"ping","id":8}`, failure("null", -32600, `invalid request: "id" appears twice`)},
		{"same id twice", `{"jsonrpc":"2.0","id":7,"method":"ping","id":7}`, failure("7", -32600, `invalid request: "id" appears twice`)},
		{"method twice", `{"jsonrpc":"2.0","method":"ping","method":"ping","id":7}`, failure("7", -32600, `invalid request: "method" appears twice`)},
		{
			"method twice, once escaped", `{"jsonrpc":"2.0","method":"ping","m\u0065thod":"ping","id":7}`,
			failure("7", -32600, `invalid request: "method" appears twice`),
		},
		{
			"params twice", `{"jsonrpc":"2.0","method":"ping","params":{},"params":{},"id":7}`,
			failure("7", -32600, `invalid request: "params" appears twice`),
		},
		{
			"unknown member twice", `{"jsonrpc":"2.0","method":"ping","x":1,"x":2,"id":7}`,
			failure("7", -32600, "invalid request: a member name appears twice in an object"),
		},
		{"unknown member", `{"jsonrpc":"2.0","method":"ping","x":1,"id":"ping"}`, wirePong},
		// Text.
		{"invalid UTF-8 in the method", "{\"jsonrpc\":\"2.0\",\"method\":\"pi\xffng\",\"id\":7}", failure("7", -32700, notUTF8)},
		{"invalid UTF-8 in the id", "{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\":\"\xff\"}", failure("null", -32700, notUTF8)},
		{
			"invalid UTF-8 in a tool name", "{\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":{\"name\":\"\xff\"},\"id\":7}",
			failure("7", -32700, notUTF8),
		},
		{
			"lone surrogate in the method", `{"jsonrpc":"2.0","method":"\ud800","id":7}`,
			failure("7", -32600, "invalid request: a string holds half a surrogate pair"),
		},
		{
			"lone surrogate in the id", `{"jsonrpc":"2.0","method":"ping","id":"\ud800"}`,
			failure(`"\ud800"`, -32600, "invalid request: a string holds half a surrogate pair"),
		},
		{
			"lone surrogate in a tool name", `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"\ud800"},"id":7}`,
			failure("7", -32602, "invalid params: a string holds half a surrogate pair"),
		},
		{
			"broken arguments, id last", `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","arguments":{"secret":}},"id":7}`,
			failure("7", -32700, "parse error: invalid character '}' at start of value (at byte 85)"),
		},
		{"NaN", wireCall("7", "echo", `{"a":NaN}`), failure("7", -32700, "parse error: invalid character 'N' at start of value (at byte 87)")},
		{
			"arguments that do not end", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"a":"secret`,
			failure("7", -32700, ends),
		},
		// Params. go-sdk's own text repeats them.
		{"name twice", `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","name":"slow"},"id":7}`, failure("7", -32602, twice)},
		{
			"arguments twice", `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","arguments":{},"arguments":{}},"id":7}`,
			failure("7", -32602, twice),
		},
		{
			"twice in _meta", `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","_meta":{"a":1,"a":2}},"id":7}`,
			failure("7", -32602, twice),
		},
		{
			"params null", `{"jsonrpc":"2.0","method":"tools/call","params":null,"id":7}`,
			failure("7", -32602, `invalid params: "params" must be an object`),
		},
		{"no params", `{"jsonrpc":"2.0","method":"tools/call","id":7}`, failure("7", -32602, `invalid params: "params" must be an object`)},
		{
			"tool name number", `{"jsonrpc":"2.0","method":"tools/call","params":{"name":5},"id":7}`,
			failure("7", -32602, `invalid params: "name" must be a string`),
		},
		{
			"call with params array", `{"jsonrpc":"2.0","method":"tools/call","params":["secret"],"id":7}`,
			failure("7", -32602, `invalid params: "params" must be an object`),
		},
		{
			"requestState object", `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","requestState":{"a":"secret"}},"id":7}`,
			failure("7", -32602, `invalid params: "requestState" must be a string`),
		},
		{
			"inputResponses array", `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","inputResponses":["secret"]},"id":7}`,
			failure("7", -32602, `invalid params: "inputResponses" must be an object; nothing was recorded`),
		},
		{
			"inputResponses of the wrong shape", `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","inputResponses":{"a":"secret"}},"id":7}`,
			failure("7", -32602, "invalid params: tools/call does not take params of this shape"),
		},
		{"deep params", `{"jsonrpc":"2.0","method":"tools/list","params":{"a":` + brackets(1000) + `},"id":7}`, failure("7", -32600, tooDeep)},
		{"very deep params", `{"jsonrpc":"2.0","method":"tools/list","params":{"a":` + brackets(20000) + `},"id":7}`, failure("7", -32600, tooDeep)},
		{"params as deep as may be", `{"jsonrpc":"2.0","method":"ping","params":{"a":` + brackets(998) + `},"id":"ping"}`, wirePong},
		// Notifications are not answered.
		{"unknown notification", `{"jsonrpc":"2.0","method":"notifications/whatever"}`, ""},
		{"notification with a name twice", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"requestId":2}}`, ""},
		{"notification with other params", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}`, ""},
		{"call without id", `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"}}`, ""},
		{"ping without id", `{"jsonrpc":"2.0","method":"ping"}`, ""},
		// Neither are answers.
		{"answer to nothing", `{"jsonrpc":"2.0","id":7,"result":{}}`, ""},
		{"error for nothing", `{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"no"}}`, ""},
		{"bad answer to nothing", `{"jsonrpc":"2.0","id":7,"result":{"a":1,"a":2}}`, ""},
		{"answer with another id", `{"jsonrpc":"2.0","id":"x","result":{}}`, ""},
		{"answer without id", `{"jsonrpc":"2.0","result":{}}`, ""},
	}
}

func TestBadLinesAreAnsweredAndTheSessionLivesOn(t *testing.T) {
	t.Parallel()
	for _, test := range badLines() {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := newInitializedWireHost(t)
			h.send(test.line)
			if test.want != "" {
				assert.Equal(t, test.want, h.next())
			}
			h.expect(`{"jsonrpc":"2.0","id":"after","method":"ping"}`, `{"jsonrpc":"2.0","id":"after","result":{}}`)
			assert.NotContains(t, h.log.String(), "secret")
			require.NoError(t, h.end())
		})
	}
}

func TestArgumentsReachTheToolAsTheyWereSpelled(t *testing.T) {
	t.Parallel()
	h := newInitializedWireHost(t)
	for _, arguments := range []string{
		`{}`, `null`, `[1]`, `"text"`, `7`, `true`,
		`{ "b":9007199254740993, "a":[720.0, 1e2,1.10,-0.0,123456789012345678901234567890,1E400], "A":1 }`,
		`{"dup":1,"dup":2,"in":{"\u0064":1,"d":2}}`, `{"lone":"\ud800"}`, `{"line":"\u2028","html":"<&>","slash":"\/"}`,
		`{"name":"x","arguments":{"arguments":1},"_meta":{"progressToken":5}}`,
	} {
		got := h.ask(wireCall("1", "echo", arguments))
		require.Equal(t, arguments, wireTextOf(t, got))
	}
	require.Equal(t, wireText("1", "absent"), h.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`))
	require.Equal(t, wireText("1", "{}"), h.ask(`{"id":1,"params":{ "arguments" : {} , "name":"ec\u0068o" },"method":"tools\/call","jsonrpc":"2.0"}`))
	// What go-sdk and most decoders cannot take still is the tool's to refuse.
	require.Equal(t, wireText("1", "9 bytes"), h.ask(wireCall("1", "size", "{\"a\":\"\xff\"}")))
	for _, levels := range []int{999, 1001, 20000} {
		deep := strings.Repeat(`{"a":`, levels) + `"}"` + strings.Repeat("}", levels)
		require.Equal(t, wireText("1", fmt.Sprintf("%d bytes", len(deep))), h.ask(wireCall("1", "size", deep)))
	}
	large := `{"a":"` + strings.Repeat("x", 2<<20) + `"}`
	require.Equal(t, wireText("1", fmt.Sprintf("%d bytes", len(large))), h.ask(wireCall("1", "size", large)))
	require.NoError(t, h.end())
}

func TestIDsComeBackAsTheyWereSpelled(t *testing.T) {
	t.Parallel()
	h := newInitializedWireHost(t)
	for _, id := range []string{
		`0`, `-1`, `9007199254740993`, `18446744073709551616`, `1.5`, `1e2`, `-0`, `""`, `"1"`, `"é"`, `"\u00e9"`, `"a\"\\\/\n"`,
		`"<&>\u2028"`, `"` + strings.Repeat("long", 1000) + `"`,
	} {
		h.expect(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"ping"}`, id), fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, id))
		h.expect(wireCall(id, "echo", "{}"), wireText(id, "{}"))
		h.expect(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"no"}`, id),
			fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found: \"no\""}}`, id))
		h.expect(fmt.Sprintf(`{"jsonrpc":"2.0","params":5,"method":"tools/call","id":%s}`, id),
			fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"invalid params: \"params\" must be an object"}}`, id))
	}
	require.NoError(t, h.end())
}

func TestProgressTokensComeBackAsTheyWereSpelled(t *testing.T) {
	t.Parallel()
	h := newInitializedWireHost(t)
	for _, token := range []string{`0`, `9007199254740993`, `1.50`, `"é"`, `"\u00e9\""`, `"7"`} {
		h.expect(
			fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"x":1,"progressToken":%s},"arguments":{},"name":"progress"}}`, token),
			fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"message":"half","progress":1}}`, token),
			wireText("1", "done"))
	}
	h.expect(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"progress","arguments":{"_meta":1},"_meta":{"progressToken":7.0}}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7.0,"message":"half","progress":1}}`,
		wireText("1", "done"))
	// MCP forbids any word about a cancelled call.
	h.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"_meta":{"progressToken":7},"arguments":true,"name":"progress"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	h.expect(wirePing, wirePong)
	for _, meta := range []string{`{}`, `{"progressToken":null}`} {
		require.Equal(t, wireText("1", "no token"),
			h.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"progress","arguments":{},"_meta":`+meta+`}}`))
	}
	require.NoError(t, h.end())
}

func TestResultsAreNotRespelled(t *testing.T) {
	t.Parallel()
	const structure = `{"html":"<&>\u2028\u003c", "n":[720.0,1E400, 9007199254740993],"dup":1,"dup":2}`
	h := newInitializedWireHost(t)
	h.expect(wireCall("1", "structure", string(evidence.Text(structure))),
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":`+string(evidence.Text("<&>\u2028"))+`},{"type":"text","text":"second"}],`+
			`"structuredContent":`+structure+`,"isError":true}}`)
	// A line has no line ends in it.
	h.expect(wireCall("1", "structure", `"{\n\"a\":1}"`),
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"\u003c\u0026\u003e\u2028"},{"type":"text","text":"second"}],`+
			`"structuredContent":{"a":1},"isError":true}}`)
	require.NoError(t, h.end())

	modern := newWireHost(t)
	answer := modern.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"structure","arguments":"{}",` + wireModern + `}}`)
	for _, part := range []string{
		`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"wire","version":"1"}}`, `"resultType":"complete"`,
		`"content":[{"type":"text","text":"<&>` + "\u2028" + `"},{"type":"text","text":"second"}],"structuredContent":{}`, `"isError":true`,
	} {
		assert.Contains(t, answer, part)
	}
	assert.True(t, json.Valid([]byte(answer)))
	require.NoError(t, modern.end())
}

func TestSubscriptionIDsComeBackAsTheyWereSpelled(t *testing.T) {
	t.Parallel()
	h := newWireHost(t)
	h.send(`{"jsonrpc":"2.0","id":9007199254740993,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + wireModern + `}}`)
	require.Contains(t, h.next(), `"_meta":{"io.modelcontextprotocol/subscriptionId":9007199254740993}`)
	answer := h.next()
	require.Contains(t, answer, `"io.modelcontextprotocol/subscriptionId":9007199254740993`)
	require.Contains(t, answer, `{"jsonrpc":"2.0","id":9007199254740993,"result":{`)
	require.NoError(t, h.end())
}

func TestLongLinesAreAnsweredInFlatMemory(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	h := newInitializedWireHost(t)
	tooLong := func(id string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"invalid request: the line is longer than 16777216 bytes"}}`, id)
	}
	sendLong := func(head string, megabytes int, tail string) {
		t.Helper()
		chunk := strings.Repeat(`x{\"[`, 1<<20/5)
		_, err := io.WriteString(h.in, head)
		require.NoError(t, err)
		for range megabytes {
			_, err = io.WriteString(h.in, chunk)
			require.NoError(t, err)
		}
		_, err = io.WriteString(h.in, tail+"\n")
		require.NoError(t, err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	sendLong(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"a":"`, 128, `"}}}`)
	require.Equal(t, tooLong("7"), h.next())
	runtime.ReadMemStats(&after)
	assert.Less(t, after.HeapSys-min(before.HeapSys, after.HeapSys), uint64(100<<20), "a line of 128 MB")

	sendLong(`{"jsonrpc":"2.0","method":"tools/call","params":{"id":5,"arguments":{"a":"`, 20, `"}},"id":"last"}`)
	require.Equal(t, tooLong(`"last"`), h.next())
	sendLong(`{"id":"`, 20, `"}`)
	require.Equal(t, tooLong("null"), h.next())
	sendLong(`garbage`, 20, ``)
	require.Equal(t, tooLong("null"), h.next())

	// A line of exactly the limit is a message.
	call := wireCall("8", "size", `{"a":"%"}`)
	filler := strings.Repeat("x", maxLine-len(call)+1)
	require.Equal(t, wireText("8", strconv.Itoa(len(filler)+8)+" bytes"), h.ask(strings.Replace(call, "%", filler, 1)))
	require.Equal(t, tooLong("8"), h.ask(strings.Replace(call, "%", filler+"x", 1)))
	h.expect(wirePing, wirePong)
	require.NoError(t, h.end())
}

func TestTheLastLineNeedsNoLineEnd(t *testing.T) {
	t.Parallel()
	h := newInitializedWireHost(t)
	_, err := io.WriteString(h.in, wireCall("1", "echo", "{}"))
	require.NoError(t, err)
	require.NoError(t, h.in.Close())
	require.Equal(t, wireText("1", "{}"), h.next())
	require.NoError(t, h.wait())
}

func TestAnIDInFlightIsNotTakenTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newInitializedWireHost(t)
		h.send(wireCall(`"\u00e9"`, "slow", `"1s"`))
		h.expect(wireCall(`"é"`, "echo", "{}"),
			`{"jsonrpc":"2.0","id":"é","error":{"code":-32600,"message":"invalid request: this id belongs to a request in flight"}}`)
		h.send(wireCall("1", "slow", `"1s"`), wireCall(`"1"`, "echo", "{}"))
		require.Equal(t, wireText(`"1"`, "{}"), h.next(), "a string is another id than a number")
		assert.ElementsMatch(t, []string{wireText(`"\u00e9"`, "done"), wireText("1", "done")}, []string{h.next(), h.next()})
		for range 100 { // free as soon as it is answered
			require.Equal(t, wireText("1", "{}"), h.ask(wireCall("1", "echo", "{}")))
		}
		require.NoError(t, h.end())
	})
}

func TestACancelledCallIsCancelledAndNotAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newInitializedWireHost(t)
		cancel := func(id string) string {
			return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"secret"}}`
		}
		for _, id := range []string{"9007199254740993", `"\u00e9"`, "1.5"} {
			h.send(wireCall(id, "wait", "{}"), cancel(id))
		}
		h.send(wireCall("9007199254740992", "slow", `"1s"`), cancel("9007199254740993"), cancel("1"), cancel("null"), cancel("{}"),
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}`, `{"jsonrpc":"2.0","method":"notifications/cancelled"}`)
		require.Equal(t, wireText("9007199254740992", "done"), h.next())
		// A call that comes after a cancel for its id is not cancelled.
		h.send(cancel("2"))
		require.Equal(t, wireText("2", "done"), h.ask(wireCall("2", "slow", `"1s"`)))
		// A call that goes on in spite of it keeps the session until it has ended.
		h.send(wireCall("3", "slow", `"3s"`), cancel("3"))
		begin := time.Now()
		require.NoError(t, h.end())
		assert.Equal(t, 3*time.Second, time.Since(begin))
		assert.Equal(t, 6, h.wire.left)
		assert.NotContains(t, h.log.String(), "secret")
	})
}

func TestInitializeIsNotCancelled(t *testing.T) {
	t.Parallel()
	h := newWireHost(t)
	h.send(wireInitialize, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"init"}}`)
	require.Contains(t, h.next(), `"id":"init","result":{`)
	require.NoError(t, h.end())
}

func TestCallsStartInTheOrderTheyCame(t *testing.T) {
	t.Parallel()
	const calls = 5000
	h := newInitializedWireHost(t)
	go func() {
		for i := range calls {
			var b strings.Builder
			b.WriteString(wireCall(strconv.Itoa(i), "echo", strconv.Itoa(i)) + "\n")
			switch i % 100 { // what is answered without a handler must not hold up the next call
			case 1:
				b.WriteString(`{"jsonrpc":"2.0","id":"bad","method":"tools/call","params":{"name":"echo","inputResponses":{"a":1}}}` + "\n")
			case 2:
				b.WriteString(`{"jsonrpc":"2.0","id":"none","method":"tools/call"}` + "\n")
			case 3:
				b.WriteString(`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"}}` + "\n")
			}
			if _, err := io.WriteString(h.in, b.String()); err != nil {
				return
			}
		}
	}()
	answers := make(map[string]int)
	for range calls + 2*calls/100 {
		answers[h.next()]++
	}
	for i := range calls {
		require.Equal(t, strconv.Itoa(i), h.wire.starts[i])
		require.Equal(t, 1, answers[wireText(strconv.Itoa(i), strconv.Itoa(i))])
	}
	require.Len(t, h.wire.starts, calls)
	require.NoError(t, h.end())
	assert.Equal(t, calls, h.wire.left)
}

func TestCallsBeforeInitialize(t *testing.T) {
	t.Parallel()
	h := newWireHost(t)
	h.expect(wireCall("1", "echo", "{}"),
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"method \"tools/call\" is invalid during session initialization"}}`)
	h.expect(wirePing, wirePong)
	require.Contains(t, h.ask(wireInitialize), `"protocolVersion":"2025-11-25"`)
	require.Equal(t, wireText("1", "{}"), h.ask(wireCall("1", "echo", "{}")))
	require.NoError(t, h.end())
}

func TestAQuestionIsAnsweredWhileOtherCallsRun(t *testing.T) {
	t.Parallel()
	h := newInitializedWireHost(t)
	for i := 1; i <= 3; i++ {
		question := h.ask(wireCall(strconv.Itoa(i), "ask", `{"a":1.0}`))
		require.Contains(t, question, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"elicitation/create","params":{"mode":"form","message":"Sure?"`, i))
		require.Equal(t, wireText(`"busy"`, "{}"), h.ask(wireCall(`"busy"`, "echo", "{}")))
		require.Equal(t, wireText(strconv.Itoa(i), `accept approve with {"a":1.0}`),
			h.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"action":"accept","content":{"action":"approve"}}}`, i)))
	}
	require.NoError(t, h.end())
}

// FuzzLines sends any bytes: nothing but valid JSON comes back, one message a line, the session goes on
// and ends well.
func FuzzLines(f *testing.F) {
	for _, test := range badLines() {
		f.Add([]byte(test.line))
	}
	f.Add([]byte(wireCall("1", "echo", `{"a":"\xff"}`) + "\n" + wireCall("1", "ask", "{}") + "\n" + `{"jsonrpc":"2.0","id":1,"result":{"action":"decline"}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":1.0},"name":"progress"}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + wireModern + `}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1.0,"method":"subscriptions/listen","params":{"notifications":{},` + wireModern + `}}`))
	f.Add([]byte(wireCall("1", "wait", "{}") + "\r\n" + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`))
	f.Fuzz(func(t *testing.T, lines []byte) {
		synctest.Test(t, func(t *testing.T) {
			h := newInitializedWireHost(t)
			h.wire.RemoveTools("slow")
			go func() {
				_, _ = h.in.Write(lines)
				_, _ = io.WriteString(h.in, "\n"+`{"jsonrpc":"2.0","id":"after","method":"ping"}`+"\n")
			}()
			for answered := false; !answered; {
				line := h.next()
				require.True(t, json.Valid([]byte(line)), line)
				require.True(t, utf8.ValidString(line), line)
				answered = line == `{"jsonrpc":"2.0","id":"after","result":{}}`
			}
			require.NoError(t, h.in.Close())
			go func() {
				for line := range h.lines {
					assert.True(t, json.Valid([]byte(line)), line)
				}
			}()
			require.NoError(t, h.wait())
			require.NoError(t, h.out.Close())
			synctest.Wait()
			assert.Len(t, h.wire.starts, h.wire.left)
		})
	})
}
