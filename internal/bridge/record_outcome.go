package bridge

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

// recordOutcome is the tool that records what came of an action.
func recordOutcome() *tool {
	return &tool{
		name:  "record_outcome",
		title: "Record an outcome",
		description: "Record what came of a decision, as it was observed in the system that knows, after {record_action}. " +
			"It observes nothing itself: it records what the caller reports.",
		parameters: []parameter{
			decisionID(),
			{name: "status", kind: textKind, required: true, description: "What was observed, for example succeeded or failed."},
			{name: "verified_against", kind: textKind, required: true, description: "Where it was observed, for example stripe."},
			{name: "external_reference", kind: textKind, description: "Id of the outcome in that system."},
			{name: "actor_id", kind: textKind, limit: 128, clear: true, fallback: "loopgrid-mcp", description: "Who or what observed it."},
			{name: "details", kind: objectKind, description: "Anything else to keep as evidence. status, verified_against and external_reference take precedence in it."},
			idempotencyKey("outcome"),
		},
		results: []result{
			{"decision_id", "string", true},
			{"recorded", "boolean", true},
			{"event", "object", true},
			{"idempotency_key", "string", true},
			{name: "warnings", kind: "array"},
		},
		annotations: recording(),
		writes:      true,
		effect:      "appends one event",
		route:       "POST /api/v1/decisions/{id}/events",
		run: func(ctx context.Context, c *call) *mcp.CallToolResult {
			payload := evidence.Merge(c.args.object("details"),
				field("status", c.args.text("status")), field("verified_against", c.args.text("verified_against")),
				optional("external_reference", c.args.text("external_reference")))
			return c.recordEvent(ctx, "the outcome", &loopgrid.NewEvent{
				EventType: "outcome_observed", ActorType: "integration", ActorID: c.args.text("actor_id"), Payload: payload,
			})
		},
	}
}
