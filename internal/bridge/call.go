package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/config"
	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

// call is one call of a tool, from its arrival to its result.
type call struct {
	*Bridge
	tool     *tool
	spelling spelling // of the name that the caller used; messages use it too
	args     *arguments
	req      *mcp.CallToolRequest
	// write is the call's turn at the ledger: a place that is taken on arrival by the tools that write.
	write     *loopgrid.Turn
	requestID string // sent with every request, and logged
	steps     steps
	progress  *progress
	question  *question // to a person; nil for tools that never ask
	warnings  []warning
	outcome   string // for the log
	cause     string // for the log: what ended a request to LoopGrid, in a word
	// leftBehind says that the call is answered although its handler still runs: nothing of the call that the handler may change is to
	// be looked at any more. The goroutine of the middleware alone uses it.
	leftBehind bool
}

type callKey struct{}

// arrive begins a call, in the order in which the calls stand on the input; it must not wait. The function that it returns ends the
// call's turn at the ledger and its progress, before the answer is written.
func (b *Bridge) arrive(ctx context.Context, req *mcp.CallToolRequest) (context.Context, func()) {
	c := &call{Bridge: b, tool: b.toolNamed(req.Params.Name), spelling: spellingOf(req.Params.Name), req: req, requestID: loopgrid.NewRequestID()}
	ctx = context.WithValue(loopgrid.WithRequestID(ctx, c.requestID), callKey{}, c)
	if c.tool == nil || !c.tool.writes || b.client == nil {
		return ctx, func() { c.progress.stop() }
	}
	c.write = b.client.NewTurn()
	return ctx, func() {
		if !c.leftBehind { // else its turn ends with its handler
			c.write.End()
		}
		c.progress.stop()
	}
}

// callOf returns the call that arrive began.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// toolNamed returns the tool with this full name, in either spelling; nil if there is none.
func (b *Bridge) toolNamed(name string) *tool {
	last, ok := strings.CutPrefix(name, string(spellingOf(name)))
	for _, t := range b.tools {
		if ok && t.name == last {
			return t
		}
	}
	return nil
}

// handle is the handler of every tool. Whatever a caller can mend is a tool error, never a JSON-RPC error. The SDK calls it a second
// time for the answer to a question that a legacy client was asked.
func (b *Bridge) handle(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) { //nolint:contextcheck // both are of this call
	c := callOf(ctx)
	c.req = req
	if c.question != nil && c.question.isOpen {
		ctx = c.question.call // what was answered is recorded, whatever ended the question since
	}
	return c.answer(ctx), nil
}

// known says what is known of the evidence of a call that went wrong inside the bridge.
func known(ctx context.Context) string {
	c := callOf(ctx)
	if c == nil {
		return ""
	}
	if c.write == nil || !c.write.Sent() {
		return "Nothing was recorded."
	}
	return c.steps.known(c)
}

func (c *call) answer(ctx context.Context) *mcp.CallToolResult {
	c.warnings = nil
	args, problems := c.tool.check(c.req.Params.Arguments)
	if len(problems) > 0 {
		c.outcome = "bad arguments"
		return c.badArguments(problems)
	}
	if found := c.settings.ProblemsFor(c.tool.scope); len(found) > 0 {
		c.outcome = "bad configuration"
		return c.badConfiguration(found)
	}
	c.args = args
	for _, name := range args.lineBreakers {
		c.warnLineBreakers(name)
	}
	if c.progress == nil { // it goes on while a person is asked
		c.progress = startProgress(ctx, c.req, c.hide)
	}
	return c.tool.run(ctx, c)
}

// the is the name of another tool in the spelling of the caller.
func (c *call) the(tool string) string { return c.spelling.toolName(tool) }

// warning tells of something that is recorded and will hurt later.
type warning struct{ code, message string }

func (c *call) warn(code, message string) { c.warnings = append(c.warnings, warning{code, message}) }

func (c *call) warnLineBreakers(what string) {
	c.warn("line_breakers", what+" holds U+2028, U+2029 or U+0085. It is recorded as it is, but loopgrid-verify 0.1.0 cannot read an evidence bundle that shows it.")
}

// warnSandbox marks evidence that was not recorded by LoopGrid.
func (c *call) warnSandbox(sandbox bool) {
	if !sandbox {
		return
	}
	for _, w := range c.warnings {
		if w.code == "sandbox" {
			return
		}
	}
	c.warn("sandbox", "This was recorded in a sandbox, not in LoopGrid: it is gone when the sandbox ends and proves nothing.")
}

// success builds a result: the same JSON as text, which is exact in every host, and as structured content. A field with a nil
// value is left out; the warnings stand at the end.
func (c *call) success(fields ...evidence.Field) *mcp.CallToolResult {
	return c.succeed(evidence.Object(append(fields, evidence.Field{Name: "warnings", Value: c.warningList()})...))
}

func (c *call) succeed(body jsontext.Value) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		Content:           []mcp.Content{&mcp.TextContent{Text: string(body)}},
		StructuredContent: json.RawMessage(body),
	}
}

func (c *call) warningList() jsontext.Value {
	if len(c.warnings) == 0 {
		return nil
	}
	list := make([]jsontext.Value, len(c.warnings))
	for i, w := range c.warnings {
		list[i] = evidence.Object(field("code", w.code), field("message", w.message))
	}
	return evidence.Array(list...)
}

func field(name, value string) evidence.Field {
	return evidence.Field{Name: name, Value: evidence.Text(value)}
}

func flag(name string, value bool) evidence.Field {
	if value {
		return evidence.Field{Name: name, Value: jsontext.Value("true")}
	}
	return evidence.Field{Name: name, Value: jsontext.Value("false")}
}

func raw(name string, value jsontext.Value) evidence.Field {
	return evidence.Field{Name: name, Value: value}
}

// failed is a tool error: lines of text, without structured content. Empty lines are left out.
func failed(lines ...string) *mcp.CallToolResult {
	lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" })
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: strings.Join(lines, "\n")}}}
}

func (c *call) badArguments(problems []string) *mcp.CallToolResult {
	what := "1 problem with the arguments"
	if len(problems) > 1 {
		what = fmt.Sprintf("%d problems with the arguments", len(problems))
	}
	lines := []string{c.the(c.tool.name) + ": " + what + "."}
	for _, p := range problems {
		lines = append(lines, "- "+p)
	}
	return failed(append(lines, "Nothing was recorded.")...)
}

func (c *call) badConfiguration(problems []config.Problem) *mcp.CallToolResult {
	lines := []string{c.the(c.tool.name) + " cannot be used: loopgrid-mcp is not set up right."}
	for _, p := range problems {
		lines = append(lines, "- "+p.Message+" "+p.Remedy)
	}
	return failed(append(lines, "Nothing was sent. Nothing was recorded. Tell the operator of this server.")...)
}

// mendable says in one line what to do about an error of the service, for the person or the program that can do it.
func (c *call) mendable(err error) string {
	var api *loopgrid.APIError
	var unusable *loopgrid.AnswerError
	var transport *loopgrid.TransportError
	switch {
	case errors.As(err, &api):
		return c.mendAnswer(api)
	case errors.As(err, &unusable):
		return "The operator should check that LOOPGRID_BASE_URL is the address of LoopGrid itself; a login page or proxy may stand in between."
	case errors.As(err, &transport) && !transport.Sent():
		return "The operator should check that LoopGrid runs at LOOPGRID_BASE_URL: loopgrid-mcp doctor tells more."
	default:
		return ""
	}
}

func (c *call) mendAnswer(e *loopgrid.APIError) string {
	switch {
	case e.Status == 401 && !c.settings.ServiceKey.IsSet():
		return join("LoopGrid asks for a key: the operator has to set LOOPGRID_SERVICE_KEY.", c.settings.KeyNote())
	case e.Status == 401:
		return join("The operator has to check LOOPGRID_SERVICE_KEY: the key is wrong, revoked or expired, or lacks the scope named above.", c.settings.KeyNote())
	case e.Status == 403:
		return "The operator has to make LOOPGRID_SERVICE_KEY and LOOPGRID_WORKSPACE agree: the key belongs to another workspace."
	case e.Status == 404 && e.Detail == "Decision not found":
		return "Check decision_id: it has to be one that " + c.the("record_decision") + " returned from this LoopGrid."
	case policyMissing(e):
		return "The workspace has no active policy of that name: check policy_id, or ask the operator for one."
	case e.Status == 404:
		return "The operator should check LOOPGRID_BASE_URL: the service there does not know this route."
	case e.Status == 409:
		return c.mendConflict(e.Code)
	case e.Status == 413:
		return "The evidence is larger than LoopGrid accepts in one request: send less, for example a reference to it in place of the whole text."
	case e.Status == 422 || e.Status == 400:
		return "LoopGrid does not accept these values: correct them and call again."
	case e.Status == 429:
		return fmt.Sprintf("LoopGrid limits the number of writes: call again in %d s.", int(e.RetryAfter.Seconds())+1)
	case e.Status >= 300 && e.Status < 400:
		return "The operator has to set LOOPGRID_BASE_URL to the address that it redirects to (https?): redirects are not followed, since they could carry the key elsewhere."
	case e.Status < 500:
		return "LoopGrid, or something in front of it, does not take this request: the operator should check LOOPGRID_BASE_URL and what stands in between."
	default:
		return "LoopGrid itself failed: the operator should look at its log."
	}
}

// mendConflict says what a lifecycle rule asks for.
func (c *call) mendConflict(code string) string {
	switch code {
	case "action_blocked":
		return "The policy blocked this action: do not carry it out."
	case "approval_required":
		return "A person has to approve the decision first: do not act until then."
	case "action_rejected":
		return "A person rejected this action: do not carry it out."
	case "execution_missing":
		return "Record the action with " + c.the("record_action") + " first, then its outcome."
	case "review_without_policy", "review_not_required":
		return "The recorded policy result asks for no review."
	case "review_already_recorded":
		return "The decision was reviewed already; " + c.the("get_evidence") + " shows the result."
	case "policy_already_evaluated":
		return "A policy result is recorded already and stands."
	case "idempotency_conflict":
		return "The idempotency_key is in use for another decision of this workspace: use a new key."
	default:
		return "The decision is not in a state that allows this; " + c.the("get_evidence") + " shows the state."
	}
}

func join(sentences ...string) string {
	var all []string
	for _, s := range sentences {
		if s != "" {
			all = append(all, s)
		}
	}
	return strings.Join(all, " ")
}

// readFailed is the error of a call that records nothing.
func (c *call) readFailed(ctx context.Context, what string, err error) *mcp.CallToolResult {
	if cut := c.cutOff(ctx, what); cut != nil {
		return cut
	}
	c.outcome, c.cause = "failed", loopgrid.Cause(err)
	return failed(what+": "+sentence(err), c.mendable(err), again(err))
}

// cutOff is the error of a read that the client or the end of the server cut short; nil for any other.
func (c *call) cutOff(ctx context.Context, what string) *mcp.CallToolResult {
	switch {
	case ctx.Err() == nil:
		return nil
	case errors.Is(context.Cause(ctx), errEnding):
		c.outcome, c.cause = "cancelled", errEnding.Error()
		return failed(what+": the server was told to end before LoopGrid had answered.", "It reads only: call again.")
	default:
		c.outcome = "cancelled"
		return failed(what+": the call was cancelled.", "It reads only: call again.")
	}
}

// again says that a read which found no answer does no harm when it is repeated.
func again(err error) string {
	var transport *loopgrid.TransportError
	switch {
	case !errors.As(err, &transport) || !transport.Sent():
		return ""
	case transport.TimedOut():
		return "It reads only: call again later. If LoopGrid just needs longer, the operator can raise LOOPGRID_MCP_TIMEOUT_SECONDS."
	default:
		return "It reads only: call again."
	}
}

// sentence is the text of an error as a sentence.
func sentence(err error) string {
	text := strings.TrimRight(err.Error(), ".")
	return text + "."
}
