package bridge_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/bridge"
)

// openWithTools starts a bridge that also has tools that fail.
func openWithTools(t *testing.T) (*session, *service) {
	t.Helper()
	s := newService(t)
	x := serveWith(t, s, func(b *bridge.Bridge) {
		b.AddTool("panic", func() string { panic("secret argument") })
		b.AddTool("index", func() string { return strings.Fields("one")[len("x")] })
		b.AddTool("malformed", func() string { return `{"a":}` })
		b.AddTool("twice", func() string { return `{"a":720.0,"a":1}` })
	})
	x.initialize("test-client")
	return x, s
}

func TestAFaultInAToolIsAToolError(t *testing.T) {
	t.Parallel()
	x, _ := openWithTools(t)
	for tool, what := range map[string]string{
		"panic": "see its log on stderr", "index": "see its log on stderr",
		"malformed": "the result is not valid JSON", // go-sdk would never answer it
	} {
		text := x.fails("loopgrid."+tool, `{}`)
		assert.Equal(t, "Not recorded: loopgrid-mcp failed with an internal error; "+what+".\nNothing was recorded.", text)
		x.ok("loopgrid.record_decision", `{"decision_type":"t","proposed_action":{}}`) // the session continues, and no turn is held
	}
	assert.Equal(t, `{"a":720.0,"a":1}`, x.call("loopgrid.twice", `{}`).text(), "what a service sends is passed on as it is")
	log := x.log.String()
	assert.Contains(t, log, `level=ERROR msg=panic method=tools/call panic=string stack=`)
	assert.Contains(t, log, `panic="runtime error: index out of range [1] with length 1" stack=`)
	assert.Contains(t, log, "openWithTools")
	assert.NotContains(t, log, "secret")
}

func TestEveryCallIsLoggedWithoutItsArguments(t *testing.T) {
	t.Parallel()
	x, s := openWithTools(t)
	s.answerWith("verify", 500, "text/plain", "secret")
	long := strings.Repeat("x", 100)
	for _, call := range []string{
		`"loopgrid.record_decision","arguments":{"decision_type":"secret","proposed_action":{}}`,
		`"loopgrid_record_decision","arguments":{"decision_type":"t","secret":"secret"}`,
		`"loopgrid.verify_evidence","arguments":{"decision_id":"secret"}`,
		`"loopgrid.panic","arguments":{}`,
		`"` + long + `","arguments":{"a":"secret"}`,
	} {
		x.send(`{"jsonrpc":"2.0","id":"é","method":"tools/call","params":{"name":` + call + `}}`)
		x.receive()
	}
	var got []string
	for line := range strings.Lines(x.log.String()) {
		if _, call, found := strings.Cut(line, `msg="tool call" `); found {
			tool, rest, _ := strings.Cut(call, " took=")
			_, rest, _ = strings.Cut(rest, " ")
			before, after, hasID := strings.Cut(rest, "request_id=lgm_")
			require.True(t, hasID, line)
			_, after, _ = strings.Cut(after, " ")
			got = append(got, tool+" "+before+strings.TrimSpace(after))
		}
	}
	assert.Equal(t, []string{
		`tool=loopgrid.record_decision outcome=ok id="\"é\""`,
		`tool=loopgrid_record_decision outcome="bad arguments" id="\"é\""`,
		`tool=loopgrid.verify_evidence outcome=failed id="\"é\"" cause="status 500"`,
		`tool=loopgrid.panic outcome=error id="\"é\""`,
		`tool=` + long[:80] + `… outcome=refused id="\"é\""`,
	}, got)
	assert.NotContains(t, x.log.String(), "secret")
}

// TestTraceContext: a well-formed one is sent with every request of its call; nothing else in _meta is.
func TestTraceContext(t *testing.T) {
	t.Parallel()
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, tt := range []struct{ name, meta, parent, state string }{
		{"both", `"traceparent":"` + parent + `","tracestate":"rojo=00f067aa0ba902b7,congo=t61rcWkgMzE","baggage":"user=ann"`, parent, "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"},
		{"no state", `"traceparent":"` + parent + `"`, parent, ""},
		{"malformed state", `"traceparent":"` + parent + `","tracestate":"é"`, parent, ""},
		{"malformed parent", `"traceparent":"` + parent + `\r\nX-Loopgrid-Key: x","tracestate":"rojo=1"`, "", ""},
		{"no text", `"traceparent":7,"tracestate":{}`, "", ""},
		{"none", `"baggage":"user=ann"`, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			x, s := open(t)
			x.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"loopgrid.record_decision","arguments":{"decision_type":"t","proposed_action":{"amount":1},` +
				`"model_output":{},"policy_id":"refund-policy"},"_meta":{` + tt.meta + `}}}`)
			assert.Contains(t, x.receive(), `\"captured\":true`)
			requests := s.sentSince(0)
			require.Len(t, requests, 4)
			for _, r := range requests {
				assert.Equal(t, tt.parent, r.header.Get("Traceparent"))
				assert.Equal(t, tt.state, r.header.Get("Tracestate"))
				assert.NotContains(t, r.header, "Baggage")
			}
			if tt.parent != "" {
				assert.Contains(t, x.log.String(), " trace_id=4bf92f3577b34da6a3ce929d0e0e4736")
			} else {
				assert.NotContains(t, x.log.String(), "trace_id")
			}
			x.ok("loopgrid.verify_evidence", `{"decision_id":"`+recordedID(s)+`"}`)
			assert.Empty(t, s.sentSince(4)[0].header.Get("Traceparent"), "the next call has none")
		})
	}
}

// recordedID is the id of the first decision in the sandbox.
func recordedID(s *service) string { return s.sandbox.Events("default")[0].DecisionID }
