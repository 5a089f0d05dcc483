// Package bridge is the MCP server: it turns calls of the loopgrid.* tools into requests to LoopGrid, and the answers into results.
//
// Only this package and package stdio import the MCP SDK. It must not know HTTP: package loopgrid decides what is sent, what is retried
// and which call may write. The bridge never performs a business action, and no argument of a call can choose the service, the key, the
// reviewer or the directory: those are operator settings.
//
// Start reading at [Bridge.Serve], then serveCall, then the file of a tool, such as record_action.go.
package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/config"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
	"github.com/loopgridio/loopgrid-mcp/internal/stdio"
)

// Options configure a [Bridge].
type Options struct {
	Settings config.Settings
	Version  string           // of this program
	Client   *loopgrid.Client // for the workspace in Settings; nil only if Settings has problems that affect every call
	Log      *slog.Logger     // one line per call, never with arguments or payloads
}

// Bridge serves the tools. One Bridge serves one session.
type Bridge struct {
	settings  config.Settings
	client    *loopgrid.Client
	log       *slog.Logger
	tools     []*tool
	questions *questions
	hide      *keyHider
	server    *mcp.Server
	transport *stdio.Transport
	resultAs  resultTypes
	giveUp    chan struct{} // closed shortly before the session ends: calls that have sent nothing give up

	mu       sync.Mutex
	writing  map[*call]bool // the calls that currently hold a turn to write
	stopping bool           // the session is ending
	profile  string         // the service's evidence profile, once known
}

// New returns a Bridge. It contacts nothing before the first call.
func New(o Options) *Bridge {
	b := &Bridge{
		settings: o.Settings, client: o.Client, log: o.Log, tools: catalogue(), questions: newQuestions(),
		hide: newKeyHider(func() []string { return []string{o.Settings.ServiceKey.Reveal()} }), resultAs: newResultTypes(), giveUp: make(chan struct{}), writing: map[*call]bool{},
	}
	if o.Client != nil {
		b.hide = newKeyHider(o.Client.Keys) // it also knows a key that replaced the first one
	}
	b.server = mcp.NewServer(
		&mcp.Implementation{Name: "loopgrid-mcp", Title: "LoopGrid", Version: o.Version, WebsiteURL: "https://github.com/loopgridio/loopgrid-mcp"},
		&mcp.ServerOptions{
			Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
			Logger:       slog.New(slog.DiscardHandler),                                                         // the SDK quotes parameters in its messages
			SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = "private" }, // the list depends on the client
		})
	return b
}

// Serve serves the host connected to in and out until the host closes in or stop is closed. It then finishes the calls in
// flight and writes their answers, within 10 s of the end of the input and within 1.5 s of the stop. It may return while a call still
// runs; that call ends with the process. The error says why the session could not begin, or why in or out failed.
func (b *Bridge) Serve(ctx context.Context, in io.Reader, out io.Writer, stop <-chan struct{}) error {
	b.transport = stdio.NewTransport(in, out, b.log)
	b.server.AddReceivingMiddleware(b.receive)
	over := make(chan struct{})
	defer close(over)
	go b.watchEnd(stop, over)
	return stdio.Serve(ctx, b.server, b.transport)
}

// watchEnd reacts to the stop signal and to the two stages of the session's end, in whatever order they come.
func (b *Bridge) watchEnd(stop, over <-chan struct{}) {
	ended, cancelWaiting := b.transport.Ended(), b.transport.CancelWaiting()
	for {
		select {
		case <-stop:
			b.transport.Stop()
			stop = nil
		case <-ended:
			b.logUnfinishedWrites()
			ended = nil
		case <-cancelWaiting:
			close(b.giveUp)
			cancelWaiting = nil
		case <-over:
			if cancelWaiting != nil {
				close(b.giveUp)
			}
			return
		}
	}
}

// receive is the middleware for every request from the host. It serves tools/call itself, see [Bridge.serveCall]. go-sdk answers
// everything else; receive only spells the tool names for the client and recovers from panics.
func (b *Bridge) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
		if call, ok := req.(*mcp.CallToolRequest); ok {
			return b.serveCall(ctx, call)
		}
		defer func() {
			if panicked := recover(); panicked != nil {
				b.logPanic(method, panicked)
				result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
			}
		}()
		result, err = next(ctx, method, req)
		return b.spellNames(req, result), b.hide.error(err)
	}
}

// logPanic logs where a panic happened. A panic value may quote an argument, so only errors of the Go runtime are shown.
func (b *Bridge) logPanic(method string, panicked any) {
	what := fmt.Sprintf("%T", panicked)
	if fault, ok := panicked.(interface {
		error
		RuntimeError()
	}); ok {
		what = fault.Error()
	}
	b.log.Error("panic", "method", method, "panic", what, "stack", string(debug.Stack()))
}

// errEnding is why a call's context is cancelled when the session ends.
var errEnding = errors.New("the server is shutting down")

// instructions tells a model in which order to call the tools.
func instructions(s spelling) string {
	return s.names("LoopGrid keeps signed evidence of consequential decisions. Order: 1. Call {record_decision} before acting, and follow the next field of its result. " +
		"2. If a person must approve, wait for the approval ({record_review} asks the person, if the operator allows it). " +
		"3. Act with your own tools; these tools only record. 4. Call {record_action}. 5. Call {record_outcome} once you have observed the outcome. " +
		"6. Call {get_evidence} or {verify_evidence} when asked for proof. Pass numbers through exactly as you got them. " +
		"Each error says what was recorded, what was not, and how to retry safely with the same idempotency_key.")
}

// specVersion returns the spec_version of the service's decisions, from its health; empty if it cannot be read. It is cached.
func (b *Bridge) specVersion(ctx context.Context, turn *loopgrid.Turn) string {
	b.mu.Lock()
	profile := b.profile
	b.mu.Unlock()
	if profile == "" {
		health, err := turn.Health(ctx)
		if err != nil || health.EvidenceProfile == "" {
			return ""
		}
		profile = health.EvidenceProfile
		b.mu.Lock()
		b.profile = profile
		b.mu.Unlock()
	}
	return "loopgrid/" + profile
}
