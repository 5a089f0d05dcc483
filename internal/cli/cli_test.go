package cli_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/cli"
	"github.com/loopgridio/loopgrid-mcp/internal/config"
	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
)

// run runs the program with these arguments and no input.
func run(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = cli.Run(context.Background(), cli.Process{
		Args: append([]string{"/usr/bin/loopgrid-mcp"}, args...), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
	})
	return code, out.String(), errs.String()
}

// clearEnvironment keeps the settings of whoever runs the tests out of them.
func clearEnvironment(t *testing.T) {
	t.Helper()
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "LOOPGRID_") {
			t.Setenv(name, "")
		}
	}
	t.Setenv("LOOPGRID_EVIDENCE_DIR", t.TempDir())
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, spelled := range []string{"version", "--version", "-v", "-V"} {
		code, out, errs := run(spelled)
		assert.Equal(t, 0, code)
		assert.Regexp(t, `^loopgrid-mcp `+regexp.QuoteMeta(cli.Version)+`-dev\S* \(go1\.\S+, \w+/\w+\)\n$`, out)
		assert.Empty(t, errs)
	}
}

func TestHelpNamesEveryCommandAndVariable(t *testing.T) {
	t.Parallel()
	for _, spelled := range []string{"help", "--help", "-h"} {
		code, out, errs := run(spelled)
		assert.Equal(t, 0, code)
		assert.Empty(t, errs)
		for _, v := range config.Variables() {
			assert.Contains(t, out, "  "+v.Name+"\n")
		}
		for _, command := range []string{"doctor", "sandbox", "config HOST", "version", "help"} {
			assert.Contains(t, out, "  loopgrid-mcp "+command)
		}
		for line := range strings.Lines(out) {
			assert.LessOrEqual(t, len([]rune(line)), 81, line)
		}
	}
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"serve", "x"},
		{"serve", "--transport", "http"},
		{"--frob"},
		{"version", "x"},
		{"help", "x"},
		{"help", "doctor", "x"},
		{"doctor", "x"},
		{"doctor", "--jason"},
		{"sandbox", "x"},
		{"sandbox", "--port", "1"},
	} {
		code, out, errs := run(args...)
		assert.Equal(t, 2, code, args)
		assert.Empty(t, out)
		assert.Regexp(t, `^loopgrid-mcp: (.+\n){1,2}Run loopgrid-mcp help for the commands\.\n$`, errs)
	}
}

func TestMistypedCommands(t *testing.T) {
	t.Parallel()
	for typed, near := range map[string]string{"docter": "doctor", "Sandbox": "sandbox", "conifg": "config", "hlep": "help"} {
		for _, args := range [][]string{{typed}, {"help", typed}} {
			code, out, errs := run(args...)
			assert.Equal(t, 2, code, args)
			assert.Empty(t, out)
			assert.Contains(t, errs, "; did you mean "+near+"?\n", args)
		}
	}
	_, _, errs := run("something-else")
	assert.NotContains(t, errs, "did you mean")
	assert.Contains(t, errs, "A host starts the server without arguments", "a host that passes arguments sees what is wrong")
	_, _, errs = run("lg_live_0123456789abcdef")
	assert.NotContains(t, errs, "0123")

	var terminal bytes.Buffer
	cli.Run(t.Context(), cli.Process{Args: []string{"loopgrid-mcp", "docter"}, Stdout: io.Discard, Stderr: &terminal, Terminal: true})
	assert.NotContains(t, terminal.String(), "A host starts")
}

func TestEveryCommandHasItsPage(t *testing.T) {
	t.Parallel()
	for command, part := range map[string]string{
		"serve": "--transport stdio", "stdio": "--transport stdio", "doctor": "--json", "sandbox": "--addr", "config": "--env NAME", "version": "-dev", "help": "COMMAND",
	} {
		_, want, _ := run("help", command)
		assert.Contains(t, want, part)
		for line := range strings.Lines(want) {
			assert.LessOrEqual(t, len([]rune(line)), 81, line)
		}
		for _, flag := range []string{"-h", "--help"} {
			code, out, errs := run(command, flag)
			assert.Equal(t, 0, code)
			assert.Empty(t, errs)
			assert.Equal(t, want, out)
		}
		for _, flag := range []string{"-V", "--version"} {
			code, out, _ := run(command, flag)
			assert.Equal(t, 0, code)
			assert.Contains(t, out, "loopgrid-mcp "+cli.Version)
		}
	}
}

// Hosts are set up with what other servers take.
func TestServeByOtherNames(t *testing.T) { //nolint:paralleltest // it sets the environment of the process
	clearEnvironment(t)
	for _, args := range [][]string{{}, {"serve"}, {"stdio"}, {"--transport", "stdio"}, {"--transport=stdio"}, {"serve", "--transport", "stdio"}, {"--stdio"}} {
		var out, errs bytes.Buffer
		code := cli.Run(t.Context(), cli.Process{
			Args: append([]string{"loopgrid-mcp"}, args...), Stdout: &out, Stderr: &errs,
			Stdin: strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"),
		})
		assert.Equal(t, 0, code, args)
		assert.JSONEq(t, `{"jsonrpc":"2.0","id":1,"result":{}}`, out.String(), args)
	}
}

func TestServeWithoutStdin(t *testing.T) { //nolint:paralleltest // it sets the environment of the process
	clearEnvironment(t)
	var out, errs bytes.Buffer
	code := cli.Run(t.Context(), cli.Process{Args: []string{"loopgrid-mcp"}, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, NoStdin: true})
	assert.Equal(t, 0, code)
	assert.Empty(t, out.String())
	assert.Contains(t, errs.String(), "stdin is connected to nothing")
	assert.Contains(t, errs.String(), "docker run -i")
	assert.Contains(t, errs.String(), "stdin_open: true")
}

// started is the sandbox subcommand, running.
type started struct {
	out  *lockedBuffer
	stop chan struct{}
	code chan int
}

type lockedBuffer struct {
	mu    sync.Mutex
	text  bytes.Buffer
	wrote chan struct{}
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err := b.text.Write(p)
	select {
	case b.wrote <- struct{}{}:
	default:
	}
	return n, err
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// waitFor waits until the pattern stands in the output, and returns its first group.
func (s *started) waitFor(t *testing.T, pattern string) string {
	t.Helper()
	for {
		if m := regexp.MustCompile(pattern).FindStringSubmatch(s.out.String()); m != nil {
			return m[1]
		}
		select {
		case <-s.out.wrote:
		case code := <-s.code:
			require.Fail(t, "the sandbox ended", "code %d: %s", code, s.out.String())
		}
	}
}

func startSandbox(t *testing.T, args ...string) *started {
	t.Helper()
	s := &started{out: &lockedBuffer{wrote: make(chan struct{}, 1)}, stop: make(chan struct{}), code: make(chan int, 1)}
	go func() {
		s.code <- cli.Run(context.Background(), cli.Process{
			Args: append([]string{"loopgrid-mcp", "sandbox", "--addr", "127.0.0.1:0"}, args...), Stdout: s.out, Stderr: s.out, Stop: s.stop,
		})
	}()
	return s
}

func post(t *testing.T, url, key string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/api/v1/decisions", strings.NewReader(`{"decision_type":"t"}`))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("X-LoopGrid-Key", key)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	assert.Equal(t, "1", res.Header.Get("X-LoopGrid-Sandbox"))
	return res.StatusCode
}

func TestSandbox(t *testing.T) {
	t.Parallel()
	s := startSandbox(t)
	url := s.waitFor(t, `Listening on (http://127\.0\.0\.1:\d+) `)
	assert.Contains(t, s.out.String(), "SANDBOX, not LoopGrid: 0.8.1-sandbox")
	assert.Equal(t, http.StatusOK, post(t, url, ""))
	assert.Equal(t, "decision_created", s.waitFor(t, `dec_\w+ +(\w+)`), "one line per event")
	close(s.stop)
	assert.Equal(t, 0, <-s.code)
	_, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	assert.Error(t, err, "nothing is left behind")
}

func TestSandboxWithKeys(t *testing.T) {
	t.Parallel()
	s := startSandbox(t, "--auth", "--quiet")
	url := s.waitFor(t, `Listening on (http://127\.0\.0\.1:\d+) `)
	key := s.waitFor(t, `(lg_live_\S+)  \[ingest read\]`)
	s.waitFor(t, `(lg_live_\S+)  \[admin\]`)
	assert.Equal(t, http.StatusUnauthorized, post(t, url, ""))
	assert.Equal(t, http.StatusOK, post(t, url, key))
	close(s.stop)
	assert.Equal(t, 0, <-s.code)
	assert.NotContains(t, s.out.String(), "decision_created")
}

func TestSandboxPortInUse(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	code, _, errs := run("sandbox", "--addr", listener.Addr().String())
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "Choose another address with --addr")
}

func TestServeEndsWithItsInput(t *testing.T) { //nolint:paralleltest // it sets the environment
	clearEnvironment(t)
	code, out, errs := run()
	assert.Equal(t, 0, code)
	assert.Empty(t, out)
	assert.Empty(t, errs)
}

func TestServeWithBrokenSettingsStarts(t *testing.T) {
	clearEnvironment(t)
	t.Setenv("LOOPGRID_BASE_URL", "nonsense")
	var out, errs bytes.Buffer
	code := cli.Run(t.Context(), cli.Process{
		Args: []string{"loopgrid-mcp"}, Stdout: &out, Stderr: &errs, Terminal: true,
		Stdin: strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}` + "\n"),
	})
	assert.Equal(t, 0, code)
	assert.Contains(t, out.String(), `"serverInfo":{"name":"loopgrid-mcp"`)
	assert.Contains(t, errs.String(), "LOOPGRID_BASE_URL")
	assert.Contains(t, errs.String(), "waiting for an MCP host on stdin")
	assert.Contains(t, errs.String(), "loopgrid-mcp config HOST")
}

// blocked is a stderr that nobody reads.
type blocked struct{ ever chan struct{} }

func (b blocked) Write([]byte) (int, error) {
	<-b.ever
	return 0, io.ErrClosedPipe
}

func TestAnUnreadStderrStopsNothing(t *testing.T) {
	clearEnvironment(t)
	t.Setenv("LOOPGRID_BASE_URL", "http://127.0.0.1:1")
	t.Setenv("LOOPGRID_MCP_LOG_LEVEL", "debug")
	var in strings.Builder
	in.WriteString(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}` + "\n")
	for range 3000 {
		in.WriteString(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"loopgrid.verify_evidence","arguments":{}}}` + "\n")
	}
	stderr := blocked{make(chan struct{})}
	defer close(stderr.ever)
	var out bytes.Buffer
	code := cli.Run(t.Context(), cli.Process{Args: []string{"loopgrid-mcp"}, Stdin: strings.NewReader(in.String()), Stdout: &out, Stderr: stderr})
	assert.Equal(t, 0, code)
	assert.Positive(t, strings.Count(out.String(), "decision_id: required but missing"))
}

// full is a disk without room.
type full struct{}

var errFull = errors.New("no space left on device")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWhatCannotBePrintedIsAFailure(t *testing.T) {
	clearEnvironment(t)
	t.Setenv("LOOPGRID_BASE_URL", serve(t, sandbox.New(sandbox.Options{})))
	for _, args := range [][]string{{"version"}, {"help"}, {"doctor"}, {"doctor", "--json"}, {"doctor", "--help"}, {"config", "cursor"}, {"sandbox", "--help"}} {
		var errs bytes.Buffer
		code := cli.Run(t.Context(), cli.Process{
			Args: append([]string{"loopgrid-mcp"}, args...), Stdout: full{}, Stderr: &errs, Executable: "/usr/bin/loopgrid-mcp",
		})
		assert.Equal(t, 1, code, args)
		assert.True(t, strings.HasSuffix(errs.String(), "loopgrid-mcp: cannot write to stdout: no space left on device\n"), "%v: %s", args, errs.String())
	}
}

func TestSandboxOnEveryAddress(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		s := startSandbox(t, "--addr", addr)
		url := s.waitFor(t, `Listening on (http://\S+:\d+) `)
		assert.Regexp(t, `^http://127\.0\.0\.1:\d+$`, url)
		s.waitFor(t, `(WARNING: other machines can reach it, on every address of this one\.)`)
		assert.Equal(t, http.StatusOK, post(t, url, ""))
		close(s.stop)
		assert.Equal(t, 0, <-s.code)
	}
}

// TestSandboxSaysWhatToDoNext looks at the lines that a person copies.
func TestSandboxSaysWhatToDoNext(t *testing.T) {
	t.Parallel()
	s := startSandbox(t)
	page := s.waitFor(t, `approve or reject: +(http://\S+/)\n`)
	base := strings.TrimSuffix(page, "/")
	assert.Contains(t, s.out.String(), "  LOOPGRID_BASE_URL="+base+" loopgrid-mcp doctor\n")
	assert.Contains(t, s.out.String(), "  loopgrid-mcp config HOST --env LOOPGRID_BASE_URL="+base+"\n")
	close(s.stop)
	assert.Equal(t, 0, <-s.code)

	s = startSandbox(t, "--auth", "--addr", "0.0.0.0:0")
	key := s.waitFor(t, `(lg_live_\S+)  \[ingest read\]`)
	admin := s.waitFor(t, `(lg_live_\S+)  \[admin\]`)
	page = s.waitFor(t, `approve or reject: +(http://\S+)\n`)
	base, fragment, _ := strings.Cut(page, "/#")
	assert.Equal(t, "key="+admin, fragment, "which no browser sends")
	assert.Contains(t, s.out.String(), "  LOOPGRID_BASE_URL="+base+" LOOPGRID_SERVICE_KEY="+key+" loopgrid-mcp doctor\n")
	assert.Contains(t, s.out.String(), "  loopgrid-mcp config HOST --env LOOPGRID_SERVICE_KEY --env LOOPGRID_BASE_URL="+base+"\n")
	assert.NotContains(t, s.out.String(), "Without --auth")
	close(s.stop)
	assert.Equal(t, 0, <-s.code)

	var out bytes.Buffer
	stop := make(chan struct{})
	close(stop)
	code := cli.Run(t.Context(), cli.Process{
		Args: []string{"loopgrid-mcp", "sandbox", "--addr", "127.0.0.1:0"}, Stdout: &out, Stderr: &out, Stop: stop, OS: "windows",
	})
	assert.Equal(t, 0, code, out.String())
	assert.Regexp(t, `  \$env:LOOPGRID_BASE_URL = "http://127\.0\.0\.1:\d+"; loopgrid-mcp doctor\n`, out.String())
}

// TestSandboxIsForOneMachine asks as a page of somebody else would have a browser ask.
func TestSandboxIsForOneMachine(t *testing.T) {
	t.Parallel()
	s := startSandbox(t)
	url := s.waitFor(t, `Listening on (http://127\.0\.0\.1:\d+) `)
	ask := func(change func(*http.Request)) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/api/v1/workspaces/default/keys", strings.NewReader(`{"scopes":["admin"]}`))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		change(r)
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	assert.Equal(t, http.StatusOK, ask(func(*http.Request) {}))
	assert.Equal(t, http.StatusForbidden, ask(func(r *http.Request) { r.Host = "rebound.example" }))
	assert.Equal(t, http.StatusForbidden, ask(func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }))
	close(s.stop)
	assert.Equal(t, 0, <-s.code)
}

// TestSandboxWhoseOutputNobodyReads records more than any pipe holds, and then ends while a request is unfinished.
func TestSandboxWhoseOutputNobodyReads(t *testing.T) {
	t.Parallel()
	out := &readOnce{lockedBuffer: lockedBuffer{wrote: make(chan struct{}, 1)}, ever: make(chan struct{})}
	t.Cleanup(func() { close(out.ever) })
	s := &started{out: &out.lockedBuffer, stop: make(chan struct{}), code: make(chan int, 1)}
	go func() {
		s.code <- cli.Run(context.Background(), cli.Process{
			Args: []string{"loopgrid-mcp", "sandbox", "--addr", "127.0.0.1:0"}, Stdout: out, Stderr: io.Discard, Stop: s.stop,
		})
	}()
	addr := s.waitFor(t, `Listening on http://(127\.0\.0\.1:\d+) `)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	for range 500 {
		require.Equal(t, http.StatusOK, post(t, "http://"+addr, ""))
	}
	_, err = io.WriteString(conn, "POST /api/v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
	require.NoError(t, err)
	close(s.stop)
	assert.Equal(t, 0, <-s.code)
}

// readOnce is a stdout of which the first lines are read and nothing after them.
type readOnce struct {
	lockedBuffer

	read atomic.Bool
	ever chan struct{}
}

func (w *readOnce) Write(p []byte) (int, error) {
	if w.read.Swap(true) {
		<-w.ever
	}
	return w.lockedBuffer.Write(p)
}

// The setting decides whether the service is asked what it runs on.
func TestServeTakesTheWriteLockFromItsSetting(t *testing.T) { //nolint:paralleltest // it sets the environment
	for setting, asked := range map[string]bool{"auto": true, "on": false} {
		clearEnvironment(t)
		var mu sync.Mutex
		var routes []string
		s := sandbox.New(sandbox.Options{})
		t.Setenv("LOOPGRID_BASE_URL", serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			routes = append(routes, r.URL.Path)
			mu.Unlock()
			s.ServeHTTP(w, r)
		})))
		t.Setenv("LOOPGRID_MCP_WRITE_LOCK", setting)
		var out bytes.Buffer
		code := cli.Run(t.Context(), cli.Process{
			Args: []string{"loopgrid-mcp"}, Stdout: &out, Stderr: io.Discard, LockDir: t.TempDir(),
			Stdin: strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"loopgrid.record_decision","arguments":{"decision_type":"t","proposed_action":{}}}}
`),
		})
		assert.Equal(t, 0, code)
		assert.Contains(t, out.String(), `"captured":true`)
		assert.Equal(t, asked, slices.Contains(routes, "/api/v1/system/info"), "%s: %v", setting, routes)
	}
}
