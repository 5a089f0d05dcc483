package cli_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
)

// request posts a body and returns the object or list that is answered.
func request(t *testing.T, url, key, body string) (status int, answer map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("X-LoopGrid-Key", key)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	_ = json.Unmarshal(text, &answer)
	return res.StatusCode, answer
}

// recordsNothing fails the test if the ledger changes until its end.
func recordsNothing(t *testing.T, s *sandbox.Server) {
	t.Helper()
	events, writes := s.Events("default"), s.Stats().Writes
	t.Cleanup(func() {
		assert.Equal(t, events, s.Events("default"), "nothing is recorded")
		assert.Equal(t, writes, s.Stats().Writes, "nothing is written")
	})
}

func TestDoctorTellsKeysApart(t *testing.T) {
	now := time.Now()
	var mu sync.Mutex
	s := sandbox.New(sandbox.Options{Auth: true, Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}})
	admin := s.CreateKey("default", "admin")
	url := serve(t, s)
	_, issued := request(t, url+"/api/v1/workspaces/default/keys", admin, `{"name":"k","expires_in_days":1}`)
	expired, _ := issued["api_key"].(string)
	require.NotEmpty(t, expired)
	mu.Lock()
	now = now.AddDate(0, 0, 2)
	mu.Unlock()
	status, _ := request(t, url+"/api/v1/decisions", admin, `{"decision_type":"t","input":{"customer":"private@example.com"}}`)
	require.Equal(t, http.StatusOK, status)

	const (
		accepted = "[OK] service key: accepted\n"
		refused  = "[FAIL] service key: refused; it is wrong, revoked or expired, or has none of the scopes it needs (LoopGrid does not say which)\n" +
			"  → Set LOOPGRID_SERVICE_KEY to a key of workspace default with the scopes ingest and read; LoopGrid's operator can make one.\n" +
			"[INFO] chain: not checked, reading is refused\n"
		holds = "[OK] workspace default holds decisions: yes\n"
		valid = "[OK] chain: valid, 1 events checked in "
	)
	for _, tt := range []struct {
		name, key string
		review    bool
		code      int
		want      []string
	}{
		{"good", s.CreateKey("default"), false, 0, []string{accepted +
			"[OK] scope ingest: yes\n[OK] scope read: yes\n[OK] scope review: no, and not needed\n[OK] scope admin: no\n" + holds + valid}},
		{"with review", s.CreateKey("default", "ingest", "read", "review"), true, 0, []string{accepted +
			"[OK] scope ingest: yes\n[OK] scope read: yes\n[OK] scope review: yes\n[OK] scope admin: no\n" + holds + valid}},
		{"review not needed", s.CreateKey("default", "ingest", "read", "review"), false, 0, []string{
			"[WARN] scope review: yes, but the review tool is off: the key may do more than this program needs\n  → Use a key with the scopes ingest and read only.\n" +
				"[OK] scope admin: no\n",
		}},
		{"review missing", s.CreateKey("default"), true, 1, []string{
			"[FAIL] scope review: missing, so no review can be recorded although the review tool is on\n" +
				"  → Set LOOPGRID_SERVICE_KEY to a key of workspace default with the scopes ingest, read and review; LoopGrid's operator can make one.\n",
		}},
		{"admin", admin, false, 0, []string{accepted + "[OK] scope ingest: yes\n[OK] scope read: yes\n[OK] scope review: yes\n" +
			"[WARN] scope admin: yes, the key can make keys, change policies and erase payloads\n" +
			"  → Use a key of workspace default with the scopes ingest and read only.\n"}},
		{"admin with review", admin, true, 0, []string{"[WARN] scope admin: yes, ", "with the scopes ingest, read and review only.\n"}},
		{"read only", s.CreateKey("default", "read"), false, 1, []string{"[FAIL] scope ingest: missing, so nothing can be recorded\n", valid}},
		{"ingest only", s.CreateKey("default", "ingest"), false, 1, []string{
			"[FAIL] scope read: missing, so evidence can neither be downloaded nor verified\n", "[INFO] chain: not checked, reading is refused\n",
		}},
		{"of another workspace", s.CreateKey("elsewhere"), false, 1, []string{
			"[FAIL] service key: it belongs to another workspace than default\n  → Use a key of this workspace, or set LOOPGRID_WORKSPACE to the workspace of the key.\n",
		}},
		{"of another workspace, with fewer scopes", s.CreateKey("elsewhere", "read"), false, 1, []string{"[FAIL] service key: it belongs to another workspace than default\n"}},
		{"expired", expired, false, 1, []string{refused}},
		{"garbage", "no-such-key", false, 1, []string{refused}},
		{"none", "", false, 1, []string{"[FAIL] service key: none is set, and LoopGrid asks for one\n  → Set LOOPGRID_SERVICE_KEY to a key of workspace default "}},
		{"placeholder", "${LOOPGRID_KEY}", false, 1, []string{
			"[FAIL] service key: none is set, and LoopGrid asks for one\n",
			"LoopGrid's operator can make one. LOOPGRID_SERVICE_KEY is a placeholder that the host did not fill in",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			quiet(t)
			t.Setenv("LOOPGRID_BASE_URL", url)
			recordsNothing(t, s)
			t.Setenv("LOOPGRID_SERVICE_KEY", tt.key)
			if tt.review {
				t.Setenv("LOOPGRID_MCP_ENABLE_REVIEW_TOOL", "true")
				t.Setenv("LOOPGRID_MCP_REVIEWER_ID", "reviewer@example.com")
			}
			code, out := examine(t)
			assert.Equal(t, tt.code, code, out)
			for _, want := range tt.want {
				assert.Contains(t, out, want)
			}
			assert.NotContains(t, out, "lg_live_")
			assert.NotContains(t, out, "private@example.com")
			assert.NotContains(t, out, "dec_")
		})
	}
}

// The two variables of the key exclude each other, so the remedy names the one that is set.
func TestDoctorWithARefusedKeyFromAFile(t *testing.T) {
	s := sandbox.New(sandbox.Options{Auth: true})
	quiet(t)
	recordsNothing(t, s)
	t.Setenv("LOOPGRID_BASE_URL", serve(t, s))
	path := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(path, []byte("lg_live_no-such-key"), 0o600))
	t.Setenv("LOOPGRID_SERVICE_KEY_FILE", path)
	code, out := examine(t)
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "[FAIL] service key: refused; ")
	assert.Contains(t, out, "\n  → Write a key of workspace default with the scopes ingest and read into the file that LOOPGRID_SERVICE_KEY_FILE names; LoopGrid's operator can make one.\n")
}

func TestDoctorWhereNoKeyIsNeeded(t *testing.T) {
	s := sandbox.New(sandbox.Options{})
	quiet(t)
	recordsNothing(t, s)
	t.Setenv("LOOPGRID_BASE_URL", "http://sandbox.example")
	code, out := examineOver(t, over{s, routes{"/evaluate": answering(500, "{}")}})
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "[OK] service key: none needed, LoopGrid asks for none\n[FAIL] scope ingest: not checked, LoopGrid answered 500 to POST ")
	t.Setenv("LOOPGRID_BASE_URL", serve(t, s))
	t.Setenv("LOOPGRID_SERVICE_KEY", "no-such-key")
	code, out = examine(t)
	assert.Equal(t, 1, code, "a bad key never falls back to the open mode")
	assert.Contains(t, out, "[FAIL] service key: refused; ")
	t.Setenv("LOOPGRID_SERVICE_KEY", s.CreateKey("default"))
	code, out = examine(t)
	assert.Equal(t, 0, code)
	assert.Contains(t, out, "[OK] service key: accepted\n")
	assert.Contains(t, out, "[INFO] LoopGrid asks for a key: no\n")
}

func TestDoctorAdminThatCannotBeToldApart(t *testing.T) {
	s := sandbox.New(sandbox.Options{Auth: true})
	quiet(t)
	t.Setenv("LOOPGRID_BASE_URL", "http://sandbox.example")
	recordsNothing(t, s)
	t.Setenv("LOOPGRID_SERVICE_KEY", s.CreateKey("default", "admin"))
	code, out := examineOver(t, over{s, routes{"/audit": answering(404, `{"detail":"Not Found"}`)}})
	assert.Equal(t, 0, code)
	assert.Contains(t, out, "[WARN] scope review: yes, but the review tool is off")
	assert.Contains(t, out, "[INFO] scope admin: not checked, LoopGrid answered 404 to GET /api/v1/workspaces/{w}/audit\n")
}

func TestDoctorVerifiesTheChain(t *testing.T) {
	s := sandbox.New(sandbox.Options{Faults: sandbox.Faults{ForkChain: true, WriteTime: 50 * time.Millisecond}})
	url := serve(t, s)
	quiet(t)
	t.Setenv("LOOPGRID_BASE_URL", url)
	for range 2 {
		status, _ := request(t, url+"/api/v1/decisions", "", `{"decision_type":"t"}`)
		require.Equal(t, http.StatusOK, status)
	}
	_, out := examine(t)
	assert.Regexp(t, `\n\[OK\] chain: valid, 2 events checked in \d\.\d\d s\n`, out)

	var both sync.WaitGroup
	for range 3 {
		both.Go(func() { _, _ = request(t, url+"/api/v1/decisions", "", `{"decision_type":"t"}`) })
	}
	both.Wait()
	require.False(t, s.Verify("default"))
	recordsNothing(t, s)
	code, out := examine(t)
	assert.Equal(t, 1, code)
	assert.Regexp(t, `\n\[FAIL\] chain: NOT VALID: first at event evt_\w+: previous_chain_hash_mismatch, chain_hash_mismatch( \(\d events in all\))? `+
		`\(checked in \d\.\d\d s\)\n  → Evidence of this workspace was altered, lost or forked `, out)
}

// routes are answered in another way than the sandbox does, by the ends of their paths; a nil handler never answers.
type routes map[string]http.HandlerFunc

// over carries requests to a sandbox and to changed routes without a network, so that time can be that of testing/synctest.
type over struct {
	sandbox *sandbox.Server
	changed routes
}

func (o over) RoundTrip(r *http.Request) (*http.Response, error) {
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil { // the client asks whether it was connected
		trace.GotConn(httptrace.GotConnInfo{})
	}
	for path, handler := range o.changed {
		if !strings.HasSuffix(r.URL.Path, path) {
			continue
		}
		if handler == nil {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		w := httptest.NewRecorder()
		handler(w, r)
		return w.Result(), nil
	}
	return o.sandbox.RoundTrip(r)
}

func answering(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestDoctorWithAServiceInTrouble(t *testing.T) {
	const private = `{"detail":"row of private@example.com"}`
	for name, tt := range map[string]struct {
		routes routes
		code   int
		took   time.Duration
		want   []string
	}{
		"database down": {routes{"/ready": answering(503, `{"detail":"Not ready: OperationalError"}`)}, 1, 0, []string{
			"[OK] LoopGrid reachable: ",
			"[FAIL] LoopGrid answered 503 to GET /ready: Not ready: OperationalError\n  → LoopGrid is running but cannot record: its operator should look at its database and log.\n",
			"[INFO] key, scopes and chain: not checked, LoopGrid is not ready\n",
		}},
		"database hangs": {routes{"/ready": nil}, 1, 20 * time.Second, []string{"[FAIL] LoopGrid did not answer GET /ready in time (20 s, at "}},
		"list fails": {routes{"/api/v1/decisions": answering(500, private)}, 1, 0, []string{
			"[FAIL] scope read: not checked, LoopGrid answered 500 to GET /api/v1/decisions\n  → LoopGrid or a gateway in front of it failed: its operator should look at the log.\n",
			"[INFO] chain: not checked, LoopGrid answered 500 to GET /api/v1/decisions\n",
		}},
		"list hangs": {routes{"/api/v1/decisions": nil}, 1, 20 * time.Second, []string{"[FAIL] scope read: not checked, LoopGrid did not answer GET /api/v1/decisions in time (20 s, at "}},
		"API kept away": {routes{"/api/v1/decisions": answering(403, private), "/evaluate": answering(403, private), "/reviews": answering(403, private)}, 1, 0, []string{
			"[FAIL] service key: not checked, LoopGrid answered 403 to GET /api/v1/decisions\n  → LoopGrid does not answer like this: a proxy, gateway or firewall in between may block its API.",
		}},
		"evaluate elsewhere": {routes{"/evaluate": answering(404, `{"detail":"Not Found"}`)}, 1, 0, []string{
			"[FAIL] scope ingest: not checked, LoopGrid answered 404 to POST /api/v1/workspaces/{w}/policies/evaluate\n",
		}},
		"limited": {routes{"/evaluate": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "41")
			answering(429, `{"detail":"Rate limit exceeded"}`)(w, r)
		}}, 0, 0, []string{"[WARN] scope ingest: not checked, LoopGrid answered 429 to POST /api/v1/workspaces/{w}/policies/evaluate\n" +
			"  → LoopGrid limits the number of requests: run doctor again in 42 s.\n"}},
		"reviews fail": {routes{"/reviews": answering(500, private)}, 0, 0, []string{
			"[INFO] scope review: not checked, LoopGrid answered 500 to GET /api/v1/reviews\n", "[INFO] scope admin: not checked\n",
		}},
		"damaged row": {routes{"/verify": answering(500, private)}, 1, 0, []string{"[FAIL] chain: LoopGrid failed to check it (500)\n"}},
		"long ledger": {routes{"/verify": nil}, 0, 20 * time.Second, []string{"[WARN] chain: not checked, LoopGrid had no answer after 20.0 s", "\n  → Raise LOOPGRID_MCP_TIMEOUT_SECONDS"}},
		"slow ledger": {routes{"/verify": func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(11 * time.Second) // of the bubble
			answering(200, `{"valid":true,"total_ledger_events":90000,"failures":[]}`)(w, r)
		}}, 0, 11 * time.Second, []string{
			"[WARN] chain: valid, 90000 events checked in 11.0 s of the 20.0 s that a request may take\n  → Raise LOOPGRID_MCP_TIMEOUT_SECONDS",
		}},
		"erased again": {routes{"/verify": answering(404, `{"detail":"Decision not found"}`)}, 0, 0, []string{"[INFO] chain: not checked, the newest decision is gone again\n"}},
		"strange verify": {routes{"/verify": answering(200, `{"private":"private@example.com"}`)}, 0, 0, []string{
			"[WARN] chain: not checked, the answer to GET /api/v1/decisions/{id}/verify cannot be used: ",
		}},
		"old service": {routes{"/system/info": answering(404, `{"detail":"Not Found"}`)}, 0, 0, []string{
			"[INFO] setup of LoopGrid: not checked, LoopGrid answered 404 to GET /api/v1/system/info\n",
		}},
		"a service in production": {routes{"/system/info": answering(200, `{"environment":"production","database":{"provider":"sqlite"},`+
			`"lifecycle":{"enforced":false},"deployment_security":{"human_auth_required":false}}`)}, 0, 0, []string{
			"[INFO] database provider: sqlite (writes must not overlap: ", "[WARN] lifecycle rules enforced: no, ", "[INFO] LoopGrid asks for a key: yes\n",
		}},
		"a list that is none": {routes{"/api/v1/decisions": answering(200, `{"private":"private@example.com"}`)}, 0, 0, []string{
			"[INFO] chain: not checked, the workspace has no decision yet\n",
		}},
		"what a terminal would obey": {routes{"/health": answering(200, `{"service":"loopgrid","version":"1\u001b[2J\u202e\n[OK] x lg_live_private"}`)}, 0, 0, []string{
			"[OK] version: 1 [2J [OK] x [service key]\n",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			quiet(t)
			const key = "lg_live_private"
			t.Setenv("LOOPGRID_SERVICE_KEY", key)
			t.Setenv("LOOPGRID_BASE_URL", "http://sandbox.example")
			synctest.Test(t, func(t *testing.T) {
				s := sandbox.New(sandbox.Options{})
				// The sandbox makes its keys itself, so it is asked with one of them in place of ours.
				ours := s.CreateKey("default")
				res, err := withKey{s, ours}.RoundTrip(posting(t, "http://sandbox.example/api/v1/decisions", `{"decision_type":"t"}`))
				require.NoError(t, err)
				require.NoError(t, res.Body.Close())
				recordsNothing(t, s)
				began := time.Now()
				code, out := examineOver(t, withKey{over{s, tt.routes}, ours})
				assert.InDelta(t, tt.took.Seconds(), time.Since(began).Seconds(), 0.5, "back-off aside")
				assert.Equal(t, tt.code, code, out)
				for _, want := range tt.want {
					assert.Contains(t, out, want)
				}
				assert.NotContains(t, out, "private")
			})
		})
	}
}

// withKey replaces the key of requests.
type withKey struct {
	http.RoundTripper

	key string
}

func (w withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-LoopGrid-Key", w.key)
	return w.RoundTripper.RoundTrip(r)
}

// posting is a request that records.
func posting(t *testing.T, url, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	return r
}

func TestDoctorIsBoundWhenNothingIsAnswered(t *testing.T) {
	quiet(t)
	t.Setenv("LOOPGRID_BASE_URL", "http://127.0.0.1:8000")
	for name, tt := range map[string]struct {
		silent routes
		took   time.Duration
		want   string
	}{
		"never": {routes{"/health": nil}, 22 * time.Second, // and 2 s for the other loopback address
			"[FAIL] LoopGrid did not answer GET /health in time (20 s, at 127.0.0.1:8000)\n  → LoopGrid is not responding, "},
		"at first only": {
			routes{"/ready": nil, "/info": nil, "/decisions": nil, "/evaluate": nil, "/reviews": nil, "/audit": nil},
			20 * time.Second,
			"[FAIL] LoopGrid did not answer GET /ready in time (20 s, at ",
		},
		"while it is ready": {
			routes{"/info": nil, "/decisions": nil, "/evaluate": nil, "/reviews": nil, "/audit": nil},
			40 * time.Second,
			"[FAIL] service key: not checked, LoopGrid did not answer GET /api/v1/decisions in time (20 s, at ",
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			code, out := examineOver(t, over{sandbox.New(sandbox.Options{}), tt.silent})
			assert.Equal(t, 1, code, name)
			assert.Equal(t, tt.took, time.Since(began), name)
			assert.Contains(t, out, tt.want)
		})
	}
}
