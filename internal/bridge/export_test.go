package bridge

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// AddTool adds a tool without parameters whose structured result is what handle returns, so that tests can have one that fails.
func (b *Bridge) AddTool(name string, handle func() string) {
	b.tools = append(b.tools, &tool{name: name, handle: func(_ context.Context, c *call) *mcp.CallToolResult {
		return c.succeed(jsontext.Value(handle()))
	}})
}
