package sandbox_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
)

// exchange is one request to the real service and its answer. The files in testdata/exchanges hold them in an order in which they can be
// repeated.
type exchange struct {
	Name       string            `json:"name"`
	Method     string            `json:"method"`
	Path       string            `json:"path"`
	Headers    map[string]string `json:"headers"`
	Credential string            `json:"credential"`
	Body       *string           `json:"body"`

	Status        int               `json:"status"`
	AnswerHeaders map[string]string `json:"answer_headers"`
	RequestID     string            `json:"request_id"`
	Answer        string            `json:"answer"`
}

// leftOut are the recorded exchanges that are not replayed.
func leftOut() map[string]string {
	const (
		postgres = "recorded on PostgreSQL; the sandbox answers as LoopGrid does on SQLite, where the same was recorded or does not fail"
		database = "the database was broken or locked: the sandbox has none"
		noRoute  = "not a route that the sandbox has: it answers 404 as for any unknown route"
		noJSON   = "no JSON to jsontext, which reads neither UTF-16, nor NaN, nor surrogates as bytes, nor names that stand twice: the sandbox answers 400 or 422"
		escape   = "net/http refuses a path with a malformed escape before any handler sees it"
	)
	left := map[string]string{
		"auth_demo_refund_no_key": noRoute,
		"auth_tamper_test_no_key": noRoute,
		"auth_workspaces_no_key":  noRoute,
		"root":                    "the page at / is the sandbox's own",
		"id_odd_percent":          escape,
		"id_odd_percent_verify":   escape,
	}
	for name := range strings.FieldsSeq(`create_db_broken create_db_locked create_db_write_locked get_db_broken get_db_write_locked health_db_broken
		ready_503_db_broken ready_db_locked ready_db_write_locked verify_db_write_locked`) {
		left[name] = database
	}
	for name := range strings.FieldsSeq(`agent_id_dict agent_id_float agent_id_float_verify agent_id_int agent_id_int_verify agent_id_long_128
		agent_id_long_128_verify agent_id_long_129 agent_id_nul agent_id_null agent_id_null_verify agent_id_true agent_id_true_verify create
		evaluate_policy_nul evaluate_ws_nul event_actor_id_129 evidence get_decision id_badutf8 id_long id_nul idempotency_empty_1
		idempotency_empty_2 nul_decision_type nul_in_idempotency_key nul_in_input_full nul_in_input_redacted policy_event ready
		review_reviewer_128 review_reviewer_160 timezone_not_utc_create timezone_not_utc_verify verify`) {
		left["pg_"+name] = postgres
	}
	for name := range strings.FieldsSeq(`body_raw_surrogate_cesu body_utf16 create_duplicate_keys create_replay_nan_body_same_key infinity_literal
		nan_literal policy_nan`) {
		left[name] = noJSON
	}
	return left
}

// TestReplay repeats what was recorded on the real service.
func TestReplay(t *testing.T) {
	t.Parallel()
	sessions := map[string]func(*session){
		"main":         func(*session) {},
		"privacy":      func(*session) {},
		"erasure":      func(*session) {},
		"auth":         (*session).makeKeys,
		"limits":       func(*session) {},
		"small_bodies": func(*session) {},
		"tamper":       (*session).makeEvidenceToTamper,
	}
	options := map[string]sandbox.Options{
		"auth":         {Auth: true},
		"limits":       {Limits: sandbox.Limits{IngestPerMinute: 5, OtherPerMinute: 3}},
		"small_bodies": {Limits: sandbox.Limits{BodyBytes: 200}},
	}
	files, err := filepath.Glob("testdata/exchanges/*.jsonl")
	require.NoError(t, err)
	require.Len(t, files, len(sessions))
	names := leftOut()
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		exchanges := readExchanges(t, file)
		for _, x := range exchanges {
			require.NotContains(t, names, x.Name)
			names[x.Name] = "replayed"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSession(options[name])
			sessions[name](s)
			for _, x := range exchanges {
				// Each builds on those before.
				t.Run(x.Name, func(t *testing.T) { s.replay(t, x) })
			}
			if name != "tamper" {
				s.recompute(t)
			}
		})
	}
	assert.Len(t, names, 499, "every recorded exchange is replayed or listed with its reason")
}

func readExchanges(t *testing.T, file string) []exchange {
	t.Helper()
	lines, err := os.ReadFile(file)
	require.NoError(t, err)
	var exchanges []exchange
	for line := range bytes.Lines(lines) {
		var x exchange
		require.NoError(t, json.Unmarshal(line, &x))
		exchanges = append(exchanges, x)
	}
	return exchanges
}

// session is one service in the recordings and the sandbox that stands in for it.
type session struct {
	sandbox *sandbox.Server
	now     time.Time
	// known maps what the service made up (ids, hashes, times) to what the sandbox made up in its place.
	known map[string]string
	// keys are the credentials by their names in the recordings.
	keys map[string]string
	// restore undoes the last tampering.
	restore func()
}

func newSession(o sandbox.Options) *session {
	s := &session{now: time.Date(2026, 11, 30, 6, 0, 0, 123_456_000, time.UTC), known: map[string]string{}, restore: func() {}}
	// No time is answered twice, so that times can be told apart.
	o.Now = func() time.Time {
		s.now = s.now.Add(1_001 * time.Microsecond)
		return s.now
	}
	s.sandbox = sandbox.New(o)
	s.keys = map[string]string{"bad": "lg_live_" + strings.Repeat("x", 38), "bad latin-1": "lg_live_\xe9"}
	return s
}

// send sends a request to the sandbox.
func (s *session) send(method, path string, headers map[string]string, body io.Reader) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), method, path, body)
	r.Host = "127.0.0.1:8791"
	for name, value := range headers {
		r.Header[name] = []string{value}
	}
	w := httptest.NewRecorder()
	s.sandbox.ServeHTTP(w, r)
	return w
}

// post sends a request of the set-up, which has to work, and returns its answer.
func (s *session) post(path, body string) map[string]any {
	w := s.send(http.MethodPost, path, map[string]string{"Content-Type": "application/json", "X-Loopgrid-Key": s.keys["admin"]}, strings.NewReader(body))
	var answer map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
		panic(w.Body.String())
	}
	return answer
}

// makeKeys makes the credentials of the recordings with the set-up routes.
func (s *session) makeKeys() {
	s.keys["admin"] = s.sandbox.CreateKey("default", "admin")
	other, _ := s.post("/api/v1/workspaces", `{"name":"Other Lab"}`)["workspace_id"].(string)
	s.known["ws_9d35e700c9644586"] = other
	for _, name := range []string{"ingest_read", "read_only", "review_only", "ingest_only", "ingest_read_review", "revoked", "expired"} {
		scopes := strings.Split(strings.TrimSuffix(name, "_only"), "_")
		body := `{"name":"` + name + `","expires_in_days":2`
		if name == "revoked" || name == "expired" {
			scopes = []string{"admin"}
		}
		if name == "expired" {
			body = `{"expires_in_days":1`
		}
		made := s.post("/api/v1/workspaces/default/keys", body+`,"scopes":["`+strings.Join(scopes, `","`)+`"]}`)
		s.keys[name], _ = made["api_key"].(string)
		if name == "revoked" {
			s.sandbox.Revoke(s.keys[name])
		}
	}
	s.keys["other_workspace"] = s.sandbox.CreateKey(other, "ingest", "read", "review")
	s.keys["ingest_read with surrounding blanks"] = " " + s.keys["ingest_read"] + " "
	s.now = s.now.Add(36 * time.Hour)
}

// makeEvidenceToTamper records what was tampered with.
func (s *session) makeEvidenceToTamper() {
	created := s.post("/api/v1/decisions",
		`{"decision_type":"t","privacy_mode":"redacted","agent":{"id":"a"},"proposed_action":{"amount":720}}`)
	id, _ := created["decision_id"].(string)
	s.known["dec_2f77d1539685444c9291ff27"] = id
	s.post("/api/v1/decisions/"+id+"/events", `{"event_type":"model_completed","payload":{"score":1}}`)
	s.post("/api/v1/decisions", `{"decision_type":"t","privacy_mode":"redacted","proposed_action":{"amount":720}}`)
	s.post("/api/v1/decisions/"+id+"/events", `{"event_type":"tool_executed","payload":{"tool":"t"}}`)
}

// tamper changes the ledger as it was changed before an exchange was recorded.
func (s *session) tamper(name string) {
	row := func(seq int) sandbox.Row { return s.sandbox.Row("default", seq-1) }
	payload := func(seq int, from, to string) {
		p := row(seq).Payload()
		*p = bytes.Replace(*p, []byte(from), []byte(to), 1)
	}
	changes := map[string]func(){
		"tamper_payload_own":             func() { payload(1, "720", "721") },
		"tamper_payload_other_decision":  func() { payload(3, "720", "721") },
		"tamper_payload_720_to_720_0":    func() { payload(1, "720", "720.0") },
		"tamper_payload_whitespace_only": func() { payload(1, ":720", ":  720") },
		"tamper_payload_not_json":        func() { *row(2).Payload() = jsontext.Value("{not json") },
		"tamper_actor":                   func() { *row(2).ActorID() = "somebody" },
		"tamper_occurred_at":             func() { *row(2).OccurredAt() = "2020-01-01T00:00:00.000001+00:00" },
		"tamper_event_type":              func() { *row(2).EventType() = "tool_result" },
		"tamper_content_hash":            func() { *row(2).ContentHash() = strings.Repeat("ab", 32) },
		"tamper_chain_hash":              func() { *row(2).ChainHash() = strings.Repeat("ab", 32) },
		"tamper_chain_hash_not_hex":      func() { *row(2).ChainHash() = strings.Repeat("zz", 32) },
		"tamper_previous_chain_hash":     func() { *row(2).PreviousHash() = strings.Repeat("ab", 32) },
		"tamper_signature":               func() { *row(2).Signature() = *row(1).Signature() },
		"tamper_key_id":                  func() { *row(2).KeyID() = "ed25519:0000000000000000" },
		"tamper_row_deleted":             func() { s.sandbox.DeleteRow("default", 2) },
		"tamper_restored":                func() {},
		"tamper_tail_truncated":          func() { s.sandbox.DeleteRow("default", 3) },
	}
	if change, ok := changes[name]; ok {
		s.restore()
		s.restore = s.sandbox.Keep("default")
		change()
	}
	switch name {
	case "tamper_vault_verify":
		id, _ := s.post("/api/v1/decisions", `{"decision_type":"t"}`)["decision_id"].(string)
		s.known["dec_7d724a69d4a6499e929b63af"] = id
		// What was recorded there is not known.
		s.known["84ce712642929ee5fdde5c524fb205950ed302dac8fe4ef1cf4f509bf8d25c7b"] = s.sandbox.Events("default")[3].PayloadCommitment
		row(4).DestroyClear()
	case "key_replaced_verify":
		s.sandbox.ReplaceKey()
		delete(s.known, "ed25519:874ccda4a0dfc688")
	}
}

// request returns the body of an exchange. Some bodies are not in the recordings: they are too long, or no text.
func (s *session) request(x exchange) (body io.Reader, chunked bool) {
	filled := func(start string, size int, end string) io.Reader {
		return strings.NewReader(start + strings.Repeat("a", size-len(start)-len(end)) + end)
	}
	const long, end = `{"decision_type":"t","input":{"x":"`, `"}}`
	switch x.Name {
	case "size_2000000_ok":
		return filled(long, 2_000_000, end), false
	case "e413_2000001":
		return filled(long, 2_000_001, end), false
	case "size_2000001_chunked":
		return io.MultiReader(filled(long, 2_000_001, end)), true
	case "nested_100000":
		const depth = 100_000
		return strings.NewReader(`{"decision_type":"t","input":{"x":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}}`), false
	case "body_bad_utf8", "body_truncated_utf8_in_input", "body_raw_surrogate_cesu":
		raw := regexp.MustCompile(`\\x[0-9a-f]{2}`).ReplaceAllStringFunc(*x.Body, func(escape string) string {
			b, _ := strconv.ParseUint(escape[2:], 16, 8)
			return string([]byte{byte(b)})
		})
		return strings.NewReader(raw), false
	}
	if x.Body == nil {
		return nil, false
	}
	return strings.NewReader(s.translate(*x.Body)), false
}

// translate replaces what the service made up by what the sandbox made up.
func (s *session) translate(text string) string {
	for _, recorded := range slices.Sorted(maps.Keys(s.known)) {
		text = strings.ReplaceAll(text, recorded, s.known[recorded])
	}
	return text
}

// fill records decisions until the next event has the number that the recorded answer names: the recordings have gaps where other evidence was
// recorded in between.
func (s *session) fill(x exchange) {
	if x.Method != http.MethodPost || x.Status != http.StatusOK {
		return
	}
	match := regexp.MustCompile(`"seq":(\d+)`).FindStringSubmatch(x.Answer)
	ahead := 1
	if match == nil {
		match, ahead = regexp.MustCompile(`"ledger_seq":(\d+)`).FindStringSubmatch(x.Answer), 0
	}
	if match == nil {
		return
	}
	want, _ := strconv.Atoi(match[1])
	for len(s.sandbox.Events(""))+ahead < want {
		s.post("/api/v1/decisions", `{"decision_type":"filler"}`)
	}
}

func (s *session) replay(t *testing.T, x exchange) {
	t.Helper()
	s.tamper(x.Name)
	s.fill(x)
	headers := maps.Clone(x.Headers)
	if headers == nil {
		headers = map[string]string{}
	}
	if id, ok := headers["X-Request-ID"]; ok {
		headers["X-Request-Id"] = id
	}
	switch x.Name { // Values that were not kept.
	case "open_basic_auth":
		headers["Authorization"] = "Basic dXNlcjpwYXNz"
	case "open_bearer", "auth_create_bearer_instead":
		headers["Authorization"] = "Bearer lg_live_" + strings.Repeat("x", 38)
	}
	if x.Credential == "empty" {
		headers["X-Loopgrid-Key"] = ""
	} else if x.Credential != "" {
		require.Contains(t, s.keys, x.Credential)
		headers["X-Loopgrid-Key"] = s.keys[x.Credential]
	}
	body, chunked := s.request(x)
	r := httptest.NewRequestWithContext(t.Context(), x.Method, s.translate(x.Path), body)
	if chunked {
		r.ContentLength = -1
	}
	r.Host = "127.0.0.1:8791"
	for name, value := range headers {
		r.Header[name] = []string{value}
	}
	w := httptest.NewRecorder()
	s.sandbox.ServeHTTP(w, r)
	s.compare(t, x, w)
}

func (s *session) compare(t *testing.T, x exchange, w *httptest.ResponseRecorder) {
	t.Helper()
	require.Equal(t, x.Status, w.Code, "%s", w.Body)
	assert.Equal(t, "1", w.Header().Get("X-LoopGrid-Sandbox"))
	if x.Method != http.MethodHead {
		assert.Equal(t, strconv.Itoa(w.Body.Len()), w.Header().Get("Content-Length"))
	}
	switch {
	case x.RequestID == "":
		assert.Empty(t, w.Header().Get("X-Request-ID"))
	case x.Headers["X-Request-ID"] != "":
		assert.Equal(t, x.RequestID, w.Header().Get("X-Request-ID"))
	default:
		assert.Regexp(t, `^req_[0-9a-f]{20}$`, w.Header().Get("X-Request-ID"))
	}
	want := map[string]string{}
	for name, value := range x.AnswerHeaders {
		want[http.CanonicalHeaderKey(name)] = s.translate(value)
	}
	got := map[string]string{}
	for name := range w.Header() {
		got[name] = w.Header().Get(name)
	}
	for _, name := range []string{"X-Loopgrid-Sandbox", "Content-Length", "X-Request-Id"} {
		delete(got, name)
	}
	assert.Equal(t, want, got)

	switch contentType := got["Content-Type"]; {
	case contentType == "application/zip":
		_, err := zip.NewReader(bytes.NewReader(w.Body.Bytes()), int64(w.Body.Len()))
		require.NoError(t, err)
	case contentType == "application/x-pem-file":
		block, rest := pem.Decode(w.Body.Bytes())
		require.NotNil(t, block)
		assert.Empty(t, rest)
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		require.NoError(t, err)
		assert.Equal(t, s.sandbox.PublicKey(), key)
	case contentType != "application/json":
		assert.Equal(t, x.Answer, w.Body.String())
	case x.Answer != "":
		s.compareJSON(t, x.Answer, w.Body.String())
	}
}

// Forms of what the service makes up.
var (
	idForm   = regexp.MustCompile(`^((?:dec|evt|pld|cp|ws)_)[0-9a-f]+$`)
	hashForm = regexp.MustCompile(`^()[0-9a-f]{64}$`)
	keyForm  = regexp.MustCompile(`^(ed25519:)[0-9a-f]{16}$`)
	timeForm = regexp.MustCompile(`^()\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(\+00:00)?$`)
)

// compareJSON compares two JSON texts token by token: the same members in the same order, numbers in the same spelling, and strings that are equal
// or stand for each other.
func (s *session) compareJSON(t *testing.T, recorded, answered string) {
	t.Helper()
	a := jsontext.NewDecoder(strings.NewReader(recorded), jsontext.AllowDuplicateNames(true))
	b := jsontext.NewDecoder(strings.NewReader(answered))
	for {
		x, errX := a.ReadToken()
		want, pointer := x.String(), string(a.StackPointer())
		y, errY := b.ReadToken()
		if errors.Is(errX, io.EOF) {
			require.ErrorIs(t, errY, io.EOF)
			return
		}
		require.NoError(t, errX)
		require.NoError(t, errY, answered)
		require.Equal(t, x.Kind(), y.Kind(), "%s\n%s\n%s", pointer, recorded, answered)
		require.Equal(t, pointer, string(b.StackPointer()), "%s\n%s", recorded, answered)
		name := pointer[strings.LastIndex(pointer, "/")+1:]
		switch {
		case want == y.String():
			s.learn(t, pointer, want, want)
		case name == "uptime_seconds":
			assert.Regexp(t, `^\d+\.\d$`, y.String())
		case name == "version":
			require.Equal(t, "0.8.1-design-partner", want)
			require.Equal(t, sandbox.Version, y.String())
		case name == "production_recommendation" || name == "note" || pointer == "/detail/0/ctx/error":
			assert.NotEmpty(t, y.String(), "the sandbox's own words, or the parser's")
		case strings.HasPrefix(want, "Policy version could not be created: (sqlite3"):
			assert.Contains(t, y.String(), "Policy version could not be created: ")
		case name == "signature":
			raw, err := base64.StdEncoding.DecodeString(y.String())
			require.NoError(t, err)
			assert.Len(t, raw, ed25519.SignatureSize)
		default:
			s.learn(t, pointer, want, y.String())
		}
	}
}

// learn checks that what was made up stands for the same thing everywhere. Hashes of payloads are no made-up things.
func (s *session) learn(t *testing.T, pointer, recorded, answered string) {
	t.Helper()
	forms := []*regexp.Regexp{idForm, keyForm, timeForm}
	if strings.HasSuffix(pointer, "chain_hash") || strings.HasSuffix(pointer, "content_hash") {
		forms = append(forms, hashForm)
	}
	for _, form := range forms {
		x := form.FindStringSubmatch(recorded)
		if x == nil {
			continue
		}
		y := form.FindStringSubmatch(answered)
		require.NotNil(t, y, "%s: %s is not of the form of %s", pointer, answered, recorded)
		require.Equal(t, x[1:], y[1:], pointer)
		require.Len(t, answered, len(recorded), pointer)
		if known, ok := s.known[recorded]; ok {
			require.Equal(t, known, answered, "%s: stands for %s", pointer, recorded)
		}
		s.known[recorded] = answered
		return
	}
	if known, ok := s.known[recorded]; ok {
		recorded = known
	}
	require.Equal(t, recorded, answered, pointer)
}

// recompute checks every chain of the session from the events themselves.
func (s *session) recompute(t *testing.T) {
	t.Helper()
	workspaces := map[string]bool{}
	for _, e := range s.sandbox.Events("") {
		workspaces[e.WorkspaceID] = true
	}
	for workspace := range workspaces {
		events := s.sandbox.Events(workspace)
		if strings.HasPrefix(workspace, "agent-") && !assert.ObjectsAreEqual(events[0].ActorID, agentID(t, events[0])) {
			assert.False(t, s.sandbox.Verify(workspace), "%s: an agent id that is no string breaks the chain", workspace)
			continue
		}
		checkChain(t, s.sandbox.PublicKey(), events)
		assert.True(t, s.sandbox.Verify(workspace), workspace)
	}
}

// agentID is the agent's id as it was sent.
func agentID(t *testing.T, e sandbox.Event) any {
	t.Helper()
	var payload struct {
		Agent struct {
			ID any `json:"id"`
		} `json:"agent"`
	}
	require.NoError(t, json.Unmarshal(e.Payload, &payload))
	return payload.Agent.ID
}
