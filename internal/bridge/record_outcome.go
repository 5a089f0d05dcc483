package bridge

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

func recordOutcomeTool() *tool {
	return &tool{
		name:  "record_outcome",
		title: "Record an outcome",
		description: "Record the outcome of a decision's action, as you observed it in the system of record. Call it after {record_action}. " +
			"It checks nothing; it records what you report.",
		parameters: []parameter{
			decisionID(),
			{name: "status", kind: textKind, required: true, description: "What was observed, e.g. succeeded or failed."},
			{name: "verified_against", kind: textKind, required: true, description: "Where it was observed, e.g. stripe."},
			{name: "external_reference", kind: textKind, description: "ID of the outcome in that system."},
			{name: "actor_id", kind: textKind, limit: 128, noNUL: true, fallback: "loopgrid-mcp", description: "Who or what observed it."},
			{name: "details", kind: objectKind, description: "Any other evidence. The arguments status, verified_against and external_reference take precedence."},
			idempotencyKeyFor("outcome"),
		},
		results: []result{
			{name: "decision_id", kind: "string", required: true},
			{name: "recorded", kind: "boolean", required: true},
			{name: "event", kind: "object", required: true},
			{name: "idempotency_key", kind: "string", required: true},
			commitmentResult(),
			{name: "warnings", kind: "array"},
		},
		annotations: recording(),
		queues:      true,
		effect:      "appends one event",
		routes:      "POST /api/v1/decisions/{id}/events",
		handle:      recordOutcome,
	}
}

// recordOutcome records the observed outcome of an action.
func recordOutcome(ctx context.Context, c *call) *mcp.CallToolResult {
	payload := evidence.Merge(c.args.object("details"),
		field("status", c.args.text("status")), field("verified_against", c.args.text("verified_against")),
		optional("external_reference", c.args.text("external_reference")))
	return c.recordEvent(ctx, "the outcome", &loopgrid.NewEvent{
		EventType: "outcome_observed", ActorType: "integration", ActorID: c.args.text("actor_id"), Payload: payload,
	})
}
