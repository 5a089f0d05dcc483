package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
)

// asProgram makes the test binary run as the program itself.
const asProgram = "LOOPGRID_MCP_TEST_RUNS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// process is the real program with real pipes.
type process struct {
	*exec.Cmd
	t      *testing.T
	in     io.WriteCloser
	out    *bufio.Reader
	outEnd io.ReadCloser
	stderr *lockedText
}

func start(t *testing.T, url string, args ...string) *process {
	t.Helper()
	return startWith(t, []string{"LOOPGRID_BASE_URL=" + url}, args...)
}

// startWith starts the program with these environment variables besides those of this process.
func startWith(t *testing.T, environ []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, stderr: &lockedText{}}
	p.Cmd = exec.CommandContext(t.Context(), os.Args[0], args...) //nolint:gosec // this test binary
	p.Env = append(append(os.Environ(), asProgram+"=1", "LOOPGRID_EVIDENCE_DIR="+t.TempDir()), environ...)
	p.Stderr = p.stderr
	var err error
	p.in, err = p.StdinPipe()
	require.NoError(t, err)
	p.outEnd, err = p.StdoutPipe()
	require.NoError(t, err)
	p.out = bufio.NewReader(p.outEnd)
	require.NoError(t, p.Start())
	t.Cleanup(func() { _ = p.Process.Kill() })
	return p
}

// lockedText is a stderr that is read while the process goes on.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (p *process) send(line string) {
	p.t.Helper()
	_, err := io.WriteString(p.in, line+"\n")
	require.NoError(p.t, err)
}

func (p *process) receive() string {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	require.NoError(p.t, err, p.stderr.String())
	require.True(p.t, json.Valid([]byte(line)), "stdout carries JSON-RPC only: %s", line)
	return line
}

func (p *process) initialize() {
	p.t.Helper()
	p.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	p.receive()
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// end waits for the end of the process and returns its exit code.
func (p *process) end() int {
	p.t.Helper()
	_, err := io.Copy(io.Discard, p.out)
	require.NoError(p.t, err)
	_ = p.Wait()
	return p.ProcessState.ExitCode()
}

const decide = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"loopgrid.record_decision","arguments":{"decision_type":"t","proposed_action":{},"model_output":{},"idempotency_key":"k%d"}}}`

// slowly is a sandbox whose writes take their time; begun tells of each.
func slowly(t *testing.T, took time.Duration) (url string, s *sandbox.Server, begun chan string) {
	t.Helper()
	s = sandbox.New(sandbox.Options{})
	begun = make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			begun <- r.URL.Path
			select {
			case <-time.After(took):
			case <-t.Context().Done():
			}
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, s, begun
}

func TestOneShotPipeIsAnswered(t *testing.T) {
	t.Parallel()
	url, s, _ := slowly(t, 50*time.Millisecond)
	p := start(t, url)
	p.initialize()
	for id := 1; id <= 3; id++ {
		p.send(fmt.Sprintf(decide, id, id))
	}
	require.NoError(t, p.in.Close())
	for range 3 {
		assert.Contains(t, p.receive(), `\"captured\":true`)
	}
	code := p.end()
	assert.Equal(t, 0, code)
	assert.Len(t, s.Events("default"), 6, "half-recorded decisions are completed")
	assert.Contains(t, p.stderr.String(), "shutting down while a write is unfinished")
}

func TestIdleServerEndsAtOnce(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(*process) error{
		"EOF":     func(p *process) error { return p.in.Close() },
		"SIGTERM": func(p *process) error { return p.Process.Signal(syscall.SIGTERM) },
		"SIGINT":  func(p *process) error { return p.Process.Signal(os.Interrupt) },
		"SIGHUP":  func(p *process) error { return p.Process.Signal(syscall.SIGHUP) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if runtime.GOOS == "windows" && name != "EOF" {
				t.Skip("Windows sends no signals between processes")
			}
			if name == "SIGHUP" && signal.Ignored(syscall.SIGHUP) {
				t.Skip("SIGHUP is ignored here, as under nohup, and so in every process that is started from here")
			}
			p := start(t, "http://127.0.0.1:1")
			p.initialize()
			require.NoError(t, ask(p))
			code := p.end()
			assert.Equal(t, 0, code)
			assert.NotContains(t, p.stderr.String(), "while a write is unfinished", "there is nothing to wait for; scripts/bench measures how long it takes")
		})
	}
}

func TestSignalDuringAWrite(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows sends no signals between processes")
	}
	url, s, begun := slowly(t, 300*time.Millisecond)
	p := start(t, url)
	p.initialize()
	p.send(fmt.Sprintf(decide, 1, 1))
	<-begun
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	assert.Contains(t, p.receive(), `\"captured\":true`)
	code := p.end()
	assert.Equal(t, 0, code)
	assert.Len(t, s.Events("default"), 2)
	assert.Contains(t, p.stderr.String(), `idempotency_key=k1`)
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows sends no signals between processes")
	}
	url, _, begun := slowly(t, time.Hour)
	p := start(t, url)
	p.initialize()
	p.send(fmt.Sprintf(decide, 1, 1))
	<-begun
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	// The first signal has been taken when its line is in the log, but a log cannot be waited for here: send until it ends.
	done := make(chan int, 1)
	go func() {
		code := p.end()
		done <- code
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case code := <-done:
			assert.Equal(t, 130, code)
			return
		case <-tick.C:
			_ = p.Process.Signal(syscall.SIGTERM)
		}
	}
}

func TestBusyServerEndsWithinItsBound(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows sends no signals between processes")
	}
	url, _, begun := slowly(t, time.Hour)
	p := start(t, url)
	p.initialize()
	p.send(fmt.Sprintf(decide, 1, 1))
	p.send(fmt.Sprintf(decide, 2, 2))
	p.send(`{"jsonrpc":"2.0","id":"both are read","method":"ping"}`)
	p.receive()
	<-begun
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	line := p.receive()
	assert.Contains(t, line, `"id":2`)
	assert.Contains(t, line, "Not recorded: the decision. Cancelled before anything was sent (the server is shutting down): earlier writes of this process are not finished.")
	line = p.receive()
	assert.Contains(t, line, `"id":1`)
	assert.Contains(t, line, "Outcome unknown: the server shut down before LoopGrid answered.")
	assert.Contains(t, line, `again with idempotency_key \"k1\"`)
	code := p.end()
	assert.Equal(t, 0, code)
}

func TestADeadStdoutLeavesNoOrphan(t *testing.T) {
	t.Parallel()
	url, s, begun := slowly(t, 100*time.Millisecond)
	p := start(t, url)
	p.initialize()
	p.send(fmt.Sprintf(decide, 1, 1))
	<-begun
	require.NoError(t, p.outEnd.Close())
	_ = p.Wait()
	assert.Len(t, s.Events("default"), 2, "the decision is completed")
	assert.NotEqual(t, -1, p.ProcessState.ExitCode(), "no signal ended it")
}

func TestSubcommandsOfTheProgram(t *testing.T) {
	t.Parallel()
	p := start(t, "http://127.0.0.1:1", "version")
	out, err := io.ReadAll(p.out)
	require.NoError(t, err)
	assert.Contains(t, string(out), "loopgrid-mcp ")
	require.NoError(t, p.Wait())

	p = start(t, "http://127.0.0.1:1", "frobnicate")
	code := p.end()
	assert.Equal(t, 2, code)
	assert.Contains(t, p.stderr.String(), `unknown command "frobnicate"`)

	p = start(t, "http://127.0.0.1:1", "doctor")
	code = p.end()
	assert.Equal(t, 1, code)
}

// A container without -i and a service of systemd have /dev/null for stdin. It is a character device, and no terminal.
func TestNoStdin(t *testing.T) {
	t.Parallel()
	var out, stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), os.Args[0]) //nolint:gosec // this test binary
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stdout, cmd.Stderr = &out, &stderr // Stdin is the null device
	require.NoError(t, cmd.Run(), stderr.String())
	assert.Empty(t, out.String())
	assert.Contains(t, stderr.String(), "docker run -i")
	assert.NotContains(t, stderr.String(), "waiting for an MCP host", "nobody is at a terminal")
}
