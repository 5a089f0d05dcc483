package bridge

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

func recordActionTool() *tool {
	return &tool{
		name:  "record_action",
		title: "Record an action",
		description: "Record that another system carried out a decision's action. Call it after the action; it only records. " +
			"LoopGrid refuses it if the policy blocked the action or a required approval is missing.",
		parameters: []parameter{
			decisionID(),
			{name: "tool", kind: textKind, required: true, description: "What carried out the action, e.g. stripe.refunds.create."},
			{name: "external_reference", kind: textKind, description: "ID of the action in that system."},
			{name: "actor_id", kind: textKind, limit: 128, noNUL: true, fallback: "external-system", description: "Who or what carried it out."},
			{name: "details", kind: objectKind, description: "Any other evidence. The arguments tool and external_reference take precedence."},
			idempotencyKeyFor("action"),
		},
		results: []result{
			{name: "decision_id", kind: "string", required: true},
			{name: "recorded", kind: "boolean", required: true},
			{name: "action_executed_by_loopgrid_mcp", kind: "boolean", required: true},
			{name: "event", kind: "object", required: true},
			{name: "idempotency_key", kind: "string", required: true},
			commitmentResult(),
			{name: "warnings", kind: "array"},
		},
		annotations: recording(),
		queues:      true,
		effect:      "appends one event",
		routes:      "POST /api/v1/decisions/{id}/events",
		handle:      recordAction,
	}
}

// recordAction records an action that was carried out elsewhere. The bridge itself never acts.
func recordAction(ctx context.Context, c *call) *mcp.CallToolResult {
	payload := evidence.Merge(c.args.object("details"),
		field("tool", c.args.text("tool")), optional("external_reference", c.args.text("external_reference")))
	return c.recordEvent(ctx, "the action", &loopgrid.NewEvent{
		EventType: "tool_executed", ActorType: "tool", ActorID: c.args.text("actor_id"), Payload: payload,
	}, flag("action_executed_by_loopgrid_mcp", false))
}
