package bridge_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// decided records a decision that the policy allows, and returns its id.
func decided(x *session) string {
	x.t.Helper()
	return x.ok("loopgrid.record_decision", `{"decision_type":"customer_refund","proposed_action":{"amount":320},"policy_id":"refund-policy"}`).str(x.t, "decision_id")
}

func TestRecordAction(t *testing.T) {
	t.Parallel()
	x, s := open(t)
	id := decided(x)
	n := s.count()
	r := x.ok("loopgrid.record_action", `{"decision_id":"`+id+`","tool":"stripe.refunds.create","external_reference":"re_1","details":{"tool":"evil","n":1.10,"external_reference":null}}`)
	sent := s.sentSince(n)
	require.Len(t, sent, 1)
	assert.Equal(t, "POST /api/v1/decisions/"+id+"/events", sent[0].String())
	key := r.str(t, "idempotency_key")
	assert.Equal(t, `{"event_type":"tool_executed","actor_type":"tool","actor_id":"external-system","payload":{"tool":"stripe.refunds.create","n":1.10,"external_reference":"re_1"},"idempotency_key":"`+key+`"}`, sent[0].body)
	assert.Equal(t, id, r.str(t, "decision_id"))
	assert.Equal(t, "true", r.member(t, "recorded"))
	assert.Equal(t, "false", r.member(t, "action_executed_by_loopgrid_mcp"))
	assert.Equal(t, "tool_executed", r.str(t, "event", "event_type"))
	assert.Equal(t, "true", r.member(t, "commitment_verified"))

	n = s.count()
	x.ok("loopgrid.record_action", `{"decision_id":"`+id+`","tool":"t","actor_id":"me","details":{"external_reference":null,"source":"é"}}`)
	assert.Contains(t, s.sentSince(n)[0].body, `"actor_id":"me","payload":{"external_reference":null,"source":"é","tool":"t"}`, "no argument: the details keep theirs, and nothing is added")
}

func TestRecordOutcome(t *testing.T) {
	t.Parallel()
	x, s := open(t)
	id := decided(x)
	x.ok("loopgrid.record_action", `{"decision_id":"`+id+`","tool":"t"}`)
	n := s.count()
	r := x.ok("loopgrid.record_outcome", `{"decision_id":"`+id+`","status":"succeeded","verified_against":"stripe","external_reference":"re_1","details":{"status":"x","fee":0.30}}`)
	assert.Equal(t, `{"event_type":"outcome_observed","actor_type":"integration","actor_id":"loopgrid-mcp","payload":{"status":"succeeded","fee":0.30,"verified_against":"stripe","external_reference":"re_1"},"idempotency_key":"`+r.str(t, "idempotency_key")+`"}`, s.sentSince(n)[0].body)
	assert.Equal(t, id, r.str(t, "decision_id"))
	assert.Equal(t, "true", r.member(t, "recorded"))
	assert.Equal(t, "outcome_observed", r.str(t, "event", "event_type"))
	assert.NotContains(t, members(t, r.text()), "action_executed_by_loopgrid_mcp")
	assert.Equal(t, "true", r.member(t, "commitment_verified"))
}

func TestLifecycleRefusals(t *testing.T) {
	t.Parallel()
	x, s := open(t)
	var all strings.Builder
	show := func(what, text string) { fmt.Fprintf(&all, "== %s\n%s\n\n", what, normal(text)) }
	amount := func(n string) string {
		return x.ok("loopgrid.record_decision", `{"decision_type":"t","proposed_action":{"amount":`+n+`},"policy_id":"refund-policy"}`).str(t, "decision_id")
	}
	waiting, blocked, allowed := amount("720"), amount("2000"), amount("320")
	before := len(s.sandbox.Events("default"))
	show("action, approval required", x.fails("loopgrid.record_action", `{"decision_id":"`+waiting+`","tool":"t"}`))
	show("outcome, approval required", x.fails("loopgrid_record_outcome", `{"decision_id":"`+waiting+`","status":"s","verified_against":"v"}`))
	show("action, blocked", x.fails("loopgrid.record_action", `{"decision_id":"`+blocked+`","tool":"t"}`))
	show("outcome, no action", x.fails("loopgrid.record_outcome", `{"decision_id":"`+allowed+`","status":"s","verified_against":"v"}`))
	show("action, key of another decision", func() string {
		x.ok("loopgrid.record_action", `{"decision_id":"`+allowed+`","tool":"t","idempotency_key":"k"}`)
		other := amount("1")
		return x.fails("loopgrid.record_action", `{"decision_id":"`+other+`","tool":"t","idempotency_key":"k"}`)
	}())
	assert.Len(t, s.sandbox.Events("default"), before+3)
	golden(t, "texts/lifecycle.txt", []byte(all.String()))
}

// TestAnswersOfTheService: whatever the service answers to a write, the text says what is recorded and what to do.
func TestAnswersOfTheService(t *testing.T) {
	t.Parallel()
	key := "lg_" + "live_" + strings.Repeat("k", 38)
	jsonType := "application/json"
	var all strings.Builder
	for _, a := range []struct { //nolint:paralleltest // they write one text in their order
		name, contentType, body string
		status                  int
		header                  []string
	}{
		{"401", jsonType, `{"detail":"Invalid, revoked, or insufficient LoopGrid API key (ingest scope required)"}`, 401, nil},
		{"403", jsonType, `{"detail":"API key does not belong to this workspace"}`, 403, nil},
		{"404 decision", jsonType, `{"detail":"Decision not found"}`, 404, nil},
		{"404 route", jsonType, `{"detail":"Not Found"}`, 404, nil},
		{"405", jsonType, `{"detail":"Method Not Allowed"}`, 405, nil},
		{"409 without code", jsonType, `{"detail":"Decision already reviewed"}`, 409, nil},
		{"413", jsonType, `{"detail":"Request body too large","max_bytes":2000000}`, 413, nil},
		{"422", jsonType, `{"detail":[{"type":"string_too_long","loc":["body","actor_id"],"msg":"String should have at most 160 characters","input":"PRIVATE"},{"type":"missing","loc":["body"],"msg":"Field required","input":{"a":"PRIVATE"}}]}`, 422, nil},
		{"400", jsonType, `{"detail":"There was an error parsing the body"}`, 400, nil},
		{"429 for too long", jsonType, `{"detail":"Rate limit exceeded","retry_after_seconds":59}`, 429, []string{"Retry-After", "59"}},
		{"500", "text/plain; charset=utf-8", "Internal Server Error", 500, nil},
		{"501 page", "text/html", "<html>" + strings.Repeat("x", 500) + "</html>", 501, nil},
		{"a gateway has no log-in", "text/html", "<html>PRIVATE</html>", 401, []string{"Www-Authenticate", `Basic realm="x"`}},
		{"a firewall", "text/html", "<html>PRIVATE</html>", 403, nil},
		{"another server", "text/html", "<html>PRIVATE</html>", 404, nil},
		{"too large for a gateway", "text/html", "<html>PRIVATE</html>", 413, nil},
		{"a page for a conflict", "text/html", "<html>PRIVATE</html>", 409, nil},
		{"a gateway limits", "text/html", "<html>PRIVATE</html>", 429, []string{"Retry-After", "120"}},
		{"a gateway waits", "text/html", "<html>PRIVATE</html>", 503, []string{"Retry-After", "120"}},
		{"500 page", "text/html", "<html>PRIVATE</html>", 500, nil},
		{"redirect to a log-in", "text/html", "moved", 302, []string{"Location", "https://elsewhere.test/login"}},
		{"redirect", "text/html", "moved", 307, []string{"Location", "https://elsewhere.test/"}},
		{"login page", "text/html", "<html>Log in</html>", 200, nil},
		{"no type", "", "{}", 200, nil},
		{"empty", jsonType, "", 200, nil},
		{"null", jsonType, "null", 200, nil},
		{"array", jsonType, "[]", 200, nil},
		{"garbage", jsonType, `{"event_id":`, 200, nil},
		{"invalid UTF-8", jsonType, "{\"event_id\":\"\xff\"}", 200, nil},
		{"another object", jsonType, `{"ok":true}`, 200, nil},
		{"wrong types", jsonType, `{"event_id":5,"decision_id":[],"actor":"x"}`, 200, nil},
		{"compressed", jsonType, "\x1f\x8b", 200, []string{"Content-Encoding", "gzip"}},
		{"no content", jsonType, "", 204, nil},
		{"hostile detail", jsonType, `{"detail":"a\u001b[31m\nb\u202e ` + key + ` ` + strings.Repeat("long ", 200) + `"}`, 418, nil},
	} {
		t.Run(a.name, func(t *testing.T) {
			x, s := open(t, "LOOPGRID_SERVICE_KEY="+key)
			s.answerWith("", a.status, a.contentType, a.body, a.header...)
			write := x.fails("loopgrid.record_action", `{"decision_id":"dec_1","tool":"t","idempotency_key":"K"}`)
			read := x.fails("loopgrid.verify_evidence", `{"decision_id":"dec_1"}`)
			fmt.Fprintf(&all, "== %s\n%s\n--\n%s\n\n", a.name, write, read)
			assert.NotContains(t, write+read+x.log.String(), "PRIVATE")
			assert.NotContains(t, write+read+x.log.String(), key)
			assert.Less(t, len(write), 1000)
			assert.Regexp(t, `^(Not recorded|Outcome unknown): `, write)
			assert.Regexp(t, `^Not verified: `, read)
		})
	}
	golden(t, "texts/answers.txt", []byte(all.String()))
}

func TestServiceIsDown(t *testing.T) {
	t.Parallel()
	x := serveExactly(t, http.DefaultTransport, "LOOPGRID_BASE_URL=http://127.0.0.1:1/base", "LOOPGRID_EVIDENCE_DIR="+t.TempDir(), "LOOPGRID_MCP_TIMEOUT_SECONDS=2")
	x.initialize("test-client")
	text := x.fails("loopgrid.record_action", `{"decision_id":"dec_1","tool":"t"}`)
	assert.Equal(t, "Not recorded: the action of decision dec_1. LoopGrid is not reachable: the connection was refused: nothing listens at 127.0.0.1:1.\n"+
		"For the operator: Start LoopGrid, or set LOOPGRID_BASE_URL to its address. In a container 127.0.0.1 is the container itself. loopgrid-mcp doctor shows more.", text)
	assert.Contains(t, x.fails("loopgrid.get_evidence", `{"decision_id":"dec_1"}`), "Not downloaded: LoopGrid is not reachable: the connection was refused: nothing listens at 127.0.0.1:1.")
}

func TestReviewIsDisabledByDefault(t *testing.T) {
	t.Parallel()
	x, s := open(t)
	r := x.ok("loopgrid.record_review", `{"decision_id":"dec_1","action":"approve"}`)
	assert.Equal(t, "false", r.member(t, "recorded"))
	assert.Equal(t, "true", r.member(t, "disabled"))
	assert.Equal(t, "dec_1", r.str(t, "decision_id"))
	assert.Contains(t, r.str(t, "message"), "LOOPGRID_MCP_ENABLE_REVIEW_TOOL=true and LOOPGRID_MCP_REVIEWER_ID")
	assert.Empty(t, s.sentSince(0))
}

func openForReview(t *testing.T) (*session, *service) {
	t.Helper()
	return open(t, "LOOPGRID_MCP_ENABLE_REVIEW_TOOL=true", "LOOPGRID_MCP_REVIEWER_ID=alice@acme.example")
}

func waitingForReview(x *session) string {
	x.t.Helper()
	return x.ok("loopgrid.record_decision", `{"decision_type":"t","proposed_action":{"amount":720},"policy_id":"refund-policy"}`).str(x.t, "decision_id")
}

func TestReview(t *testing.T) {
	t.Parallel()
	x, s := openForReview(t)
	id := waitingForReview(x)
	n := s.count()
	r := x.ok("loopgrid.record_review", `{"decision_id":"`+id+`","action":"approve","reason":"Duplicate <charge> é"}`)
	sent := s.sentSince(n)
	require.Len(t, sent, 1)
	assert.Equal(t, "POST /api/v1/decisions/"+id+"/review", sent[0].String())
	assert.Equal(t, `{"action":"approve","reviewer":"alice@acme.example","reason":"Duplicate <charge> é"}`, sent[0].body)
	assert.Equal(t, id, r.str(t, "decision_id"))
	assert.Equal(t, "approve", r.str(t, "state"))
	assert.Equal(t, "human_approved", r.str(t, "review", "event_type"))
	assert.Equal(t, "host", r.str(t, "human_confirmation"))
	assert.Contains(t, r.member(t, "warnings"), "sandbox")
	x.ok("loopgrid.record_action", `{"decision_id":"`+id+`","tool":"t"}`)

	text := x.fails("loopgrid.record_review", `{"decision_id":"`+id+`","action":"reject"}`)
	assert.Equal(t, "Not recorded: the review of decision "+id+". LoopGrid answered 409 to POST /api/v1/decisions/{id}/review.\nThe service said: \"Decision already reviewed\"\n"+
		"The decision has already been reviewed; loopgrid.get_evidence shows the result.", text)
	text = x.fails("loopgrid.record_review", `{"decision_id":"`+decided(x)+`","action":"reject"}`)
	assert.Contains(t, text, "The service said: \"Decision is not awaiting human approval\"\nThe recorded policy result does not require a review")
}

func TestReviewNeedsAReviewer(t *testing.T) {
	t.Parallel()
	x, s := open(t, "LOOPGRID_MCP_ENABLE_REVIEW_TOOL=true")
	assert.Contains(t, x.fails("loopgrid.record_review", `{"decision_id":"dec_1","action":"approve"}`), "LOOPGRID_MCP_REVIEWER_ID")
	assert.Empty(t, s.sentSince(0))
	decided(x) // the other tools work
}

func TestVerify(t *testing.T) {
	t.Parallel()
	x, s := open(t)
	id := decided(x)
	n := s.count()
	r := x.ok("loopgrid.verify_evidence", `{"decision_id":"`+id+`"}`)
	assert.Equal(t, "GET /api/v1/decisions/"+id+"/verify", s.sentSince(n)[0].String())
	assert.Empty(t, s.sentSince(n)[0].header.Get("Content-Type"))
	assert.Equal(t, id, r.str(t, "decision_id"))
	assert.Equal(t, "true", r.member(t, "verification", "valid"))
	assert.Equal(t, "false", r.member(t, "offline_verifier_used"))
	assert.NotEmpty(t, r.str(t, "note"))
	assert.Len(t, r.Content, 1)

	failure := `{"seq":3,"event_id":"evt_9","decision_id":"dec_2","reasons":["content_hash_mismatch","signature_invalid"]}`
	s.answerWith("", 200, "application/json", `{"valid":false,"checked_events":3,"failures":[`+failure+strings.Repeat(","+failure, 24)+`],"big":9007199254740993}`)
	r = x.ok("loopgrid.verify_evidence", `{"decision_id":"`+id+`"}`)
	assert.Equal(t, "false", r.member(t, "verification", "valid"))
	assert.Equal(t, 20, strings.Count(r.member(t, "verification", "failures"), "evt_9"))
	assert.Equal(t, "9007199254740993", r.member(t, "verification", "big"))
	assert.Equal(t, "5", r.member(t, "failures_omitted"))
	require.Len(t, r.Content, 2)
	assert.Equal(t, "NOT VALID: LoopGrid's check of the workspace's chain failed. Evidence was altered, lost or forked. Tell a person, and do not rely on this record.\n"+
		"The first failure LoopGrid reports: event evt_9, content_hash_mismatch, signature_invalid.", r.Content[1].Text)
	s.answerWith("", 200, "application/json", `{"valid":"yes"}`)
	assert.Contains(t, x.fails("loopgrid.verify_evidence", `{"decision_id":"`+id+`"}`), "it does not say whether the chain is valid")
}

func TestGetEvidence(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "evidence")
	x, s := open(t, "LOOPGRID_EVIDENCE_DIR="+dir, "LOOPGRID_MCP_ALLOW_PAYLOAD_EXPORT=yes")
	id := decided(x)
	for payloads, name := range map[string]string{"false": id + "-evidence.zip", "true": id + "-evidence-payloads.zip"} {
		n := s.count()
		r := x.ok("loopgrid.get_evidence", `{"decision_id":"`+id+`","include_payloads":`+payloads+`}`)
		sent := s.sentSince(n)
		require.Len(t, sent, 1, "one request, one scan of the chain")
		assert.Equal(t, "GET /api/v1/decisions/"+id+"/evidence?include_payloads="+payloads, sent[0].String()+"?"+sent[0].query)
		assert.Equal(t, "application/zip", sent[0].header.Get("Accept"))
		path := filepath.Join(dir, name)
		file, err := os.ReadFile(path)
		require.NoError(t, err)
		sum := sha256.Sum256(file)
		assert.Equal(t, "true", r.member(t, "downloaded"))
		assert.Equal(t, path, r.str(t, "bundle", "path"))
		assert.Equal(t, id, r.str(t, "bundle", "decision_id"))
		assert.Equal(t, hex.EncodeToString(sum[:]), r.str(t, "bundle", "sha256"))
		assert.Equal(t, strconv.Itoa(len(file)), r.member(t, "bundle", "bytes"))
		assert.Equal(t, payloads, r.member(t, "bundle", "include_payloads"))
		assert.Equal(t, "true", r.member(t, "server_verification", "valid"))
		assert.Equal(t, "authorized_awaiting_execution", r.str(t, "lifecycle", "state"))
		assert.Contains(t, r.member(t, "events"), `"event_type":"policy_evaluated","actor":{"type":"policy","id":"refund-policy"}`)
		assert.NotContains(t, r.member(t, "events"), "payload")
		assert.Equal(t, map[string]string{"false": "not disclosed", "true": "auto_allowed"}[payloads], r.str(t, "policy_result"))
		assert.Contains(t, r.member(t, "evidence_coverage"), `"checks":[`)
		assert.Contains(t, r.str(t, "note"), "loopgrid-verify FILE --expected-key-id KEY_ID_FROM_YOUR_OPERATOR")
		assert.Contains(t, r.str(t, "note"), "report.html")
	}
}

func TestPayloadExportIsClosedByDefault(t *testing.T) {
	t.Parallel()
	x, s := open(t)
	r := x.ok("loopgrid.get_evidence", `{"decision_id":"dec_1","include_payloads":true}`)
	assert.Equal(t, "false", r.member(t, "downloaded"))
	assert.Equal(t, "dec_1", r.str(t, "decision_id"))
	assert.Contains(t, r.str(t, "message"), "LOOPGRID_MCP_ALLOW_PAYLOAD_EXPORT=true")
	assert.Empty(t, s.sentSince(0))
}

func TestEvidenceThatIsNotWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	x, s := open(t, "LOOPGRID_EVIDENCE_DIR="+dir, "LOOPGRID_MAX_EVIDENCE_BYTES=100")
	id := decided(x)
	assert.Contains(t, x.fails("loopgrid.get_evidence", `{"decision_id":"`+id+`"}`), "LOOPGRID_MAX_EVIDENCE_BYTES, now 100.")
	s.answerWith("", 200, "application/zip", "PK, but no ZIP")
	x.fails("loopgrid.get_evidence", `{"decision_id":"`+id+`"}`)
	s.mu.Lock()
	s.before = func(sent) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: -1, Body: io.NopCloser(io.MultiReader(strings.NewReader("PK"), failing{}))}, nil
	}
	s.mu.Unlock()
	assert.Contains(t, x.fails("loopgrid.get_evidence", `{"decision_id":"`+id+`"}`), "the connection to LoopGrid ended")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("reset") }

// TestBrokenConfiguration: the server starts, lists its tools, and says what is wrong where it matters; nothing is sent.
func TestBrokenConfiguration(t *testing.T) {
	t.Parallel()
	every := leastArguments(t)
	for _, tt := range []struct {
		set, variable string
		touched       []string
	}{
		{"LOOPGRID_BASE_URL=ftp://x", "LOOPGRID_BASE_URL", allTools()},
		{"LOOPGRID_BASE_URL=${LOOPGRID_BASE_URL}", "LOOPGRID_BASE_URL", allTools()},
		{"LOOPGRID_WORKSPACE=${env:W}", "LOOPGRID_WORKSPACE", allTools()},
		{"LOOPGRID_MCP_TIMEOUT_SECONDS=soon", "LOOPGRID_MCP_TIMEOUT_SECONDS", allTools()},
		{"LOOPGRID_MCP_ENABLE_REVIEW_TOOL=maybe", "LOOPGRID_MCP_ENABLE_REVIEW_TOOL", []string{"record_review"}},
		{"LOOPGRID_MAX_EVIDENCE_BYTES=-1", "LOOPGRID_MAX_EVIDENCE_BYTES", []string{"get_evidence"}},
		{"LOOPGRID_MCP_ALLOW_PAYLOAD_EXPORT=2", "LOOPGRID_MCP_ALLOW_PAYLOAD_EXPORT", []string{"get_evidence"}},
	} {
		t.Run(tt.set, func(t *testing.T) {
			t.Parallel()
			x, s := open(t, tt.set)
			x.send(`{"jsonrpc":"2.0","id":77,"method":"tools/list"}`)
			assert.Equal(t, inSpelling("loopgrid."), toolNames(listed(t, x.receive())))
			for _, name := range tt.touched {
				text := x.fails("loopgrid."+name, every[name])
				assert.Contains(t, text, tt.variable)
				assert.Contains(t, text, "Nothing was sent. Nothing was recorded.")
				_, value, _ := strings.Cut(tt.set, "=")
				assert.NotContains(t, text, value)
			}
			assert.Empty(t, s.sentSince(0))
		})
	}
}
