package bridge

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// maxFailures is how many failures of a verification are passed on: a broken ledger has one per event.
const maxFailures = 20

// verifyEvidence is the tool that has the service check its signed chain.
func verifyEvidence() *tool {
	return &tool{
		name:  "verify_evidence",
		title: "Verify evidence",
		description: "Have LoopGrid check the signatures and the hash chain of the decision's whole workspace. " +
			"valid:false means that evidence was altered. It changes nothing, and takes longer the larger the ledger is.",
		parameters: []parameter{decisionID()},
		results: []result{
			{"decision_id", "string", true},
			{"verification", "object", true},
			{"offline_verifier_used", "boolean", true},
			{"note", "string", true},
			{name: "failures_omitted", kind: "integer"},
		},
		annotations: reading(),
		effect:      "reads",
		route:       "GET /api/v1/decisions/{id}/verify",
		run: func(ctx context.Context, c *call) *mcp.CallToolResult {
			id := c.args.text("decision_id")
			c.progress.step("LoopGrid is checking the chain")
			v, err := c.client.Verify(ctx, id)
			if err != nil {
				return c.readFailed(ctx, "The evidence was not verified", err)
			}
			verification, omitted := firstFailures(v.Raw)
			res := c.success(
				field("decision_id", id), raw("verification", verification), flag("offline_verifier_used", false),
				field("note", "LoopGrid checked itself. Export the evidence with "+c.the("get_evidence")+" to check it yourself. "+checkOffline),
				raw("failures_omitted", omitted))
			if !v.Valid {
				res.Content = append(res.Content, &mcp.TextContent{Text: notValid(verification)})
			}
			return res
		},
	}
}

// reading annotates a tool that changes nothing.
func reading() mcp.ToolAnnotations {
	no := false
	return mcp.ToolAnnotations{ReadOnlyHint: true, DestructiveHint: &no, IdempotentHint: true, OpenWorldHint: &no}
}

// firstFailures cuts the failures of a verification down to what a reader can use, and returns how many were left out (nil: none).
func firstFailures(verification jsontext.Value) (cut, omitted jsontext.Value) {
	var failures []jsontext.Value
	for name, value := range evidence.Members(verification) {
		if name == "failures" {
			for failure := range evidence.Elements(value) {
				failures = append(failures, failure)
			}
		}
	}
	if len(failures) <= maxFailures {
		return verification, nil
	}
	return evidence.Merge(verification, raw("failures", evidence.Array(failures[:maxFailures]...))), jsontext.Value(strconv.Itoa(len(failures) - maxFailures))
}

// notValid says in words what valid:false means, with the reason of the first failure.
func notValid(verification jsontext.Value) string {
	var first []string
	for name, value := range evidence.Members(verification) {
		if name != "failures" {
			continue
		}
		for failure := range evidence.Elements(value) {
			for name, value := range evidence.Members(failure) {
				switch name {
				case "event_id":
					id, _ := evidence.Unquote(value)
					first = append(first, "event "+shorten(id))
				case "reasons":
					for reason := range evidence.Elements(value) {
						text, _ := evidence.Unquote(reason)
						first = append(first, shorten(text))
					}
				}
			}
			break
		}
	}
	text := "NOT VALID: LoopGrid's check of the workspace's chain failed"
	if len(first) > 0 {
		text += fmt.Sprintf(" (first failure: %s)", strings.Join(first, ", "))
	}
	return text + ". Evidence was altered, lost or forked. Tell a person; do not rely on this record."
}
