// Command stock is what the bridge is measured against: a server of the official SDK over its own stdio transport, whose tools do the
// least that there is to do. Without STOCK_URL in the environment it has an empty tool; with it, two more tools that send one request
// to the LoopGrid there and pass on the answer as text.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	server := mcp.NewServer(&mcp.Implementation{Name: "stock", Version: "1.0.0"}, nil)
	schema := json.RawMessage(`{"type":"object"}`)
	server.AddTool(&mcp.Tool{Name: "empty", Description: "Does nothing.", InputSchema: schema},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("{}"), nil })
	if url := os.Getenv("STOCK_URL"); url != "" {
		s := &service{url: url, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
		server.AddTool(&mcp.Tool{Name: "post", Description: "Appends an event.", InputSchema: schema}, s.post)
		server.AddTool(&mcp.Tool{Name: "get", Description: "Has the chain verified.", InputSchema: schema}, s.get)
	}
	if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// service is the LoopGrid that the requests go to.
type service struct {
	url    string
	client *http.Client
}

// post sends the request that record_action sends: the details are the payload of an event.
func (s *service) post(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var args struct {
		DecisionID string          `json:"decision_id"`
		Tool       string          `json:"tool"`
		Reference  string          `json:"external_reference"`
		Details    json.RawMessage `json:"details"`
	}
	if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
		return nil, err
	}
	if len(args.Details) < 2 {
		return nil, errors.New("there are no details")
	}
	var body bytes.Buffer
	body.WriteString(`{"event_type":"tool_executed","actor_type":"tool","actor_id":"external-system","payload":`)
	body.Write(args.Details[:len(args.Details)-1])
	fmt.Fprintf(&body, `,"tool":%q,"external_reference":%q},"idempotency_key":"stock-%s"}`, args.Tool, args.Reference, rand.Text())
	return s.send(ctx, http.MethodPost, "/api/v1/decisions/"+args.DecisionID+"/events", &body)
}

// get sends the request that verify_evidence sends.
func (s *service) get(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var args struct {
		DecisionID string `json:"decision_id"`
	}
	if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
		return nil, err
	}
	return s.send(ctx, http.MethodGet, "/api/v1/decisions/"+args.DecisionID+"/verify", http.NoBody)
}

func (s *service) send(ctx context.Context, method, path string, body io.Reader) (*mcp.CallToolResult, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the service answered %d", res.StatusCode)
	}
	return text(string(answer)), nil
}
