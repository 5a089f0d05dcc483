package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/scripts/launch"
)

// The demonstration itself: the real program, the real sandbox, the official client.
func TestRun(t *testing.T) {
	temp := useTemp(t)
	// What the user has set for real work must not reach the demonstration.
	t.Setenv("LOOPGRID_BASE_URL", "http://127.0.0.1:1")
	t.Setenv("LOOPGRID_MCP_ENABLE_REVIEW_TOOL", "true")
	t.Setenv("LOOPGRID_MCP_REVIEWER_ID", "somebody")

	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out), out.String())

	told := out.String()
	t.Log(told)
	rest := told
	for _, expected := range []string{
		`\[1\] `, `sandbox +http://127\.0\.0\.1:\d+`,
		`\[2\] `, `protocol +2026-07-28`, `loopgrid\.record_decision`, `loopgrid\.verify_evidence`,
		`\[3\] .*720 USD`, `decision +dec_`, `policy +human_approval_required`,
		`\[4\] `, `\| Not recorded: `, `approval_required`,
		`\[5\] .*record_review`, `shows the person this form`, `amount`, `720\.0`, `action +approve`, `reason +the carrier`, `confirmed +elicited`,
		`\[6\] `, `event +evt_\w+ tool_executed`,
		`\[7\] `, `event +evt_\w+ outcome_observed`,
		`\[8\] `, `decision +dec_`,
		`\[9\] `, `evidence_complete`, `evidence +.*-evidence\.zip\n`, `sha256 +[0-9a-f]{64}\n`,
		`\[10\] `, `valid, 6 events`,
		`all that is left behind`,
		`What to run next`, `loopgrid-verify .*-evidence\.zip --expected-key-id KEY_ID_FROM_YOUR_OPERATOR\n`, `go build -o bin/ \./cmd/loopgrid-mcp\n`,
	} {
		found := regexp.MustCompile(expected).FindStringIndex(rest)
		require.NotNil(t, found, "%s is not told, or not in its place", expected)
		rest = rest[found[1]:]
	}
	for line := range strings.Lines(told) {
		assert.Equal(t, strings.Trim(line, " \t\n")+"\n", strings.TrimLeft(line, " \t"), "blanks at the end of a line")
	}

	// What the README shows of a session is what the program says.
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	require.NoError(t, err)
	_, shown, _ := strings.Cut(string(readme), "LoopGrid refuses it and says what to do:\n\n```text\n")
	shown, _, _ = strings.Cut(shown, "\n```")
	ids := regexp.MustCompile(`dec_[0-9a-f]{24}`)
	unwrapped := ids.ReplaceAllString(strings.Join(strings.Fields(strings.ReplaceAll(told, "\n      | ", "\n")), " "), "dec_")
	for _, line := range append(strings.Split(shown, "\n"), regexp.MustCompile(`"next": "(.*)"`).FindStringSubmatch(string(readme))[1]) {
		assert.Contains(t, unwrapped, ids.ReplaceAllString(line, "dec_"))
	}

	// Only the evidence stays, and it is where the last lines say.
	left, err := filepath.Glob(filepath.Join(temp, "*", "*"))
	require.NoError(t, err)
	require.Len(t, left, 1)
	assert.Contains(t, told, "evidence   "+left[0]+"\n")
	assert.Contains(t, told, "loopgrid-verify "+left[0]+" --expected-key-id KEY_ID_FROM_YOUR_OPERATOR\n")
	assertNothingRuns(t, told)
}

// Ctrl-C at any moment ends everything.
func TestRunInterrupted(t *testing.T) { //nolint:paralleltest // useTemp sets the environment
	program, err := launch.Build(t.Context(), t.TempDir(), launch.Program)
	require.NoError(t, err)
	for _, at := range []string{"[1]", "sandbox", "protocol", "this form", "[8]"} { //nolint:paralleltest // as above
		t.Run(at, func(t *testing.T) {
			temp := useTemp(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out := &watcher{text: at, seen: cancel}
			if at == "[1]" {
				require.Error(t, run(ctx, out))
			} else {
				require.Error(t, demonstrate(ctx, &printer{out: out, titles: 1}, program))
			}
			require.Error(t, ctx.Err(), "it was never interrupted")
			assert.NotContains(t, out.String(), "What to run next")
			left, err := filepath.Glob(filepath.Join(temp, "loopgrid-*"))
			require.NoError(t, err)
			assert.Empty(t, left)
			assertNothingRuns(t, out.String())
		})
	}
}

// Whoever copies the line out of either gets the same.
func TestHostLineIsTheOneInTheReadme(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	require.NoError(t, err)
	assert.Contains(t, string(readme), "\n"+hostLine("/usr/local/bin/loopgrid-mcp")+"\n")
}

func TestRunWithoutGo(t *testing.T) {
	useTemp(t)
	t.Setenv("PATH", t.TempDir())
	var out bytes.Buffer
	require.ErrorContains(t, run(t.Context(), &out), "build loopgrid-mcp")
	assertNothingRuns(t, out.String())
}

// useTemp has everything temporary of this process go to a directory of the test.
func useTemp(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, variable := range []string{"TMPDIR", "TMP", "TEMP"} {
		t.Setenv(variable, dir)
	}
	return dir
}

// watcher calls seen as soon as text was written.
type watcher struct {
	bytes.Buffer

	text string
	seen func()
}

func (w *watcher) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if strings.Contains(w.String(), w.text) {
		w.seen()
	}
	return n, err
}

// assertNothingRuns looks for what the demonstration may have left behind: somebody at the sandbox's address, and on Linux any
// child of this process.
func assertNothingRuns(t *testing.T, told string) {
	t.Helper()
	if address := regexp.MustCompile(`http://(127\.0\.0\.1:\d+)`).FindStringSubmatch(told); address != nil {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address[1])
		if err == nil {
			_ = conn.Close()
			assert.Fail(t, "the sandbox still listens")
		}
	}
	if runtime.GOOS != "linux" {
		return
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	require.NotEmpty(t, stats)
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // It has ended meanwhile.
		}
		// pid (name) state ppid ...; the name may hold anything.
		_, after, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')'):]), " ")
		fields := strings.Fields(after)
		require.Greater(t, len(fields), 1)
		assert.NotEqual(t, strconv.Itoa(os.Getpid()), fields[1], "a child is left: %s", stat)
	}
}
