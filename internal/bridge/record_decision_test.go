package bridge_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const refund = `"decision_type":"customer_refund","proposed_action":{"tool":"stripe.refunds.create","amount":720.0,"currency":"USD"},"authority":{"limit_usd":1500}`

func TestRecordDecision(t *testing.T) {
	t.Parallel()
	x, s := open(t)
	r := x.ok("loopgrid.record_decision", `{`+refund+`,"agent_id":"a-1","agent_version":"2","service_name":"svc","model":{"name":"m"},"context":{"c":1},"input_data":{"i":2},`+
		`"metadata":{"source":"evil","k":1},"privacy_mode":"full","idempotency_key":"k-1","model_output":{"text":"é"},"policy_id":"refund-policy"}`)
	id := r.str(t, "decision_id")

	sent := s.sentSince(0)
	require.Len(t, sent, 4)
	assert.Equal(t, "POST /api/v1/decisions", sent[0].String())
	assert.Equal(t, `{"decision_type":"customer_refund","service_name":"svc","agent":{"id":"a-1","version":"2"},"authority":{"limit_usd":1500},`+
		`"model":{"name":"m"},"context":{"c":1},"input":{"i":2},"proposed_action":{"tool":"stripe.refunds.create","amount":720.0,"currency":"USD"},`+
		`"metadata":{"source":"loopgrid-mcp","k":1},"workspace_id":"default","privacy_mode":"full","idempotency_key":"k-1"}`, sent[0].body)
	assert.Equal(t, "POST /api/v1/decisions/"+id+"/events", sent[1].String())
	assert.Regexp(t, `^{"event_type":"model_completed","actor_type":"agent","actor_id":"a-1","payload":{"text":"é"},"idempotency_key":"lgm1-model-[0-9a-f]{40}"}$`, sent[1].body)
	assert.Equal(t, "POST /api/v1/workspaces/default/policies/evaluate", sent[2].String())
	assert.Equal(t, `{"policy_id":"refund-policy","proposed_action":{"tool":"stripe.refunds.create","amount":720.0,"currency":"USD"},"authority":{"limit_usd":1500},"context":{"c":1}}`, sent[2].body)
	evaluation := r.member(t, "policy_evaluation")
	assert.Regexp(t, `^{"event_type":"policy_evaluated","actor_type":"policy","actor_id":"refund-policy","payload":\Q`+evaluation+`\E,"idempotency_key":"lgm1-policy-[0-9a-f]{40}"}$`, sent[3].body)
	for _, request := range sent {
		assert.Equal(t, "application/json", request.header.Get("Content-Type"))
		assert.Equal(t, "application/json", request.header.Get("Accept"))
		assert.Equal(t, "loopgrid-mcp/test", request.header.Get("User-Agent"))
		assert.Equal(t, sent[0].header.Get("X-Request-Id"), request.header.Get("X-Request-Id"))
		assert.NotEmpty(t, request.header.Get("X-Request-Id"))
		assert.Empty(t, request.header.Get("Authorization"))
		assert.NotContains(t, request.header, "X-Loopgrid-Key")
	}
	assert.Contains(t, x.log.String(), "request_id="+sent[0].header.Get("X-Request-Id"))

	assert.Equal(t, "true", r.member(t, "captured"))
	assert.Equal(t, "false", r.member(t, "idempotent_replay"))
	assert.Equal(t, "false", r.member(t, "action_executed"))
	assert.Equal(t, "k-1", r.str(t, "idempotency_key"))
	assert.Equal(t, "true", r.member(t, "commitment_verified"))
	assert.Equal(t, "human_approval_required: No, do not act yet. A person must approve this decision first; loopgrid.get_evidence shows whether one has.", r.str(t, "next"))
	assert.Equal(t, "decision_created", r.str(t, "receipt", "event_type"))
	assert.NotContains(t, members(t, r.member(t, "receipt")), "payload")
	assert.Contains(t, r.member(t, "receipt", "proof"), "signature")
	assert.Equal(t, "model_completed", r.str(t, "model_event", "event_type"))
	assert.Equal(t, "policy_evaluated", r.str(t, "policy_event", "event_type"))
	assert.Contains(t, r.member(t, "warnings"), `"code":"sandbox"`)
	assert.Len(t, recorded(s, id), 3)
	assert.True(t, s.sandbox.Verify("default"))
}

func TestRecordDecisionWithLittle(t *testing.T) {
	t.Parallel()
	x, s := open(t, "LOOPGRID_SERVICE_KEY= ", "LOOPGRID_WORKSPACE=w 1/é")
	_ = s
	text := x.fails("loopgrid.record_decision", `{"decision_type":"t","proposed_action":{}}`)
	assert.Contains(t, text, "LOOPGRID_WORKSPACE", "a slash is no workspace")

	x, s = open(t, "LOOPGRID_WORKSPACE=w 1é")
	r := x.ok("loopgrid.record_decision", `{"decision_type":"t","proposed_action":{}}`)
	assert.Contains(t, s.sentSince(0)[0].body, `"workspace_id":"w 1é"`)
	key := r.str(t, "idempotency_key")
	assert.Contains(t, s.sentSince(0)[0].body, `"idempotency_key":"`+key+`"`, "a call without a key gets one")
	assert.Contains(t, r.str(t, "next"), "captured: Yes, you may act if your own authority covers it: no policy was evaluated")
	assert.NotContains(t, members(t, r.text()), "note")
	assert.NotContains(t, members(t, r.text()), "model_event")

	again := x.ok("loopgrid.record_decision", `{"decision_type":"t","proposed_action":{}}`)
	assert.NotEqual(t, key, again.str(t, "idempotency_key"), "two equal calls are two decisions")
	assert.NotEqual(t, r.str(t, "decision_id"), again.str(t, "decision_id"))
	x.fails("loopgrid.record_decision", `{"decision_type":"t","proposed_action":{},"policy_id":"none"}`)
	last := s.sentSince(2)
	assert.Equal(t, "POST /api/v1/workspaces/w%201%C3%A9/policies/evaluate", last[len(last)-1].String())
}

func TestNextByPolicyResult(t *testing.T) {
	t.Parallel()
	for action, want := range map[string]string{
		`{"amount":320}`:  "auto_allowed: Yes, you may act: the policy allows the action. After the action, call loopgrid.record_action.",
		`{"amount":720}`:  "human_approval_required: No, do not act yet. A person must approve this decision first; loopgrid.get_evidence shows whether one has.",
		`{"amount":1501}`: "blocked: No, do not act. The policy forbids the action.",
		`{}`:              "manual_review_required: No, do not act until a person tells you to: the policy could not judge the action. LoopGrid accepts no review of such a decision and does not block the action, so ask the person yourself.",
	} {
		x, _ := open(t)
		assert.Equal(t, want, x.ok("loopgrid.record_decision", `{"decision_type":"t","policy_id":"refund-policy","proposed_action":`+action+`}`).str(t, "next"))
	}
	x, s := open(t)
	s.answerWith("evaluate", http.StatusOK, "application/json", `{"policy_id":"refund-policy","decision":"perhaps\u202e"}`)
	assert.Contains(t, x.ok("loopgrid.record_decision", `{"decision_type":"t","policy_id":"refund-policy","proposed_action":{}}`).str(t, "next"), `unknown: No, do not act: this version does not know the policy result "perhaps\u202e". Ask a person`)
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	x, _ := open(t)
	codes := func(r result) string { return r.member(t, "warnings") }
	r := x.ok("loopgrid.record_decision", `{"decision_type":"t","privacy_mode":"proof_only","policy_id":"refund-policy","proposed_action":{"amount":1501}}`)
	assert.Contains(t, codes(r), "policy_not_enforced")
	id := r.str(t, "decision_id")
	r = x.ok("loopgrid.record_action", "{\"decision_id\":\""+id+"\",\"tool\":\"a\u2028b\",\"details\":{\"x\":\"\\u0085\"},\"external_reference\":\"r\"}")
	assert.Equal(t, 2, strings.Count(codes(r), "line_breakers"))
	assert.Contains(t, codes(r), "loopgrid-verify 0.1.0")
	assert.Contains(t, r.member(t, "event", "payload"), "proof_only")

	r = x.ok("loopgrid.record_decision", `{"decision_type":"t","proposed_action":{},"idempotency_key":"k"}`)
	assert.NotContains(t, codes(r), "privacy_mode_differs")
	r = x.ok("loopgrid.record_decision", `{"decision_type":"t","proposed_action":{},"idempotency_key":"k","privacy_mode":"redacted"}`)
	assert.Contains(t, codes(r), "privacy_mode_differs")
}

// TestLargeIntegers: hosts in JavaScript round them before the bridge sees them, and the commitment then proves the rounded number.
func TestLargeIntegers(t *testing.T) {
	t.Parallel()
	x, _ := open(t)
	r := x.ok("loopgrid.record_decision", `{"decision_type":"t","proposed_action":{"items":[{"id":9007199254740993}]},"context":"{\"id\":9.007199254740992e15}","authority":{"limit":9007199254740991,"id":"9007199254740993"}}`)
	var warnings []struct{ Code, Message string }
	require.NoError(t, json.Unmarshal([]byte(r.member(t, "warnings")), &warnings))
	var large []string
	for _, w := range warnings {
		if w.Code == "large_integer" {
			large = append(large, w.Message)
		}
	}
	require.Len(t, large, 2)
	assert.Equal(t, "proposed_action contains an integer of 2^53 or more. It is recorded exactly as received, but many hosts round such numbers before sending them. If it is an ID, send it as a string.", large[0])
	assert.True(t, strings.HasPrefix(large[1], "context contains"), large[1])
	about := `{"decision_id":"` + r.str(t, "decision_id") + `"`
	assert.Contains(t, x.ok("loopgrid.record_action", about+`,"tool":"t","details":{"n":-1e20}}`).member(t, "warnings"), "large_integer")
	assert.NotContains(t, x.ok("loopgrid.record_action", about+`,"tool":"t","details":{"n":-1e15}}`).member(t, "warnings"), "large_integer")
	assert.Contains(t, x.ok("loopgrid.record_outcome", about+`,"status":"s","verified_against":"v","details":{"n":1e20}}`).member(t, "warnings"), "large_integer")
}

// TestWhatComesFirst: a model that reads only the beginning of a result knows what to do.
func TestWhatComesFirst(t *testing.T) {
	t.Parallel()
	x, _ := open(t)
	r := x.ok("loopgrid.record_decision", `{"decision_type":"t","proposed_action":{"amount":720},"policy_id":"refund-policy","model_output":{"text":"long"}}`)
	assert.True(t, strings.HasPrefix(r.text(), `{"decision_id":"`+r.str(t, "decision_id")+`","next":"human_approval_required: No, do not act yet.`), r.text())
}

func TestReplayIsCompleteAlready(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"full", "redacted", "proof_only"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			x, s := open(t)
			arguments := `{` + refund + `,"idempotency_key":"k","privacy_mode":"` + mode + `","model_output":{"message":"m"},"policy_id":"refund-policy"}`
			first := x.ok("loopgrid.record_decision", arguments)
			n := s.count()
			again := x.ok("loopgrid.record_decision", arguments)
			id := first.str(t, "decision_id")
			assert.Equal(t, id, again.str(t, "decision_id"))
			assert.Equal(t, "true", again.member(t, "idempotent_replay"))
			assert.Equal(t, "Existing idempotent decision returned; no duplicate evidence was appended.", again.str(t, "note"))
			assert.Equal(t, "true", again.member(t, "commitment_verified"))
			assert.Len(t, recorded(s, id), 3)
			assert.Equal(t, first.str(t, "model_event", "event_id"), again.str(t, "model_event", "event_id"))
			assert.Equal(t, first.str(t, "policy_event", "event_id"), again.str(t, "policy_event", "event_id"))
			var routes []string
			for _, r := range s.sentSince(n) {
				routes = append(routes, r.String())
			}
			assert.Equal(t, []string{"POST /api/v1/decisions", "GET /api/v1/decisions/" + id}, routes, "today's policy is not asked")
			if mode == "proof_only" {
				assert.NotContains(t, members(t, again.text()), "policy_evaluation")
				assert.Contains(t, again.member(t, "warnings"), "policy_result_hidden")
				assert.Contains(t, again.str(t, "next"), "unknown: ")
			} else {
				assert.JSONEq(t, first.member(t, "policy_evaluation"), again.member(t, "policy_evaluation"))
				assert.Equal(t, first.str(t, "next"), again.str(t, "next"))
			}
		})
	}
}

func TestReplayWithoutStepsAsksNothing(t *testing.T) {
	t.Parallel()
	x, s := open(t)
	arguments := `{` + refund + `,"idempotency_key":"k"}`
	x.ok("loopgrid.record_decision", arguments)
	r := x.ok("loopgrid.record_decision", arguments)
	assert.Equal(t, "Existing idempotent decision returned; no duplicate evidence was appended.", r.str(t, "note"))
	assert.Len(t, s.sentSince(0), 2)
}

func TestResumeAppendsWhatIsMissing(t *testing.T) {
	t.Parallel()
	create := `{` + refund + `,"idempotency_key":"k"`
	x, s := open(t)
	id := x.ok("loopgrid.record_decision", create+`}`).str(t, "decision_id")

	// The policy fails once, the model's output is recorded.
	s.answerWith("evaluate", http.StatusNotFound, "application/json", `{"detail":"Active policy not found"}`)
	all := create + `,"model_output":{"text":"m"},"policy_id":"refund-policy"}`
	golden(t, "texts/unfinished-policy.txt", []byte(normal(x.fails("loopgrid.record_decision", all))))
	s.sandboxAnswers()
	assert.Len(t, recorded(s, id), 2)

	r := x.ok("loopgrid.record_decision", all)
	assert.Equal(t, "Existing decision; 1 missing step appended.", r.str(t, "note"))
	assert.Equal(t, "true", r.member(t, "commitment_verified"))
	events := recorded(s, id)
	require.Len(t, events, 3)
	assert.Equal(t, []string{"decision_created", "model_completed", "policy_evaluated"}, []string{events[0].EventType, events[1].EventType, events[2].EventType})
	assert.Equal(t, "Existing idempotent decision returned; no duplicate evidence was appended.", x.ok("loopgrid.record_decision", all).str(t, "note"))

	both := `{"decision_type":"t","proposed_action":{},"idempotency_key":"k2"`
	x.ok("loopgrid.record_decision", both+`}`)
	assert.Equal(t, "Existing decision; 2 missing steps appended.", x.ok("loopgrid.record_decision", both+`,"model_output":{},"policy_id":"refund-policy"}`).str(t, "note"))
}

// TestReplayFindsWhatOthersRecorded: events that another program appended without a key, as the Python bridge did, are not
// appended again.
func TestReplayFindsWhatOthersRecorded(t *testing.T) {
	t.Parallel()
	x, s := open(t)
	create := `{` + refund + `,"agent_id":"a","idempotency_key":"k"`
	id := x.ok("loopgrid.record_decision", create+`}`).str(t, "decision_id")
	append0 := func(body string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/api/v1/decisions/"+id+"/events", strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		res, err := s.sandbox.RoundTrip(req)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, res.StatusCode)
		require.NoError(t, res.Body.Close())
	}
	append0(`{"event_type":"model_completed","actor_type":"agent","actor_id":"a","payload":{"text":"other"}}`)
	append0(`{"event_type":"model_completed","actor_type":"agent","actor_id":"a","payload":{"n":1e2}}`)
	append0(`{"event_type":"policy_evaluated","actor_type":"policy","actor_id":"strict-policy","payload":{"decision":"blocked"}}`)

	r := x.ok("loopgrid.record_decision", create+`,"model_output":{"n":100.0}}`)
	assert.Equal(t, "{\"n\":100.0}", r.member(t, "model_event", "payload"), "an equal one is done, whatever its key")
	golden(t, "texts/different-there.txt", []byte(normal(x.fails("loopgrid.record_decision", create+`,"model_output":{"text":"mine"},"policy_id":"refund-policy"}`))))
	assert.Len(t, recorded(s, id), 4, "nothing is appended beside what stands")
}

func TestReplayWithoutReadScope(t *testing.T) {
	t.Parallel()
	x, s := open(t)
	all := `{` + refund + `,"idempotency_key":"k","model_output":{"text":"m"},"policy_id":"refund-policy"}`
	id := x.ok("loopgrid.record_decision", all).str(t, "decision_id")
	s.answerWith("GET ", http.StatusUnauthorized, "application/json", `{"detail":"Invalid, revoked, or insufficient LoopGrid API key (read scope required)"}`)
	r := x.ok("loopgrid.record_decision", all)
	assert.Contains(t, r.member(t, "warnings"), "steps_not_checked")
	assert.Equal(t, "Existing idempotent decision returned; no duplicate evidence was appended.", r.str(t, "note"))
	assert.Len(t, recorded(s, id), 3, "the keys of the steps keep them from being appended twice")
}

func TestKeyUsedForSomethingElse(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"full", "redacted", "proof_only"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			x, s := open(t)
			create := `"privacy_mode":"` + mode + `","idempotency_key":"k"`
			id := x.ok("loopgrid.record_decision", `{`+refund+`,`+create+`}`).str(t, "decision_id")
			before := len(s.sandbox.Events("default"))

			text := x.fails("loopgrid.record_decision", `{"decision_type":"customer_refund","proposed_action":{"tool":"stripe.refunds.create","amount":720},"model_output":{},`+create+`}`)
			assert.Equal(t, `Not recorded: the decision. The idempotency_key "k" was already used for something else: a decision_created event of decision `+id+" by agent mcp-agent.\n"+
				"Use another idempotency_key for this call, or repeat the first call with its own arguments.", text)
			text = x.fails("loopgrid.record_action", `{"decision_id":"`+id+`","tool":"t","idempotency_key":"k"}`)
			assert.Contains(t, text, `Not recorded: the action of decision `+id+`. The idempotency_key "k" was already used for something else: a decision_created event`)
			assert.Len(t, s.sandbox.Events("default"), before)

			action := `{"decision_id":"` + id + `","tool":"t","details":{"message":"x"},"idempotency_key":"k3"`
			r := x.ok("loopgrid.record_action", action+`}`)
			assert.Equal(t, "k3", r.str(t, "idempotency_key"))
			again := x.ok("loopgrid.record_action", action+`}`)
			assert.Equal(t, r.str(t, "event", "event_id"), again.str(t, "event", "event_id"))
			assert.Contains(t, x.fails("loopgrid.record_action", action+`,"actor_id":"somebody-else"}`), "already used for something else: a tool_executed event of decision "+id+" by tool external-system")
			assert.Contains(t, x.fails("loopgrid.record_outcome", `{"decision_id":"`+id+`","status":"s","verified_against":"v","idempotency_key":"k3"}`), "already used for something else: a tool_executed event")
			assert.Contains(t, x.fails("loopgrid.record_decision", `{`+refund+`,"idempotency_key":"k3"}`), "already used for something else: a tool_executed event")
			assert.Len(t, s.sandbox.Events("default"), before+1)
		})
	}
}

// TestMismatchUnderOurOwnKey: under a generated key, the service recorded something other than what was sent.
func TestMismatchUnderOurOwnKey(t *testing.T) {
	t.Parallel()
	x, s := open(t)
	id := x.ok("loopgrid.record_decision", `{"decision_type":"t","proposed_action":{}}`).str(t, "decision_id")
	event := `{"event_id":"evt_1","decision_id":"` + id + `","event_type":"tool_executed","actor":{"type":"tool","id":"external-system"},"payload_commitment":"` + strings.Repeat("0", 64) + `"}`
	s.answerWith("/events", http.StatusOK, "application/json", event)
	r := x.ok("loopgrid.record_action", `{"decision_id":"`+id+`","tool":"t"}`)
	assert.Equal(t, "false", r.member(t, "commitment_verified"))
	assert.Contains(t, r.member(t, "warnings"), "commitment_mismatch")
	assert.Equal(t, event, r.member(t, "event"))

	s.answerWith("/events", http.StatusOK, "application/json", `{"event_id":"evt_1"}`)
	r = x.ok("loopgrid.record_action", `{"decision_id":"`+id+`","tool":"t"}`)
	assert.Equal(t, "null", r.member(t, "commitment_verified"), "the service sent none")
	assert.NotContains(t, members(t, r.text()), "warnings")

	created := `{"decision_id":"dec_1","event":{"event_id":"e","decision_id":"dec_1","event_type":"decision_created","payload_commitment":"` + strings.Repeat("0", 64) + `"},"idempotent_replay":null}`
	s.answerWith("POST", http.StatusOK, "application/json", created)
	r = x.ok("loopgrid.record_decision", `{"decision_type":"t","proposed_action":{},"idempotency_key":"mine"}`)
	assert.Equal(t, "false", r.member(t, "commitment_verified"), "idempotent_replay null: it was recorded now, under whatever key")
	assert.Contains(t, r.member(t, "warnings"), "commitment_mismatch")
}

func TestSpecVersionOfAnotherService(t *testing.T) {
	t.Parallel()
	x, s := open(t)
	answer := func(commitment string) string { // the payload itself is hidden
		return `{"decision_id":"dec_1","event":{"event_id":"e","decision_id":"dec_1","event_type":"decision_created","payload":{"proof_only":true},"payload_commitment":"` + commitment + `"},"idempotent_replay":null}`
	}
	payload := `{"agent":{"id":"mcp-agent"},"authority":{},"context":{},"decision_type":"t","input":{},"metadata":{"source":"loopgrid-mcp"},"model":{},"proposed_action":{},"service_name":"mcp-agent","spec_version":"loopgrid/9.9"}`
	s.mu.Lock()
	s.before = func(r sent) (*http.Response, error) {
		switch r.String() {
		case "GET /health":
			return jsonAnswer(`{"ok":true,"evidence_profile":"9.9"}`), nil
		case "POST /api/v1/decisions":
			return jsonAnswer(answer(sha256Hex(payload))), nil
		}
		return nil, nil //nolint:nilnil // the sandbox answers
	}
	s.mu.Unlock()
	for range 2 {
		assert.Equal(t, "true", x.ok("loopgrid.record_decision", `{"decision_type":"t","proposed_action":{}}`).member(t, "commitment_verified"))
	}
	assert.Len(t, s.sentSince(0), 3, "the profile is asked for once")
}

// TestPhantomDecision: under load, the service returns a decision_id that does not exist, along with an event of the real decision.
func TestPhantomDecision(t *testing.T) {
	t.Parallel()
	x, s := open(t)
	id := x.ok("loopgrid.record_decision", `{`+refund+`,"idempotency_key":"k"}`).str(t, "decision_id")
	s.mu.Lock()
	s.before = func(r sent) (*http.Response, error) {
		if r.String() != "POST /api/v1/decisions" {
			return nil, nil //nolint:nilnil // the sandbox answers
		}
		e := recorded(s, id)[0]
		return jsonAnswer(`{"decision_id":"dec_phantom","event":{"event_id":"` + e.EventID + `","decision_id":"` + id + `","event_type":"decision_created","payload_commitment":"` + e.PayloadCommitment + `"},"idempotent_replay":null}`), nil
	}
	s.mu.Unlock()
	r := x.ok("loopgrid.record_decision", `{`+refund+`,"idempotency_key":"k","model_output":{"x":1}}`)
	assert.Equal(t, id, r.str(t, "decision_id"))
	assert.Len(t, recorded(s, id), 2, "the step went to the real decision")
}

func TestUnusableDecisionID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "../x", "a/b", strings.Repeat("a", 129), `a\nb`} {
		x, s := open(t) // of its own: the next write would have to wait until this one can no longer be running
		s.answerWith("POST", http.StatusOK, "application/json", `{"decision_id":"`+id+`","event":{"event_id":"e"},"idempotent_replay":null}`)
		text := x.fails("loopgrid.record_decision", `{"decision_type":"t","proposed_action":{},"model_output":{},"idempotency_key":"k"}`)
		assert.Contains(t, text, "Outcome unknown: the decision may or may not be recorded.")
		assert.Contains(t, text, `idempotency_key "k"`)
	}
}
