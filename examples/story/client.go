package story

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/bridge"
)

// Client is a host with the official Go SDK, connected to the program over stdio.
type Client struct{ *mcp.ClientSession }

// Connect starts the command and connects to it. The person answers the forms of the program; a nil person is a host that shows none.
func Connect(ctx context.Context, command *exec.Cmd, person func(*mcp.ElicitParams) *mcp.ElicitResult) (*Client, error) {
	options := &mcp.ClientOptions{}
	if person != nil {
		options.ElicitationHandler = func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return person(r.Params), nil
		}
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "loopgrid-story", Version: "1.0.0"}, options).
		Connect(ctx, &mcp.CommandTransport{Command: command}, nil)
	if err != nil {
		return nil, fmt.Errorf("connect to loopgrid-mcp: %w", err)
	}
	return &Client{session}, nil
}

// Call calls a tool. The arguments go as they are, since an agent's numbers are evidence: a map would make them float64.
func (c *Client) Call(ctx context.Context, tool, arguments string) (Answer, error) {
	res, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "loopgrid." + tool, Arguments: json.RawMessage(arguments)})
	if err != nil {
		return Answer{}, fmt.Errorf("call %s: %w", tool, err)
	}
	if len(res.Content) == 0 {
		return Answer{}, fmt.Errorf("call %s: the result is empty", tool)
	}
	text, ok := res.Content[0].(*mcp.TextContent)
	if !ok {
		return Answer{}, fmt.Errorf("call %s: the result does not begin with a text", tool)
	}
	return Answer{Text: text.Text, Refused: res.IsError}, nil
}

// Tools lists the tools, which have to be those of the program's catalogue.
func (c *Client) Tools(ctx context.Context) ([]string, error) {
	list, err := c.ListTools(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("list the tools: %w", err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names, CheckTools(names)
}

// CheckTools compares the names that a program lists, in any order, with its catalogue.
func CheckTools(names []string) error {
	var catalogue []string
	for _, tool := range bridge.Document() {
		catalogue = append(catalogue, tool.Name)
	}
	if names = slices.Sorted(slices.Values(names)); !slices.Equal(names, slices.Sorted(slices.Values(catalogue))) {
		return fmt.Errorf("the tools are %q, not %q", names, catalogue)
	}
	return nil
}

// newKey returns an idempotency key of its own for each run.
func newKey() string { return "story-" + rand.Text() }
