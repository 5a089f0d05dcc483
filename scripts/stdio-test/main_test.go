package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
	"github.com/loopgridio/loopgrid-mcp/scripts/launch"
)

func TestRunInASandbox(t *testing.T) {
	t.Setenv("LOOPGRID_BASE_URL", "http://127.0.0.1:1") // must not reach it
	out, code := runWith(t, "-sandbox")
	require.Equal(t, 0, code, out)
	assert.True(t, strings.HasSuffix(out, "\n[PASS] Real stdio MCP client test completed successfully.\n"), out)
	assert.NotContains(t, out, "[SKIP]")
	assert.Contains(t, out, "[PASS] Go client: record_review: state approve, confirmed elicited\n")
	assert.Contains(t, out, "[PASS] raw lines: record_review: state approve, confirmed host\n")
	for _, who := range []string{"Go client", "raw lines"} {
		for _, what := range []string{"record_decision", "record_review", "record_action", "record_outcome", "verify_evidence", "get_evidence", "malformed id"} {
			assert.Contains(t, out, "[PASS] "+who+": "+what+": ")
		}
	}
}

func TestRunAgainstAService(t *testing.T) {
	command, err := launch.Build(t.Context(), t.TempDir(), launch.Program)
	require.NoError(t, err)
	ledger := sandbox.New(sandbox.Options{Auth: true})
	service := httptest.NewServer(ledger)
	defer service.Close()
	t.Setenv("LOOPGRID_BASE_URL", service.URL)
	t.Setenv("LOOPGRID_SERVICE_KEY", ledger.CreateKey("default", "ingest", "read"))
	t.Setenv("LOOPGRID_MCP_ENABLE_REVIEW_TOOL", "true")
	t.Setenv("LOOPGRID_MCP_REVIEWER_ID", "somebody")
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)

	out, code := runWith(t, "-command", command)
	require.Equal(t, 0, code, out)
	assert.True(t, strings.HasSuffix(out, "\n[PASS] "+finished+"\n"), out)
	assert.Contains(t, out, "[SKIP] Go client: record_review: nobody can review here", "the operator's settings do not open it")
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	assert.Empty(t, left)

	t.Setenv("LOOPGRID_SERVICE_KEY", "")
	out, code = runWith(t, "-command", command)
	assert.Equal(t, 1, code, out)
	assert.Contains(t, out, "[FAIL] Go client: decision: Not recorded")
	assert.NotContains(t, out, finished)

	// Something on the way changes numbers.
	ledger = sandbox.New(sandbox.Options{})
	changed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		ledger.ServeHTTP(answer, r)
		w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
		w.WriteHeader(answer.Code)
		_, _ = w.Write(bytes.ReplaceAll(answer.Body.Bytes(), []byte("9007199254740993"), []byte("9007199254740992")))
	}))
	defer changed.Close()
	t.Setenv("LOOPGRID_BASE_URL", changed.URL)
	out, code = runWith(t, "-command", command)
	assert.Equal(t, 1, code, out)
	assert.Contains(t, out, "[FAIL] Go client: decision: ")
}

func TestRunFails(t *testing.T) {
	t.Parallel()
	nothing := filepath.Join(t.TempDir(), "nothing")
	for name, c := range map[string]struct {
		args     []string
		code     int
		expected string
	}{
		"no such flag":              {[]string{"-x"}, 2, "-x"},
		"argument":                  {[]string{"x"}, 2, "[FAIL] stdio-test takes no arguments"},
		"help":                      {[]string{"-h"}, 0, "-sandbox"},
		"no such binary":            {[]string{"-command", nothing}, 1, "[FAIL] Go client: connect to loopgrid-mcp: "},
		"no such binary to sandbox": {[]string{"-command", nothing, "-sandbox"}, 1, "[FAIL] start the sandbox: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, code := runWith(t, c.args...)
			assert.Equal(t, c.code, code, out)
			assert.Contains(t, out, c.expected)
			assert.NotContains(t, out, finished)
		})
	}
}

func runWith(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	var b bytes.Buffer
	code = run(t.Context(), args, &b)
	return b.String(), code
}

func TestReadAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ line, problem string }{
		"good":                   {`{"id":1,"result":{"content":[{"type":"text","text":"{\"a\":9007199254740993,\"b\":1e2}"}],"structuredContent":{"b":1e2,"a":9007199254740993}}}`, ""},
		"rounded":                {`{"id":1,"result":{"content":[{"type":"text","text":"{\"a\":9007199254740993}"}],"structuredContent":{"a":9007199254740992}}}`, "not what was sent"},
		"another kind":           {`{"id":1,"result":{"content":[{"type":"text","text":"{\"a\":720.0}"}],"structuredContent":{"a":720}}}`, "not what was sent"},
		"spelled anew":           {`{"id":1,"result":{"content":[{"type":"text","text":"{\"a\":9007199254740993.0}"}],"structuredContent":{"a":9007199254740992.0}}}`, "is not as often"},
		"no structured content":  {`{"id":1,"result":{"content":[{"type":"text","text":"{}"}]}}`, "it is missing"},
		"no text":                {`{"id":1,"result":{"content":[],"structuredContent":{}}}`, "does not begin with a text"},
		"error":                  {`{"id":1,"error":{"code":-32602,"message":"no"}}`, "the call was answered with"},
		"refusal":                {`{"id":1,"result":{"isError":true,"content":[{"type":"text","text":"no"}]}}`, ""},
		"refusal with structure": {`{"id":1,"result":{"isError":true,"content":[{"type":"text","text":"no"}],"structuredContent":{}}}`, "a refusal has structured content"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := readAnswer([]byte(c.line))
			if c.problem == "" {
				require.NoError(t, err)
				assert.Equal(t, strings.Contains(c.line, "isError"), a.Refused)
			} else {
				require.ErrorContains(t, err, c.problem)
			}
		})
	}
}

func TestCheckList(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, checkList([]byte(`{"result":{"tools":[{"name":"loopgrid.get_evidence"}]}}`)), `the tools are ["loopgrid.get_evidence"]`)
	require.Error(t, checkList([]byte(`{"result":{"tools":[]}}`)))
}
