package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/cli"
	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
)

// asProgram makes the test binary run as the program: some of what the doctor looks at is read once in a process.
const asProgram = "LOOPGRID_MCP_TEST_RUNS_CLI"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(cli.Run(context.Background(), cli.Process{Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}))
	}
	// The settings of whoever runs the tests stay out of them.
	for _, entry := range os.Environ() {
		switch name, _, _ := strings.Cut(entry, "="); {
		case strings.HasPrefix(name, "LOOPGRID_"), strings.HasSuffix(strings.ToUpper(name), "_PROXY"), strings.HasPrefix(name, "SSL_CERT_"):
			_ = os.Unsetenv(name)
		}
	}
	os.Exit(m.Run())
}

// quiet sets an environment in which the doctor has nothing to say about this machine.
func quiet(t *testing.T) {
	t.Helper()
	clearEnvironment(t)
	t.Setenv("PATH", t.TempDir())
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
}

// serve serves a handler under a base path, and has it answer for nothing else.
func serve(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(http.StripPrefix("/base", handler))
	t.Cleanup(server.Close)
	return server.URL + "/base"
}

// examine runs the doctor.
func examine(t *testing.T) (code int, out string) {
	t.Helper()
	return examineOver(t, nil)
}

// examineOver runs the doctor over a transport. Each [FAIL] and [WARN] has to be followed by what to do, and nothing else does.
func examineOver(t *testing.T, transport http.RoundTripper) (code int, out string) {
	t.Helper()
	var stdout, errs bytes.Buffer
	code = cli.Run(t.Context(), cli.Process{Args: []string{"loopgrid-mcp", "doctor"}, Stdout: &stdout, Stderr: &errs, Transport: transport})
	out, summary, _ := strings.Cut(stdout.String(), "\n\n")
	out += "\n"
	assert.Empty(t, errs.String())
	failures := regexp.MustCompile(`(?m)^\[FAIL\] .*\n  → .*\n`).FindAllString(out, -1)
	warnings := strings.Count("\n"+out, "\n[WARN] ")
	assert.True(t, strings.HasPrefix(summary, strings.Join(failures, "")), "failures are repeated: %s", summary)
	assert.Regexp(t, `^((\d+) failures?|No failures|All is well: no failures), (\d+|no) warnings?\n$`, strings.TrimPrefix(summary, strings.Join(failures, "")))
	if warnings > 1 {
		assert.Contains(t, summary, fmt.Sprintf(", %d warnings\n", warnings))
	}
	bad := false
	for line := range strings.Lines(out) {
		assert.Equal(t, bad, strings.HasPrefix(line, "  → "), "%q in\n%s", line, out)
		bad = strings.HasPrefix(line, "[FAIL] ") || strings.HasPrefix(line, "[WARN] ")
		assert.Regexp(t, `^(\[(OK|INFO|WARN|FAIL)\] [^ \n]|  → [A-Zc"])`, line)
	}
	assert.False(t, bad, "the last line says what to do")
	assert.Equal(t, strings.Contains(out, "[FAIL] "), code != 0, out)
	return code, out
}

func TestDoctorPrintsTheLinesOfThePythonBridge(t *testing.T) {
	url := serve(t, sandbox.New(sandbox.Options{}))
	quiet(t)
	t.Setenv("LOOPGRID_BASE_URL", url+"/")
	dir := os.Getenv("LOOPGRID_EVIDENCE_DIR")
	require.NoError(t, os.Chmod(dir, 0o700)) //nolint:gosec // a directory
	want := `[OK] LoopGrid reachable: ` + url + `
[OK] version: 0.8.1-sandbox
[OK] evidence profile: 3.0-draft
[OK] database: ok
[OK] signer: local_ed25519
[OK] MCP workspace: default
[INFO] service key configured: no
[INFO] human review tool enabled: no
[INFO] raw payload export enabled: no
[WARN] this is a sandbox, not LoopGrid: what it records proves nothing
  → Set LOOPGRID_BASE_URL to a LoopGrid service to keep evidence.
[INFO] database provider: sqlite (writes must not overlap: programs of one user on this machine take turns, other users, containers and machines do not)
[INFO] lifecycle rules enforced: yes
[INFO] LoopGrid asks for a key: no
[OK] service key: none needed, LoopGrid asks for none
[INFO] workspace default holds decisions: none yet; if it should, check the spelling of LOOPGRID_WORKSPACE
[INFO] chain: not checked, the workspace has no decision yet
[INFO] evidence directory: ` + dir + ` (set by LOOPGRID_EVIDENCE_DIR)
[OK] evidence directory writable: yes
[OK] evidence directory free space: N
[MODE]
[OK] write lock: shared by all processes of this user on this machine
[INFO] program: unknown, version ` + cli.Version + `
[INFO] loopgrid-mcp on PATH: none, so give hosts the full path of the program
[INFO] settings from the environment: LOOPGRID_BASE_URL, LOOPGRID_EVIDENCE_DIR
`
	code, out := examine(t)
	assert.Equal(t, 0, code)
	assert.Equal(t, want, machineless(out))

	var second bytes.Buffer
	code = cli.Run(t.Context(), cli.Process{Args: []string{"/opt/loopgrid-mcp-doctor"}, Stdout: &second, Stderr: io.Discard})
	assert.Equal(t, 0, code)
	assert.Equal(t, want+"\nNo failures, 1 warning\n", machineless(second.String()), "the second program of the Python bridge")
}

// machineless replaces what differs from machine to machine.
func machineless(out string) string {
	out = regexp.MustCompile(`free space: [0-9.]+ \w+`).ReplaceAllString(out, "free space: N")
	return regexp.MustCompile(`\[\w+\] evidence directory mode: .*`).ReplaceAllString(out, "[MODE]")
}

func TestDoctorWithBrokenSettings(t *testing.T) {
	quiet(t)
	t.Setenv("LOOPGRID_BASE_URL", "ftp://private.example")
	t.Setenv("LOOPGRID_MCP_ENABLE_REVIEW_TOOL", "perhaps")
	t.Setenv("LOOPGRID_SERVICE_KY", "x")
	code, out := examine(t)
	assert.Equal(t, 2, code)
	assert.Contains(t, out, "[FAIL] LOOPGRID_BASE_URL ")
	assert.Contains(t, out, "[FAIL] LOOPGRID_MCP_ENABLE_REVIEW_TOOL ")
	assert.Contains(t, out, "[WARN] LOOPGRID_SERVICE_KY is set")
	assert.Contains(t, out, "[INFO] LoopGrid: not checked, fix the settings above first\n")
	assert.Contains(t, out, "[OK] evidence directory writable: yes\n", "what can be checked is")
	assert.NotContains(t, out, "private.example")
	assert.NotContains(t, out, "perhaps")

	// A setting that does not touch every call keeps nothing from being checked.
	quiet(t)
	t.Setenv("LOOPGRID_BASE_URL", serve(t, sandbox.New(sandbox.Options{})))
	t.Setenv("LOOPGRID_EVIDENCE_DIR", "${HOME}/x")
	code, out = examine(t)
	assert.Equal(t, 2, code)
	assert.Contains(t, out, "[OK] LoopGrid reachable: ")
	assert.Contains(t, out, "[INFO] evidence directory: not checked, ")
}

func TestDoctorColours(t *testing.T) {
	quiet(t)
	t.Setenv("LOOPGRID_BASE_URL", serve(t, sandbox.New(sandbox.Options{Auth: true})))
	colored := func(terminal bool, args ...string) string {
		var out bytes.Buffer
		cli.Run(t.Context(), cli.Process{Args: append([]string{"loopgrid-mcp", "doctor"}, args...), Stdout: &out, Stderr: io.Discard, StdoutTerminal: terminal})
		return out.String()
	}
	assert.NotContains(t, colored(false), "\x1b")
	assert.NotContains(t, colored(true, "--json"), "\x1b")
	out := colored(true)
	for _, want := range []string{"\x1b[32m[OK]\x1b[0m LoopGrid", "\x1b[33m[WARN]\x1b[0m this", "\x1b[31m[FAIL]\x1b[0m service key", "\n[INFO] service key"} {
		assert.Contains(t, out, want)
	}
	for _, term := range []string{"dumb", ""} {
		t.Setenv("TERM", term)
		if term == "dumb" || runtime.GOOS != "windows" {
			assert.NotContains(t, colored(true), "\x1b", term)
		}
	}
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "1")
	assert.NotContains(t, colored(true), "\x1b")
}

func TestDoctorEndsAtASignal(t *testing.T) {
	asked := make(chan struct{}, 1)
	never := make(chan struct{})
	quiet(t)
	t.Setenv("LOOPGRID_BASE_URL", serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-never
	})))
	t.Cleanup(func() { close(never) }) // before the server waits for its handlers
	stop := make(chan struct{})
	go func() {
		<-asked
		close(stop)
	}()
	var out bytes.Buffer
	began := time.Now()
	code := cli.Run(t.Context(), cli.Process{Args: []string{"loopgrid-mcp", "doctor"}, Stdout: &out, Stderr: io.Discard, Stop: stop})
	assert.Equal(t, 1, code)
	assert.Contains(t, out.String(), "[FAIL] GET /health was cancelled\n")
	assert.Less(t, time.Since(began), 10*time.Second, "the time-out is 20 s")
}

func TestDoctorWithAKeyThatIsAWord(t *testing.T) {
	quiet(t)
	t.Setenv("LOOPGRID_BASE_URL", serve(t, sandbox.New(sandbox.Options{})))
	t.Setenv("LOOPGRID_SERVICE_KEY", "x")
	_, out := examine(t)
	assert.Contains(t, out, "[INFO] raw payload export enabled: no\n", "its own words stay")
}

func TestDoctorUsage(t *testing.T) {
	t.Parallel()
	code, out, errs := run("doctor", "--help")
	assert.Equal(t, 0, code)
	assert.Contains(t, out, "loopgrid-mcp doctor")
	assert.Contains(t, out, "--json")
	assert.Empty(t, errs)
}

func TestEveryCheckIsDocumented(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("doctor.go")
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "doctor.md"))
	require.NoError(t, err)
	ids := regexp.MustCompile(`\n\tid\w+ += "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	require.Greater(t, len(ids), 20)
	for _, id := range ids {
		assert.True(t, strings.Contains(string(page), "`"+id[1]+"`"), "docs/doctor.md names %s", id[1]) //nolint:testifylint // its text is too long to show
	}
}

func TestDoctorOnReviewsThatNobodyMaySee(t *testing.T) {
	quiet(t)
	t.Setenv("LOOPGRID_BASE_URL", serve(t, sandbox.New(sandbox.Options{})))
	t.Setenv("LOOPGRID_MCP_ENABLE_REVIEW_TOOL", "1")
	t.Setenv("LOOPGRID_MCP_REVIEWER_ID", "ann")
	const warning = "[WARN] human review confirmation: auto, so where the host shows no form, what the model says is recorded as the reviewer's word\n" +
		"  → Set LOOPGRID_MCP_REVIEW_CONFIRMATION to required "
	code, out := examine(t)
	assert.Equal(t, 0, code)
	assert.Contains(t, out, warning)
	for _, value := range []string{"required", "host"} {
		t.Setenv("LOOPGRID_MCP_REVIEW_CONFIRMATION", value)
		_, out = examine(t)
		assert.NotContains(t, out, "review confirmation")
	}
}

func TestDoctorOnAWriteLockThatIsOff(t *testing.T) { //nolint:paralleltest // it sets the environment of the process
	for database, want := range map[string]string{
		"sqlite":     "[FAIL] write lock: off, but LoopGrid runs on SQLite, where overlapping writes break the chain\n  → Set LOOPGRID_MCP_WRITE_LOCK to auto; ",
		"postgresql": "[OK] write lock: off, and LoopGrid runs on PostgreSQL, which orders writes itself\n",
		"":           "[WARN] write lock: off, and LoopGrid does not say that it runs on PostgreSQL; ",
	} {
		quiet(t)
		s := sandbox.New(sandbox.Options{})
		t.Setenv("LOOPGRID_BASE_URL", serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/api/v1/system/info" {
				s.ServeHTTP(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"database":{"provider":"`+database+`"}}`)
		})))
		t.Setenv("LOOPGRID_MCP_WRITE_LOCK", "off")
		code, out := examine(t)
		assert.Contains(t, out, want)
		assert.Equal(t, database == "postgresql", strings.Contains(out, "[INFO] database provider: postgresql (it orders writes itself)\n"))
		assert.Equal(t, 1, strings.Count(out, "write lock"), out)
		assert.Equal(t, database == "sqlite", code == 1)
	}
}

// People copy the address of a page or of the API.
func TestDoctorLooksAboveTheAddress(t *testing.T) { //nolint:paralleltest // it sets the environment of the process
	url := serve(t, sandbox.New(sandbox.Options{}))
	for _, below := range []string{"/api/v1", "/docs", "/health", "/api/v1/decisions", "/docs/"} {
		quiet(t)
		t.Setenv("LOOPGRID_BASE_URL", url+below)
		code, out := examine(t)
		assert.Equal(t, 1, code)
		assert.Contains(t, out, "  → LoopGrid answers at "+url+": set LOOPGRID_BASE_URL to that.\n", below)
	}
}
