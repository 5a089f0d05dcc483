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
	started := make(chan struct{})
	var tr Transport
	tr.unstarted.Store(&unstartedCall{key: "1", id: "01", arguments: []byte(`{"a":1}`), started: started})
	request := &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Name: "echo"}}
	call := tr.TakeCall(request)
	assert.Equal(t, `{"a":1}`, string(request.Params.Arguments))
	assert.Equal(t, "01", call.ID)
	select {
	case <-started:
		t.Fatal("the next message was let through")
	default:
	}
	call.Started()
	<-started
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

// A host may begin with either era and go over to the other; some try both.
func TestErasInAnyOrder(t *testing.T) {
	t.Parallel()
	stateless := func(id, method, more string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + more + wireModern + `}}`
	}
	var (
		initialize      = wireLine{"initialize", wireInitialize, `{"jsonrpc":"2.0","id":"init","result":{"capabilities":{"tools":{}},"protocolVersion":"2025-11-25"`}
		again           = wireLine{"initialize again", strings.Replace(wireInitialize, `"init"`, `7`, 1), `{"jsonrpc":"2.0","id":7,"result":{"capabilities":{"tools":{}},"protocolVersion":"2025-11-25"`}
		respelled       = wireLine{"initialize with its members in another order", `{"jsonrpc":"2.0","id":8,"method":"initialize","params":{ "clientInfo":{"version":"1","name":"host"},"capabilities":{"elicitation":{}},"protocolVersion":"2025-11-25"}}`, `{"jsonrpc":"2.0","id":8,"result":{"capabilities"`}
		otherVersion    = wireLine{"initialize with another version", strings.Replace(wireInitialize, "2025-11-25", "2025-06-18", 1), `{"jsonrpc":"2.0","id":"init","error":{"code":-32600,"message":"invalid request: this session was initialized with other parameters; start a new loopgrid-mcp process`}
		otherClient     = wireLine{"initialize of another client", strings.Replace(wireInitialize, `"name":"host"`, `"name":"guest"`, 1), `"code":-32600,"message":"invalid request: this session was initialized with other parameters`}
		withMeta        = wireLine{"initialize with the version of the other era in _meta", strings.Replace(wireInitialize, `"params":{`, `"params":{`+wireModern+`,`, 1), `{"jsonrpc":"2.0","id":"init","result":{"capabilities":{"tools":{}},"protocolVersion":"2025-11-25"`}
		initialized     = wireLine{"initialized", wireInitialized, ""}
		discover        = wireLine{"discover", stateless(`"d"`, "server/discover", ""), `{"jsonrpc":"2.0","id":"d","result":{"resultType":"complete"`}
		discoverLegacy  = wireLine{"discover without a version", `{"jsonrpc":"2.0","id":"d","method":"server/discover"}`, `{"jsonrpc":"2.0","id":"d","error":{"code":-32601,`}
		discoverUnknown = wireLine{"discover of an unknown version", strings.Replace(stateless(`"d"`, "server/discover", ""), "2026-07-28", "DRAFT-x", 1), `{"jsonrpc":"2.0","id":"d","error":{"code":-32022,"message":"unsupported protocol version","data":{"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"DRAFT-x"}}}`}
		list            = wireLine{"list", `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":2,"result":{"ttlMs":`}
		listTooEarly    = wireLine{"list before initialize", list.line, `{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"method \"tools/list\" is invalid during session initialization"}}`}
		listStateless   = wireLine{"list of the other era", stateless("3", "tools/list", ""), `{"jsonrpc":"2.0","id":3,"result":{"resultType":"complete"`}
		call            = wireLine{"call", wireCall("4", "echo", "1.0"), wireText("4", "1.0")}
		callStateless   = wireLine{"call of the other era", stateless("5", "tools/call", `"name":"echo","arguments":1.0,`), `"content":[{"type":"text","text":"1.0"}],"resultType":"complete"`}
		callOlder       = wireLine{"call with a version that has initialize", strings.Replace(stateless("6", "tools/call", `"name":"echo","arguments":1.0,`), "2026-07-28", "2025-06-18", 1), wireText("6", "1.0")}
		ask             = wireLine{"question", wireCall("9", "ask", "{}"), `{"jsonrpc":"2.0","id":1,"method":"elicitation/create"`}
		decline         = wireLine{"answer to the question", `{"jsonrpc":"2.0","id":1,"result":{"action":"decline"}}`, wireText("9", "decline <nil> with {}")}
		askStateless    = wireLine{"question of the other era", stateless("10", "tools/call", `"name":"ask","arguments":{},`), `"resultType":"input_required"`}
		ping            = wireLine{"ping", wirePing, wirePong}
		pingStateless   = wireLine{"ping of the other era", stateless("11", "ping", ""), `{"jsonrpc":"2.0","id":11,"error":{"code":-32601,`}
	)
	for name, lines := range map[string][]wireLine{
		"discover, initialize":                        {discover, initialize, initialized, list, call, ask, decline},
		"discover, discover, initialize":              {discover, discover, initialize, initialized, list},
		"discover without a version, initialize":      {discoverLegacy, initialize, initialized, list},
		"discover of an unknown version, discover":    {discoverUnknown, discover, listStateless, callStateless},
		"discover of an unknown version, initialize":  {discoverUnknown, initialize, initialized, call},
		"initialize, discover":                        {initialize, initialized, discover, list, ask, decline},
		"initialize, discover before initialized":     {initialize, discover, initialized, call},
		"calls of both eras":                          {listTooEarly, listStateless, discover, callStateless, listTooEarly, initialize, initialized, call, callStateless, list, listStateless},
		"stateless alone":                             {listStateless, callStateless, askStateless, discover, callStateless, pingStateless},
		"the version changes with each request":       {initialize, initialized, ask, decline, askStateless, call, callStateless, callOlder, ping, pingStateless},
		"initialize twice":                            {initialize, again, initialized, initialized, call, again, respelled, call},
		"initialize twice, discover first":            {discover, initialize, again, initialized, call, ask, decline},
		"initialize with other parameters":            {initialize, initialized, otherVersion, otherClient, call, again, call},
		"initialize with _meta":                       {discover, withMeta, initialized, call, ask, decline},
		"initialized without initialize, then as due": {initialized, initialize, initialized, call},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Run("one after the other", func(t *testing.T) {
				t.Parallel()
				h := newWireHost(t)
				for _, line := range lines {
					h.send(line.line)
					if line.want != "" {
						require.Contains(t, h.next(), line.want, line.name)
					}
				}
				require.NoError(t, h.end())
			})
			t.Run("in one write", func(t *testing.T) {
				t.Parallel()
				h := newWireHost(t)
				var all []string
				wanted := 0
				for _, line := range lines {
					if all = append(all, line.line); line.want != "" && line.name != decline.name {
						wanted++
					}
				}
				h.send(all...)
				for range wanted {
					require.NotContains(t, h.next(), "duplicate")
				}
			})
		})
	}
}

// What came while the first was not answered yet gets the same answer.
func TestInitializeTwiceAtOnce(t *testing.T) {
	t.Parallel()
	h := newWireHost(t)
	h.send(wireInitialize, strings.Replace(wireInitialize, `"init"`, "7", 1), wireInitialize)
	first := h.next()
	answers := []string{h.next(), h.next()}
	assert.ElementsMatch(t, []string{first, strings.Replace(first, `"init"`, "7", 1)}, answers)
	h.send(wireInitialized)
	require.Equal(t, wireText("1", "{}"), h.ask(wireCall("1", "echo", "{}")))
	require.NoError(t, h.end())
}

// No tool needs to know any of this, so that none of it may cost the host its tools.
func TestUnusableMembersCountAsAbsent(t *testing.T) {
	t.Parallel()
	const meta = "io.modelcontextprotocol/"
	values := []string{`null`, `true`, `1`, `1e400`, `""`, `"x"`, `[]`, `[null]`, `["x",1]`, `{}`, `{"a":1e400}`, `[{"src":1,"sizes":"any"}]`}
	members := []string{
		"protocolVersion", "capabilities", "capabilities.experimental", "capabilities.extensions", "capabilities.roots", "capabilities.roots.listChanged",
		"capabilities.sampling", "capabilities.sampling.tools", "capabilities.elicitation", "capabilities.elicitation.form", "capabilities.elicitation.url",
		"clientInfo", "clientInfo.name", "clientInfo.title", "clientInfo.version", "clientInfo.icons", "clientInfo.websiteUrl", "clientInfo.description",
		"_meta", "_meta.progressToken", "_meta." + meta + "protocolVersion", "_meta.unknown", "unknown",
	}
	for _, member := range members {
		t.Run("initialize "+member, func(t *testing.T) {
			t.Parallel()
			for _, value := range values {
				if member == "_meta."+meta+"protocolVersion" && strings.HasPrefix(value, `"`) {
					continue // an unknown version
				}
				h := newWireHost(t)
				answer := h.ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":` + nestedValue(member, value) + `}`)
				require.Contains(t, answer, `{"jsonrpc":"2.0","id":1,"result":`, value)
				require.Equal(t, wireText("1", "{}"), h.ask(wireCall("1", "echo", "{}")))
				require.NoError(t, h.end())
			}
		})
	}
	for _, member := range []string{meta + "clientInfo", meta + "clientCapabilities", meta + "logLevel", "progressToken", "unknown", "traceparent"} {
		t.Run("_meta "+member, func(t *testing.T) {
			t.Parallel()
			h := newWireHost(t)
			for _, value := range values {
				params := `{"name":"echo","arguments":{},"_meta":{"` + meta + `protocolVersion":"2026-07-28","` + member + `":` + value
				if member != meta+"clientCapabilities" {
					params += `,"` + meta + `clientCapabilities":{}`
				}
				answer := h.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params + `}}}`)
				require.Equal(t, "{}", wireTextOf(t, answer), value)
			}
			require.NoError(t, h.end())
		})
	}
	t.Run("params and _meta", func(t *testing.T) {
		t.Parallel()
		for _, value := range []string{`null`, `[]`, `5`, `"secret"`} {
			h := newWireHost(t)
			require.Contains(t, h.ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":`+value+`}`), `"protocolVersion":"2025-11-25"`)
			h.send(`{"jsonrpc":"2.0","method":"notifications/initialized","params":` + value + `}`)
			require.Contains(t, h.ask(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":`+value+`}`), `"name":"echo"`)
			require.Contains(t, h.ask(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":`+value+`}}`), `"name":"echo"`)
			require.Contains(t, h.ask(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":`+strings.Replace(value, `"secret"`, "{}", 1)+`}}`), `"name":"echo"`)
			h.expect(`{"jsonrpc":"2.0","id":"ping","method":"ping","params":`+value+`}`, wirePong)
			h.expect(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":`+value+`,"name":"echo","arguments":{}}}`, wireText("1", "{}"))
			require.NoError(t, h.end())
			assert.NotContains(t, h.log.String(), "secret")
		}
	})
	t.Run("one line in the log", func(t *testing.T) {
		t.Parallel()
		h := newWireHost(t)
		require.Contains(t, h.ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{"experimental":[],"elicitation":{},"roots":true,"secret":1},`+
			`"clientInfo":{"name":"host","version":1,"icons":[{"src":"a","sizes":"any"},{"src":"b","sizes":"any"}]}}}`), `"result":`)
		require.Contains(t, h.ask(wireCall("2", "ask", "{}")), "elicitation/create", "what is usable counts")
		h.expect(`{"jsonrpc":"2.0","id":1,"result":{"action":"decline"}}`, wireText("2", "decline <nil> with {}"))
		require.NoError(t, h.end())
		assert.Equal(t, 1, strings.Count(h.log.String(), "ignored"))
		assert.Contains(t, h.log.String(), `members="capabilities.experimental, capabilities.roots, clientInfo.version, clientInfo.icons.sizes"`)
		assert.NotContains(t, h.log.String(), "secret")
	})
}

func nestedValue(path, value string) string {
	outer, inner, found := strings.Cut(path, ".")
	if !found || strings.HasPrefix(inner, "modelcontextprotocol") {
		return `{"` + path + `":` + value + `}`
	}
	return `{"` + outer + `":` + nestedValue(inner, value) + `}`
}

// What a request needs and does not have is named.
func TestMembersThatCannotBeAbsent(t *testing.T) {
	t.Parallel()
	for _, test := range []wireLine{
		{"the version of discover", `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":1}}}`, `"io.modelcontextprotocol/protocolVersion\" in _meta must be a string`},
		{"the version of a call", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":1}}}`, `"io.modelcontextprotocol/protocolVersion\" in _meta must be a string`},
		{"the capabilities", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, `io.modelcontextprotocol/clientCapabilities`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := newWireHost(t)
			answer := h.ask(test.line)
			require.Contains(t, answer, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,`)
			require.Contains(t, answer, strings.ReplaceAll(test.want, `"io`, `\"io`))
			require.NoError(t, h.end())
		})
	}
}

func TestUnknownVersionsAreRefusedForEveryMethod(t *testing.T) {
	t.Parallel()
	h := newInitializedWireHost(t)
	for _, version := range []string{"1900-01-01", "DRAFT-x", "2027-01-01", "", "2026-07-28 "} {
		for _, method := range []string{"initialize", "ping", "tools/list", "tools/call", "server/discover", "logging/setLevel", "resources/list", "nothing"} {
			answer := h.ask(strings.Replace(`{"jsonrpc":"2.0","id":5,"method":"`+method+`","params":{"name":"echo",`+wireModern+`}}`, "2026-07-28", version, 1))
			require.Equal(t, `{"jsonrpc":"2.0","id":5,"error":{"code":-32022,"message":"unsupported protocol version","data":{"supported":`+
				`["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"`+version+`"}}}`, answer, method)
		}
	}
	// A notification is never answered, and a cancel counts whatever its version.
	h.send(wireCall("1", "wait", "{}"), strings.Replace(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,`+wireModern+`}}`, "2026-07-28", "1900-01-01", 1))
	h.expect(wirePing, wirePong)
	require.NoError(t, h.end())
	assert.Empty(t, h.transport.calls.byKey)
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
