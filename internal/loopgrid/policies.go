package loopgrid

import (
	"context"
	"net/url"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// Evaluation is the answer of a policy. Raw is all of it, byte by byte: a policy_evaluated event has to carry just these bytes,
// or the bundle is invalid to the verifier.
type Evaluation struct {
	Raw jsontext.Value
	// Decision is auto_allowed, human_approval_required, blocked or manual_review_required.
	Decision string
}

// EvaluatePolicy asks an active policy about a proposed action: POST /api/v1/workspaces/{w}/policies/evaluate, scope ingest. It
// appends nothing, so it may be repeated and a failure means that nothing was recorded. The error is a [*WriteError]; an
// [*APIError] of 404 in it means that the workspace has no active policy of that name.
func (t *Turn) EvaluatePolicy(ctx context.Context, policyID string, proposedAction, authority, situation jsontext.Value) (evaluation Evaluation, err error) {
	err = t.do(ctx, t.c.evaluate(evaluate, policyID, proposedAction, authority, situation), func(a answer) string {
		evaluation = Evaluation{Raw: a.body, Decision: evidence.GetText(a.body, "decision")}
		asked, err := evidence.Commitment(evidence.Object(whatIsAsked(proposedAction, authority, situation)...))
		switch answered := evidence.GetText(a.body, "input_commitment"); {
		case answered != "" && (err != nil || answered != asked):
			return "it is about another action: its input_commitment is not that of what was sent"
		case evidence.Get(a.body, "policy_id").Kind() == '"' && evidence.GetText(a.body, "policy_id") != policyID:
			return "it comes from another policy"
		}
		return ""
	})
	return evaluation, err
}

func (c *Client) evaluate(k kind, policyID string, proposedAction, authority, situation jsontext.Value) *request {
	fields := append([]evidence.Field{{Name: "policy_id", Value: evidence.Text(policyID)}}, whatIsAsked(proposedAction, authority, situation)...)
	return post("/api/v1/workspaces/{w}/policies/evaluate", c.workspacePath("/policies/evaluate"), k, fields...)
}

// whatIsAsked is what the service hashes into input_commitment.
func whatIsAsked(proposedAction, authority, situation jsontext.Value) []evidence.Field {
	return []evidence.Field{
		{Name: "proposed_action", Value: orEmpty(proposedAction)},
		{Name: "authority", Value: orEmpty(authority)},
		{Name: "context", Value: orEmpty(situation)},
	}
}

func (c *Client) workspacePath(below string) string {
	return "/api/v1/workspaces/" + url.PathEscape(c.o.Workspace) + below
}
