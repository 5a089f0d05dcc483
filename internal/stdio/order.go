package stdio

import (
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Call is a tools/call on its way through the server.
type Call struct {
	// ID is the call's JSON-RPC id as the host spelled it; empty for a call that did not come over stdio.
	ID string

	transport *Transport
	key       string
}

// TakeCall returns the call that was handed over last, and gives req its arguments exactly as the host spelled them. They may hold
// what no decoder of go-sdk lets through: duplicate names, invalid UTF-8, lone surrogates and any nesting.
//
// The outermost middleware calls it for each tools/call. Until [Call.Started] no other message is handed to go-sdk, so that calls
// take their places in a queue in the order in which they stood on the input.
func (t *Transport) TakeCall(req *mcp.CallToolRequest) *Call {
	unstarted := t.unstarted.Load() // at most one is, so it is this one
	if unstarted == nil {           // it came over another transport
		return &Call{transport: t}
	}
	req.Params.Arguments = unstarted.arguments
	return &Call{ID: unstarted.id, key: unstarted.key, transport: t}
}

// Started lets the next message through.
func (c *Call) Started() {
	if call := c.transport.unstarted.Swap(nil); call != nil {
		close(call.started)
	}
}

// Answer returns the result to hand to go-sdk for the result of the call. Its content goes to the host byte for byte: go-sdk would
// copy and check it three times, and escape <, > and &.
func (c *Call) Answer(result *mcp.CallToolResult) *mcp.CallToolResult {
	return c.transport.keepContent(c.key, result)
}

// Claim says that the call is about to send what may be recorded. It reports false if the session is ending and the call must not send
// anything any more: the host is told, or will be, that nothing was recorded.
func (c *Call) Claim() bool { return c.key == "" || c.transport.calls.claim(c.key) }

// GiveUp reports whether the call has claimed nothing. From then on it cannot.
func (c *Call) GiveUp() bool { return c.transport.calls.giveUp(c.key) }

// unstartedCall is a tools/call that was handed over and has not started.
type unstartedCall struct {
	key       string // the request id for go-sdk
	id        string // as the host spelled it
	arguments []byte // as the host spelled them, nil if absent
	started   chan struct{}
}

// answeredUnstarted lets the next message through if the call under key is the one it waits for: the call was answered without starting.
func (t *Transport) answeredUnstarted(key string) {
	if call := t.unstarted.Load(); call != nil && call.key == key && t.unstarted.CompareAndSwap(call, nil) {
		close(call.started)
	}
}
