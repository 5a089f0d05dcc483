package loopgrid_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

// exchange is what a running LoopGrid 0.8.1 answered to a request.
type exchange struct {
	Name    string            `json:"name"`
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Body    string            `json:"body"` // of the request; only where the answer is compared with it
	Status  int               `json:"status"`
	Headers map[string]string `json:"answer_headers"`
	Answer  string            `json:"answer"`
}

func exchanges(t *testing.T) map[string]exchange {
	t.Helper()
	file, err := os.Open("testdata/exchanges.jsonl")
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	all := map[string]exchange{}
	for decoder := json.NewDecoder(file); ; {
		var e exchange
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			return all
		} else {
			require.NoError(t, err)
		}
		require.NotContains(t, all, e.Name)
		all[e.Name] = e
	}
}

// id is the decision that the exchange is about.
func (e exchange) id() string {
	id, _, _ := strings.Cut(strings.TrimPrefix(e.Path, "/api/v1/decisions/"), "/")
	return id
}

// replayed is a client of a service that answers the exchange's request as it was answered, and nothing else.
func replayed(t *testing.T, e exchange) *loopgrid.Client {
	t.Helper()
	return mount(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, e.Method+" /base"+e.Path, r.Method+" "+r.RequestURI)
		for name, value := range e.Headers {
			w.Header().Set(name, value)
		}
		w.WriteHeader(e.Status)
		_, _ = io.WriteString(w, e.Answer)
	}, func(o *loopgrid.Options) { o.Workspace = "default" }).Client
}

// ask calls the method of the client that sends the exchange's request.
func ask(t *testing.T, c *loopgrid.Client, e exchange) (got any, err error) {
	t.Helper()
	path, _, _ := strings.Cut(e.Path, "?")
	switch {
	case path == "/health":
		return c.Health(t.Context())
	case path == "/ready":
		return c.Ready(t.Context())
	case strings.HasSuffix(path, "/verify"):
		return c.Verify(t.Context(), e.id())
	case strings.HasSuffix(path, "/evidence"):
		return c.Evidence(t.Context(), e.id(), false)
	case e.Method == http.MethodGet:
		return c.GetDecision(t.Context(), e.id())
	}
	sent := func(name string) jsontext.Value { return evidence.Get(jsontext.Value(e.Body), name) }
	sentText := func(name string) string { return evidence.GetText(jsontext.Value(e.Body), name) }
	err = writing(t.Context(), c, func(w *loopgrid.Turn) error {
		switch {
		case strings.HasSuffix(path, "/evaluate"):
			got, err = w.EvaluatePolicy(t.Context(), "refund-policy", sent("proposed_action"), sent("authority"), sent("context"))
		case strings.HasSuffix(path, "/events"):
			got, _, err = w.AppendEvent(t.Context(), e.id(), &loopgrid.NewEvent{
				EventType: cmp.Or(sentText("event_type"), "tool_executed"), ActorType: sentText("actor_type"), ActorID: sentText("actor_id"),
				Payload: sent("payload"), FreshKey: true,
			})
		case strings.HasSuffix(path, "/review"):
			got, err = w.Review(t.Context(), e.id(), &loopgrid.Review{
				Action: cmp.Or(sentText("action"), "approve"), Reviewer: sentText("reviewer"), Reason: sentText("reason"),
			})
		default:
			got, err = w.CreateDecision(t.Context(), &loopgrid.Decision{
				DecisionType: cmp.Or(sentText("decision_type"), "t"), ServiceName: cmp.Or(sentText("service_name"), "ai-agent"),
				Agent: sent("agent"), Authority: sent("authority"), Model: sent("model"), Context: sent("context"), Input: sent("input"),
				ProposedAction: sent("proposed_action"), Metadata: sent("metadata"),
			})
		}
		return err
	})
	return got, err
}

// What LoopGrid refuses, with what a caller is told of it.
func TestRecordedErrors(t *testing.T) {
	t.Parallel()
	const input = "Input should be a valid dictionary or object to extract fields from"
	all := exchanges(t)
	for name, want := range map[string]struct {
		text string
		code string
		wait time.Duration
	}{
		"auth_create_missing":           {text: "401 to POST /api/v1/decisions: Missing or insufficient LoopGrid credential (ingest scope required)"},
		"auth_create_bad":               {text: "401 to POST /api/v1/decisions: Invalid, revoked, or insufficient LoopGrid API key (ingest scope required)"},
		"auth_create_other_ws_named":    {text: "403 to POST /api/v1/decisions: API key does not belong to this workspace"},
		"auth_evidence_other_workspace": {text: "403 to GET /api/v1/decisions/{id}/evidence: API key does not belong to this workspace"},
		"e404_get":                      {text: "404 to GET /api/v1/decisions/{id}: Decision not found"},
		"policy_404":                    {text: "404 to POST /api/v1/workspaces/{w}/policies/evaluate: Active policy not found"},
		"e409_action_blocked": {
			code: "action_blocked",
			text: "409 to POST /api/v1/decisions/{id}/events: action_blocked: Policy blocked the action; execution evidence cannot be appended",
		},
		"e409_approval_required_tool": {
			code: "approval_required",
			text: "409 to POST /api/v1/decisions/{id}/events: approval_required: The action requires a signed human approval before execution",
		},
		"e409_execution_missing": {
			code: "execution_missing",
			text: "409 to POST /api/v1/decisions/{id}/events: execution_missing: Observed outcome requires prior execution/tool-result evidence",
		},
		"e409_idempotency_conflict": {
			code: "idempotency_conflict",
			text: "409 to POST /api/v1/decisions/{id}/events: idempotency_conflict: Idempotency key is already bound to another decision in this workspace",
		},
		"e409_policy_already_evaluated": {
			code: "policy_already_evaluated",
			text: "409 to POST /api/v1/decisions/{id}/events: policy_already_evaluated: Production policy evidence is already recorded; " +
				"use replay for counterfactual evaluation",
		},
		"e409_review_already_recorded": {
			code: "review_already_recorded",
			text: "409 to POST /api/v1/decisions/{id}/events: review_already_recorded: A human review decision is already recorded; " +
				"use human_adjudicated for later adjudication",
		},
		"review_409_already_reviewed":  {text: "409 to POST /api/v1/decisions/{id}/review: Decision already reviewed"},
		"review_409_not_awaiting_auto": {text: "409 to POST /api/v1/decisions/{id}/review: Decision is not awaiting human approval"},
		"e413_2000001":                 {text: "413 to POST /api/v1/decisions: Request body too large"},
		"e422_missing_decision_type":   {text: "422 to POST /api/v1/decisions: decision_type: Field required"},
		"e422_too_long": {
			text: "422 to POST /api/v1/decisions: decision_type: String should have at most 120 characters; service_name: String should have at most " +
				"120 characters; workspace_id: String should have at most 64 characters; idempotency_key: String should have at most 160 characters",
		},
		"e422_wrong_type": {
			text: "422 to POST /api/v1/decisions: decision_type: Input should be a valid string; privacy_mode: Input should be 'full', 'redacted' or " +
				"'proof_only'; agent: Input should be a valid dictionary; input: Input should be a valid dictionary; metadata: Input should be a valid dictionary",
		},
		"e422_body_array":      {text: "422 to POST /api/v1/decisions: body: " + input},
		"e422_no_content_type": {text: "422 to POST /api/v1/decisions: body: " + input},
		"int_4301_digits":      {text: "400 to POST /api/v1/decisions: There was an error parsing the body"},
		"limit_429_event":      {text: "429 to POST /api/v1/decisions/{id}/events: Rate limit exceeded", wait: 59 * time.Second},
		"create_db_locked":     {text: "500 to POST /api/v1/decisions"},
		"ready_503_db_broken":  {text: "503 to GET /ready: Not ready: DatabaseError"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, recorded := all[name]
			require.True(t, recorded)
			_, err := ask(t, replayed(t, e), e)
			var api *loopgrid.APIError
			require.ErrorAs(t, err, &api)
			assert.Equal(t, "LoopGrid answered "+want.text, api.Error())
			assert.Equal(t, e.Status, api.Status)
			assert.Equal(t, want.code, api.Code)
			assert.Equal(t, want.wait, api.RetryAfter)
			for _, private := range []string{"Jane Roe", "xxx"} { // It stands in the input that a 422 repeats.
				assert.NotContains(t, err.Error(), private)
			}
		})
	}
}

func TestRecordedAnswers(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	all := exchanges(t)
	for name, e := range all {
		if e.Status != http.StatusOK {
			continue
		}
		used[name] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ask(t, replayed(t, e), e)
			require.NoError(t, err)
			check, known := recordedAnswers()[name]
			require.True(t, known, "nothing is known of this answer")
			check(t, got, e)
		})
	}
	for name := range recordedAnswers() {
		assert.True(t, used[name], name)
	}
}

func recordedAnswers() map[string]func(*testing.T, any, exchange) {
	type checks = map[string]func(*testing.T, any, exchange)
	created := func(mode, eventType string, replayed bool) func(*testing.T, any, exchange) {
		return func(t *testing.T, got any, _ exchange) {
			t.Helper()
			c := got.(loopgrid.Created)
			assert.Regexp(t, "^dec_[0-9a-f]{24}$", c.DecisionID)
			assert.Equal(t, replayed, c.Replayed)
			assert.False(t, c.Sandbox)
			requireRecordedEvent(t, c.Event, c.DecisionID, mode, eventType)
		}
	}
	event := func(eventType string) func(*testing.T, any, exchange) {
		return func(t *testing.T, got any, e exchange) {
			t.Helper()
			assert.JSONEq(t, e.Answer, string(got.(loopgrid.Event).Raw))
			assert.Equal(t, e.Answer, string(got.(loopgrid.Event).Raw), "byte for byte")
			requireRecordedEvent(t, got.(loopgrid.Event), e.id(), "full", eventType)
		}
	}
	review := func(eventType string) func(*testing.T, any, exchange) {
		return func(t *testing.T, got any, e exchange) {
			t.Helper()
			assert.Equal(t, e.Answer, string(got.(loopgrid.Reviewed).Raw), "byte for byte")
			requireRecordedEvent(t, got.(loopgrid.Reviewed).Event, e.id(), "full", eventType)
		}
	}
	evaluation := func(decision string) func(*testing.T, any, exchange) {
		return func(t *testing.T, got any, e exchange) {
			t.Helper()
			assert.Equal(t, loopgrid.Evaluation{Raw: []byte(e.Answer), Decision: decision}, got, "byte for byte")
		}
	}
	record := func(state, mode string, types ...string) func(*testing.T, any, exchange) {
		return func(t *testing.T, got any, e exchange) {
			t.Helper()
			r := got.(*loopgrid.DecisionRecord)
			assert.Equal(t, state, r.State)
			require.Len(t, r.Events, len(types))
			for i, eventType := range types {
				requireRecordedEvent(t, r.Events[i], e.id(), mode, eventType)
			}
		}
	}
	verify := func(valid bool) func(*testing.T, any, exchange) {
		return func(t *testing.T, got any, e exchange) {
			t.Helper()
			assert.Equal(t, loopgrid.Verification{Raw: []byte(e.Answer), Valid: valid}, got, "byte for byte")
		}
	}
	ready := func(t *testing.T, got any, _ exchange) {
		t.Helper()
		assert.Equal(t, loopgrid.Ready{Database: "ok", Signer: "local_ed25519"}, got)
	}
	return checks{
		"create_full_numbers_unicode":     created("full", "decision_created", false),
		"create_replay_same_body":         created("full", "decision_created", true),
		"create_key_bound_to_other_event": created("full", "policy_evaluated", true),
		"privacy_redacted_create":         created("redacted", "decision_created", false),
		"privacy_proof_only_create":       created("proof_only", "decision_created", false),
		"event_idempotent_replay":         event("policy_evaluated"),
		"flow_tool_executed":              event("tool_executed"),
		"review_approve":                  review("human_approved"),
		"review_reject":                   review("human_rejected"),
		"policy_auto_allowed":             evaluation("auto_allowed"),
		"policy_human_approval_required":  evaluation("human_approval_required"),
		"policy_blocked_hard_limit":       evaluation("blocked"),
		"policy_amount_missing":           evaluation("manual_review_required"),
		"get_full_numbers_unicode":        record("captured", "full", "decision_created"),
		"flow_get_decision": record("evidence_complete", "full",
			"decision_created", "model_completed", "policy_evaluated", "human_approved", "tool_executed", "outcome_observed", "outcome_observed"),
		"privacy_redacted_get_after_policy": record("awaiting_human_review", "redacted",
			"decision_created", "model_completed", "policy_evaluated"),
		"privacy_proof_only_get_after_policy": record("policy_evaluated", "proof_only",
			"decision_created", "model_completed", "policy_evaluated"),
		"erase_get": func(t *testing.T, got any, e exchange) {
			t.Helper()
			record("rejected", "", "decision_created", "policy_evaluated", "human_rejected", "payload_erased")(t, got, e)
			for _, event := range got.(*loopgrid.DecisionRecord).Events {
				assert.Equal(t, event.EventType == "payload_erased", event.PayloadAvailable)
			}
		},
		"flow_verify":        verify(true),
		"tamper_payload_own": verify(false),
		"health": func(t *testing.T, got any, _ exchange) {
			t.Helper()
			assert.Equal(t, loopgrid.Health{Service: "loopgrid", Version: "0.8.1-design-partner", EvidenceProfile: "3.0-draft"}, got)
		},
		"ready": ready, "pg_ready": ready,
	}
}

// requireRecordedEvent checks a signed event of LoopGrid, down to the commitment of what it shows in clear.
func requireRecordedEvent(t *testing.T, e loopgrid.Event, id, mode, eventType string) {
	t.Helper()
	assert.Regexp(t, "^evt_[0-9a-f]{24}$", e.EventID)
	assert.Equal(t, id, e.DecisionID)
	assert.Equal(t, eventType, e.EventType)
	if mode != "" { // The event that tells of an erasure has a mode of its own.
		assert.Equal(t, mode, e.PrivacyMode)
	}
	assert.NotEmpty(t, e.ActorType)
	assert.NotEmpty(t, e.ActorID)
	assert.Len(t, e.PayloadCommitment, 64)
	assert.Equal(t, e.EventID, evidence.GetText(e.Raw, "event_id"))
	if e.PrivacyMode != "full" || !e.PayloadAvailable {
		return
	}
	commitment, err := evidence.Commitment(e.Payload)
	require.NoError(t, err)
	assert.Equal(t, e.PayloadCommitment, commitment, "the numbers of an answer are spelled otherwise than they are hashed")
}
