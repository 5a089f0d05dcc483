package bridge

import (
	"context"
	"errors"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/bundle"
	"github.com/loopgridio/loopgrid-mcp/internal/config"
	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

// getEvidence is the tool that downloads a decision's evidence bundle into the operator's directory.
func getEvidence() *tool {
	no := false
	return &tool{
		name:  "get_evidence",
		title: "Get evidence",
		description: "Download the signed evidence bundle (ZIP) of a decision into the operator's evidence directory, and read its lifecycle: whether a person approved, what is expected next. " +
			"Clear payloads are left out unless the operator allows their export.",
		parameters: []parameter{
			decisionID(),
			{name: "include_payloads", kind: booleanKind, fallback: "false", description: "Also disclose the clear payloads; the operator has to allow it."},
		},
		results: []result{
			{"downloaded", "boolean", true},
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
		scope:       config.EvidenceCalls,
		effect:      "writes one file on this machine",
		route:       "GET /api/v1/decisions/{id}/evidence",
		run:         func(ctx context.Context, c *call) *mcp.CallToolResult { return c.getEvidence(ctx) },
	}
}

// checkOffline tells how a bundle is checked without the service. Its own key id would prove nothing: a sandbox signs as well as LoopGrid.
const checkOffline = "To check it without the service: loopgrid-verify FILE --expected-key-id KEY_ID_FROM_YOUR_OPERATOR. " +
	"Get the key id from whoever operates LoopGrid, not from the bundle: without it, anything that anyone signed is VERIFIED."

const reportIsForPeople = " report.html in the ZIP is the same evidence for people to read."

func (c *call) getEvidence(ctx context.Context) *mcp.CallToolResult {
	id, payloads := c.args.text("decision_id"), c.args.boolean("include_payloads")
	if payloads && !c.settings.AllowPayloadExport {
		c.outcome = "disabled"
		return c.success(flag("downloaded", false), field("decision_id", id), field("message",
			"The export of clear payloads is disabled here; without include_payloads the evidence can be downloaded. An operator who wants payloads disclosed sets LOOPGRID_MCP_ALLOW_PAYLOAD_EXPORT=true."))
	}
	c.progress.step("LoopGrid is preparing the bundle")
	body, err := c.client.Evidence(ctx, id, payloads)
	if err != nil {
		return c.downloadFailed(ctx, err, "")
	}
	defer body.Close()
	c.progress.step("downloading the bundle")
	saved, err := bundle.Save(ctx, bundle.Options{
		Dir: c.settings.EvidenceDir.Path, DecisionID: id, Payloads: payloads, MaxBytes: c.settings.MaxEvidenceBytes,
	}, body)
	if err != nil {
		return c.downloadFailed(ctx, err, "Nothing was kept; an older file of the same name is as it was.")
	}
	verification, note := saved.Verification, "server_verification is LoopGrid's own check at the time of the export. "+checkOffline+reportIsForPeople
	if verification == nil {
		verification, note = c.verifyAgain(ctx, id, note)
	}
	fields := []evidence.Field{
		flag("downloaded", true), raw("bundle", evidence.Object(
			field("decision_id", id), field("path", saved.Path), raw("bytes", jsontext.Value(strconv.FormatInt(saved.Size, 10))),
			field("sha256", saved.SHA256), flag("include_payloads", payloads))),
		raw("server_verification", verification), raw("lifecycle", saved.Lifecycle), raw("events", saved.Events),
	}
	if saved.EventsOmitted > 0 {
		fields = append(fields, raw("events_omitted", jsontext.Value(strconv.Itoa(saved.EventsOmitted))))
	}
	if saved.PolicyResult != "" {
		fields = append(fields, field("policy_result", saved.PolicyResult))
	}
	return c.success(append(fields, raw("evidence_coverage", saved.Coverage), field("note", note))...)
}

// verifyAgain asks the service for a verification that the bundle does not hold. The file is good without one.
func (c *call) verifyAgain(ctx context.Context, id, note string) (jsontext.Value, string) {
	v, err := c.client.Verify(ctx, id)
	if err != nil {
		return nil, "Not checked: the bundle holds no verification, and LoopGrid gave none. " + upper(sentence(err)) + " The file itself is complete. " + checkOffline + reportIsForPeople
	}
	return v.Raw, note
}

func (c *call) downloadFailed(ctx context.Context, err error, kept string) *mcp.CallToolResult {
	if cut := c.cutOff(ctx, "The evidence was not downloaded"); cut != nil {
		return cut
	}
	c.outcome, c.cause = "failed", loopgrid.Cause(err)
	return failed("The evidence was not downloaded: "+sentence(err), c.mendDownload(err), again(err), kept)
}

// mendDownload is [call.mendable] for what can go wrong with a file.
func (c *call) mendDownload(err error) string {
	switch {
	case errors.Is(err, loopgrid.ErrTooLarge):
		return "The operator can raise LOOPGRID_MAX_EVIDENCE_BYTES, now " + strconv.FormatInt(c.settings.MaxEvidenceBytes, 10) + "."
	case errors.Is(err, bundle.ErrDir):
		return "The operator has to make the directory usable, or set LOOPGRID_EVIDENCE_DIR to one that this program may write to."
	case errors.Is(err, bundle.ErrNoRoom):
		return "The operator has to make room, or set LOOPGRID_EVIDENCE_DIR to another disk."
	case errors.Is(err, bundle.ErrTarget):
		return "The operator should look at that file: something else stands in its place, or another program holds it open."
	case errors.Is(err, bundle.ErrNotWhole):
		return "Call again; if it happens again, the operator should look at what stands between this program and LoopGrid."
	case errors.Is(err, bundle.ErrOtherDecision), errors.Is(err, bundle.ErrDisclosure):
		return "This is not what was asked of LoopGrid: the operator should check the service at LOOPGRID_BASE_URL."
	default:
		return c.mendable(err)
	}
}
