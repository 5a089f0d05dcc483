package bridge

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/config"
	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

func recordReviewTool() *tool {
	yes := true
	return &tool{
		name:  "record_review",
		title: "Record a human review",
		description: "Ask a person to approve or reject a decision whose policy result is human_approval_required, and record the answer. " +
			"Disabled unless the operator enables it and names the reviewer. If the host cannot show a form, call it only with a person's explicit answer.",
		parameters: []parameter{
			decisionID(),
			{name: "action", kind: textKind, required: true, choices: []string{"approve", "reject"}, description: "What you propose, or what the person told you. In a form, the person's own choice counts."},
			{name: "reason", kind: textKind, limit: maxReason, description: "The reason. In a form, the person gives their own."},
		},
		results: []result{
			{name: "decision_id", kind: "string", required: true},
			{name: "review", kind: "object"},
			{name: "state", kind: "string"},
			{name: "human_confirmation", kind: "string"},
			{name: "note", kind: "string"},
			{name: "recorded", kind: "boolean"},
			{name: "disabled", kind: "boolean"},
			{name: "message", kind: "string"},
			{name: "warnings", kind: "array"},
		},
		annotations: mcp.ToolAnnotations{ReadOnlyHint: false, DestructiveHint: &yes, IdempotentHint: false, OpenWorldHint: &yes},
		meta:        mcp.Meta{"anthropic/requiresUserInteraction": true},
		touches:     config.ReviewCalls,
		effect:      "appends one event, if enabled",
		routes:      "POST /api/v1/decisions/{id}/review",
		handle:      recordReview,
	}
}

// recordReview records a person's review. The operator enables it and names the reviewer. The person is asked in a form if the host can
// show one; otherwise, or if the operator prefers it, the host must have a person confirm the call.
func recordReview(ctx context.Context, c *call) *mcp.CallToolResult {
	p := proposal{decisionID: c.args.text("decision_id"), action: c.args.text("action"), reason: c.args.text("reason")}
	if !c.settings.EnableReviewTool {
		c.outcome = "disabled"
		return c.success(flag("recorded", false), flag("disabled", true), field("decision_id", p.decisionID), field("message",
			"Nothing was recorded: recording reviews is disabled here. "+inLoopGrid+" To enable reviews here, the operator sets "+
				"LOOPGRID_MCP_ENABLE_REVIEW_TOOL=true and LOOPGRID_MCP_REVIEWER_ID."))
	}
	params := c.req.Params
	switch setting := c.settings.ReviewConfirmation; {
	case params.RequestState != "" || len(params.InputResponses) > 0:
		return c.takeSealedAnswer(ctx, p)
	case setting != config.HostConfirmation && canAsk(c.req):
		return c.ask(ctx, p)
	case setting == config.RequiredConfirmation:
		c.outcome = "cannot ask"
		return failed("Not recorded: "+p.what()+". The operator requires a person to confirm reviews in a form (LOOPGRID_MCP_REVIEW_CONFIRMATION=required), "+
			"but this host cannot show forms: it does not support elicitation.", inLoopGrid)
	default:
		if setting == config.AutoConfirmation {
			c.warn(noFormShown, "This host cannot show forms, so only the host could make sure that a person decided. With LOOPGRID_MCP_REVIEW_CONFIRMATION=required, nothing would be recorded here.")
		}
		return c.recordConfirmed(ctx, p, confirmed{review: c.reviewOf(p.action, p.reason), by: byHost})
	}
}

func (c *call) reviewOf(action, reason string) *loopgrid.Review {
	return &loopgrid.Review{Action: action, Reviewer: c.settings.ReviewerID, Reason: reason}
}

// inLoopGrid is the alternative if the person cannot be asked here.
const inLoopGrid = "A person can review the decision in LoopGrid itself."

// confirmation is the value of human_confirmation: who made sure that a person decided.
type confirmation string

const (
	byPerson confirmation = "elicited" // this program asked the person
	byHost   confirmation = "host"     // only the host did, if anyone
)

// confirmed is a review to record.
type confirmed struct {
	review *loopgrid.Review
	by     confirmation
	note   string // for the result
}

// recordConfirmed posts a review.
func (c *call) recordConfirmed(ctx context.Context, p proposal, r confirmed) *mcp.CallToolResult {
	c.turn = c.client.NewTurn()
	defer c.turn.End()
	c.steps.expect(p.decisionID, "", p.what())
	c.reviewDetails = []slog.Attr{
		slog.String("decision_id", p.decisionID), slog.String("action", r.review.Action), slog.String("human_confirmation", string(r.by)),
	}
	release, err := c.takeTurn(ctx)
	if err != nil {
		return c.reviewFailed(p, err)
	}
	defer release()
	c.progress.step("recording the review")
	reviewed, err := c.turn.Review(ctx, p.decisionID, r.review)
	switch {
	case err == nil:
	case loopgrid.OutcomeOf(err) == loopgrid.Unknown:
		return c.settleReview(ctx, p, r, err)
	default:
		return c.reviewFailed(p, err)
	}
	c.warnSandbox(reviewed.Sandbox)
	c.warnWorkspace(reviewed.Event.WorkspaceID)
	c.warnMismatch(compareCommitment(&reviewed.Event, r.review.Payload()))
	return c.succeed(evidence.Merge(c.hide.json(reviewed.Raw, p.decisionID), field("human_confirmation", string(r.by)), optional("note", r.note), raw("warnings", c.warningList())))
}

func (c *call) reviewFailed(p proposal, err error) *mcp.CallToolResult {
	c.failedWith("not recorded", err)
	return failed("Not recorded: "+p.what()+". "+capitalized(c.whatHappened(err)), c.serviceSaid(err), c.remedyForReview(err))
}

// reviewSettles is how long to look in LoopGrid for a review whose answer was lost.
const reviewSettles = 6 * time.Second

// settleReview finds out whether a review was recorded after its answer was lost. The route takes no idempotency key, so the review is
// not posted again; the decision is read instead. While it shows no review, this one may still arrive: a proxy may be holding it.
func (c *call) settleReview(ctx context.Context, p proposal, r confirmed, lost error) *mcp.CallToolResult {
	c.progress.step("checking whether the review was recorded")
	unknown := func(why string) *mcp.CallToolResult {
		c.failedWith("outcome unknown", lost)
		return failed("Outcome unknown: "+p.what()+" may or may not be recorded. "+capitalized(c.whatHappened(lost)), c.serviceSaid(lost),
			why+" Do not send it again until a person has checked in LoopGrid.")
	}
	why := "There was no time left to look it up."
	for end := time.Now().Add(min(reviewSettles, c.turn.TimeLeft())); ; {
		if c.turn.TimeLeft() <= 0 {
			return unknown(why)
		}
		last := !time.Now().Before(end)
		record, err := c.turn.GetDecision(ctx, p.decisionID)
		var api *loopgrid.APIError
		var event *loopgrid.Event
		if err == nil {
			event = reviewIn(record)
		}
		switch {
		case errors.As(err, &api) && (api.Status == http.StatusUnauthorized || api.Status == http.StatusForbidden):
			return unknown(sentences("Could not look it up: "+c.whatHappened(err), c.serviceSaid(err)))
		case err != nil:
			why = "Could not look it up: " + c.whatHappened(err)
		case event == nil:
			why = "LoopGrid does not show it yet; it may still arrive."
		case isReview(event, r.review):
			c.turn.Settled()
			return c.foundReview(p, r, event)
		case last:
			return c.otherReview(p, event)
		default:
			why = "LoopGrid shows another review: " + c.describe(event) + "."
		}
		if last {
			return unknown(why)
		}
		time.Sleep(min(time.Second, max(0, time.Until(end))))
	}
}

// reviewIn returns the recorded review of a decision; nil if there is none.
func reviewIn(record *loopgrid.DecisionRecord) *loopgrid.Event {
	return firstOf(record, "human_approved", "human_rejected")
}

// foundReview is the result of a review that was found after its answer was lost.
func (c *call) foundReview(p proposal, r confirmed, event *loopgrid.Event) *mcp.CallToolResult {
	c.warnWorkspace(event.WorkspaceID)
	return c.success(field("decision_id", p.decisionID), c.service("review", event.Raw), field("state", r.review.Action), field("human_confirmation", string(r.by)), optional("note", r.note))
}

// otherReview is the error if a different review is already recorded: LoopGrid accepts only one.
func (c *call) otherReview(p proposal, event *loopgrid.Event) *mcp.CallToolResult {
	c.outcome = "not recorded"
	return failed("Not recorded: "+p.what()+". Another review is recorded: "+c.describe(event)+".", c.remedyForConflict("review_already_recorded"))
}

// isReview says whether an event is the record of this review.
func isReview(event *loopgrid.Event, review *loopgrid.Review) bool {
	return event.ActorID == review.Reviewer && compareCommitment(event, review.Payload()) == verified
}
