package sandbox_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
)

// client sends requests to a sandbox in memory.
type client struct {
	t      *testing.T
	server *sandbox.Server
	http   *http.Client
	key    string
}

func newClient(t *testing.T, o sandbox.Options) *client {
	t.Helper()
	s := sandbox.New(o)
	return &client{t: t, server: s, http: &http.Client{Transport: s}}
}

// send sends a request and returns its answer, or the error where there is none.
func (c *client) send(method, path, body string) (status int, answer string, header http.Header, err error) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, "http://sandbox.example"+path, strings.NewReader(body))
	require.NoError(c.t, err)
	r.Header.Set("Content-Type", "application/json")
	if c.key != "" {
		r.Header.Set("X-LoopGrid-Key", c.key)
	}
	response, err := c.http.Do(r)
	if err != nil {
		return 0, "", nil, err
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	require.NoError(c.t, err)
	return response.StatusCode, string(raw), response.Header, nil
}

func (c *client) post(path, body string) (status int, answer string) {
	c.t.Helper()
	status, answer, _, err := c.send(http.MethodPost, path, body)
	require.NoError(c.t, err)
	return status, answer
}

func (c *client) get(path string) (status int, answer string) {
	c.t.Helper()
	status, answer, _, err := c.send(http.MethodGet, path, "")
	require.NoError(c.t, err)
	return status, answer
}

// create records a decision and returns its id.
func (c *client) create(body string) string {
	c.t.Helper()
	status, answer := c.post("/api/v1/decisions", body)
	require.Equal(c.t, http.StatusOK, status, answer)
	return decisionID(c.t, answer)
}

func decisionID(t *testing.T, answer string) string {
	t.Helper()
	var created struct {
		DecisionID string `json:"decision_id"`
	}
	require.NoError(t, json.Unmarshal([]byte(answer), &created))
	return created.DecisionID
}

func TestNothingIsMistakenForLoopGrid(t *testing.T) {
	t.Parallel()
	c := newClient(t, sandbox.Options{})
	for path, want := range map[string]string{
		"/health":             `"version":"0.8.1-sandbox"`,
		"/ready":              `"version":"0.8.1-sandbox"`,
		"/api/v1/system/info": `"database":{"provider":"sqlite"}`,
		"/":                   "sandbox",
		"/nowhere":            `{"detail":"Not Found"}`,
	} {
		_, body, header, err := c.send(http.MethodGet, path, "")
		require.NoError(t, err)
		assert.Equal(t, "1", header.Get(sandbox.Header), path)
		assert.Contains(t, body, want, path)
	}
}

// TestUnknownRoutes asks for routes that LoopGrid has and the sandbox has not.
func TestUnknownRoutes(t *testing.T) {
	t.Parallel()
	c := newClient(t, sandbox.Options{})
	for _, path := range []string{
		"/metrics", "/docs", "/api/v1/dashboard", "/api/v1/auth/me", "/api/v1/workspaces/default/keys/a/b", "//",
	} {
		status, body := c.get(path)
		assert.Equal(t, http.StatusNotFound, status, path)
		assert.JSONEq(t, `{"detail":"Not Found"}`, body, path)
	}
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 9, 19, 10, 0, 0, 0, time.UTC)
	c := newClient(t, sandbox.Options{Now: func() time.Time { return now }})
	for range 600 {
		status, _ := c.post("/api/v1/decisions/dec_x/events", `{}`)
		require.Equal(t, http.StatusUnprocessableEntity, status, "what is refused counts too")
	}
	now = now.Add(1500 * time.Millisecond)
	status, body, header, err := c.send(http.MethodPost, "/api/v1/decisions", `{"decision_type":"t"}`)
	require.NoError(t, err)
	assert.Equal(t, http.StatusTooManyRequests, status)
	assert.JSONEq(t, `{"detail": "Rate limit exceeded", "retry_after_seconds": 58}`, body)
	assert.Equal(t, "58", header.Get("Retry-After"))
	now = now.Add(58 * time.Second)
	status, body = c.post("/api/v1/decisions", `{"decision_type":"t"}`)
	assert.Equal(t, http.StatusTooManyRequests, status, "the wait is rounded down")
	assert.Contains(t, body, `"retry_after_seconds": 1}`)
	now = now.Add(501 * time.Millisecond)
	status, _ = c.post("/api/v1/decisions", `{"decision_type":"t"}`)
	assert.Equal(t, http.StatusOK, status)

	for range 120 {
		status, _ := c.post("/api/v1/workspaces/default/policies/evaluate", `{"policy_id":"p","proposed_action":{}}`)
		require.Equal(t, http.StatusNotFound, status)
	}
	status, _ = c.post("/api/v1/workspaces", `{"name":"n"}`)
	assert.Equal(t, http.StatusTooManyRequests, status, "all other writes share a bucket")
	c.key = "somebody else"
	status, _ = c.post("/api/v1/workspaces", `{"name":"n"}`)
	assert.Equal(t, http.StatusUnauthorized, status, "each key has its own")
}

// TestRateLimitForgets sends with more keys than the limiter remembers.
func TestRateLimitForgets(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 9, 19, 10, 0, 0, 0, time.UTC)
	c := newClient(t, sandbox.Options{Now: func() time.Time { return now }, Limits: sandbox.Limits{IngestPerMinute: 1}})
	for i := range 5000 {
		c.key = fmt.Sprint("key", i)
		now = now.Add(40 * time.Millisecond)
		status, _ := c.post("/api/v1/decisions", `{}`)
		require.Equal(t, http.StatusUnprocessableEntity, status)
		status, _ = c.post("/api/v1/decisions", `{}`)
		require.Equal(t, http.StatusTooManyRequests, status)
	}
	assert.LessOrEqual(t, c.server.RateClients(), 1024)
}

func TestBodyWithoutLengthIsBounded(t *testing.T) {
	t.Parallel()
	s := sandbox.New(sandbox.Options{Limits: sandbox.Limits{BodyBytes: 1000}})
	send := func(size int) int {
		body := `{"decision_type":"t","input":{"x":"` + strings.Repeat("a", size-38) + `"}}`
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/decisions", io.MultiReader(strings.NewReader(body)))
		require.EqualValues(t, -1, r.ContentLength)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code
	}
	assert.Equal(t, http.StatusOK, send(8000))
	assert.Equal(t, http.StatusRequestEntityTooLarge, send(8200))
	assert.Len(t, s.Events("default"), 1)
}

func TestLedgerIsBounded(t *testing.T) {
	t.Parallel()
	const full = `{"detail":"The sandbox is full: it keeps its evidence in memory. Start it again."}`
	t.Run("events", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, sandbox.Options{Limits: sandbox.Limits{Events: 2}})
		id := c.create(`{"decision_type":"t","idempotency_key":"k"}`)
		c.create(`{"decision_type":"t"}`)
		status, body := c.post("/api/v1/decisions", `{"decision_type":"t"}`)
		assert.Equal(t, http.StatusInsufficientStorage, status)
		assert.JSONEq(t, full, body)
		status, _ = c.post("/api/v1/decisions/"+id+"/events", `{"event_type":"model_completed"}`)
		assert.Equal(t, http.StatusInsufficientStorage, status)
		assert.Equal(t, id, c.create(`{"decision_type":"t","idempotency_key":"k"}`), "a replay appends nothing")
		assert.Len(t, c.server.Events("default"), 2)
		assert.True(t, c.server.Verify("default"))
	})
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, sandbox.Options{Limits: sandbox.Limits{MemoryBytes: 50_000}})
		c.create(`{"decision_type":"t","input":{"x":"` + strings.Repeat("a", 40_000) + `"}}`)
		status, body := c.post("/api/v1/decisions", `{"decision_type":"t","input":{"x":"`+strings.Repeat("a", 10_000)+`"}}`)
		assert.Equal(t, http.StatusInsufficientStorage, status)
		assert.JSONEq(t, full, body)
		for path, body := range map[string]string{
			"/api/v1/workspaces":                    `{"name":"n"}`,
			"/api/v1/workspaces/default/keys":       `{}`,
			"/api/v1/workspaces/default/policies":   `{"policy_id":"p%d","name":"n","version":"1","rule":{}}`,
			"/api/v1/workspaces/default/checkpoint": ``,
		} {
			status := http.StatusOK
			for i := 0; status == http.StatusOK; i++ {
				require.Less(t, i, 20)
				status, _ = c.post(path, strings.ReplaceAll(body, "%d", strconv.Itoa(i)))
			}
			assert.Equal(t, http.StatusInsufficientStorage, status, path)
		}
		assert.Len(t, c.server.Events("default"), 1)
	})
	t.Run("memory of many small events", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, sandbox.Options{Limits: sandbox.Limits{MemoryBytes: 20_000}})
		for range 100 {
			_, _ = c.post("/api/v1/decisions", `{"decision_type":"t"}`)
		}
		assert.NotEmpty(t, c.server.Events("default"))
		assert.Less(t, len(c.server.Events("default")), 20)
	})
	t.Run("workspaces that are created on first use", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, sandbox.Options{Limits: sandbox.Limits{Events: 1, MemoryBytes: 20_000}})
		for i := range 100 {
			_, _ = c.post("/api/v1/decisions", fmt.Sprintf(`{"decision_type":"t","workspace_id":"w%d"}`, i))
		}
		assert.Less(t, c.server.Workspaces(), 30)
	})
}

func TestKeys(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 9, 19, 10, 0, 0, 0, time.UTC)
	c := newClient(t, sandbox.Options{Auth: true, Now: func() time.Time { return now }})
	admin := c.server.CreateKey("default", "admin")
	assert.Regexp(t, `^lg_live_[A-Za-z0-9_-]{38}$`, admin)

	status, body := c.post("/api/v1/workspaces/default/keys", `{"scopes":["read"]}`)
	assert.Equal(t, http.StatusUnauthorized, status, body)
	status, _ = c.post("/api/v1/workspaces", `{"name":"n"}`)
	assert.Equal(t, http.StatusUnauthorized, status)

	c.key = admin
	status, body = c.post("/api/v1/workspaces/default/keys", `{"name":"reader","scopes":["read","ingest","read"],"expires_in_days":1}`)
	require.Equal(t, http.StatusOK, status)
	assert.Regexp(t, `^\{"key_id":"key_[0-9a-f]{16}","name":"reader","workspace_id":"default","scopes":\["ingest","read"\],`+
		`"api_key":"lg_live_[A-Za-z0-9_-]{38}","warning":"[^"]+"\}$`, body)
	var made struct {
		KeyID string `json:"key_id"`
		Key   string `json:"api_key"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &made))

	list := func(key string) int {
		c.key = key
		status, _ := c.get("/api/v1/decisions")
		return status
	}
	assert.Equal(t, http.StatusOK, list(made.Key))
	assert.Equal(t, http.StatusUnauthorized, list(""))
	now = now.Add(24*time.Hour - time.Second)
	assert.Equal(t, http.StatusOK, list(made.Key))
	now = now.Add(time.Second)
	assert.Equal(t, http.StatusUnauthorized, list(made.Key), "it has expired")

	assert.Equal(t, http.StatusOK, list(c.server.CreateKey("default")), "no scopes means ingest and read")
	c.key = admin
	_, body = c.post("/api/v1/workspaces/default/keys", `{"scopes":[]}`)
	assert.Contains(t, body, `"scopes":["ingest","read"]`)

	// What administrators did is for them: this is how a client finds out whether a key is one of theirs.
	for key, want := range map[string]int{admin: http.StatusOK, c.server.CreateKey("default"): http.StatusUnauthorized, "": http.StatusUnauthorized} {
		c.key = key
		status, body = c.get("/api/v1/workspaces/default/audit?limit=1")
		assert.Equal(t, want, status, body)
	}
}

func TestPolicyVersions(t *testing.T) {
	t.Parallel()
	c := newClient(t, sandbox.Options{})
	evaluate := func() string {
		_, body := c.post("/api/v1/workspaces/w/policies/evaluate", `{"policy_id":"p","proposed_action":{"amount":5}}`)
		return body
	}
	version := func(version, rule string, active bool) (int, string) {
		return c.post("/api/v1/workspaces/w/policies", fmt.Sprintf(`{"policy_id":"p","name":"n","version":%q,"rule":%s,"active":%t}`, version, rule, active))
	}
	status, _ := version("1", `{"type":"amount_threshold","auto_approve_max":10}`, true)
	require.Equal(t, http.StatusOK, status)
	assert.Contains(t, evaluate(), `"version":"1","decision":"auto_allowed"`)
	status, _ = version("2", `{"type":"amount_threshold","auto_approve_max":1}`, false)
	require.Equal(t, http.StatusOK, status)
	assert.Contains(t, evaluate(), `"version":"1"`)
	status, _ = version("3", `{"type":"amount_threshold","auto_approve_max":1,"hard_limit":2}`, true)
	require.Equal(t, http.StatusOK, status)
	assert.Contains(t, evaluate(), `"version":"3","decision":"blocked"`)
	status, _ = version("3", `{}`, true)
	assert.Equal(t, http.StatusConflict, status)
	assert.Contains(t, evaluate(), `"version":"3"`)
	next := 4
	for rule, want := range map[string]string{
		`{"type":"amount_threshold","field":7}`:                         `"reason":"amount_missing_or_invalid"`,
		`{"type":"amount_threshold","auto_approve_max":"x"}`:            `Internal Server Error`,
		`{"type":"amount_threshold","hard_limit":[1]}`:                  `Internal Server Error`,
		`{"type":"amount_threshold","hard_limit":" 4 "}`:                `"decision":"blocked"`,
		`{"type":"amount_threshold","auto_approve_max":true}`:           `"human_approval_threshold":1.0`,
		`{"type":"amount_threshold","field":"amount","hard_limit":4.5}`: `"hard_limit":4.5`,
	} {
		next++
		status, body := version(strconv.Itoa(next), rule, true)
		require.Equal(t, http.StatusOK, status, body)
		assert.Contains(t, evaluate(), want, rule)
	}
}

// TestPayloadStatus follows clear payloads from their recording to their erasure.
func TestPayloadStatus(t *testing.T) {
	t.Parallel()
	c := newClient(t, sandbox.Options{})
	id := c.create(`{"decision_type":"t"}`)
	_, _ = c.post("/api/v1/decisions/"+id+"/events", `{"event_type":"model_completed","privacy_mode":"redacted"}`)
	_, body := c.get("/api/v1/decisions/" + id + "/payload-status")
	assert.Contains(t, body, `"available":true`)
	assert.Contains(t, body, `"payload":{"mode":"not_vaulted","available":false}`)
	status, body := c.post("/api/v1/decisions/"+id+"/payload/erase", `{"reason":"why"}`)
	assert.Equal(t, http.StatusOK, status)
	assert.JSONEq(t, `{"decision_id":"`+id+`","erased_payloads":1,"ledger_integrity_valid":true}`, body)
	_, body = c.get("/api/v1/decisions/" + id + "/payload-status")
	assert.NotContains(t, body, `"available":true`)
	assert.Contains(t, body, `"erasure_reason":"why"`)
	_, body = c.post("/api/v1/decisions/"+id+"/payload/erase", `{}`)
	assert.Contains(t, body, `"erased_payloads":0`)
}

// buffer is a log that may be read while the sandbox writes to it.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func TestLog(t *testing.T) {
	t.Parallel()
	var log buffer
	now := time.Date(2026, 9, 19, 10, 20, 30, 456_000_000, time.UTC)
	c := newClient(t, sandbox.Options{Log: &log, Now: func() time.Time { return now }})
	id := c.create(`{"decision_type":"t","agent":{"id":"agent\u001b[31m\n1"},"input":{"secret":"never shown"},"idempotency_key":"k"}`)
	c.create(`{"decision_type":"t","idempotency_key":"k"}`)
	_, result := c.post("/api/v1/workspaces/default/policies/evaluate", `{"policy_id":"refund-policy","proposed_action":{"amount":720}}`)
	_, _ = c.post("/api/v1/decisions/"+id+"/events",
		`{"event_type":"policy_evaluated","actor_type":"policy","actor_id":"refund-policy","payload":`+result+`}`)
	_, _ = c.post("/api/v1/decisions/"+id+"/events", `{"event_type":"tool_executed"}`)
	_, _ = c.post("/api/v1/decisions/"+id+"/review", `{"action":"approve","reviewer":"alice"}`)
	other := c.create(`{"decision_type":"t","workspace_id":"lab","agent":{"id":"` + strings.Repeat("x", 200) + `"}}`)
	want := strings.NewReplacer("ID", id, "OTHER", other, "LONG", strings.Repeat("x", 80)+"…").Replace(
		"10:20:30.456  ID  decision_created   agent agent [31m 1\n" +
			"10:20:30.456  ID  policy_evaluated   policy refund-policy  policy: human_approval_required " +
			"(action_exceeds_auto_approval_threshold)\n" +
			"10:20:30.456  ID  human_approved     human alice  policy: human_approval_required\n" +
			"10:20:30.456  OTHER  decision_created   agent LONG  in lab\n")
	assert.Equal(t, want, log.String())
}

// TestLoad lets many clients write and read at once over real connections: the chain stays whole and every create is in the ledger once.
func TestLoad(t *testing.T) {
	t.Parallel()
	const clients, rounds = 6, 6
	var log buffer
	s := sandbox.New(sandbox.Options{Log: &log, Limits: sandbox.Limits{IngestPerMinute: 1 << 20}})
	server := httptest.NewServer(s)
	defer server.Close()
	call := func(method, path, body string) (string, error) {
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		if err != nil {
			return "", err
		}
		r.Header.Set("Content-Type", "application/json")
		response, err := server.Client().Do(r)
		if err != nil {
			return "", err
		}
		defer func() { _ = response.Body.Close() }()
		raw, err := io.ReadAll(response.Body)
		if response.StatusCode != http.StatusOK {
			return "", errors.Join(err, fmt.Errorf("%s %s: %d %s", method, path, response.StatusCode, raw))
		}
		return string(raw), err
	}
	failures := make(chan error, clients*rounds*8)
	var wg sync.WaitGroup
	for n := range clients {
		wg.Go(func() {
			for i := range rounds {
				created, err := call(http.MethodPost, "/api/v1/decisions",
					fmt.Sprintf(`{"decision_type":"t","workspace_id":"w%d","idempotency_key":"%d-%d"}`, i%2, n/2, i))
				if err != nil {
					failures <- err
					continue
				}
				id := regexp.MustCompile(`dec_[0-9a-f]{24}`).FindString(created)
				for _, request := range [][3]string{
					{http.MethodPost, "/events", `{"event_type":"model_completed","payload":{"x":1}}`},
					{http.MethodGet, "", ""},
					{http.MethodGet, "/verify", ""},
					{http.MethodGet, "/evidence", ""},
					{http.MethodPost, "/payload/erase", `{}`},
				} {
					if _, err := call(request[0], "/api/v1/decisions/"+id+request[1], request[2]); err != nil {
						failures <- err
					}
				}
				if _, err := call(http.MethodGet, fmt.Sprintf("/api/v1/decisions?workspace_id=w%d", i%2), ""); err != nil &&
					!strings.Contains(err.Error(), "500") { // A list with an erased decision is a 500.
					failures <- err
				}
			}
		})
	}
	wg.Wait()
	close(failures)
	for err := range failures {
		assert.Fail(t, err.Error())
	}
	created := 0
	for _, workspace := range []string{"w0", "w1"} {
		assert.True(t, s.Verify(workspace))
		checkChain(t, s.PublicKey(), s.Events(workspace))
		for _, e := range s.Events(workspace) {
			if e.EventType == "decision_created" {
				created++
			}
		}
	}
	assert.Equal(t, clients/2*rounds, created, "each key once")
	assert.Equal(t, len(s.Events("")), strings.Count(log.String(), "\n"))
}
