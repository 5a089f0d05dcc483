package bridge

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
	"github.com/loopgridio/loopgrid-mcp/internal/text"
)

// serveCall serves one tools/call, from arrival to answer. Anything a model can correct is a tool error, which it can read; only an
// unknown tool is a protocol error, as MCP requires.
func (b *Bridge) serveCall(ctx context.Context, req *mcp.CallToolRequest) (mcp.Result, error) {
	// Arrive: writers queue in the order of the input, because the next message is delivered only after Started.
	onWire := b.transport.TakeCall(req)
	arrived := time.Now()
	c := b.newCall(req)
	c.onWire = onWire
	ctx = loopgrid.WithRequestID(ctx, c.requestID)
	ctx, c.traceID = loopgrid.WithTrace(ctx, metaText(req, "traceparent"), metaText(req, "tracestate"))
	onWire.Started()

	// Log and leave: a call that was answered while its handler is still running is not touched here; its turn ends with the handler.
	outcome, handled := "refused", true
	defer func() {
		c.progress.stop() // no progress may follow the answer
		if handled {
			c.leaveQueue()
		}
		c.logEnd(ctx, onWire.ID, arrived, outcome, handled)
	}()
	if c.tool == nil {
		return nil, b.unknownTool(req.Params.Name)
	}
	c.progress = startProgress(ctx, req, b.hide)

	answer, handled := b.untilEnd(ctx, c, func(ctx context.Context) (answer *mcp.CallToolResult) {
		// Recover: a panic in one call must not end the process and every other call with it.
		defer func() {
			if panicked := recover(); panicked != nil {
				b.logPanic("tools/call", panicked)
				answer = c.internalError("see its log on stderr")
			}
		}()
		// Check.
		if refusal := c.check(); refusal != nil {
			return refusal
		}
		// Handle.
		return c.tool.handle(ctx, c)
	})
	outcome = outcomeOf(answer)

	// Hide the key, in case the service or something in front of it sent it back.
	b.hide.result(answer)
	return onWire.Answer(b.resultAs.sent(req, answer)), nil
}

// untilEnd runs the work of a call and makes sure that it is answered before the process ends. When the session ends, a call that has
// sent nothing is cancelled, and its own error says so. A call that has sent something ignores cancellation; if it is still running at
// the last moment, it is answered with what is known so far, and handled is false: its handler keeps running and keeps its turn.
func (b *Bridge) untilEnd(ctx context.Context, c *call, work func(context.Context) *mcp.CallToolResult) (answer *mcp.CallToolResult, handled bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	answered := make(chan *mcp.CallToolResult, 1)
	go func() {
		defer cancel(nil)
		answered <- work(ctx)
	}()
	select {
	case answer = <-answered:
		return answer, true
	case <-b.giveUp:
		cancel(errEnding)
	}
	if c.onWire.GiveUp() {
		return <-answered, true
	}
	select {
	case answer = <-answered:
		return answer, true
	case <-b.transport.Leaving():
	}
	turn := b.turnOf(c)
	if turn == nil || !turn.Sent() {
		return <-answered, true
	}
	go func() {
		<-answered
		turn.End()
	}()
	return failed("Outcome unknown: the server shut down before LoopGrid answered.", c.steps.outcomeSoFar(c)), false
}

// unknownTool lists the existing tools, in the spelling the caller used.
func (b *Bridge) unknownTool(name string) error {
	var names []string
	for _, t := range b.tools {
		names = append(names, spellingOf(name).toolName(t.name))
	}
	return b.hide.error(&jsonrpc.Error{
		Code:    jsonrpc.CodeInvalidParams,
		Message: fmt.Sprintf("unknown tool %q; the tools are %s", text.Clip(name, maxNameLogged), strings.Join(names, ", ")),
	})
}

// maxNameLogged limits a name that the host sent, in characters.
const maxNameLogged = 80

// logEnd logs one line for the call: the tool, how long it took, how it ended, and the IDs of the JSON-RPC request, of the requests to
// LoopGrid and of the caller's trace. For a review it adds the decision, the choice and who confirmed it. It never contains any other
// argument or any part of the result.
func (c *call) logEnd(ctx context.Context, wireID string, arrived time.Time, outcome string, handled bool) {
	details := c.reviewDetails
	if c.traceID != "" {
		details = append(details, slog.String("trace_id", c.traceID))
	}
	switch {
	case !handled:
		outcome = loopgrid.Unknown.String()
	case c.outcome != "":
		outcome = c.outcome
		fallthrough
	default:
		details = append(details, c.logDetails...)
	}
	c.log.LogAttrs(ctx, slog.LevelInfo, "tool call", append([]slog.Attr{
		slog.String("tool", text.Clip(c.req.Params.Name, maxNameLogged)),
		slog.Duration("took", time.Since(arrived)),
		slog.String("outcome", outcome),
		slog.String("request_id", c.requestID),
		slog.String("id", text.Clip(wireID, maxNameLogged)),
	}, details...)...)
}

// metaText is a text in the _meta of a request; empty if there is none. Baggage is never read: it can carry data not meant for LoopGrid.
func metaText(req *mcp.CallToolRequest, name string) string {
	value, _ := req.Params.GetMeta()[name].(string)
	return value
}

// outcomeOf is one word for how a call ended, for calls that did not set their outcome.
func outcomeOf(answer *mcp.CallToolResult) string {
	switch {
	case answer.IsError:
		return "error"
	case answer.InputRequests != nil:
		return "asked"
	default:
		return "ok"
	}
}
