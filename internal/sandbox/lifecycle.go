package sandbox

import (
	"cmp"
	"math"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// story is one decision as readers see it: what each event type last said. The caller holds mu.
type story []*event

// last returns the newest event of one of some types.
func (s story) last(kinds ...string) *event {
	for _, e := range slices.Backward(s) {
		if slices.Contains(kinds, e.kind) {
			return e
		}
	}
	return nil
}

// payload returns the payload of the newest event of one of some types, nil where there is none.
func (s story) payload(kinds ...string) jsontext.Value {
	if e := s.last(kinds...); e != nil {
		return e.shown()
	}
	return nil
}

// approval is the payload of the newest review.
func (s story) approval() jsontext.Value {
	return s.payload(humanApproved, humanRejected, humanAdjudicated)
}

// tool is the payload that a summary shows of the action.
func (s story) tool() jsontext.Value { return s.payload(toolExecuted, toolRequested, mcpToolRequested) }

// executed says whether the action is known to have been carried out.
func (s story) executed() bool { return s.last(toolExecuted, toolResult, mcpToolResult) != nil }

// policyResult returns the policy's decision if readers can see it: in proof_only mode they cannot. LoopGrid looks the result up in a set, which
// fails for a list or an object; redacting "decision" makes it an object.
func (s story) policyResult() (string, error) {
	result := evidence.Get(s.payload(policyEvaluated), "decision")
	if kind := result.Kind(); kind == '[' || kind == '{' {
		return "", errInternal
	}
	decision, _ := evidence.Unquote(result)
	return decision, nil
}

// forbids says whether a policy result forbids the action.
func forbids(result string) bool { return result == blocked || result == "block" }

// reviewed returns the type of the newest review, "" if there is none.
func (s story) reviewed() string {
	if e := s.last(humanApproved, humanRejected, humanAdjudicated); e != nil {
		return e.kind
	}
	return ""
}

// conflict returns a refusal by the lifecycle.
func conflict(code, message string) error {
	return &refusal{status: http.StatusConflict, detail: evidence.Object(kv("code", code), kv("message", message))}
}

// allows says whether an event of this type may be appended now.
func (s story) allows(kind string) error {
	policy, review := s.last(policyEvaluated), s.reviewed()
	result, err := s.policyResult()
	switch kind {
	case policyEvaluated:
		if policy != nil {
			return conflict("policy_already_evaluated",
				"Production policy evidence is already recorded; use replay for counterfactual evaluation")
		}
	case humanApproved, humanRejected:
		switch {
		case policy == nil:
			return conflict("review_without_policy", "Human review requires a recorded policy_evaluated event")
		case result != approvalRequired:
			return conflict("review_not_required",
				"Policy result is "+cmp.Or(result, "unknown")+"; human approval/rejection is not the expected transition")
		case review == humanApproved || review == humanRejected:
			return conflict("review_already_recorded",
				"A human review decision is already recorded; use human_adjudicated for later adjudication")
		}
	case toolRequested, toolExecuted, toolResult, mcpToolRequested, mcpToolResult:
		switch {
		case err != nil:
			return err
		case forbids(result):
			return conflict("action_blocked", "Policy blocked the action; execution evidence cannot be appended")
		case result == approvalRequired && review != humanApproved:
			return conflict("approval_required", "The action requires a signed human approval before execution")
		case review == humanRejected:
			return conflict("action_rejected", "The action was rejected by a human reviewer")
		}
	case outcomeObserved:
		switch {
		case policy == nil:
		case result == approvalRequired && review == "":
			return conflict("approval_required", "Cannot record an executed outcome before the required human review")
		case err != nil:
			return err
		case !forbids(result) && review != humanRejected && !s.executed():
			return conflict("execution_missing", "Observed outcome requires prior execution/tool-result evidence")
		}
	}
	return nil
}

// lifecycle returns the state of the decision.
func (s story) lifecycle() (jsontext.Value, error) {
	review := s.reviewed()
	result, err := s.policyResult()
	state := func(name, label string, terminal bool, next ...string) (jsontext.Value, error) {
		return evidence.Object(kv("state", name), kv("label", label), kv("terminal", terminal), kv("expected_next", next)), nil
	}
	if s.last(outcomeObserved) != nil {
		return state("evidence_complete", "Evidence complete", true, replayExecuted, "incident_flagged", humanAdjudicated)
	}
	switch {
	case err != nil:
		return nil, err
	case forbids(result):
		return state("blocked", "Blocked by policy", true, outcomeObserved, replayExecuted, humanAdjudicated)
	case review == humanRejected:
		return state("rejected", "Rejected by human reviewer", true, outcomeObserved, replayExecuted, humanAdjudicated)
	case s.executed():
		return state("awaiting_outcome", "In progress · awaiting observed outcome", false, outcomeObserved)
	case review != "":
		return state("approved_awaiting_execution", "In progress · approved, awaiting execution", false,
			toolRequested, toolExecuted, mcpToolRequested, mcpToolResult, outcomeObserved)
	case result == approvalRequired:
		return state("awaiting_human_review", "In progress · awaiting human review", false, humanApproved, humanRejected)
	case result == autoAllowed:
		return state("authorized_awaiting_execution", "In progress · authorized, awaiting execution", false,
			toolRequested, toolExecuted, mcpToolRequested, mcpToolResult, outcomeObserved)
	case s.last(policyEvaluated) != nil:
		return state("policy_evaluated", "Policy evaluated", false, humanApproved, humanRejected, toolRequested, toolExecuted, outcomeObserved)
	case s.last(modelCompleted) != nil:
		return state("model_captured", "Model evidence captured", false, policyEvaluated, toolRequested, toolExecuted, outcomeObserved)
	}
	return state("captured", "Decision captured", false, modelCompleted, policyEvaluated, toolRequested, toolExecuted, outcomeObserved)
}

// captured returns a field of the decision_created payload, {} if readers cannot see it.
func (s story) captured(name string) jsontext.Value {
	if value := evidence.Get(s[0].shown(), name); value != nil {
		return value
	}
	return evidence.Object()
}

func (s story) proofOnly() bool { return s[0].privacyMode == modeProofOnly }

// decisionType is a string unless it is redacted.
func (s story) decisionType() jsontext.Value {
	if s.proofOnly() {
		return evidence.Text("protected_decision")
	}
	return evidence.Get(s[0].shown(), "decision_type")
}

// summary returns the fields of a decision's summary.
func (s story) summary() ([]evidence.Field, error) {
	lifecycle, err := s.lifecycle()
	if err != nil {
		return nil, err
	}
	var approvalEvent any
	if review := s.reviewed(); review != "" {
		approvalEvent = review
	}
	first := s[0]
	fields := []evidence.Field{
		kv("decision_id", first.decisionID), kv("workspace_id", first.workspaceID), kv("privacy_mode", first.privacyMode),
		kv("decision_type", s.decisionType()), kv("service_name", evidence.Get(first.shown(), "service_name")), kv("created_at", first.occurredAt),
	}
	for _, name := range capturedObjects() {
		fields = append(fields, kv(name, s.captured(name)))
	}
	return append(fields,
		kv("policy", s.payload(policyEvaluated)), kv("approval", s.approval()), kv("approval_event", approvalEvent), kv("tool", s.tool()),
		kv("outcome", s.payload(outcomeObserved)), kv("last_replay", s.payload(replayExecuted)), kv("event_count", len(s)),
		kv("lifecycle", lifecycle),
	), nil
}

// item returns the decision as one of a list, which puts the known fields first. Lists assume that every chain is valid.
func (s story) item() (jsontext.Value, error) {
	summary, err := s.summary()
	if err != nil {
		return nil, err
	}
	if s.decisionType().Kind() != '"' {
		return nil, errInternal
	}
	first := []string{
		"decision_id", "workspace_id", "privacy_mode", "decision_type", "created_at", "agent", "proposed_action", "policy", "approval", "outcome",
		"lifecycle",
	}
	place := func(f evidence.Field) int {
		if i := slices.Index(first, f.Name); i >= 0 {
			return i
		}
		return len(first)
	}
	slices.SortStableFunc(summary, func(a, b evidence.Field) int { return place(a) - place(b) })
	return evidence.Object(append(summary, kv("coverage", s.coverage(true)))...), nil
}

// coverage says which parts of the evidence are there. Call it after lifecycle, which reports the error that this would meet.
func (s story) coverage(valid bool) jsontext.Value {
	const present, pending, missing, notApplicable = "present", "pending", "missing", "not_applicable"
	status := func(there, due, applies bool) string {
		switch {
		case !applies:
			return notApplicable
		case there:
			return present
		case due:
			return pending
		}
		return missing
	}
	result, _ := s.policyResult()
	policy := s.payload(policyEvaluated)
	approval, tool, outcome := truthy(s.approval()), truthy(s.tool()), truthy(s.payload(outcomeObserved))
	hidden, required := s.proofOnly(), result == approvalRequired
	awaiting := required && !approval
	approved, rejected := s.reviewed() == humanApproved, s.reviewed() == humanRejected

	checks := []struct{ id, label, status string }{
		{"agent_identity", "Agent identity", status(truthy(evidence.Get(s.captured("agent"), "id")) || hidden, false, true)},
		{"authority", "Delegated authority", status(truthy(s.captured("authority")) || hidden, false, true)},
		{"model", "Model provenance", status(truthy(evidence.Get(s.captured("model"), "name")) || hidden, false, true)},
		{"context", "Prompt / context version", status(truthy(s.captured("context")) || hidden, false, true)},
		{"policy", "Policy provenance", status(truthy(evidence.Get(policy, "version")) || truthy(evidence.Get(policy, "policy_id")) || hidden, false, true)},
		{"human_oversight", "Human oversight", status(approval, awaiting, required)},
		{"action", "Action evidence", status(tool || hidden, awaiting || approved && !tool, !forbids(result) && !rejected)},
		{"outcome", "Observed outcome", status(outcome || hidden, awaiting || approved && !outcome, !rejected)},
		{"cryptographic_proof", "Cryptographic proof", status(valid, false, true)},
	}
	count := map[string]int{}
	var rows []jsontext.Value
	for _, check := range checks {
		count[check.status]++
		rows = append(rows, evidence.Object(
			kv("id", check.id), kv("label", check.label), kv("present", check.status == present), kv("status", check.status)))
	}
	total := len(checks) - count[notApplicable]
	state, label := "complete", "Evidence complete"
	switch {
	case !valid:
		state, label = "integrity_alert", "Integrity alert"
	case awaiting:
		state, label = "awaiting_human_review", "In progress · awaiting human review"
	case approved && !outcome:
		state, label = "awaiting_execution_outcome", "In progress · awaiting execution/outcome"
	case count[missing] > 0:
		state, label = "incomplete", "Incomplete evidence"
	}
	return evidence.Object(
		kv("score", int(math.RoundToEven(float64(count[present])/float64(total)*100))), kv("passed", count[present]), kv("total", total),
		kv("pending", count[pending]), kv("missing", count[missing]), kv("complete", state == "complete"), kv("state", state), kv("label", label),
		kv("checks", rows),
	)
}
