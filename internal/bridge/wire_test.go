package bridge

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

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/stdio"
)

// wireHost is a host at the other end of the pipes: it sends and receives lines as they are.
type wireHost struct {
	tb        testing.TB
	transport *stdio.Transport
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
	h := &wireHost{tb: tb, in: in, out: out, lines: make(chan string), left: make(chan error, 1), log: new(wireLog)}
	logger := slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h.transport = stdio.NewTransport(stdin, stdout, logger)
	h.wire = newWireServer(h.transport, logger)
	ctx, cancel := context.WithCancel(context.Background()) // not the test's: that is cancelled when it fails
	h.cancel = cancel
	tb.Cleanup(cancel)
	go func() { h.left <- stdio.Serve(ctx, h.wire.Server, h.transport) }()
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

type wireCallKey struct{}

func newWireServer(t *stdio.Transport, logger *slog.Logger) *wireServer {
	s := &wireServer{Server: mcp.NewServer(&mcp.Implementation{Name: "wire", Version: "1"}, &mcp.ServerOptions{
		Logger: logger, Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})}
	known := func(ctx context.Context) string {
		name, _ := ctx.Value(wireCallKey{}).(string)
		return "Known about " + name + "."
	}
	names := func(*mcp.CallToolRequest) []string { return []string{"echo", "slow"} }
	s.AddReceivingMiddleware(
		startInOrder(t, func(ctx context.Context, req *mcp.CallToolRequest) (context.Context, func()) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.starts = append(s.starts, string(req.Params.Arguments))
			ctx = context.WithValue(ctx, callKey{}, &call{requestID: "request-1"})
			cancel := func() {}
			if req.Params.Name == "ask" {
				ctx, cancel = untilEnded(ctx, t)
			}
			return context.WithValue(ctx, wireCallKey{}, req.Params.Name), func() {
				cancel()
				s.mu.Lock()
				defer s.mu.Unlock()
				s.left++
			}
		}),
		logCalls(logger),
		recoverPanics(logger, known),
		answerErrors(names, known),
		stdio.PinVersion(),
	)
	add := func(name string, tool mcp.ToolHandler) {
		s.AddTool(&mcp.Tool{Name: name, Description: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, tool)
	}
	add("echo", func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if req.Params.Arguments == nil {
			return wireResult("absent"), nil
		}
		return wireResult(string(req.Params.Arguments)), nil
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
		return &mcp.CallToolResult{StructuredContent: json.RawMessage(evidence.GetText(jsontext.Value(req.Params.Arguments)))}, nil
	})
	add("structure", func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{
			IsError:           true,
			Content:           []mcp.Content{&mcp.TextContent{Text: "<&>\u2028"}, &mcp.TextContent{Text: "second"}},
			StructuredContent: json.RawMessage(evidence.GetText(jsontext.Value(req.Params.Arguments))),
		}, nil
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
			return failed("no answer"), nil
		}
		return wireResult(fmt.Sprintf("%s %v with %s", answer.Action, answer.Content["action"], req.Params.Arguments)), nil
	})
	return s
}

// untilEnded is the context of a call that asks a person.
func untilEnded(ctx context.Context, t *stdio.Transport) (context.Context, func()) {
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
