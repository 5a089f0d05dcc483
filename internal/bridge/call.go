package bridge

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/config"
	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
	"github.com/loopgridio/loopgrid-mcp/internal/stdio"
)

// call is one call of a tool, from arrival to result. Only its handler uses it; what others read while the handler runs has its own lock
// (steps, turn) or never changes.
type call struct {
	*Bridge
	tool      *tool    // nil if there is none of that name
	spelling  spelling // of the name the caller used; messages use it too
	req       *mcp.CallToolRequest
	onWire    *stdio.Call
	args      *arguments // once checked
	requestID string     // sent with every request, and logged
	traceID   string     // of the caller's trace, if any; logged
	turn      *loopgrid.Turn
	steps     steps
	progress  *progress
	warnings  []warning

	outcome       string      // for the log; if empty, derived from the result
	logDetails    []slog.Attr // for the log
	reviewDetails []slog.Attr // for the log, of a review that is recorded; set before its turn
}

// newCall begins a call and, if its tool writes, joins the queue of writers. It never waits.
func (b *Bridge) newCall(req *mcp.CallToolRequest) *call {
	c := &call{Bridge: b, tool: b.toolNamed(req.Params.Name), spelling: spellingOf(req.Params.Name), req: req, requestID: loopgrid.NewRequestID()}
	if c.tool != nil && c.tool.queues && b.client != nil {
		c.turn = b.client.NewTurn()
	}
	return c
}

// logCause adds to the log line, in a word or two, what ended a request to LoopGrid.
func (c *call) logCause(cause string) {
	if cause != "" {
		c.logDetails = append(c.logDetails, slog.String("cause", cause))
	}
}

// leaveQueue gives up the call's turn, or its place in the queue.
func (c *call) leaveQueue() {
	if c.turn != nil {
		c.turn.End()
	}
}

// toolNamed returns the tool of this full name, in either spelling; nil if there is none.
func (b *Bridge) toolNamed(name string) *tool {
	last, ok := strings.CutPrefix(name, string(spellingOf(name)))
	for _, t := range b.tools {
		if ok && t.name == last {
			return t
		}
	}
	return nil
}

// toolName is the full name of a tool in the spelling of the caller.
func (c *call) toolName(name string) string { return c.spelling.toolName(name) }

// check checks the arguments and the settings the tool depends on. It returns nil, or the error that ends the call.
func (c *call) check() *mcp.CallToolResult {
	args, problems := c.tool.check(c.req.Params.Arguments)
	if len(problems) > 0 {
		c.outcome = "bad arguments"
		return c.badArguments(problems)
	}
	if found := c.settings.ProblemsFor(c.tool.touches); len(found) > 0 {
		c.outcome = "bad configuration"
		return c.badConfiguration(found)
	}
	c.args = args
	for _, name := range args.withLineBreakers {
		c.warnLineBreakers(name)
	}
	for _, name := range args.withLargeIntegers {
		c.warn(largeInteger, name+" contains an integer of 2^53 or more. It is recorded exactly as received, but many hosts round such numbers before sending them. If it is an ID, send it as a string.")
	}
	return nil
}

func (c *call) badArguments(problems []string) *mcp.CallToolResult {
	count := "1 problem"
	if len(problems) > 1 {
		count = fmt.Sprintf("%d problems", len(problems))
	}
	lines := []string{"Not recorded: " + count + " with the arguments of " + c.toolName(c.tool.name) + "."}
	for _, p := range problems {
		lines = append(lines, "- "+p)
	}
	return failed(append(lines, "Nothing was recorded. Correct the arguments and call again.")...)
}

func (c *call) badConfiguration(problems []config.Problem) *mcp.CallToolResult {
	lines := []string{"Not recorded: loopgrid-mcp is not configured correctly, so " + c.toolName(c.tool.name) + " cannot be used."}
	for _, p := range problems {
		lines = append(lines, "- "+p.Message+" "+p.Remedy)
	}
	return failed(append(lines, "Nothing was sent. Nothing was recorded. Tell the operator of this server.")...)
}

// internalError is the error of a call that failed because of a bug in this program. Its turn may already be released: a panic leaves the
// handler.
func (c *call) internalError(what string) *mcp.CallToolResult {
	if c.turn != nil && c.turn.Sent() {
		return failed("Outcome unknown: loopgrid-mcp failed with an internal error; "+what+".", c.steps.outcomeSoFar(c))
	}
	return failed("Not recorded: loopgrid-mcp failed with an internal error; "+what+".", "Nothing was recorded.")
}

// idempotencyKey returns the key of the call, and whether the caller gave it. A call without one gets a random key: two identical calls
// record two events, yet each can be retried safely, while it runs and later with the key in its result.
func (c *call) idempotencyKey() (key string, given bool) {
	if key := c.args.text("idempotency_key"); key != "" {
		return key, true
	}
	return "lgm-" + strings.ToLower(rand.Text()), false
}

// takeTurn waits for the call's turn to write. c.steps must already hold what the call will record. An error means that nothing was
// sent. The caller calls release once it has recorded what it can.
func (c *call) takeTurn(ctx context.Context) (release func(), err error) {
	c.progress.step("waiting for other writes to this LoopGrid")
	decisionID, key, _ := c.steps.pending()
	err = c.turn.Begin(ctx, loopgrid.Subject{DecisionID: decisionID, IdempotencyKey: key, Review: key == ""})
	if err != nil {
		return nil, err
	}
	if !c.onWire.Claim() {
		return nil, &loopgrid.WriteError{Err: errEnding}
	}
	if c.turn.Unlocked() {
		c.warn(writeLockOff, "LOOPGRID_MCP_WRITE_LOCK=off, but this LoopGrid does not run on PostgreSQL: two simultaneous writes break its chain for good. Tell the operator.")
	}
	c.mu.Lock()
	c.writing[c] = true
	stopping := c.stopping
	c.mu.Unlock()
	if stopping {
		c.logUnfinished()
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.writing, c)
	}, nil
}

// turnOf returns the turn that a call holds; nil if it holds none.
func (b *Bridge) turnOf(c *call) *loopgrid.Turn {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.writing[c] {
		return nil
	}
	return c.turn
}

// logUnfinishedWrites logs a line for each write in progress when the session ends; writes that take their turn later log theirs then.
func (b *Bridge) logUnfinishedWrites() {
	b.mu.Lock()
	b.stopping = true
	var unfinished []*call
	for c := range b.writing {
		unfinished = append(unfinished, c)
	}
	b.mu.Unlock()
	for _, c := range unfinished {
		c.logUnfinished()
	}
}

// logUnfinished logs what a write still has to do, so that it can be resumed if the process is killed first.
func (c *call) logUnfinished() {
	decisionID, key, left := c.steps.pending()
	c.log.Warn("shutting down while a write is unfinished", slog.String("tool", c.tool.name), slog.String("decision_id", decisionID),
		slog.String("idempotency_key", key), slog.String("steps_left", strings.Join(left, ", ")), slog.String("request_id", c.requestID))
}

// repeatHint says how to learn the outcome of the call and finish it, in one step.
func (c *call) repeatHint(key string) string { return c.repeatHintWith(key, "") }

// repeatHintWith is [call.repeatHint] for a call that must also change another argument, named by change. The key is quoted as JSON, so
// that it can be sent as shown.
func (c *call) repeatHintWith(key, change string) string {
	return fmt.Sprintf("To find out and finish, call %s again with idempotency_key %s%s and otherwise the same arguments: nothing is recorded twice.",
		c.toolName(c.tool.name), evidence.Text(key), change)
}
