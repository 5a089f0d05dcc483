package loopgrid

import (
	"context"
	"net/http"
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
	Reason   string
}

// EvaluatePolicy asks an active policy about a proposed action: POST /api/v1/workspaces/{w}/policies/evaluate, scope ingest. It
// appends nothing, so it may be repeated and a failure means that nothing was recorded. The error is a [*WriteError]; an
// [*APIError] of 404 in it means that the workspace has no active policy of that name.
func (w *Write) EvaluatePolicy(ctx context.Context, policyID string, proposedAction, authority, situation jsontext.Value) (Evaluation, error) {
	r := &request{
		method: http.MethodPost, route: "/api/v1/workspaces/{w}/policies/evaluate",
		path: "/api/v1/workspaces/" + url.PathEscape(w.c.o.Workspace) + "/policies/evaluate",
		body: evidence.Object(
			evidence.Field{Name: "policy_id", Value: evidence.Text(policyID)},
			evidence.Field{Name: "proposed_action", Value: orEmpty(proposedAction)},
			evidence.Field{Name: "authority", Value: orEmpty(authority)},
			evidence.Field{Name: "context", Value: orEmpty(situation)}),
		accept: jsonType, limit: maxJSONAnswer, kind: evaluate,
	}
	a, err := w.send(ctx, r)
	if err != nil {
		return Evaluation{}, &WriteError{Outcome: NotRecorded, Err: cause(err)}
	}
	return Evaluation{Raw: a.body, Decision: Member(a.body, "decision"), Reason: Member(a.body, "reason")}, nil
}
