package sandbox

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// exported records a whole story through the routes, with other evidence in between, and returns how to export it and the server.
func exported(t *testing.T, mode string, checkpoint bool) (s *Server, download func(query string) []byte) {
	t.Helper()
	s = New(Options{})
	client := &http.Client{Transport: s}
	call := func(method, path, body string) []byte {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://sandbox.example"+path, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		response, err := client.Do(r)
		require.NoError(t, err)
		defer func() { _ = response.Body.Close() }()
		answer, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, response.StatusCode, "%s", answer)
		return answer
	}
	other := func() {
		call(http.MethodPost, "/api/v1/decisions", `{"decision_type":"other","input":{"secret":"of somebody else"}}`)
	}
	const proposed = `{"amount":720.0,"currency":"USD","small":1e-05,"big":9007199254740993,"ключ":"значение","list":[1.10]}`
	other()
	created := call(http.MethodPost, "/api/v1/decisions",
		`{"decision_type":"customer_refund","privacy_mode":"`+mode+`","agent":{"id":"агент-1"},"input":{"message":"hello","x":720.0},"proposed_action":`+proposed+`}`)
	path := "/api/v1/decisions/" + regexp.MustCompile(`dec_[0-9a-f]{24}`).FindString(string(created))
	other()
	call(http.MethodPost, path+"/events", `{"event_type":"model_completed","payload":{"score":1e-05,"response":"yes"}}`)
	result := call(http.MethodPost, "/api/v1/workspaces/default/policies/evaluate", `{"policy_id":"refund-policy","proposed_action":`+proposed+`}`)
	call(http.MethodPost, path+"/events", `{"event_type":"policy_evaluated","actor_type":"policy","actor_id":"refund-policy","payload":`+string(result)+`}`)
	if mode != modeProofOnly {
		call(http.MethodPost, path+"/review", `{"action":"approve","reviewer":"alice"}`)
	}
	other()
	call(http.MethodPost, path+"/events", `{"event_type":"tool_executed","actor_type":"tool","actor_id":"stripe","payload":{"tool":"t"}}`)
	call(http.MethodPost, path+"/events", `{"event_type":"outcome_observed","payload":{"status":"succeeded"}}`)
	if checkpoint {
		other()
		call(http.MethodPost, "/api/v1/workspaces/default/checkpoint", "")
		other()
	}
	return s, func(query string) []byte { return call(http.MethodGet, path+"/evidence"+query, "") }
}

// TestExportedEvidence downloads bundles of evidence that was recorded through the routes and has them judged, by the check of these tests and by the
// published verifier where it is at hand.
func TestExportedEvidence(t *testing.T) {
	t.Parallel()
	for _, mode := range privacyModes() {
		for _, checkpoint := range []bool{false, true} {
			for _, query := range []string{"?include_payloads=true", "?include_payloads=false"} {
				name := fmt.Sprintf("%s checkpoint=%t %s", mode, checkpoint, query)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					s, download := exported(t, mode, checkpoint)
					data := download(query)
					members := unzip(t, data)
					require.NoError(t, checkMembers(members))
					assert.NotContains(t, string(content(members, "events.jsonl"))+string(content(members, "chain-witness.jsonl")), "somebody else")
					witnesses := len(linesOf(content(members, "chain-witness.jsonl")))
					if checkpoint {
						assert.Equal(t, 3, witnesses, "two in between and one up to the checkpoint")
						assert.Contains(t, string(content(members, "manifest.json")), `"checkpoint_id": "cp_`)
					} else {
						assert.Equal(t, 2, witnesses)
						assert.Contains(t, string(content(members, "manifest.json")), `"checkpoint": null`)
					}
					requireVerified(t, verifier(t), data, s.keyID)
				})
			}
		}
	}
	t.Run("payloads are included unless told otherwise", func(t *testing.T) {
		t.Parallel()
		_, download := exported(t, modeFull, false)
		assert.NotEmpty(t, content(unzip(t, download("")), "disclosures.jsonl"))
		assert.Empty(t, content(unzip(t, download("?include_payloads=false")), "disclosures.jsonl"))
	})
	t.Run("a checkpoint covers what was recorded before it", func(t *testing.T) {
		t.Parallel()
		s, download := exported(t, modeFull, true)
		assert.Contains(t, string(content(unzip(t, download("")), "manifest.json")), `"checkpoint_id": "cp_`)
		s.mu.Lock()
		d := s.created[1]
		s.mu.Unlock()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/decisions/"+d.id+"/events",
			strings.NewReader(`{"event_type":"incident_flagged"}`))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		require.Equal(t, http.StatusOK, w.Code)
		assert.Contains(t, string(content(unzip(t, download("")), "manifest.json")), `"checkpoint": null`)
	})
}
