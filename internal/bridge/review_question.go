package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
	"github.com/loopgridio/loopgrid-mcp/internal/stdio"
	"github.com/loopgridio/loopgrid-mcp/internal/text"
)

// confirmReview is the name of the question among the input requests of a call.
const confirmReview = "confirm_review"

// canAsk says whether the client of a request shows forms to a person.
func canAsk(req *mcp.CallToolRequest) bool {
	capabilities := req.ClientCapabilities()
	if isLegacy(req) {
		capabilities = req.Session.InitializeParams().Capabilities // go-sdk goes by these alone there
	}
	if capabilities == nil || capabilities.Elicitation == nil {
		return false
	}
	return capabilities.Elicitation.Form != nil || capabilities.Elicitation.URL == nil // {} means forms
}

// ask asks the person, once it is clear that LoopGrid would accept the review. A legacy client is asked while the call waits. A newer one
// gets the question as the result, and sends the answer in a second call.
func (c *call) ask(ctx context.Context, p proposal) *mcp.CallToolResult {
	c.progress.step("reading the decision")
	record, err := c.client.GetDecision(ctx, p.decisionID)
	if err != nil {
		return c.notAsked("it could not be read. "+capitalized(c.whatHappened(err)), c.serviceSaid(err), c.remedy(err))
	}
	if record.State != "awaiting_human_review" {
		return c.notWaiting(record)
	}
	form, refusal := reviewForm(record, p, c.settings.ReviewerID, c.hide)
	if refusal != "" {
		return c.notAsked(refusal+".", inLoopGrid)
	}
	// Any other failure here may be over by the time the answer arrives.
	if access, _ := c.client.ProbeReview(ctx); access == loopgrid.AccessDenied || access == loopgrid.AccessElsewhere {
		return c.notAsked("LoopGrid accepts no reviews with this service key.",
			sentences("The operator must "+c.settings.UseKey("a key of this workspace with the scope review")+".", c.settings.KeyNote()), inLoopGrid)
	}
	question := &mcp.ElicitParams{Mode: "form", Message: form.message, RequestedSchema: json.RawMessage(form.schema)}
	if !isLegacy(c.req) {
		return &mcp.CallToolResult{
			Content:      []mcp.Content{}, // go-sdk would send null, which no client expects
			RequestState: c.questions.sealed(p), InputRequests: mcp.InputRequestMap{confirmReview: question},
		}
	}
	c.progress.step("waiting for the person's answer")
	answer, err := c.elicit(ctx, question)
	if err != nil {
		c.outcome = "no answer"
		return failed("Not recorded: "+p.what()+". "+c.questionFault(err), "Nothing was recorded. "+inLoopGrid)
	}
	review, refused := c.decided(p, answer)
	if refused != nil {
		return refused
	}
	return c.recordAnswered(ctx, p, review)
}

// notAsked is the error if LoopGrid would not accept a review, or if the decision cannot be shown to the person.
func (c *call) notAsked(why string, more ...string) *mcp.CallToolResult {
	c.outcome = "not asked"
	return failed(append(append([]string{"Not recorded: nobody was asked about decision " + c.args.text("decision_id") + ": " + why}, more...), "Nothing was recorded.")...)
}

// notWaiting says why LoopGrid would not accept a review of a decision.
func (c *call) notWaiting(record *loopgrid.DecisionRecord) *mcp.CallToolResult {
	if event := firstOf(record, "human_approved", "human_rejected", "human_adjudicated"); event != nil {
		return c.notAsked("it has already been reviewed ("+c.describe(event)+").", c.remedyForConflict("review_already_recorded"))
	}
	if firstOf(record, "policy_evaluated") == nil {
		return c.notAsked("it has no policy result that requires a review.", c.expectedNext())
	}
	return c.notAsked("it is not awaiting a review; its state is "+c.word(record.State)+".", c.expectedNext())
}

// expectedNext points to the lifecycle of the decision.
func (c *call) expectedNext() string {
	return c.toolName("get_evidence") + " shows what is expected next."
}

const (
	// lastAnswer is how long a question stays open after the end of the input, so that an answer right before it counts.
	lastAnswer = 100 * time.Millisecond
)

// errQuestionEnded is why a question ends without an answer.
var errQuestionEnded = errors.New("the question ended without an answer")

// elicit sends the question to a legacy client and waits for the answer, until time is up or the client can no longer send one. The call
// itself continues after that, so that an answer is recorded.
func (c *call) elicit(ctx context.Context, question *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() {
		timeout := time.NewTimer(answerTime)
		defer timeout.Stop()
		select {
		case <-timeout.C:
		case <-c.transport.Ended():
			timeout.Reset(lastAnswer)
			select {
			case <-timeout.C:
			case <-ctx.Done():
			}
		case <-ctx.Done():
		}
		end(errQuestionEnded)
	}()
	return c.req.Session.Elicit(ctx, question) //nolint:wrapcheck // questionFault puts it into words
}

// questionFault says why a question has no usable answer. It does not repeat go-sdk's schema errors, which quote the answer.
func (c *call) questionFault(err error) string {
	var coded *jsonrpc.Error
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, mcp.ErrConnectionClosed):
		return "The question ended without an answer."
	case errors.As(err, &coded) && strings.HasPrefix(coded.Message, stdio.UnusableAnswer):
		return fmt.Sprintf("The client answered the question, but %s.", text.Clip(coded.Message, stdio.ErrorLimit))
	case errors.As(err, &coded):
		return "The client did not ask a person.\nThe client said: " + string(evidence.Text(c.hide.text(text.Clean(coded.Message, stdio.ErrorLimit))))
	case strings.Contains(err.Error(), "requested schema"):
		return "The answer does not match the form: " + formRule + "."
	default:
		return "The answer could not be used."
	}
}

// takeSealedAnswer takes the answer that a newer client sends in a second call. If anything is wrong with it, nothing is recorded, and the
// question stays open unless the person has answered.
func (c *call) takeSealedAnswer(ctx context.Context, p proposal) *mcp.CallToolResult {
	c.outcome = "no answer"
	id, err := c.questions.open(c.req.Params.RequestState, p)
	if err != nil {
		return notTaken(p, err.Error())
	}
	if earlier := c.questions.earlier(id); earlier != nil {
		return c.answeredBefore(ctx, p, earlier)
	}
	answer, ok := c.req.Params.InputResponses[confirmReview].(*mcp.ElicitResult)
	if !ok {
		return notTaken(p, "the call does not contain the answer to its question")
	}
	review, refused := c.decided(p, answer)
	if refused != nil && answer.Action != "decline" && answer.Action != "cancel" {
		return refused
	}
	taken, first, err := c.questions.answer(id)
	switch {
	case err != nil:
		return notTaken(p, err.Error())
	case !first:
		return c.answeredBefore(ctx, p, taken)
	}
	defer close(taken.done)
	if refused != nil {
		return refused
	}
	taken.review = review
	return c.recordAnswered(ctx, p, review)
}

// recordAnswered records what a person chose in the form.
func (c *call) recordAnswered(ctx context.Context, p proposal, review *loopgrid.Review) *mcp.CallToolResult {
	c.warnings, c.outcome = nil, "" // those about the arguments: what the model wrote is not recorded
	r := confirmed{review: review, by: byPerson}
	if review.Action != p.action {
		r.note = fmt.Sprintf("The call proposed %s and the person chose %s; the person's choice is recorded.", p.action, review.Action)
	}
	if evidence.HasLineBreakers(evidence.Text(review.Reason)) {
		c.warnLineBreakers("The person's reason")
	}
	return c.recordConfirmed(ctx, p, r)
}

// notTaken is the error for an answer that does not count.
func notTaken(p proposal, why string) *mcp.CallToolResult {
	return failed("Not recorded: "+p.what()+". "+capitalized(why)+".", askAgain)
}

const askAgain = "To ask the person again, repeat this call. " + inLoopGrid

// decided reads the answer to a form: the review that the person chose, or the error of an answer that decides nothing.
func (c *call) decided(p proposal, answer *mcp.ElicitResult) (*loopgrid.Review, *mcp.CallToolResult) {
	c.outcome = "no answer"
	switch answer.Action {
	case "accept":
	case "decline":
		c.outcome = answer.Action
		return nil, failed("Not recorded: "+p.what()+". The person, or the host on their behalf, declined to answer.",
			"Do not ask again unless the person wants you to. "+inLoopGrid)
	case "cancel":
		c.outcome = answer.Action
		return nil, failed("Not recorded: "+p.what()+". The form was closed without an answer, by the person or by a host that has nobody to ask.",
			"Ask again only once the person is there. "+inLoopGrid)
	default:
		return nil, notTaken(p, "the answer must be accept, decline or cancel")
	}
	// Some hosts let a person write what the form does not offer.
	action, ok := answer.Content["action"].(string)
	switch {
	case action == undecided:
		c.outcome = undecided
		return nil, failed("Not recorded: "+p.what()+". The person chose undecided.", "Ask again only once the person has decided. "+inLoopGrid)
	case !ok || action != "approve" && action != "reject":
		return nil, notTaken(p, "the answer does not match the form: action must be approve, reject or undecided")
	}
	reason, ok := answer.Content["reason"].(string)
	switch length := utf8.RuneCountInString(reason); {
	case !ok && answer.Content["reason"] != nil:
		return nil, notTaken(p, "the answer does not match the form: reason must be text")
	case length > maxReason:
		return nil, notTaken(p, fmt.Sprintf("the answer does not match the form: reason has %d characters, and LoopGrid records at most %d", length, maxReason))
	}
	return c.reviewOf(action, reason), nil
}

// answeredBefore handles an answer to a question that was already answered: it gives the result again, since the client may have missed it.
func (c *call) answeredBefore(ctx context.Context, p proposal, earlier *answeredQuestion) *mcp.CallToolResult {
	const nothingNow = "Nothing was recorded by this call: an earlier call answered the question"
	c.outcome = "answered before"
	select {
	case <-earlier.done:
	case <-ctx.Done():
		return failed(nothingNow+" and is still recording "+p.what()+".", c.toolName("get_evidence")+" shows the result.")
	}
	record, err := c.client.GetDecision(ctx, p.decisionID)
	if err != nil {
		return failed(nothingNow+", but it is unclear whether that recorded "+p.what()+". "+capitalized(c.whatHappened(err)), c.serviceSaid(err), c.remedy(err),
			"Later, "+c.toolName("get_evidence")+" shows whether a review is recorded.")
	}
	event := reviewIn(record)
	switch {
	case event == nil:
		return failed(nothingNow+", and no review of decision "+p.decisionID+" is recorded.", askAgain)
	case earlier.review == nil || !isReview(event, earlier.review):
		return failed(nothingNow+". The recorded review is "+c.describe(event)+".", c.remedyForConflict("review_already_recorded"))
	}
	return c.foundReview(p, confirmed{review: earlier.review, by: byPerson, note: "An earlier call answered the question and recorded this review."}, event)
}
