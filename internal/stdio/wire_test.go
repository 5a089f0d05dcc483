package stdio

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// wireHost is a host at the other end of the pipes: it sends and receives lines as they are.
type wireHost struct {
	tb        testing.TB
	transport *Transport
	in        *io.PipeWriter
	out       *io.PipeReader
	lines     chan string
	cancel    func()
	left      chan error // what serve returned
	log       *wireLog
	wire      *wireServer
}

// wireServer is a server with tools that show what the connection does.
type wireServer struct {
	*mcp.Server
	mu     sync.Mutex
	starts []string // what echo was called with, in the order of arrive
	left   int      // how many calls have left
}

type wireLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *wireLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *wireLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

const (
	wireInitialize = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25",` +
		`"capabilities":{"elicitation":{}},"clientInfo":{"name":"host","version":"1"}}}`
	wireInitialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	wirePing        = `{"jsonrpc":"2.0","id":"ping","method":"ping"}`
	wirePong        = `{"jsonrpc":"2.0","id":"ping","result":{}}`
	wireModern      = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`
)

// newWireHost starts a session that a host has not initialized.
func newWireHost(tb testing.TB) *wireHost {
	tb.Helper()
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	return startWireHost(tb, stdin, in, out, stdout)
}

func startWireHost(tb testing.TB, stdin io.Reader, in *io.PipeWriter, out *io.PipeReader, stdout io.Writer) *wireHost {
	tb.Helper()
	return startLimitedHost(tb, stdin, in, out, stdout, defaultLimits())
}

func startLimitedHost(tb testing.TB, stdin io.Reader, in *io.PipeWriter, out *io.PipeReader, stdout io.Writer, limits limits) *wireHost {
	tb.Helper()
	h := &wireHost{tb: tb, in: in, out: out, lines: make(chan string), left: make(chan error, 1), log: new(wireLog)}
	logger := slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h.transport = newTransport(stdin, stdout, logger, limits)
	h.wire = newWireServer(h.transport, logger)
	ctx, cancel := context.WithCancel(context.Background()) // not the test's: that is cancelled when it fails
	h.cancel = cancel
	tb.Cleanup(cancel)
	go func() { h.left <- Serve(ctx, h.wire.Server, h.transport) }()
	if out != nil {
		go func() {
			defer close(h.lines)
			r := bufio.NewReader(out)
			for {
				line, err := r.ReadString('\n')
				if err != nil {
					return
				}
				h.lines <- strings.TrimSuffix(line, "\n")
			}
		}()
	}
	return h
}

// newInitializedWireHost starts a session of MCP 2025-11-25.
func newInitializedWireHost(tb testing.TB) *wireHost {
	tb.Helper()
	h := newWireHost(tb)
	h.send(wireInitialize)
	require.Contains(tb, h.next(), `"protocolVersion":"2025-11-25"`)
	h.send(wireInitialized)
	return h
}

func (h *wireHost) send(lines ...string) {
	h.tb.Helper()
	_, err := io.WriteString(h.in, strings.Join(lines, "\n")+"\n")
	require.NoError(h.tb, err)
}

func (h *wireHost) next() string {
	h.tb.Helper()
	select {
	case line, ok := <-h.lines:
		require.True(h.tb, ok, "the output ended")
		return line
	case <-time.After(20 * time.Second):
		require.Fail(h.tb, "no answer", "log: %s", h.log)
		return ""
	}
}

// ask sends a line and returns the next line that comes back.
func (h *wireHost) ask(line string) string {
	h.tb.Helper()
	h.send(line)
	return h.next()
}

// expect sends a line and requires that exactly the answers come back.
func (h *wireHost) expect(line string, answers ...string) {
	h.tb.Helper()
	h.send(line)
	for _, answer := range answers {
		require.Equal(h.tb, answer, h.next())
	}
}

// end closes the input, requires that nothing else is written, and returns what serve returned.
func (h *wireHost) end() error {
	h.tb.Helper()
	require.NoError(h.tb, h.in.Close())
	err := h.wait()
	require.NoError(h.tb, h.out.Close())
	for line := range h.lines {
		require.Empty(h.tb, line, "a line nobody asked for")
	}
	return err
}

func (h *wireHost) wait() error {
	h.tb.Helper()
	select {
	case err := <-h.left:
		return err
	case <-time.After(20 * time.Second):
		require.Fail(h.tb, "the session does not end", "log: %s", h.log)
		return nil
	}
}

// wireCall is a tools/call with params of that arguments text.
func wireCall(id, tool, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, arguments)
}

func wireText(id, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}]}}`, id, evidence.Text(text))
}

func wireFailure(id, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}],"isError":true}}`, id, evidence.Text(text))
}

func newWireServer(t *Transport, logger *slog.Logger) *wireServer {
	s := &wireServer{Server: mcp.NewServer(&mcp.Implementation{Name: "wire", Version: "1"}, &mcp.ServerOptions{
		Logger: logger, Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})}
	s.AddReceivingMiddleware(s.inOrder(t))
	add := func(name string, tool mcp.ToolHandler) {
		s.AddTool(&mcp.Tool{Name: name, Description: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, tool)
	}
	add("echo", func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if req.Params.Arguments == nil {
			return wireResult("absent"), nil
		}
		return wireResult(string(req.Params.Arguments)), nil
	})
	add("size", func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return wireResult(fmt.Sprintf("%d bytes", len(req.Params.Arguments))), nil
	})
	// slow works for the duration in its arguments, whatever happens to its context.
	add("slow", func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		d, err := time.ParseDuration(stringOf(req.Params.Arguments))
		if err != nil {
			return nil, err
		}
		time.Sleep(d)
		return wireResult("done"), nil
	})
	// sent does the same, and has sent what may be recorded.
	add("sent", func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		d, err := time.ParseDuration(stringOf(req.Params.Arguments))
		if err != nil {
			return nil, err
		}
		time.Sleep(d)
		return wireResult("done"), nil
	})
	// wait has sent nothing: it gives up when it is cancelled or told to.
	add("wait", func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-t.CancelWaiting():
			return wireFailed("Not recorded: the bridge is stopping."), nil
		}
	})
	add("panic", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { panic("secret argument") })
	add("index", func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return wireResult(strings.Fields(req.Params.Name)[1]), nil
	})
	add("nil", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return nil, nil })
	add("error", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, errors.New("connection refused")
	})
	add("malformed", func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{StructuredContent: json.RawMessage(stringOf(req.Params.Arguments))}, nil
	})
	add("structure", func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{
			IsError:           true,
			Content:           []mcp.Content{&mcp.TextContent{Text: "<&>\u2028"}, &mcp.TextContent{Text: "second"}},
			StructuredContent: json.RawMessage(stringOf(req.Params.Arguments)),
		}, nil
	})
	add("progress", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		token := req.Params.GetProgressToken()
		if token == nil {
			return wireResult("no token"), nil
		}
		if string(req.Params.Arguments) == "true" {
			<-ctx.Done()
		}
		err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1, Message: "half"})
		return wireResult("done"), err
	})
	add("ask", func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if req.Params.InputResponses == nil {
			return &mcp.CallToolResult{RequestState: "state", InputRequests: mcp.InputRequestMap{"confirm": &mcp.ElicitParams{
				Message: "Sure?",
				RequestedSchema: json.RawMessage(`{"type":"object","properties":{"action":{"type":"string","enum":["approve","reject"]}},` +
					`"required":["action"]}`),
			}}}, nil
		}
		answer, ok := req.Params.InputResponses["confirm"].(*mcp.ElicitResult)
		if !ok {
			return wireFailed("no answer"), nil
		}
		return wireResult(fmt.Sprintf("%s %v with %s", answer.Action, answer.Content["action"], req.Params.Arguments)), nil
	})
	return s
}

// inOrder is the outermost middleware of a server behind a Transport, as small as it can be.
func (s *wireServer) inOrder(t *Transport) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			request, ok := req.(*mcp.CallToolRequest)
			if !ok {
				return next(ctx, method, req)
			}
			call := t.TakeCall(request)
			s.mu.Lock()
			s.starts = append(s.starts, string(request.Params.Arguments))
			s.mu.Unlock()
			defer func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.left++
			}()
			call.Started()
			if request.Params.Name == "sent" && !call.Claim() {
				return wireFailed("Not recorded: too late."), nil
			}
			if request.Params.Name == "ask" {
				var cancel func()
				ctx, cancel = untilEnded(ctx, t)
				defer cancel()
			}
			result, err := next(ctx, method, req)
			if err != nil && !strings.HasPrefix(err.Error(), "unknown tool ") {
				return wireFailed(err.Error() + "."), nil
			}
			if answer, ok := result.(*mcp.CallToolResult); ok && answer != nil && err == nil {
				if answer.InputRequests != nil {
					answer.Content = []mcp.Content{}
				}
				return call.Answer(answer), nil
			}
			return result, err
		}
	}
}

// untilEnded is the context of a call that asks a person.
func untilEnded(ctx context.Context, t *Transport) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-t.Ended():
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

func wireFailed(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

func wireResult(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// wireTextOf is the text of the first content block in an answer.
func wireTextOf(tb testing.TB, answer string) string {
	tb.Helper()
	var message struct {
		Result struct {
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"result"`
	}
	require.NoError(tb, json.Unmarshal([]byte(answer), &message), answer)
	require.NotEmpty(tb, message.Result.Content, answer)
	return message.Result.Content[0].Text
}
