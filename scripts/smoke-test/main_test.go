package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/config"
	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
)

func TestRunPasses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		auth    bool
		environ []string
		policy  string
	}{
		"open":              {policy: "policy human_approval_required"},
		"with a key":        {auth: true, policy: "policy human_approval_required"},
		"another workspace": {environ: []string{"LOOPGRID_WORKSPACE=smoke"}, policy: "policy not asked: this workspace has no active refund-policy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ledger := sandbox.New(sandbox.Options{Auth: c.auth})
			environ := c.environ
			if c.auth {
				environ = append(environ, "LOOPGRID_SERVICE_KEY="+ledger.CreateKey("default", "ingest", "read", "review"))
			}
			out, code := tryService(t, ledger, environ...)
			require.Equal(t, 0, code, out)
			for line := range strings.Lines(out) {
				assert.True(t, strings.HasPrefix(line, "[PASS] "), line)
			}
			assert.Contains(t, out, c.policy)
			assert.Contains(t, out, "evidence_complete")
			assert.Contains(t, out, "[PASS] read back: ")
		})
	}
}

// A program must not sign for a person in a ledger that proves something.
func TestRunReviewsInASandboxAlone(t *testing.T) {
	t.Parallel()
	out, code := tryService(t, changing(sandbox.New(sandbox.Options{}), "", "", func(*http.Request) bool { return true }))
	require.Equal(t, 0, code, out)
	assert.Contains(t, out, "[SKIP] review: nobody can review here: this is no sandbox")
	assert.Contains(t, out, "[PASS] read back: 5 events")
}

// A service in front of which something changes the numbers does not pass, at whatever step.
func TestRunNoticesChangedNumbers(t *testing.T) {
	t.Parallel()
	for _, change := range [][2]string{
		{"9007199254740993", "9007199254740992"},
		{"720.0", "720"},
		{"-0.0", "0.0"},
		{"123456789012345678901234567890", "1.2345678901234568e+29"},
		{"größer", "groesser"},
	} {
		t.Run(change[0], func(t *testing.T) {
			t.Parallel()
			for step, matches := range map[string]func(*http.Request) bool{
				"decision":  func(r *http.Request) bool { return r.URL.Path == "/api/v1/decisions" },
				"read back": func(r *http.Request) bool { return r.Method == http.MethodGet && strings.Count(r.URL.Path, "/") == 4 },
			} {
				out, code := tryService(t, changing(sandbox.New(sandbox.Options{}), change[0], change[1], matches))
				assert.Equal(t, 1, code, out)
				assert.Contains(t, out, "[FAIL] "+step+": ", "%s to %s", change[0], change[1])
			}
		})
	}
}

func TestRunFails(t *testing.T) {
	t.Parallel()
	answer := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(text))
		})
	}
	for name, c := range map[string]struct {
		service  http.Handler
		environ  []string
		code     int
		expected string
	}{
		"down":           {nil, []string{"LOOPGRID_BASE_URL=http://127.0.0.1:1", "LOOPGRID_MCP_TIMEOUT_SECONDS=0.2"}, 1, "[FAIL] health: "},
		"something else": {answer("[]"), nil, 1, "[FAIL] health: "},
		"no key":         {sandbox.New(sandbox.Options{Auth: true}), nil, 1, "[FAIL] decision: "},
		"wrong key":      {sandbox.New(sandbox.Options{Auth: true}), []string{"LOOPGRID_SERVICE_KEY=lg_live_x"}, 1, "[FAIL] decision: "},
		"bad settings":   {nil, []string{"LOOPGRID_BASE_URL=ftp://x", "LOOPGRID_WORKSPACE=.."}, 2, "[FAIL] LOOPGRID_WORKSPACE"},
		"broken chain": {
			changing(sandbox.New(sandbox.Options{}), `"valid":true`, `"valid":false`, func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/verify") }),
			nil, 1, "[FAIL] evidence: the evidence is not complete and valid",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, code := tryService(t, c.service, c.environ...)
			assert.Equal(t, c.code, code, out)
			assert.Contains(t, out, c.expected)
			assert.NotContains(t, out, " passed.")
		})
	}
}

// tryService runs the smoke test against a service, or with the environment alone.
func tryService(t *testing.T, service http.Handler, environ ...string) (out string, code int) {
	t.Helper()
	if service != nil {
		server := httptest.NewServer(service)
		defer server.Close()
		environ = append(environ, "LOOPGRID_BASE_URL="+server.URL)
	}
	var b bytes.Buffer
	code = run(t.Context(), config.LoadFrom(environ), &b)
	return b.String(), code
}

// changing is a service that is no sandbox, and replaces a text in its answers to the requests that match.
func changing(service http.Handler, from, to string, matches func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !matches(r) {
			service.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		service.ServeHTTP(answer, r)
		for name, values := range answer.Header() {
			if name != "Content-Length" && name != "X-Loopgrid-Sandbox" {
				w.Header()[name] = values
			}
		}
		w.WriteHeader(answer.Code)
		body := answer.Body.Bytes()
		if from != "" {
			body = bytes.ReplaceAll(body, []byte(from), []byte(to))
		}
		_, _ = w.Write(body)
	})
}
