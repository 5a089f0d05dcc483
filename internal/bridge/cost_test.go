package bridge_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/faultproxy"
	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
)

// TestOneScan: checking the chain takes LoopGrid longer as the ledger grows. A call costs one check.
func TestOneScan(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"loopgrid.get_evidence", "loopgrid.verify_evidence"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &service{t: t, sandbox: sandbox.New(sandbox.Options{Faults: sandbox.Faults{ScanTime: time.Second}})}
				x := serve(t, s)
				x.initialize("test-client")
				id := decided(x)
				events, scans, began := len(s.sandbox.Events("default")), s.sandbox.Stats().Scans, time.Now()
				x.ok(tool, `{"decision_id":"`+id+`"}`)
				assert.Equal(t, 1, s.sandbox.Stats().Scans-scans)
				assert.Equal(t, time.Duration(events)*time.Second, time.Since(began))
			})
		})
	}
}

// goroutines counts those of this bubble. [runtime.NumGoroutine] also counts those of other tests and the runtime's cleanup goroutine.
func goroutines(t *testing.T) int {
	t.Helper()
	var all strings.Builder
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&all, 2))
	bubble := regexp.MustCompile(`, synctest bubble \d+\]:`).FindString(all.String()) // that of the first one, which is this one
	require.NotEmpty(t, bubble)
	return strings.Count(all.String(), bubble)
}

// TestGoroutinesEnd: after thousands of calls, including failed, cancelled and refused ones, as many goroutines run as before.
func TestGoroutinesEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		proxy := faultproxy.New(sandbox.New(sandbox.Options{}), nil)
		proxy.SetPlan(faultproxy.Script())
		x := serve(t, proxy, "LOOPGRID_MCP_ENABLE_REVIEW_TOOL=true", "LOOPGRID_MCP_REVIEWER_ID=alice", "LOOPGRID_MCP_REVIEW_CONFIRMATION=host")
		x.initialize("test-client")
		about := `{"decision_id":"` + decided(x) + `"`
		var answers sync.Map
		go func() {
			for {
				line, err := x.lines.ReadString('\n')
				if err != nil {
					return
				}
				if strings.HasPrefix(line, `{"jsonrpc":"2.0","id":`) { // progress notifications arrive too
					answers.Store(line, true)
				}
			}
		}()
		settled := func() int {
			time.Sleep(10 * time.Minute) // Longer than any call takes, even one at the end of the queue.
			synctest.Wait()
			return goroutines(t)
		}
		before := settled()
		proxy.SetPlan(faultproxy.Random(1, 0.02))
		random := rand.New(rand.NewPCG(1, 0)) //nolint:gosec // Repeatable on purpose.
		// Equal keys, so that the ledger stays small and its checks cheap.
		calls := [][2]string{
			{"record_decision", decideSlowly},
			{"record_decision", `{"decision_type":"t","proposed_action":{"amount":320},"policy_id":"refund-policy","idempotency_key":"d"}`},
			{"record_action", about + `,"tool":"t","idempotency_key":"a"}`},
			{"record_action", about + `,"tool":"u","idempotency_key":"a"}`}, // its key already belongs to something else
			{"record_outcome", about + `,"status":"s","verified_against":"v","idempotency_key":"o"}`},
			{"record_review", about + `,"action":"approve"}`},
			{"verify_evidence", about + `}`},
			{"get_evidence", about + `}`},
			{"verify_evidence", `{"decision_id":"dec_unknown"}`},
			{"record_action", `{"tool":7}`},
			{"no_such_tool", `{}`},
		}
		const rounds, inRound = 60, 50
		cancelled := 0
		for round := range rounds {
			for i := range inRound {
				id := itoa(1000 + round*inRound + i)
				c := calls[random.IntN(len(calls))]
				x.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"loopgrid.` + c[0] + `","arguments":` + c[1] + `,"_meta":{"progressToken":` + id + `}}}`)
				if random.IntN(20) == 0 {
					x.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
					cancelled++
				}
			}
			require.Equal(t, before, settled(), "after %d calls", (round+1)*inRound)
		}
		answered := 0
		answers.Range(func(_, _ any) bool { answered++; return true })
		assert.GreaterOrEqual(t, answered, rounds*inRound-cancelled, "each call was answered")
	})
}

// repeating answers like the sandbox, which it asks once for each path.
type repeating struct {
	sandbox *sandbox.Server
	answers map[string][]byte
}

func (s *repeating) RoundTrip(r *http.Request) (*http.Response, error) {
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	body, known := s.answers[r.URL.Path]
	if !known {
		res, err := s.sandbox.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		defer res.Body.Close()
		if body, err = io.ReadAll(res.Body); err != nil {
			return nil, err
		}
		s.answers[r.URL.Path] = body
	} else if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}

// BenchmarkTool measures a whole call without the network and the service: from a line to the request, and from its answer to a line.
func BenchmarkTool(b *testing.B) {
	for name, c := range map[string]struct{ tool, more string }{
		"record_action":       {"record_action", `,"tool":"payments.refund","details":{"amount":320.0,"currency":"USD","order":9007199254740993}`},
		"record_action 100kB": {"record_action", `,"tool":"payments.refund","details":{"text":"` + strings.Repeat("evidence ", 100_000/9) + `"}`},
		"verify_evidence":     {"verify_evidence", ""},
	} {
		b.Run(name, func(b *testing.B) {
			x := serve(b, &repeating{sandbox.New(sandbox.Options{}), map[string][]byte{}})
			x.initialize("test-client")
			arguments := `{"decision_id":"` + decided(x) + `"` + c.more + `}`
			x.ok("loopgrid."+c.tool, arguments)
			b.SetBytes(int64(len(arguments)))
			b.ReportAllocs()
			for b.Loop() {
				x.begin("7", "loopgrid."+c.tool, arguments)
				if line := x.receive(); strings.Contains(line, `"isError":true`) {
					b.Fatal(line)
				}
			}
		})
	}
}
