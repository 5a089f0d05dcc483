// Package bridge is the MCP server: it turns calls of the six loopgrid.* tools into requests to LoopGrid, and the answers into
// results.
//
// It knows MCP, and is the only package that imports the MCP SDK. It must not know HTTP: what is sent, repeated and excluded
// is decided in package loopgrid. It never carries out a business action, and nothing in a call can choose the service, the key,
// the reviewer or the directory: those are the operator's settings.
package bridge

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/config"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

// Options configure a [Bridge].
type Options struct {
	Settings config.Settings
	Version  string           // of this program
	Client   *loopgrid.Client // of the workspace in Settings; nil only where Settings has problems that touch all calls
	Log      *slog.Logger     // a line per call, never with arguments or payloads
}

// Bridge serves the tools. One serves one session.
type Bridge struct {
	settings  config.Settings
	client    *loopgrid.Client
	log       *slog.Logger
	tools     []*tool
	questions *questions
	server    *mcp.Server

	mu      sync.Mutex
	writing map[*call]bool // calls that have their turn at the ledger
	ending  bool           // the server was told to end
	profile string         // the service's evidence profile, once it was asked for
}

// New returns a bridge. Nothing is contacted before the first call.
func New(o Options) *Bridge {
	b := &Bridge{settings: o.Settings, client: o.Client, log: o.Log, tools: catalogue(), questions: newQuestions(), writing: map[*call]bool{}}
	b.server = mcp.NewServer(
		&mcp.Implementation{Name: "loopgrid-mcp", Title: "LoopGrid", Version: o.Version, WebsiteURL: "https://github.com/loopgridio/loopgrid-mcp"},
		&mcp.ServerOptions{
			Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
			Logger:       slog.New(slog.DiscardHandler),                                                         // the SDK quotes parameters in its messages
			SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = "private" }, // the list depends on the client
		})
	for _, t := range b.tools {
		for _, s := range []spelling{dotted, underscored} {
			b.server.AddTool(t.definition(s), b.handle)
		}
	}
	return b
}

// Serve answers the host on the other side of in and out until it closes in, or stop is closed: then the calls in flight are finished,
// within 10 s of the end of the input and within 1.5 s of the stop, and their answers written. Serve may return while a call
// still runs, which ends with the process. The error says why the session could not begin or why in or out failed.
func (b *Bridge) Serve(ctx context.Context, in io.Reader, out io.Writer, stop <-chan struct{}) error {
	t := newTransport(in, out, b.log)
	ending, end := context.WithCancel(ctx)
	defer end()
	b.server.AddReceivingMiddleware(
		t.startInOrder(b.arrive),
		hideKey(b.settings.ServiceKey.Reveal()),
		logCalls(b.log),
		recoverPanics(b.log, known),
		answerErrors(b.toolNames, known),
		pinVersion(),
		b.spellNames,
		endWaiting(ending),
		endQuestions(t.ended()),
	)
	go func() {
		ended, waiting := t.ended(), t.cancelWaiting()
		for {
			select {
			case <-stop:
				t.stop()
				stop = nil
			case <-ended:
				b.logBegun()
				ended = nil
			case <-waiting:
				end()
				waiting = nil
			case <-ending.Done():
				return
			}
		}
	}()
	return serve(ctx, b.server, t)
}

// toolNames lists the tools in the spelling of a call.
func (b *Bridge) toolNames(req *mcp.CallToolRequest) []string {
	var names []string
	for _, t := range b.tools {
		names = append(names, spellingOf(req.Params.Name).toolName(t.name))
	}
	return names
}

// endWaiting returns the middleware that ends a call which has sent nothing when ending is done, so that it is still answered. A
// call that has sent something does not look at its context any more.
func endWaiting(ending context.Context) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if _, ok := req.(*mcp.CallToolRequest); !ok {
				return next(ctx, method, req)
			}
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			defer context.AfterFunc(ending, func() { cancel(errEnding) })()
			return next(ctx, method, req)
		}
	}
}

// errEnding is why a call that waits ends when the server does.
var errEnding = errors.New("the server is ending")

// instructions tell a model the order of the calls.
func instructions(s spelling) string {
	return s.names("LoopGrid keeps signed evidence of consequential decisions. Order: 1. {record_decision} before acting, and read next in its result. " +
		"2. Where a person has to approve, wait for it ({record_review} asks one if the operator allows). " +
		"3. Carry the action out with your own tools; these tools carry out nothing. 4. {record_action}. 5. {record_outcome} once it is observed. " +
		"6. {get_evidence} or {verify_evidence} when asked for proof. Report numbers exactly as they are. " +
		"An error says what is recorded, what is not, and how to repeat safely with its idempotency_key.")
}

// specVersion returns the spec_version of the service's decisions, from its health; empty if it cannot be had. It is asked for once.
func (b *Bridge) specVersion(ctx context.Context) string {
	b.mu.Lock()
	profile := b.profile
	b.mu.Unlock()
	if profile == "" {
		health, err := b.client.Health(ctx)
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
