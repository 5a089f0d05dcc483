package bridge

import (
	"context"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

func verifyEvidenceTool() *tool {
	return &tool{
		name:  "verify_evidence",
		title: "Verify evidence",
		description: "Have LoopGrid check the signatures and hash chain of the decision's whole workspace. " +
			"valid:false means that evidence was altered, lost or forked. It changes nothing, and takes longer as the ledger grows.",
		parameters: []parameter{decisionID()},
		results: []result{
			{name: "decision_id", kind: "string", required: true},
			{name: "verification", kind: "object", required: true},
			{name: "offline_verifier_used", kind: "boolean", required: true},
			{name: "note", kind: "string", required: true},
			{name: "failures_omitted", kind: "integer"},
		},
		annotations: reading(),
		effect:      "reads",
		routes:      "GET /api/v1/decisions/{id}/verify",
		handle:      verifyEvidence,
	}
}

// verifyEvidence has the service check its signed chain.
func verifyEvidence(ctx context.Context, c *call) *mcp.CallToolResult {
	id := c.args.text("decision_id")
	c.progress.step("LoopGrid is checking the chain")
	v, err := c.client.Verify(ctx, id)
	if err != nil {
		return c.readFailed(ctx, "Not verified:", err, c.remedy(err))
	}
	c.warnWorkspace(evidence.GetText(v.Raw, "workspace_id"))
	var omitted jsontext.Value
	if v.FailuresOmitted > 0 {
		omitted = jsontext.Value(strconv.Itoa(v.FailuresOmitted))
	}
	answer := c.success(
		field("decision_id", id), c.service("verification", v.Raw), flag("offline_verifier_used", false),
		field("note", "LoopGrid checked itself. Download the evidence with "+c.toolName("get_evidence")+" to check it yourself. "+checkOffline),
		raw("failures_omitted", omitted))
	if !v.Valid {
		answer.Content = append(answer.Content, &mcp.TextContent{Text: c.notValid(v.Raw)})
	}
	return answer
}

// notValid says in words what valid:false means, with the service's reasons for the first failure.
func (c *call) notValid(verification jsontext.Value) string {
	lines := []string{"NOT VALID: LoopGrid's check of the workspace's chain failed. Evidence was altered, lost or forked. Tell a person, and do not rely on this record."}
	for failure := range evidence.Elements(evidence.Get(verification, "failures")) {
		reasons := []string{c.word(evidence.GetText(failure, "event_id"))}
		for reason := range evidence.Elements(evidence.Get(failure, "reasons")) {
			text, _ := evidence.Unquote(reason)
			reasons = append(reasons, c.word(text))
		}
		lines = append(lines, "The first failure LoopGrid reports: event "+strings.Join(reasons, ", ")+".")
		break
	}
	return strings.Join(lines, "\n")
}
