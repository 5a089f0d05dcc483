package sandbox

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// The tests in this file record decisions over HTTP, as a client does, download their evidence and have it judged, by checkMembers and by the
// published verifier where that is at hand.

// visitor is a client of a sandbox of its own.
type visitor struct {
	t       *testing.T
	url     string
	client  *http.Client
	sandbox *Server
}

func visit(t *testing.T) *visitor {
	t.Helper()
	s := New(Options{Now: func() time.Time { return time.Date(2026, 9, 19, 10, 0, 0, 123_456_000, time.FixedZone("", 7200)) }})
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return &visitor{t, server.URL, server.Client(), s}
}

// do sends a request and returns the answer, which has to have this status.
func (v *visitor) do(status int, method, path, body string) []byte {
	v.t.Helper()
	request, err := http.NewRequestWithContext(v.t.Context(), method, v.url+path, strings.NewReader(body))
	require.NoError(v.t, err)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := v.client.Do(request)
	require.NoError(v.t, err)
	answer, err := io.ReadAll(response.Body)
	require.NoError(v.t, err)
	require.NoError(v.t, response.Body.Close())
	require.Equal(v.t, status, response.StatusCode, "%s %s: %s", method, path, answer)
	return answer
}

func (v *visitor) post(path, body string) jsontext.Value {
	v.t.Helper()
	return v.do(http.StatusOK, http.MethodPost, path, body)
}

// create records a decision in workspace "default" and returns its path.
func (v *visitor) create(mode, fields string) string {
	v.t.Helper()
	answer := v.post("/api/v1/decisions", `{"decision_type":"возврат","privacy_mode":"`+mode+`"`+fields+`}`)
	id, ok := evidence.Unquote(evidence.Get(answer, "decision_id"))
	require.True(v.t, ok, string(answer))
	return "/api/v1/decisions/" + id
}

// other records an event of a decision that no bundle may tell of.
func (v *visitor) other() {
	v.t.Helper()
	v.create("full", `,"input":{"note":"of another decision"}`)
}

func (v *visitor) event(decision, kind, payload, more string) {
	v.t.Helper()
	v.post(decision+"/events", `{"event_type":"`+kind+`","payload":`+payload+more+`}`)
}

const (
	visitAction  = `{"tool":"<stripe>.refunds","amount":720.0,"currency":"USD"}`
	visitDetails = `,"agent":{"id":"агент-1"},"authority":{"limit_usd":1500},"context":{"tiny":1e-5,"big":9007199254740993,"zero":-0.0,"e":1E2},` +
		`"model":{"name":"m"},"input":{"ключ":{"адрес":"улица \"1\""},"email":"a@b.c","list":[[],{},[1,2.50]]},"metadata":{"capture_source":"tests"},` +
		`"proposed_action":` + visitAction
)

// decide records a whole decision with others in between and returns its path.
func (v *visitor) decide(mode string) string {
	v.t.Helper()
	v.other()
	decision := v.create(mode, visitDetails)
	v.event(decision, "model_completed", `{"response":"Rückzahlung","tokens":12,"p":1e-07}`, `,"actor_type":"agent","actor_id":"агент-1"`)
	v.other()
	result := v.post("/api/v1/workspaces/default/policies/evaluate",
		`{"policy_id":"refund-policy","proposed_action":`+visitAction+`,"authority":{"limit_usd":1500},"context":{}}`)
	v.event(decision, "policy_evaluated", string(result), `,"actor_type":"policy","actor_id":"refund-policy"`)
	if mode == "proof_only" { // The result is hidden from the service too, so it takes no review.
		v.do(http.StatusConflict, http.MethodPost, decision+"/review", `{"action":"approve","reviewer":"alice"}`)
	} else {
		v.post(decision+"/review", `{"action":"approve","reviewer":"alice","reason":"in Ordnung"}`)
	}
	v.other()
	v.other()
	v.event(decision, "tool_executed", `{"tool":"<stripe>.refunds","external_reference":"re_1","at":1.10}`, `,"actor_type":"tool","actor_id":"stripe"`)
	v.event(decision, "outcome_observed", `{"status":"succeeded","verified_against":"stripe"}`, `,"actor_type":"integration","actor_id":"bridge"`)
	return decision
}

func (v *visitor) evidence(decision string, payloads bool) []byte {
	v.t.Helper()
	return v.do(http.StatusOK, http.MethodGet, decision+"/evidence?include_payloads="+strconv.FormatBool(payloads), "")
}

// keyID is the id of the sandbox's key as the verify route names it: what a user pins.
func (v *visitor) keyID(decision string) string {
	v.t.Helper()
	id, ok := evidence.Unquote(evidence.Get(v.do(http.StatusOK, http.MethodGet, decision+"/verify", ""), "key_id"))
	require.True(v.t, ok)
	return id
}

// exports records one decision in each mode and returns its bundles by name, before and after a checkpoint, and the key id of each.
func exports(t *testing.T) (bundles map[string][]byte, keys map[string]string) {
	t.Helper()
	bundles, keys = map[string][]byte{}, map[string]string{}
	for _, mode := range []string{"full", "redacted", "proof_only"} {
		v := visit(t)
		decision := v.decide(mode)
		v.other()
		for _, checkpoint := range []bool{false, true} {
			if checkpoint {
				v.post("/api/v1/workspaces/default/checkpoint", "")
				v.other()
			}
			for _, payloads := range []bool{true, false} {
				name := fmt.Sprintf("%s payloads=%t checkpoint=%t", mode, payloads, checkpoint)
				bundles[name], keys[name] = v.evidence(decision, payloads), v.keyID(decision)
			}
		}
	}
	return bundles, keys
}

func TestExportedEvidenceHolds(t *testing.T) {
	t.Parallel()
	bundles, _ := exports(t)
	require.Len(t, bundles, 12)
	for name, data := range bundles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			members := unzip(t, data)
			require.NoError(t, checkMembers(members))
			manifest := jsontext.Value(content(members, "manifest.json"))
			span := evidence.Get(manifest, "ledger_span")
			checkpoint := strings.Contains(name, "checkpoint=true")
			events, witnesses := 6, 3
			if strings.HasPrefix(name, "proof_only") {
				events = 5
			}
			if checkpoint {
				witnesses++ // The checkpoint seals one event more; the one after it is not linked to anything.
			}
			assert.Equal(t, strconv.Itoa(events), string(evidence.Get(manifest, "event_count")))
			assert.Equal(t, strconv.Itoa(witnesses), string(evidence.Get(span, "witness_count")))
			assert.Equal(t, !checkpoint, evidence.Get(manifest, "checkpoint").Kind() == jsontext.KindNull)
			assert.Equal(t, `"`+Version+`"`, string(evidence.Get(manifest, "software_version")))
			assert.Equal(t, "true", string(evidence.Get(evidence.Get(manifest, "integrity"), "valid")))
			for _, m := range members {
				assert.NotContains(t, string(m.data), "of another decision", m.name)
			}
			if clear := strings.HasPrefix(name, "full payloads=true"); clear {
				assert.Contains(t, string(content(members, disclosuresFile)),
					`"context": {"big": 9007199254740993, "e": 100.0, "tiny": 1e-05, "zero": -0.0}`)
			} else {
				assert.Nil(t, content(members, disclosuresFile))
			}
			if strings.HasPrefix(name, "redacted payloads=true") {
				assert.Contains(t, string(content(members, "decision.json")), "\n    \"email\": {\n      \"redacted\": true,\n")
				assert.Contains(t, string(content(members, "decision.json")), "\n    \"tiny\": 1e-05,\n")
			}
		})
	}
}

func TestVerifierAcceptsExportedEvidence(t *testing.T) {
	t.Parallel()
	path := verifier(t)
	bundles, keys := exports(t)
	for name, data := range bundles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireVerified(t, path, data, keys[name])
		})
	}
}

func TestVerifierRejectsChangedExports(t *testing.T) {
	t.Parallel()
	path := verifier(t)
	bundles, _ := exports(t)
	requireEachChangeRejected(t, path, bundles["full payloads=true checkpoint=true"])
}

// An event may have another privacy mode than its decision: each is disclosed as far as its own mode allows.
func TestExportedEvidenceOfMixedModes(t *testing.T) {
	t.Parallel()
	v := visit(t)
	decision := v.create("full", visitDetails)
	v.event(decision, "model_completed", `{"response":"secret","tokens":12}`, `,"privacy_mode":"proof_only"`)
	v.event(decision, "telemetry_ingested", `{"email":"a@b.c","n":1.0}`, `,"privacy_mode":"redacted"`)
	v.event(decision, "tool_executed", `{"tool":"t"}`, ``)
	data := v.evidence(decision, true)
	members := unzip(t, data)
	require.NoError(t, checkMembers(members))
	assert.Len(t, linesOf(content(members, disclosuresFile)), 2)
	for _, m := range members {
		assert.NotContains(t, string(m.data), "secret", m.name)
	}
	keyID := v.keyID(decision)
	t.Run("published verifier", func(t *testing.T) {
		t.Parallel()
		requireVerified(t, verifier(t), data, keyID)
	})
}

// The line separators of Unicode go through as LoopGrid takes them. The published verifier 0.1.0 cannot read a bundle with such a separator,
// whoever made it: a trap that a client has to meet here too.
func TestExportedEvidenceOfOddTexts(t *testing.T) {
	t.Parallel()
	v := visit(t)
	decision := v.create("redacted", `,"input":{"a":3.0,"b":2,"text":"one`+"\u2028"+`two"}`)
	data := v.evidence(decision, true)
	members := unzip(t, data)
	require.NoError(t, checkMembers(members))
	assert.Contains(t, string(content(members, "events.jsonl")), `"input": {"a": 3.0, "b": 2, "text": "one`+"\u2028"+`two"}`)
	t.Run("published verifier", func(t *testing.T) {
		t.Parallel()
		out, code := runVerifier(t, verifier(t), data)
		assert.Equal(t, 1, code, out)
	})
}

// Nothing in a bundle is made up at the export: as long as nothing is recorded, each download is the same.
func TestExportedEvidenceIsStableBetweenDownloads(t *testing.T) {
	t.Parallel()
	v := visit(t)
	decision := v.decide("full")
	first, second := unzip(t, v.evidence(decision, true)), unzip(t, v.evidence(decision, true))
	require.Len(t, second, len(first))
	for i, m := range first {
		assert.True(t, bytes.Equal(m.data, second[i].data), m.name)
	}
}
