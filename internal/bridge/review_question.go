package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
	"github.com/loopgridio/loopgrid-mcp/internal/stdio"
)

// confirmReview is the name of the question among the input requests of a call.
const confirmReview = "confirm_review"

// canAsk says whether the client of a request shows forms to a person. go-sdk does not look before it sends a question.
func canAsk(req *mcp.CallToolRequest) bool {
	capabilities := req.ClientCapabilities()
	if isAskedBySDK(req) {
		capabilities = req.Session.InitializeParams().Capabilities // the only ones that go-sdk goes by there
	}
	if capabilities == nil || capabilities.Elicitation == nil {
		return false
	}
	return capabilities.Elicitation.Form != nil || capabilities.Elicitation.URL == nil // {} means forms
}

// isAskedBySDK says whether the session is older than MCP 2026-07-28: then go-sdk sends the question as a request of its own and
// calls the handler a second time. Newer clients get the question as the result, and call again with the answer.
func isAskedBySDK(req *mcp.CallToolRequest) bool {
	opened := req.Session.InitializeParams()
	return opened != nil && opened.ProtocolVersion < stdio.StatelessVersion
}

// ask puts the question to the person, once it is known that LoopGrid would take the review.
func (c *call) ask(ctx context.Context, p proposal) *mcp.CallToolResult {
	c.progress.step("reading the decision")
	record, err := c.client.GetDecision(ctx, p.decisionID)
	if err != nil {
		return c.notAsked("it could not be read. "+upper(sentence(err)), c.mendable(err))
	}
	if record.State != "awaiting_human_review" {
		return c.notWaiting(record)
	}
	text, refusal := reviewForm(record, p, c.settings.ReviewerID)
	if refusal != "" {
		return c.notAsked(refusal+".", inLoopGrid)
	}
	// Whatever else goes wrong here need not go wrong when the answer is there.
	if access, _ := c.client.ProbeReview(ctx); access == loopgrid.AccessDenied || access == loopgrid.AccessElsewhere {
		return c.notAsked("LoopGrid does not take reviews with this service key.",
			join("The operator has to set LOOPGRID_SERVICE_KEY to a key of this workspace with the scope review.", c.settings.KeyNote()), inLoopGrid)
	}
	if isAskedBySDK(c.req) {
		c.outcome = "no answer" // until there is one
		c.progress.step("waiting for the person's answer")
		c.question.begin()
	}
	return &mcp.CallToolResult{
		RequestState:  c.questions.sealed(p),
		InputRequests: mcp.InputRequestMap{confirmReview: &mcp.ElicitParams{Mode: "form", Message: c.hide.text(text), RequestedSchema: formSchema()}},
	}
}

// notAsked is the error where LoopGrid would take no review, or the person could not be shown what it is about.
func (c *call) notAsked(why string, more ...string) *mcp.CallToolResult {
	c.outcome = "not asked"
	return failed(append([]string{"Nobody was asked about decision " + c.args.text("decision_id") + ", and nothing was recorded: " + why}, more...)...)
}

// notWaiting says why LoopGrid takes no review of a decision.
func (c *call) notWaiting(record *loopgrid.DecisionRecord) *mcp.CallToolResult {
	for _, eventType := range [...]string{"human_approved", "human_rejected", "human_adjudicated"} {
		if event := firstOf(record, eventType); event != nil {
			return c.notAsked("it is reviewed already ("+describe(event)+").", c.mendConflict("review_already_recorded"))
		}
	}
	if firstOf(record, "policy_evaluated") == nil {
		return c.notAsked("no policy result is recorded that would ask for a review.")
	}
	return c.notAsked("it does not wait for a review; its state is " + plainly(record.State, maxFormLine) + ".")
}

// takeAnswer takes the answer of the client. Whatever is wrong with it, nothing is recorded, and unless the person has answered, the
// question stays open.
func (c *call) takeAnswer(ctx context.Context, p proposal) *mcp.CallToolResult {
	c.warnings = nil // those about the arguments: what the model wrote is not recorded
	what := theReview(p.decisionID)
	c.outcome = "no answer"
	id, err := c.questions.open(c.req.Params.RequestState, p)
	if err != nil {
		return notTaken(what, upper(err.Error()))
	}
	if earlier := c.questions.earlier(id); earlier != nil {
		return c.answeredBefore(ctx, p.decisionID, earlier)
	}
	answer, ok := c.req.Params.InputResponses[confirmReview].(*mcp.ElicitResult)
	if !ok {
		return notTaken(what, "The call carries no answer to its question")
	}
	var review *loopgrid.Review
	switch answer.Action {
	case "accept":
		if review, err = c.decided(answer.Content); err != nil {
			return notTaken(what, "The answer does not fit the form: "+err.Error())
		}
	case "decline", "cancel":
	default:
		return notTaken(what, "The answer is neither accept, decline nor cancel")
	}
	taken, first, err := c.questions.answer(id)
	switch {
	case err != nil:
		return notTaken(what, upper(err.Error()))
	case !first:
		return c.answeredBefore(ctx, p.decisionID, taken)
	}
	defer close(taken.done)
	if review == nil {
		return c.declined(what, answer.Action)
	}
	taken.review = review
	r := confirmed{review: review, by: byPerson}
	if review.Action != p.action {
		r.note = fmt.Sprintf("The person chose %s where the call proposed %s. What the person chose is recorded.", review.Action, p.action)
	}
	if evidence.HasLineBreakers(evidence.Text(review.Reason)) {
		c.warnLineBreakers("The person's reason")
	}
	c.outcome = ""
	return c.record(ctx, p.decisionID, r)
}

// notTaken is the error for an answer that does not count.
func notTaken(what, why string) *mcp.CallToolResult {
	return failed("Not recorded: "+what+". "+why+".", askAgain)
}

const askAgain = "Call again to have the person asked anew. " + inLoopGrid

// decided reads what a person chose and wrote. Hosts let a person write what the form does not offer.
func (c *call) decided(content map[string]any) (*loopgrid.Review, error) {
	action, ok := content["action"].(string)
	switch {
	case content["action"] == nil:
		return nil, errors.New("action is missing; it has to be approve or reject")
	case !ok || action != "approve" && action != "reject":
		return nil, errors.New("action has to be approve or reject")
	}
	reason, ok := content["reason"].(string)
	switch length := utf8.RuneCountInString(reason); {
	case !ok && content["reason"] != nil:
		return nil, errors.New("reason has to be a text")
	case length > maxReason:
		return nil, fmt.Errorf("reason has %d characters, and LoopGrid records at most %d", length, maxReason)
	}
	return c.reviewOf(action, reason), nil
}

// declined is the error where the person decided nothing, or the host did not let them.
func (c *call) declined(what, action string) *mcp.CallToolResult {
	c.outcome = action
	if action == "decline" {
		return failed("Not recorded: "+what+". The question was declined, by the person or by the host in their place.",
			"Do not ask again unless the person wants to. "+inLoopGrid)
	}
	return failed("Not recorded: "+what+". The question was closed without an answer, by the person or by a host that has nobody to ask.",
		"Ask again only once the person is there. "+inLoopGrid)
}

// answeredBefore answers a call whose question is used up: with what came of it, since the client may have missed that.
func (c *call) answeredBefore(ctx context.Context, id string, earlier *answeredQuestion) *mcp.CallToolResult {
	c.outcome = "answered before"
	what := theReview(id)
	select {
	case <-earlier.done:
	case <-ctx.Done():
		return failed("Nothing was recorded by this call. The question was answered by an earlier call, which is still recording "+what+".",
			c.the("get_evidence")+" shows what became of it.")
	}
	record, err := c.client.GetDecision(ctx, id)
	if err != nil {
		return failed("Nothing was recorded by this call. The question was answered by an earlier call, and whether that recorded "+what+" could not be read. "+upper(sentence(err)),
			c.mendable(err))
	}
	event := reviewIn(record)
	switch {
	case event == nil:
		return failed("Nothing was recorded by this call. The question was answered by an earlier call, and no review of decision "+id+" is recorded.", askAgain)
	case earlier.review == nil || !isReview(event, earlier.review):
		return failed("Nothing was recorded by this call. The question was answered by an earlier call. What is recorded is "+describe(event)+".",
			c.mendConflict("review_already_recorded"))
	}
	return c.foundReview(what, id, confirmed{review: earlier.review, by: byPerson, note: "The question was answered by an earlier call, which recorded this review."}, event)
}

// question is a question that go-sdk puts to the person while the call waits. It ends with the client's end of the input, which can
// bring no answer any more, and when the time for an answer is over. The call itself does not: what a person answered is
// recorded.
type question struct {
	call   context.Context // of the call, without the end of the question
	open   context.Context
	end    context.CancelCauseFunc
	ended  <-chan struct{} // the host can answer no more
	isOpen bool
}

// errQuestionEnded is why a question ends before its answer.
var errQuestionEnded = errors.New("the question ended without an answer")

// lastAnswer is how long a question stays open after the end of the input, so that an answer that came right before it is taken.
const lastAnswer = 100 * time.Millisecond

// begin is called right before the question is put.
func (q *question) begin() {
	q.isOpen = true
	go func() {
		timeout := time.NewTimer(answerTime)
		defer timeout.Stop()
		select {
		case <-timeout.C:
		case <-q.ended:
			timeout.Reset(lastAnswer)
			select {
			case <-timeout.C:
			case <-q.open.Done():
			}
		case <-q.open.Done():
		}
		q.end(errQuestionEnded)
	}()
}

// endQuestions returns the innermost middleware: it gives the call of a tool that asks a context for its question.
func endQuestions(ended <-chan struct{}) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			c := callOf(ctx)
			if c == nil || c.tool == nil || c.tool.name != "record_review" {
				return next(ctx, method, req)
			}
			open, end := context.WithCancelCause(ctx)
			defer end(nil)
			c.question = &question{call: ctx, open: open, end: end, ended: ended}
			return next(open, method, req)
		}
	}
}
