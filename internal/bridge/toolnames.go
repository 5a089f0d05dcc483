package bridge

import (
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
func (s spelling) toolName(name string) string { return string(s) + name }

// names replaces {record_decision} and the like in a text with full tool names. Braces around anything else stay.
func (s spelling) names(text string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{")
		name, after, closed := strings.Cut(rest, "}")
		out.WriteString(before)
		switch {
		case !found:
			return out.String()
		case closed && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") == "":
			out.WriteString(s.toolName(name))
			text = after
		default:
			out.WriteString("{")
			text = rest
		}
	}
}

// spellingOf returns the spelling of a tool's full name.
func spellingOf(name string) spelling {
	if strings.HasPrefix(name, string(underscored)) {
		return underscored
	}
	return dotted
}

// needsUnderscores says whether a client, going by the name it gives, cannot handle dots in tool names. Each of these was tested.
func needsUnderscores(client string) bool {
	client = strings.ToLower(client)
	for _, prefix := range []string{
		"cursor",               // drops tools with dots
		"goose",                // passes names on to model APIs, which refuse dots; so do all below but the last two
		"qwen-cli-mcp-client-", // adds a hash to names with dots; the name ends with that of the server
	} {
		if strings.HasPrefix(client, prefix) {
			return true
		}
	}
	switch client {
	case "claude-ai", // Claude Desktop and claude.ai refuse all tools of the server
		"continue-cli-client", "fast-agent-mcp", "mcp-use", "nanocoder-mcp-client", "fastmcp", "@langchain/mcp-adapters", "ai-sdk-mcp-client",
		"@cline/core": // adds a hash to names with dots
		return true
	}
	return false
}

// spellingFor returns the spelling that a client sees.
func spellingFor(setting config.ToolNames, client *mcp.Implementation) spelling {
	switch setting {
	case config.DottedNames:
		return dotted
	case config.UnderscoreNames:
		return underscored
	case config.AutoNames:
	}
	if client != nil && needsUnderscores(client.Name) {
		return underscored
	}
	return dotted
}

// spellNames shows the client the tools and the instructions in its spelling. The client is identified for each request: with protocol
// 2026-07-28 it names itself in every one.
func (b *Bridge) spellNames(req mcp.Request, result mcp.Result) mcp.Result {
	switch result := result.(type) {
	case *mcp.InitializeResult:
		if r, ok := req.(*mcp.ServerRequest[*mcp.InitializeParams]); ok && result != nil && r.Params != nil {
			result.Instructions = instructions(spellingFor(b.settings.ToolNames, r.Params.ClientInfo))
		}
	case *mcp.DiscoverResult:
		if result != nil {
			result.Instructions = instructions(spellingFor(b.settings.ToolNames, clientInfo(req)))
		}
	case *mcp.ListToolsResult:
		if result != nil {
			// No tool is registered with go-sdk, so it decodes no schema.
			for _, t := range b.tools {
				result.Tools = append(result.Tools, t.definition(spellingFor(b.settings.ToolNames, clientInfo(req))))
			}
		}
	}
	return result
}

// clientInfo is how the client of a request names itself; nil if it does not.
func clientInfo(req mcp.Request) *mcp.Implementation {
	if r, ok := req.(interface{ ClientInfo() *mcp.Implementation }); ok {
		return r.ClientInfo()
	}
	return nil
}
