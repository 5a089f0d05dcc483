package bridge_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/bridge"
	"github.com/loopgridio/loopgrid-mcp/internal/config"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
)

// service is the transport of a bridge under test: a sandbox, or hand-written answers. It records every request.
type service struct {
	t       *testing.T
	sandbox *sandbox.Server

	mu       sync.Mutex
	requests []sent
	// before may answer a request instead of the sandbox; if it returns neither an answer nor an error, the sandbox answers.
	before func(sent) (*http.Response, error)
	// untilCancelled makes every request wait until its context ends.
	untilCancelled bool
}

// sent is a request as it left the bridge.
type sent struct {
	method, path, query, body string
	header                    http.Header
}

func (s sent) String() string { return s.method + " " + s.path }

func newService(t *testing.T) *service {
	t.Helper()
	return &service{t: t, sandbox: sandbox.New(sandbox.Options{})}
}

func (s *service) RoundTrip(r *http.Request) (*http.Response, error) {
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	one := sent{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, string(body), r.Header.Clone()}
	isProbe := r.Header.Get("Cache-Control") == "no-cache" // the probe after a lost write: it is answered, but not counted
	s.mu.Lock()
	before := s.before
	if !isProbe {
		s.requests = append(s.requests, one)
	}
	s.mu.Unlock()
	if s.untilCancelled {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if before != nil && (!isProbe || s.sandbox == nil) {
		if res, err := before(one); res != nil || err != nil {
			return res, err
		}
	}
	return s.sandbox.RoundTrip(r)
}

// answerWith makes the service give this answer to requests whose String contains part; to all of them if part is empty.
func (s *service) answerWith(part string, status int, contentType, body string, header ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = func(r sent) (*http.Response, error) {
		if !strings.Contains(r.String(), part) {
			return nil, nil //nolint:nilnil // the sandbox answers
		}
		h := http.Header{"Content-Type": {contentType}}
		for i := 0; i+1 < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}, nil
	}
}

// sandboxAnswers undoes answerWith.
func (s *service) sandboxAnswers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = nil
}

// sentSince returns the requests from the n-th on.
func (s *service) sentSince(n int) []sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]sent(nil), s.requests[n:]...)
}

func (s *service) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

// session is a bridge that serves over pipes, as a host sees it.
type session struct {
	t     testing.TB
	in    *io.PipeWriter
	lines *bufio.Reader
	log   *syncBuffer
	// client is the one of the bridge.
	client *loopgrid.Client
	stop   chan struct{}
	done   chan error
	id     int
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// serve starts a bridge with these environment variables in front of the service.
func serve(tb testing.TB, s http.RoundTripper, environ ...string) *session {
	tb.Helper()
	return serveWith(tb, s, func(*bridge.Bridge) {}, environ...)
}

func serveExactly(tb testing.TB, transport http.RoundTripper, environ ...string) *session {
	tb.Helper()
	return start(tb, transport, func(*bridge.Bridge) {}, environ...)
}

// serveWith is serve for a bridge that is prepared first.
func serveWith(tb testing.TB, s http.RoundTripper, prepare func(*bridge.Bridge), environ ...string) *session {
	tb.Helper()
	return start(tb, s, prepare, append([]string{"LOOPGRID_BASE_URL=http://loopgrid.test/base", "LOOPGRID_EVIDENCE_DIR=" + tb.TempDir()}, environ...)...)
}

func start(tb testing.TB, transport http.RoundTripper, prepare func(*bridge.Bridge), environ ...string) *session {
	tb.Helper()
	settings := config.LoadFrom(lastWins(environ))
	logged := &syncBuffer{}
	log := slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var client *loopgrid.Client
	if len(settings.ProblemsFor(config.AllCalls)) == 0 {
		client = loopgrid.New(loopgrid.Options{
			BaseURL: settings.BaseURL, Workspace: settings.Workspace, ServiceKey: settings.ServiceKey.Reveal(), UserAgent: "loopgrid-mcp/test",
			Timeout: settings.Timeout, MaxEvidenceBytes: settings.MaxEvidenceBytes, Transport: stripBase{transport}, Log: log,
			WriteLock: map[bool]loopgrid.WriteLock{true: loopgrid.LockOff}[settings.WriteLock == config.WriteLockOff],
		})
	}
	b := bridge.New(bridge.Options{Settings: settings, Version: "test", Client: client, Log: log})
	prepare(b)
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	x := &session{t: tb, in: inW, lines: bufio.NewReaderSize(outR, 1<<20), log: logged, client: client, stop: make(chan struct{}), done: make(chan error, 1)}
	go func() {
		x.done <- b.Serve(context.Background(), inR, outW, x.stop)
		_ = outW.Close()
	}()
	tb.Cleanup(func() {
		_ = inW.Close()
		go func() { _, _ = io.Copy(io.Discard, outR) }()
		assert.NoError(tb, <-x.done)
	})
	return x
}

// lastWins drops all but the last value of a variable that is set more than once.
func lastWins(environ []string) []string {
	last := map[string]string{}
	var names []string
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		if _, ok := last[name]; !ok {
			names = append(names, name)
		}
		last[name] = e
	}
	var out []string
	for _, name := range names {
		out = append(out, last[name])
	}
	return out
}

// stripBase checks that every request stays below the base path, and strips it.
type stripBase struct{ http.RoundTripper }

func (s stripBase) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	path := r.URL.EscapedPath()
	if !strings.HasPrefix(path, "/base/") {
		panic("a request left the base path: " + path)
	}
	r.URL = r.URL.ResolveReference(r.URL)
	r.URL.Path = strings.TrimPrefix(r.URL.Path, "/base")
	r.URL.RawPath = strings.TrimPrefix(r.URL.RawPath, "/base")
	return s.RoundTripper.RoundTrip(r)
}

// send writes one line.
func (x *session) send(line string) {
	x.t.Helper()
	_, err := io.WriteString(x.in, line+"\n")
	require.NoError(x.t, err)
}

// receive reads one line.
func (x *session) receive() string {
	x.t.Helper()
	line, err := x.lines.ReadString('\n')
	require.NoError(x.t, err)
	return strings.TrimSuffix(line, "\n")
}

// initialize opens a legacy session for a client of this name and returns the answer.
func (x *session) initialize(client string) string {
	x.t.Helper()
	x.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"` + client + `","version":"1"}}}`)
	answer := x.receive()
	x.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return answer
}

// result is the answer to a tools/call.
type result struct {
	Content []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool            `json:"isError"`
}

// text is the first block.
func (r result) text() string { return r.Content[0].Text }

// member returns the text of a member of the result, as it was written.
func (r result) member(tb testing.TB, path ...string) string {
	tb.Helper()
	raw := json.RawMessage(r.text())
	for _, name := range path {
		var members map[string]json.RawMessage
		require.NoError(tb, json.Unmarshal(raw, &members), "%s in %s", name, raw)
		raw = members[name]
	}
	return string(raw)
}

// str is member for a string.
func (r result) str(tb testing.TB, path ...string) string {
	tb.Helper()
	var s string
	require.NoError(tb, json.Unmarshal([]byte(r.member(tb, path...)), &s), "%v in %s", path, r.text())
	return s
}

// call calls a tool and waits for its answer, which must not be a protocol error.
func (x *session) call(tool, arguments string) result {
	x.t.Helper()
	x.id++
	x.send(`{"jsonrpc":"2.0","id":` + strconv.Itoa(x.id) + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `}}`)
	var answer struct {
		ID     int
		Result *result
		Error  json.RawMessage
	}
	line := x.receive()
	require.NoError(x.t, json.Unmarshal([]byte(line), &answer), line)
	require.Equal(x.t, x.id, answer.ID, line)
	require.Nil(x.t, answer.Error, line)
	require.NotNil(x.t, answer.Result, line)
	require.NotEmpty(x.t, answer.Result.Content, line)
	if answer.Result.IsError {
		require.Nil(x.t, answer.Result.Structured, line)
	} else {
		require.JSONEq(x.t, answer.Result.text(), string(answer.Result.Structured))
	}
	return *answer.Result
}

// ok is call for a call that succeeds.
func (x *session) ok(tool, arguments string) result {
	x.t.Helper()
	r := x.call(tool, arguments)
	require.False(x.t, r.IsError, r.text())
	return r
}

// fails is call for a call that must end with a tool error; it returns the text.
func (x *session) fails(tool, arguments string) string {
	x.t.Helper()
	r := x.call(tool, arguments)
	require.True(x.t, r.IsError, r.text())
	return r.text()
}

// open starts a bridge in front of a sandbox, with an initialized legacy session.
func open(t *testing.T, environ ...string) (*session, *service) {
	t.Helper()
	s := newService(t)
	x := serve(t, s, environ...)
	x.initialize("test-client")
	return x, s
}

// recorded returns the events of a decision in the sandbox.
func recorded(s *service, decisionID string) []sandbox.Event {
	var all []sandbox.Event
	for _, e := range s.sandbox.Events("default") {
		if e.DecisionID == decisionID {
			all = append(all, e)
		}
	}
	return all
}

func TestHarnessAnswers(t *testing.T) {
	t.Parallel()
	x, s := open(t)
	r := x.ok("loopgrid.record_decision", `{"decision_type":"t","proposed_action":{}}`)
	assert.Len(t, recorded(s, r.str(t, "decision_id")), 1)
}

func jsonAnswer(body string) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
}

func sha256Hex(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// normal replaces what is random in a text.
func normal(text string) string {
	return regexp.MustCompile(`dec_[0-9a-f]{24}`).ReplaceAllString(regexp.MustCompile(`lgm-[0-9a-z]{26}`).ReplaceAllString(text, "lgm-KEY"), "dec_ID")
}

func itoa(n int) string { return strconv.Itoa(n) }

var errReset = errors.New("connection reset by peer")
