package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const newestProtocol = "2026-07-28"

// toolNames are the six tools, sorted.
func toolNames() []string {
	return []string{
		"loopgrid.get_evidence", "loopgrid.record_action", "loopgrid.record_decision",
		"loopgrid.record_outcome", "loopgrid.record_review", "loopgrid.verify_evidence",
	}
}

// tryClient goes through the tools as a host with the official client does.
func tryClient(ctx context.Context, r *report, p *program) (err error) {
	// On an early return it ends the program, whatever state the session is in.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "loopgrid-stdio-test", Version: "1.0.0"}, nil)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: p.command(ctx)}, nil)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	c := &caller{report: r, who: "Go client", call: func(tool, args string) (answer, error) {
		res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
		if err != nil {
			return answer{}, fmt.Errorf("%s: %w", tool, err)
		}
		if len(res.Content) == 0 {
			return answer{}, fmt.Errorf("%s: the result is empty", tool)
		}
		text, ok := res.Content[0].(*mcp.TextContent)
		if !ok {
			return answer{}, fmt.Errorf("%s: the result does not begin with a text", tool)
		}
		return answer{text: text.Text, failed: res.IsError}, nil
	}}
	walked := func() error {
		if got := session.InitializeResult().ProtocolVersion; got != newestProtocol {
			return fmt.Errorf("the protocol agreed on is %s, not %s", got, newestProtocol)
		}
		c.pass("protocol %s", newestProtocol)
		list, err := session.ListTools(ctx, nil)
		if err != nil {
			return fmt.Errorf("list the tools: %w", err)
		}
		var names []string
		for _, tool := range list.Tools {
			names = append(names, tool.Name)
		}
		if slices.Sort(names); !slices.Equal(names, toolNames()) {
			return fmt.Errorf("the tools are %v", names)
		}
		c.pass("six tools are listed")
		return c.walk()
	}()
	return errors.Join(walked, session.Close())
}
