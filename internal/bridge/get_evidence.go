package bridge

import (
	"context"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/bundle"
	"github.com/loopgridio/loopgrid-mcp/internal/config"
	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

func getEvidenceTool() *tool {
	no := false
	return &tool{
		name:  "get_evidence",
		title: "Get evidence",
		description: "Download a decision's signed evidence bundle (ZIP) to the operator's evidence directory, and return its lifecycle: whether a person approved, what is expected next. " +
			"It leaves out clear payloads unless you ask for them and the operator allows it.",
		parameters: []parameter{
			decisionID(),
			{name: "include_payloads", kind: booleanKind, fallback: "false", description: "Include the clear payloads, if the operator allows it."},
		},
		results: []result{
			{name: "downloaded", kind: "boolean", required: true},
			{name: "decision_id", kind: "string"},
			{name: "message", kind: "string"},
			{name: "bundle", kind: "object"},
			{name: "server_verification", kind: "object"},
			{name: "lifecycle", kind: "object"},
			{name: "events", kind: "array"},
			{name: "events_omitted", kind: "integer"},
			{name: "policy_result", kind: "string"},
			{name: "evidence_coverage", kind: "object"},
			{name: "note", kind: "string"},
		},
		annotations: mcp.ToolAnnotations{ReadOnlyHint: false, DestructiveHint: &no, IdempotentHint: true, OpenWorldHint: &no},
		touches:     config.EvidenceCalls,
		effect:      "writes one file on this machine",
		routes:      "GET /api/v1/decisions/{id}/evidence",
		handle:      downloadEvidence,
	}
}

// checkOffline says how to check a bundle without the service. The bundle's own key ID would prove nothing: a sandbox signs bundles too.
const checkOffline = "To check it without the service: loopgrid-verify FILE --expected-key-id KEY_ID_FROM_YOUR_OPERATOR. " +
	"Get the key ID from the operator of LoopGrid, not from the bundle: without it, a bundle signed by anyone counts as VERIFIED."

const reportIsForPeople = " report.html in the ZIP shows the same evidence to people."

// downloadEvidence saves a decision's evidence bundle in the operator's directory.
func downloadEvidence(ctx context.Context, c *call) *mcp.CallToolResult {
	id, payloads := c.args.text("decision_id"), c.args.boolean("include_payloads")
	if payloads && !c.settings.AllowPayloadExport {
		c.outcome = "disabled"
		return c.success(flag("downloaded", false), field("decision_id", id), field("message",
			"Not downloaded: exporting clear payloads is disabled. Call again without include_payloads to get the evidence without them. To allow the export, the operator sets LOOPGRID_MCP_ALLOW_PAYLOAD_EXPORT=true."))
	}
	c.progress.step("LoopGrid is preparing the bundle")
	body, err := c.client.Evidence(ctx, id, payloads)
	if err != nil {
		return c.downloadFailed(ctx, err)
	}
	defer body.Close()
	c.progress.step("downloading the bundle")
	saved, err := bundle.Save(ctx, bundle.Options{
		Dir: c.settings.EvidenceDir.Path, DecisionID: id, Payloads: payloads, MaxBytes: c.settings.MaxEvidenceBytes,
	}, c.progress.counting(body))
	if err != nil {
		return c.downloadFailed(ctx, err)
	}
	c.warnWorkspace(saved.WorkspaceID)
	verification, note := saved.Verification, "server_verification is LoopGrid's own check, made when it built the bundle. "+checkOffline+reportIsForPeople
	if verification == nil {
		verification, note = c.verifyAgain(ctx, id, note)
	}
	fields := []evidence.Field{
		flag("downloaded", true), raw("bundle", evidence.Object(
			field("decision_id", id), field("path", saved.Path), raw("bytes", jsontext.Value(strconv.FormatInt(saved.Size, 10))),
			field("sha256", saved.SHA256), flag("include_payloads", payloads))),
		c.service("server_verification", verification), c.service("lifecycle", saved.Lifecycle), c.service("events", saved.Events),
	}
	if saved.EventsOmitted > 0 {
		fields = append(fields, raw("events_omitted", jsontext.Value(strconv.Itoa(saved.EventsOmitted))))
	}
	return c.success(append(fields, optional("policy_result", c.hide.text(saved.PolicyResult)), c.service("evidence_coverage", saved.Coverage), field("note", note))...)
}

// verifyAgain asks the service for the verification that the bundle lacks. The file is usable without it.
func (c *call) verifyAgain(ctx context.Context, id, note string) (jsontext.Value, string) {
	v, err := c.client.Verify(ctx, id)
	if err != nil {
		return nil, "Not checked: the bundle holds no verification, and LoopGrid returned none. " + capitalized(c.whatHappened(err)) + " The file itself is complete. " + checkOffline + reportIsForPeople
	}
	return v.Raw, note
}

func (c *call) downloadFailed(ctx context.Context, err error) *mcp.CallToolResult {
	return c.readFailed(ctx, "Not downloaded:", err, c.remedyForDownload(err), "Nothing was saved; an existing file of that name is unchanged.")
}
