// Package bridge is the MCP server: it turns calls of the six loopgrid.* tools into requests to LoopGrid, and the answers into
// results.
//
// It knows MCP, and is the only package that imports the MCP SDK. It must not know HTTP: what is sent, repeated and excluded
// is decided in package loopgrid. It never carries out a business action, and nothing in a call can choose the service, the key,
// the reviewer or the directory: those are the operator's settings.
package bridge

import (
	"context"
	"fmt"
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
	settings config.Settings
	client   *loopgrid.Client
	log      *slog.Logger
	tools    []*tool
	server   *mcp.Server

	mu      sync.Mutex
	writing map[*call]bool // calls that have their turn at the ledger
	profile string         // the service's evidence profile, once it was asked for
}

// New returns a bridge. Nothing is contacted before the first call.
func New(o Options) *Bridge {
	b := &Bridge{settings: o.Settings, client: o.Client, log: o.Log, tools: catalogue(), writing: map[*call]bool{}}
	b.server = mcp.NewServer(
		&mcp.Implementation{Name: "loopgrid-mcp", Title: "LoopGrid", Version: o.Version, WebsiteURL: "https://github.com/loopgridio/loopgrid-mcp"},
		&mcp.ServerOptions{
			Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
			Logger:       slog.New(slog.DiscardHandler), // the SDK quotes parameters in its messages
			SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = "private" }, // the list depends on the client
		})
	for _, t := range b.tools {
		for _, s := range []spelling{dotted, underscored} {
			b.server.AddTool(t.definition(s), func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return b.serve(ctx, t, req), nil
			})
		}
	}
	return b
}

// instructions tell a model the order of the calls.
func instructions(s spelling) string {
	return s.names("LoopGrid keeps signed evidence of consequential decisions. Order: 1. {record_decision} before acting, and read next in its result. " +
		"2. Where a person has to approve, wait for it ({record_review} records it if the operator allows). " +
		"3. Carry the action out with your own tools; these tools carry out nothing. 4. {record_action}. 5. {record_outcome} once it is observed. " +
		"6. {get_evidence} or {verify_evidence} when asked for proof. Report numbers exactly as they are. " +
		"An error says what is recorded, what is not, and how to repeat safely with its idempotency_key.")
}

type writeKey struct{}

// arrive takes the place in the queue of writers for a call of a tool that writes, in the order in which the calls arrive.
func (b *Bridge) arrive(ctx context.Context, req *mcp.CallToolRequest) (context.Context, func()) {
	if b.client == nil {
		return ctx, func() {}
	}
	for _, t := range b.tools {
		if t.writes && (req.Params.Name == dotted.toolName(t.name) || req.Params.Name == underscored.toolName(t.name)) {
			write := b.client.NewWrite()
			return context.WithValue(ctx, writeKey{}, write), write.End
		}
	}
	return ctx, func() {}
}

// arrivedWrite returns the place that arrive took; nil for a tool that does not write.
func arrivedWrite(ctx context.Context) *loopgrid.Write {
	write, _ := ctx.Value(writeKey{}).(*loopgrid.Write)
	return write
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

var _ = fmt.Sprint
var _ io.Reader
