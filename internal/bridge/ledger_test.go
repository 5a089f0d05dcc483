package bridge_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// setUp sends a request directly to the sandbox, and returns the answer.
func (s *service) setUp(t *testing.T, path, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x"+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	res, err := s.sandbox.RoundTrip(req)
	require.NoError(t, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode, string(answer))
	return string(answer)
}

// alters changes the sandbox's answers to the requests of this line.
func (s *service) alters(request, from, to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = func(r sent) (*http.Response, error) {
		if r.method+" "+r.path != request {
			return nil, nil //nolint:nilnil // the sandbox answers
		}
		req, err := http.NewRequest(r.method, "http://x"+r.path, strings.NewReader(r.body)) //nolint:noctx // ends at once
		if err != nil {
			return nil, err
		}
		req.Header = r.header
		res, err := s.sandbox.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(res.Body)
		assert.Contains(s.t, string(body), from)
		res.Body, res.ContentLength = io.NopCloser(strings.NewReader(strings.Replace(string(body), from, to, 1))), -1
		return res, err
	}
}

const decideAll = `{"decision_type":"t","proposed_action":{"amount":100},"model_output":{"a":1},"policy_id":"refund-policy"}`

// TestCreateAnsweredWithSomethingElse: nothing is appended to a decision that is not the one that was sent.
func TestCreateAnsweredWithSomethingElse(t *testing.T) {
	t.Parallel()
	for from, to := range map[string]string{
		`"event_type":"decision_created"`: `"event_type":"tool_executed"`,
		`"idempotent_replay":null`:        `"idempotent_replay":true`,
		`"amount":100`:                    `"amount":9000`,
		`"decision_type":"t"`:             `"decision_type":"u"`,
	} {
		t.Run(to, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				x, s := open(t)
				s.alters("POST /api/v1/decisions", from, to)
				text := x.fails("loopgrid.record_decision", decideAll)
				assert.Contains(t, text, "Outcome unknown: the decision may or may not be recorded. The answer to POST /api/v1/decisions cannot be used: it")
				assert.Contains(t, text, "call loopgrid.record_decision again with idempotency_key ")
				posts := 0
				for _, r := range s.sentSince(0) {
					if r.method == http.MethodPost {
						posts++
					}
				}
				assert.Equal(t, 1, posts, "nothing more is sent")
			})
		})
	}
}

// A member added by a newer LoopGrid changes the hash, but nothing that was sent: that remains a warning.
func TestCreateWithANewMember(t *testing.T) {
	t.Parallel()
	x, s := open(t)
	s.alters("POST /api/v1/decisions", `"payload":{`, `"payload":{"tier":"gold",`)
	x.ok("loopgrid.record_decision", `{"decision_type":"t","proposed_action":{}}`)
}

func TestPolicyResultAboutAnotherAction(t *testing.T) {
	t.Parallel()
	x, s := open(t)
	s.alters("POST /api/v1/workspaces/default/policies/evaluate", `"input_commitment":"`, `"input_commitment":"0`)
	text := x.fails("loopgrid.record_decision", decideAll)
	assert.Contains(t, text, "- policy_event: not recorded. The answer to POST /api/v1/workspaces/{w}/policies/evaluate cannot be used: it is about another action")
	assert.Contains(t, text, "Do not act on this decision yet.")
	assert.NotContains(t, text, "auto_allowed")
}

// TestReplayDoesNotKeepOthersWaiting: LoopGrid checks its whole chain for a read, and others can write meanwhile.
func TestReplayDoesNotKeepOthersWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x, s := open(t)
		x.ok("loopgrid.record_decision", `{"decision_type":"t","proposed_action":{},"idempotency_key":"k"}`)
		s.mu.Lock()
		s.before = func(r sent) (*http.Response, error) {
			if r.method == http.MethodGet {
				time.Sleep(11 * time.Second)
			}
			return nil, nil //nolint:nilnil // the sandbox answers
		}
		s.mu.Unlock()
		began := time.Now()
		x.begin("50", "loopgrid.record_decision", `{"decision_type":"t","proposed_action":{},"model_output":{"a":1},"idempotency_key":"k"}`)
		synctest.Wait()
		x.begin("51", "loopgrid.record_decision", `{"decision_type":"other","proposed_action":{}}`)
		assert.Contains(t, x.receive(), `"id":51,`)
		assert.Zero(t, time.Since(began))
		line := x.receive()
		assert.Contains(t, line, "Existing decision; 1 missing step appended.")
		assert.Equal(t, 11*time.Second, time.Since(began))
	})
}

// TestRateLimitDoesNotKeepOthersWaiting: a rate-limited call lets others go ahead, except those about the same decision.
func TestRateLimitDoesNotKeepOthersWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x, s := open(t)
		first := x.ok("loopgrid.record_decision", `{"decision_type":"t","proposed_action":{}}`).str(t, "decision_id")
		other := x.ok("loopgrid.record_decision", `{"decision_type":"t","proposed_action":{}}`).str(t, "decision_id")
		limited := true
		s.mu.Lock()
		s.before = func(r sent) (*http.Response, error) {
			if !limited || !strings.Contains(r.path, first) {
				return nil, nil //nolint:nilnil // the sandbox answers
			}
			limited = false
			return &http.Response{
				StatusCode: http.StatusTooManyRequests, Header: http.Header{"Content-Type": {"application/json"}, "Retry-After": {"9"}},
				Body: io.NopCloser(strings.NewReader(`{"detail":"Rate limit exceeded"}`)),
			}, nil
		}
		s.mu.Unlock()
		began := time.Now()
		x.begin("50", "loopgrid.record_action", `{"decision_id":"`+first+`","tool":"a"}`)
		x.begin("51", "loopgrid.record_action", `{"decision_id":"`+first+`","tool":"b"}`)
		x.begin("52", "loopgrid.record_action", `{"decision_id":"`+other+`","tool":"c"}`)
		assert.Contains(t, x.receive(), `"id":52,`)
		assert.Zero(t, time.Since(began))
		assert.Contains(t, x.receive(), `"id":50,`)
		assert.Equal(t, 10*time.Second, time.Since(began))
		assert.Contains(t, x.receive(), `"id":51,`)
	})
}

func TestPolicyResultThatIsRedacted(t *testing.T) {
	t.Parallel()
	s := newService(t)
	workspace := evidence.GetText([]byte(s.setUp(t, "/api/v1/workspaces", `{"name":"w","privacy_mode":"redacted","redaction_fields":["decision"]}`)), "workspace_id")
	x := serve(t, s, "LOOPGRID_WORKSPACE="+workspace)
	x.initialize("test")
	s.setUp(t, "/api/v1/workspaces/"+workspace+"/policies", `{"policy_id":"refund-policy","name":"p","version":"1","rule":{"type":"amount_threshold","field":"amount","auto_approve_max":500,"hard_limit":1500},"active":true}`)
	assert.Contains(t, x.ok("loopgrid.record_decision", decideAll).text(), `"code":"policy_result_redacted"`)
}

// TestEvidenceOfAnotherWorkspace: a LoopGrid without keys accepts it, and every tool says so.
func TestEvidenceOfAnotherWorkspace(t *testing.T) {
	t.Parallel()
	s := newService(t)
	theirs := serve(t, s, "LOOPGRID_WORKSPACE=theirs")
	theirs.initialize("test")
	id := theirs.ok("loopgrid.record_decision", `{"decision_type":"t","proposed_action":{}}`).str(t, "decision_id")
	ours := serve(t, s, "LOOPGRID_WORKSPACE=ours")
	ours.initialize("test")
	for tool, arguments := range map[string]string{
		"record_action": `,"tool":"t"`, "record_outcome": `,"status":"s","verified_against":"v"`, "verify_evidence": "", "get_evidence": "",
	} {
		text := ours.ok("loopgrid."+tool, `{"decision_id":"`+id+`"`+arguments+`}`).text()
		assert.Contains(t, text, `"code":"other_workspace","message":"This belongs to the workspace theirs, not to ours (LOOPGRID_WORKSPACE).`, tool)
	}
	assert.NotContains(t, theirs.ok("loopgrid.record_action", `{"decision_id":"`+id+`","tool":"t"}`).text(), "other_workspace")
}

func TestWriteLockOffWhereItIsNeeded(t *testing.T) {
	t.Parallel()
	x, _ := open(t, "LOOPGRID_MCP_WRITE_LOCK=off")
	assert.Contains(t, x.ok("loopgrid.record_decision", `{"decision_type":"t","proposed_action":{}}`).text(), `"code":"write_lock_off"`)
}
