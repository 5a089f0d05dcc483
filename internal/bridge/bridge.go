// Package bridge is the MCP server: it turns calls of the six loopgrid.* tools into requests to LoopGrid, and the answers into
// results.
//
// It knows MCP, and is the only package that imports the MCP SDK. It must not know HTTP: what is sent, repeated and excluded
// is decided in package loopgrid. It never carries out a business action, and nothing in a call can choose the service, the key,
// the reviewer or the directory: those are the operator's settings.
package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/config"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
	"github.com/loopgridio/loopgrid-mcp/internal/stdio"
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
	hide      keyHider // the service key, in every text that leaves
	server    *mcp.Server

	mu      sync.Mutex
	writing map[*call]bool // calls that have their turn at the ledger
	ending  bool           // the server was told to end
	profile string         // the service's evidence profile, once it was asked for
}

// New returns a bridge. Nothing is contacted before the first call.
func New(o Options) *Bridge {
	b := &Bridge{settings: o.Settings, client: o.Client, log: o.Log, tools: catalogue(), questions: newQuestions(), hide: newKeyHider(o.Settings.ServiceKey.Reveal()), writing: map[*call]bool{}}
	b.server = mcp.NewServer(
		&mcp.Implementation{Name: "loopgrid-mcp", Title: "LoopGrid", Version: o.Version, WebsiteURL: "https://github.com/loopgridio/loopgrid-mcp"},
		&mcp.ServerOptions{
			Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
			Logger:       slog.New(slog.DiscardHandler),                                                         // the SDK quotes parameters in its messages
			SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = "private" }, // the list depends on the client
		})
	for _, t := range b.tools {
		for _, s := range []spelling{dotted, underscored} {
			// go-sdk decodes every schema it is given, three times: what clients see is put in by spellNames.
			b.server.AddTool(&mcp.Tool{Name: s.toolName(t.name), InputSchema: json.RawMessage(`{"type":"object"}`)}, b.handle)
		}
	}
	return b
}

// Serve answers the host on the other side of in and out until it closes in, or stop is closed: then the calls in flight are finished,
// within 10 s of the end of the input and within 1.5 s of the stop, and their answers written. Serve may return while a call
// still runs, which ends with the process. The error says why the session could not begin or why in or out failed.
func (b *Bridge) Serve(ctx context.Context, in io.Reader, out io.Writer, stop <-chan struct{}) error {
	t := stdio.NewTransport(in, out, b.log)
	ending, end := context.WithCancel(ctx)
	defer end()
	b.server.AddReceivingMiddleware(
		startInOrder(t, b.arrive),
		hideKey(b.hide),
		logCalls(b.log),
		b.endCalls(ending),
		recoverPanics(b.log, known),
		answerErrors(b.toolNames, known),
		stdio.PinVersion(),
		b.spellNames,
		endQuestions(t.Ended()),
	)
	go func() {
		ended, waiting := t.Ended(), t.CancelWaiting()
		for {
			select {
			case <-stop:
				t.Stop()
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
	return stdio.Serve(ctx, b.server, t)
}

// toolNames lists the tools in the spelling of a call.
func (b *Bridge) toolNames(req *mcp.CallToolRequest) []string {
	var names []string
	for _, t := range b.tools {
		names = append(names, spellingOf(req.Params.Name).toolName(t.name))
	}
	return names
}

// endCalls returns the middleware that has every call answered before the process ends. When ending is done, a call that has sent
// nothing is cancelled, and says so itself. One that has sent something does not look at its context any more: where it is not
// complete shortly after, it is answered with what is known of it, and its handler is left behind with its turn at the ledger.
func (b *Bridge) endCalls(ending context.Context) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			c := callOf(ctx)
			if c == nil {
				return next(ctx, method, req)
			}
			ctx, cancel := context.WithCancelCause(ctx)
			if c.tool == nil || c.tool.annotations.ReadOnlyHint { // without a goroutine, which has its price
				defer cancel(nil)
				defer context.AfterFunc(ending, func() { cancel(errEnding) })()
				return next(ctx, method, req)
			}
			var result mcp.Result
			var err error
			handled := make(chan struct{})
			go func() {
				defer close(handled)
				defer cancel(nil)
				result, err = next(ctx, method, req)
			}()
			select {
			case <-handled:
				return result, err
			case <-ending.Done():
			}
			cancel(errEnding)
			select {
			case <-handled:
				return result, err
			case <-time.After(lastAnswers):
			}
			if write := b.sentBy(c); write != nil {
				c.leftBehind = true
				go func() {
					<-handled
					write.End()
				}()
				return failed("Outcome unknown: the server was told to end before LoopGrid had answered.", c.steps.known(c)), nil
			}
			<-handled
			return result, err
		}
	}
}

// lastAnswers is how long before the end of [stdio.LastWords] a call that waits for LoopGrid is answered without it.
const lastAnswers = stdio.LastWords / 2

// sentBy returns the turn at the ledger of a call that has it and has sent something; nil for any other.
func (b *Bridge) sentBy(c *call) *loopgrid.Turn {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.writing[c] || !c.write.Sent() {
		return nil
	}
	return c.write
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
