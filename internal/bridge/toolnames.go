package bridge

import (
	"context"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/config"
)

// spelling is how the tools are named. Dots are legal in MCP, but some hosts and model APIs refuse them.
type spelling string

const (
	dotted      spelling = "loopgrid." // loopgrid.record_decision
	underscored spelling = "loopgrid_" // loopgrid_record_decision
)

// toolName is the full name of a tool.
func (s spelling) toolName(tool string) string { return string(s) + tool }

// names puts the tool names of this spelling into a text that names tools as {record_decision}.
func (s spelling) names(text string) string {
	for _, tool := range [...]string{"record_decision", "record_review", "record_action", "record_outcome", "get_evidence", "verify_evidence"} {
		text = strings.ReplaceAll(text, "{"+tool+"}", s.toolName(tool))
	}
	return text
}

// spellingOf returns the spelling of a tool's full name.
func spellingOf(name string) spelling {
	if strings.HasPrefix(name, string(underscored)) {
		return underscored
	}
	return dotted
}

// refusesDots says whether a client does not take a dotted tool name, by what it calls itself: Claude Desktop and claude.ai refuse
// all tools of a server with one such name, Cursor drops them, Goose hands them to model APIs that refuse them.
func refusesDots(client string) bool {
	client = strings.ToLower(client)
	return client == "claude-ai" || strings.HasPrefix(client, "cursor") || strings.HasPrefix(client, "goose")
}

// spellingFor returns the spelling that a client is to see.
func spellingFor(setting config.ToolNames, client *mcp.Implementation) spelling {
	switch setting {
	case config.DottedNames:
		return dotted
	case config.UnderscoreNames:
		return underscored
	case config.AutoNames:
	}
	if client != nil && refusesDots(client.Name) {
		return underscored
	}
	return dotted
}

// spellNames is the middleware that shows each client the tools and the instructions in one spelling. The client is looked up for
// each request: one that speaks protocol 2026-07-28 names itself in every one of them.
func (b *Bridge) spellNames(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		if err != nil {
			return res, err
		}
		switch r := res.(type) {
		case *mcp.InitializeResult:
			if p, ok := req.(*mcp.ServerRequest[*mcp.InitializeParams]); ok && p.Params != nil {
				r.Instructions = instructions(spellingFor(b.settings.ToolNames, p.Params.ClientInfo))
			}
		case *mcp.DiscoverResult:
			r.Instructions = instructions(spellingFor(b.settings.ToolNames, clientInfo(req)))
		case *mcp.ListToolsResult:
			s := spellingFor(b.settings.ToolNames, clientInfo(req))
			// The server lists by name; clients and people are served better by the order of use.
			listed := *r
			listed.Tools = nil
			for _, t := range b.tools {
				listed.Tools = append(listed.Tools, t.definition(s))
			}
			return &listed, nil
		}
		return res, nil
	}
}

// clientInfo is how the client of a request names itself; nil where it does not.
func clientInfo(req mcp.Request) *mcp.Implementation {
	if r, ok := req.(interface{ ClientInfo() *mcp.Implementation }); ok {
		return r.ClientInfo()
	}
	return nil
}
