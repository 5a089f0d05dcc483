package bridge

import (
	"context"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/config"
	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

// recordReview is the tool that records a person's review. The operator opens it and names the reviewer. The person is asked by a form
// where the host can show one; where it cannot, or where the operator wants it so, the host has to have a person confirm the call.
func recordReview() *tool {
	yes := true
	return &tool{
		name:  "record_review",
		title: "Record a human review",
		description: "Ask a person to approve or reject a decision whose policy result is human_approval_required, and record the answer. " +
			"Disabled unless the operator enables it, who also names the reviewer. Where the host cannot ask, call it only with a person's explicit answer.",
		parameters: []parameter{
			decisionID(),
			{name: "action", kind: textKind, required: true, choices: []string{"approve", "reject"}, description: "What you propose or the person told you; a person who is asked decides."},
			{name: "reason", kind: textKind, limit: 1000, description: "The reason for it; a person who is asked gives an own one."},
		},
		results: []result{
			{"decision_id", "string", true},
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
		scope:       config.ReviewCalls,
		effect:      "appends one event, if enabled",
		route:       "POST /api/v1/decisions/{id}/review",
		run:         func(ctx context.Context, c *call) *mcp.CallToolResult { return c.review(ctx) },
	}
}

// review asks the person where that is to be done and can be, and records.
func (c *call) review(ctx context.Context) *mcp.CallToolResult {
	id := c.args.text("decision_id")
	if !c.settings.EnableReviewTool {
		c.outcome = "disabled"
		return c.success(flag("recorded", false), flag("disabled", true), field("decision_id", id), field("message",
			"Recording reviews is disabled here. Nothing was recorded: the review has to be made in LoopGrid itself. An operator who wants it here sets "+
				"LOOPGRID_MCP_ENABLE_REVIEW_TOOL=true and LOOPGRID_MCP_REVIEWER_ID."))
	}
	p := proposal{decisionID: id, action: c.args.text("action"), reason: c.args.text("reason")}
	params := c.req.Params
	switch setting := c.settings.ReviewConfirmation; {
	case params.RequestState != "" || len(params.InputResponses) > 0:
		return c.takeAnswer(ctx, p)
	case setting != config.HostConfirmation && canAsk(c.req):
		return c.ask(ctx, p)
	case setting == config.RequiredConfirmation:
		c.outcome = "cannot ask"
		return failed("Not recorded: "+theReview(id)+". A person has to confirm it in a form, as the operator decided (LOOPGRID_MCP_REVIEW_CONFIRMATION=required), "+
			"and this host cannot show one: it does not support form elicitation.", inLoopGrid)
	default:
		return c.record(ctx, id, confirmed{review: c.reviewOf(p.action, p.reason), by: byHost})
	}
}

func theReview(id string) string { return "the review of decision " + id }

func (c *call) reviewOf(action, reason string) *loopgrid.Review {
	return &loopgrid.Review{Action: action, Reviewer: c.settings.ReviewerID, Reason: reason}
}

// inLoopGrid is the way that is left where the person cannot be asked here.
const inLoopGrid = "A person can review the decision in LoopGrid itself."

// confirmation is the value of human_confirmation: who made sure that a person decided.
type confirmation string

const (
	byPerson confirmation = "elicited" // this program asked the person
	byHost   confirmation = "host"     // nobody but the host
)

// confirmed is a review to record.
type confirmed struct {
	review *loopgrid.Review
	by     confirmation
	note   string // for the result
}

// record posts a review.
func (c *call) record(ctx context.Context, id string, r confirmed) *mcp.CallToolResult {
	what := theReview(id)
	c.write = c.client.NewTurn()
	defer c.write.End()
	if err := c.begin(ctx, ""); err != nil {
		return c.reviewFailed(what, err)
	}
	defer c.begun(id, what)()
	c.progress.step("recording the review")
	reviewed, err := c.write.Review(ctx, id, r.review)
	switch {
	case err == nil:
	case loopgrid.OutcomeOf(err) == loopgrid.Unknown:
		return c.settleReview(ctx, id, r, err)
	default:
		return c.reviewFailed(what, err)
	}
	c.warnSandbox(reviewed.Sandbox)
	c.warnMismatch(compareCommitment(&reviewed.Event, r.review.Payload()))
	return c.succeed(evidence.Merge(reviewed.Raw, field("human_confirmation", string(r.by)), optional("note", r.note), raw("warnings", c.warningList())))
}

func (c *call) reviewFailed(what string, err error) *mcp.CallToolResult {
	c.outcome = "not recorded"
	return failed("Not recorded: "+what+". "+upper(sentence(err)), c.mendReview(err))
}

// mendReview is [call.mendable] for /review, whose conflicts carry no code.
func (c *call) mendReview(err error) string {
	api := conflict(err)
	switch {
	case api == nil || api.Code != "":
		return c.mendable(err)
	case api.Detail == "Decision already reviewed":
		return c.mendConflict("review_already_recorded")
	default:
		return "The recorded policy result asks for no review, or none is recorded: " + c.the("get_evidence") + " shows the state."
	}
}

// reviewSettles is how long a review without an answer may still be at work in the service.
const reviewSettles = 6 * time.Second

// settleReview finds out what became of a review whose answer was lost. The route takes no idempotency key, so it is not posted
// again; LoopGrid is asked instead until the review is there, or can no longer come.
func (c *call) settleReview(ctx context.Context, id string, r confirmed, lost error) *mcp.CallToolResult {
	what := theReview(id)
	c.progress.step("finding out whether the review was recorded")
	for end := time.Now().Add(reviewSettles); ; {
		last := !time.Now().Before(end)
		record, err := c.write.GetDecision(ctx, id)
		if err != nil {
			var api *loopgrid.APIError
			if last || errors.As(err, &api) && (api.Status == 401 || api.Status == 403) {
				c.outcome = "outcome unknown"
				return failed("Outcome unknown: "+what+" may or may not be recorded. "+upper(sentence(lost)),
					"It could not be looked up: "+sentence(err)+" Do not send it again before a person has looked in LoopGrid.")
			}
		} else if event := reviewIn(record); event != nil {
			c.write.Settled()
			return c.foundReview(what, id, r, event)
		} else if last {
			return c.reviewFailed(what, lost)
		}
		time.Sleep(min(time.Second, max(0, time.Until(end))))
	}
}

// reviewIn returns the review that is recorded of a decision; nil if there is none.
func reviewIn(record *loopgrid.DecisionRecord) *loopgrid.Event {
	for i := range record.Events {
		if t := record.Events[i].EventType; t == "human_approved" || t == "human_rejected" {
			return &record.Events[i]
		}
	}
	return nil
}

// foundReview is the result of a review that was found after its answer was lost: ours, or somebody else's.
func (c *call) foundReview(what, id string, r confirmed, event *loopgrid.Event) *mcp.CallToolResult {
	if !isReview(event, r.review) {
		c.outcome = "not recorded"
		return failed("Not recorded: "+what+". Another review is recorded: "+describe(event)+".", c.mendConflict("review_already_recorded"))
	}
	return c.success(field("decision_id", id), raw("review", event.Raw), field("state", r.review.Action), field("human_confirmation", string(r.by)), optional("note", r.note))
}

// isReview says whether an event is what was recorded of a review.
func isReview(event *loopgrid.Event, review *loopgrid.Review) bool {
	return event.ActorID == review.Reviewer && compareCommitment(event, review.Payload()) == verified
}
