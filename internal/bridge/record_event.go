package bridge

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

// recordEvent appends one event to the call's decision, for record_action and record_outcome. what names the event in messages; fields
// go into the result before the event.
func (c *call) recordEvent(ctx context.Context, what string, sent *loopgrid.NewEvent, fields ...evidence.Field) *mcp.CallToolResult {
	decisionID := c.args.text("decision_id")
	key, given := c.idempotencyKey()
	sent.IdempotencyKey, sent.FreshKey = key, !given
	what += " of decision " + decisionID
	c.steps.expect(decisionID, key, what)
	release, err := c.takeTurn(ctx)
	if err != nil {
		return c.writeFailed(what, err, key)
	}
	defer release()
	c.progress.step("recording " + what)
	event, sandbox, err := c.turn.AppendEvent(ctx, decisionID, sent)
	if err != nil {
		return c.writeFailed(what, err, key)
	}
	c.warnSandbox(sandbox)
	c.warnWorkspace(event.WorkspaceID)
	fidelity := compare(&event, sent)
	if given && fidelity == differs {
		return c.usedForSomethingElse(what, key, &event)
	}
	c.warnMismatch(fidelity)
	result := append([]evidence.Field{field("decision_id", decisionID), flag("recorded", true)}, fields...)
	return c.success(append(result, c.service("event", event.Raw), field("idempotency_key", key), raw("commitment_verified", fidelity.value()))...)
}
