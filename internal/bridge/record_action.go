package bridge

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

// recordAction is the tool that records that something outside was carried out. The bridge carries out nothing.
func recordAction() *tool {
	return &tool{
		name:  "record_action",
		title: "Record an action",
		description: "Record that the action of a decision was carried out by an external system, after it happened. " +
			"It carries out nothing itself. LoopGrid refuses it while the policy blocks the action or a person has not approved it.",
		parameters: []parameter{
			decisionID(),
			{name: "tool", kind: textKind, required: true, description: "What carried the action out, for example stripe.refunds.create."},
			{name: "external_reference", kind: textKind, description: "Id of the action in the external system."},
			{name: "actor_id", kind: textKind, limit: 128, clear: true, fallback: "external-system", description: "Who or what carried it out."},
			{name: "details", kind: objectKind, description: "Anything else to keep as evidence. tool and external_reference take precedence in it."},
			idempotencyKey("action"),
		},
		results: []result{
			{"decision_id", "string", true},
			{"recorded", "boolean", true},
			{"action_executed_by_loopgrid_mcp", "boolean", true},
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
				field("tool", c.args.text("tool")), optional("external_reference", c.args.text("external_reference")))
			return c.recordEvent(ctx, "the action", &loopgrid.NewEvent{
				EventType: "tool_executed", ActorType: "tool", ActorID: c.args.text("actor_id"), Payload: payload,
			}, flag("action_executed_by_loopgrid_mcp", false))
		},
	}
}

// optional is a field that is left out where it is empty.
func optional(name, value string) evidence.Field {
	if value == "" {
		return evidence.Field{Name: name}
	}
	return field(name, value)
}
