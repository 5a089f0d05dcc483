package sandbox_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
)

// TestLifecycleStates takes decisions through every state.
func TestLifecycleStates(t *testing.T) {
	t.Parallel()
	policy := func(result string) string {
		return `{"event_type":"policy_evaluated","payload":{"decision":` + result + `}}`
	}
	event := func(kind string) string { return `{"event_type":"` + kind + `"}` }
	const required, allowed = `"human_approval_required"`, `"auto_allowed"`
	for state, stories := range map[string][][]string{
		"captured":       {{}, {event("tool_requested")}, {event("incident_flagged")}},
		"model_captured": {{event("model_completed")}},
		"policy_evaluated": {
			{policy(`"manual_review_required"`)},
			{policy(`null`)},
			{policy(`7`)},
			{`{"event_type":"policy_evaluated"}`},
			{`{"event_type":"policy_evaluated","privacy_mode":"proof_only","payload":{"decision":"blocked"}}`},
		},
		"authorized_awaiting_execution": {{policy(allowed)}, {event("model_completed"), policy(allowed), event("tool_requested")}},
		"awaiting_human_review":         {{policy(required)}},
		"approved_awaiting_execution":   {{policy(required), event("human_approved")}, {policy(required), event("human_adjudicated")}},
		"rejected":                      {{policy(required), event("human_rejected")}, {event("tool_executed"), policy(required), event("human_rejected")}},
		"blocked":                       {{policy(`"blocked"`)}, {policy(`"block"`)}},
		"awaiting_outcome": {
			{event("tool_executed")},
			{event("tool_result")},
			{event("mcp_tool_result")},
			{policy(allowed), event("tool_executed")},
			{policy(required), event("human_approved"), event("tool_executed")},
		},
		"evidence_complete": {{event("outcome_observed")}, {policy(`"blocked"`), event("outcome_observed")}},
	} {
		for _, story := range stories {
			c := newClient(t, sandbox.Options{})
			id := c.create(`{"decision_type":"t"}`)
			for _, body := range story {
				status, answer := c.post("/api/v1/decisions/"+id+"/events", body)
				require.Equal(t, http.StatusOK, status, answer)
			}
			_, body := c.get("/api/v1/decisions/" + id)
			var answer struct {
				Summary struct {
					Lifecycle struct {
						State string `json:"state"`
					} `json:"lifecycle"`
				} `json:"summary"`
			}
			require.NoError(t, json.Unmarshal([]byte(body), &answer))
			assert.Equal(t, state, answer.Summary.Lifecycle.State, story)
		}
	}
}

// TestRedaction looks at what is left of a payload, by LoopGrid's own list of names and by a workspace's.
func TestRedaction(t *testing.T) {
	t.Parallel()
	c := newClient(t, sandbox.Options{})
	_, body := c.post("/api/v1/workspaces",
		`{"name":"n","privacy_mode":"redacted","redaction_fields":["input.case","plain","list[].id","upper","Capital","with-hyphen","with_line"]}`)
	var ws struct {
		ID string `json:"workspace_id"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &ws))
	const seen, hidden = "seen", "hidden"
	for input, want := range map[string]string{
		`{"case":1}`:                              hidden, // by its path
		`{"deeper":{"case":1}}`:                   seen,
		`{"deeper":{"plain":1}}`:                  hidden, // by its name, anywhere
		`{"UPPER":1}`:                             hidden,
		`{"capital":1}`:                           seen, // an entry with capitals matches nothing
		`{"Capital":1}`:                           seen,
		`{"with-hyphen":1}`:                       seen, // and so does one with a hyphen
		`{"with-line":1}`:                         hidden,
		`{"list":[{"id":1}]}`:                     seen, // its path begins with input.
		`{"Customer-E-Mail":1}`:                   hidden,
		`{"E-Mail":1}`:                            seen,
		`{"deep":[[{"user_NAME":1}]]}`:            hidden,
		`{"harmless":{"a":[1,2.50,"x",null]}}`:    seen,
		`{"nobody":1}`:                            hidden,
		`{"x":{"y":{"z":{"password_hint":"a"}}}}`: hidden,
	} {
		status, _ := c.post("/api/v1/decisions", `{"decision_type":"t","workspace_id":"`+ws.ID+`","service_name":"s","input":`+input+`}`)
		require.Equal(t, http.StatusOK, status)
		events := c.server.Events(ws.ID)
		_, after, _ := strings.Cut(string(events[len(events)-1].Payload), `"input":`)
		if want == hidden {
			assert.Contains(t, after, `{"redacted":true,"sha256":"`, input)
		} else {
			assert.NotContains(t, after, `redacted`, input)
		}
	}

	// The path of a list's element names the list.
	_, body = c.post("/api/v1/workspaces", `{"name":"n","privacy_mode":"redacted","redaction_fields":["input.list[].id"]}`)
	require.NoError(t, json.Unmarshal([]byte(body), &ws))
	_, body = c.post("/api/v1/decisions", `{"decision_type":"t","workspace_id":"`+ws.ID+`","input":{"list":[{"id":1},{"no":2}],"id":3}}`)
	assert.Contains(t, body, `"input":{"list":[{"id":{"redacted":true,"sha256":`)
	assert.Contains(t, body, `"type":"int"}},{"no":2}],"id":3}`)
}

func TestRedactionNamesTheType(t *testing.T) {
	t.Parallel()
	c := newClient(t, sandbox.Options{})
	for value, want := range map[string]string{
		`"a"`: `"type":"str"`, `1`: `"type":"int"`, `1.0`: `"type":"float"`, `true`: `"type":"bool"`, `null`: `"type":"NoneType"`, `[1]`: `"type":"list"`, `{}`: `"type":"dict"`,
	} {
		_, body := c.post("/api/v1/decisions", `{"decision_type":"t","privacy_mode":"redacted","input":{"token":`+value+`}}`)
		assert.Contains(t, body, want, value)
	}
	// Recorded on the real service: the hash of the customer "c1".
	_, body := c.post("/api/v1/decisions", `{"decision_type":"t","privacy_mode":"redacted","input":{"customer":"c1"}}`)
	assert.Contains(t, body, `{"redacted":true,"sha256":"b32a2bd4df0aed7e435a79c9ebbaa1a15f4d63c50208cd5b7b5ad8dbddd667ad","type":"str"}`)
}

// TestPathsAreText asks with bytes that are no text.
func TestPathsAreText(t *testing.T) {
	t.Parallel()
	c := newClient(t, sandbox.Options{})
	status, body := c.post("/api/v1/workspaces/%FF%C3/checkpoint", "")
	assert.Equal(t, http.StatusOK, status)
	assert.True(t, json.Valid([]byte(body)))
	assert.Contains(t, body, "\"workspace_id\":\"\ufffd\"")
}

// TestUnreadBodyOverTCP sends a body that is refused by its length: the client has to see the answer, not a broken connection.
func TestUnreadBodyOverTCP(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(sandbox.New(sandbox.Options{}))
	defer server.Close()
	body := strings.Repeat(" ", 4_000_000)
	for range 10 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/api/v1/decisions", strings.NewReader(body))
		require.NoError(t, err)
		response, err := server.Client().Do(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, http.StatusRequestEntityTooLarge, response.StatusCode)
		assert.False(t, response.Close, "the connection lives on")
	}
}

func TestAllow(t *testing.T) {
	t.Parallel()
	c := newClient(t, sandbox.Options{})
	for path, want := range map[string]string{
		"/api/v1/decisions":                   http.MethodPost,
		"/api/v1/decisions/x/events":          http.MethodPost,
		"/api/v1/workspaces/default/policies": http.MethodGet,
		"/api/v1/workspaces/default/audit":    http.MethodGet,
	} {
		status, body, header, err := c.send(http.MethodPut, path, "")
		require.NoError(t, err)
		assert.Equal(t, http.StatusMethodNotAllowed, status, path)
		assert.Equal(t, want, header.Get("Allow"), path)
		assert.JSONEq(t, `{"detail":"Method Not Allowed"}`, body)
	}
}

// TestEmptyWorkspaceQuery asks for the workspace "": LoopGrid takes it for all of them, as one chain, which it is not.
func TestEmptyWorkspaceQuery(t *testing.T) {
	t.Parallel()
	c := newClient(t, sandbox.Options{})
	first := c.create(`{"decision_type":"t"}`)
	second := c.create(`{"decision_type":"t","workspace_id":"other"}`)
	_, body := c.get("/api/v1/decisions?workspace_id=")
	assert.Less(t, strings.Index(body, second), strings.Index(body, first), "the newest comes first")
	_, body = c.get("/api/v1/integrity/verify?workspace_id=")
	assert.Contains(t, body, `{"valid":false,"checked_events":2,"total_ledger_events":2,`)
}

// TestWholeSeconds shows Python's spelling of a time without microseconds.
func TestWholeSeconds(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 9, 19, 10, 0, 0, 999, time.UTC)
	c := newClient(t, sandbox.Options{Now: func() time.Time { return now }})
	_, body := c.post("/api/v1/decisions", `{"decision_type":"t"}`)
	assert.Contains(t, body, `"occurred_at":"2026-09-19T10:00:00+00:00"`)
	assert.Contains(t, body, `"expires_at":"2026-12-18T10:00:00"`)
	now = now.Add(time.Microsecond)
	_, body = c.post("/api/v1/decisions", `{"decision_type":"t"}`)
	assert.Contains(t, body, `"occurred_at":"2026-09-19T10:00:00.000001+00:00"`)
	assert.True(t, c.server.Verify("default"))
}
