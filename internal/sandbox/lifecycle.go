package sandbox

import (
	"math"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// story is one decision as its readers see it: what each event type last said.
type story struct {
	events []*event
	// parsed are the payloads of the events that were asked for.
	parsed map[*event]*object
}

// story reads the decision. The caller holds mu as long as it is used.
func (d *decision) story() *story {
	return &story{events: d.events, parsed: map[*event]*object{}}
}

// last returns the newest event of one of some types.
func (s *story) last(kinds ...string) *event {
	for _, e := range slices.Backward(s.events) {
		if slices.Contains(kinds, e.kind) {
			return e
		}
	}
	return nil
}

// content returns the payload of an event.
func (s *story) content(e *event) *object {
	payload, known := s.parsed[e]
	if !known {
		payload, _ = parseStored(e.shown()).(*object)
		s.parsed[e] = payload
	}
	return payload
}

// payload returns the payload of the newest event of one of some types, nil where there is none.
func (s *story) payload(kinds ...string) any {
	if e := s.last(kinds...); e != nil {
		return s.content(e)
	}
	return nil
}

// policyResult returns what the policy said as far as readers can see it: in proof_only mode nothing. It need not be a string.
func (s *story) policyResult() any {
	if e := s.last(policyEvaluated); e != nil {
		return s.content(e).get("decision")
	}
	return nil
}

// reviewed returns the type of the newest review, "" where there is none.
func (s *story) reviewed() string {
	if e := s.last(humanApproved, humanRejected, humanAdjudicated); e != nil {
		return e.kind
	}
	return ""
}

// blocks says whether a policy result forbids the action. LoopGrid looks the result up in a set, which fails for a list or an object.
func blocks(result any) (bool, error) {
	switch result.(type) {
	case []any, *object:
		return false, errInternal
	}
	return result == blocked || result == "block", nil
}

// conflict is a refusal of the lifecycle.
func conflict(code, message string) error {
	return &refusal{status: http.StatusConflict, detail: evidence.Object(kv("code", quoted(code)), kv("message", quoted(message)))}
}

// allows says whether an event of this type may be appended now.
func (s *story) allows(kind string) error {
	policy, result, review := s.last(policyEvaluated), s.policyResult(), s.reviewed()
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
				"Policy result is "+resultName(result)+"; human approval/rejection is not the expected transition")
		case review == humanApproved || review == humanRejected:
			return conflict("review_already_recorded",
				"A human review decision is already recorded; use human_adjudicated for later adjudication")
		}
	case toolRequested, toolExecuted, toolResult, mcpToolRequested, mcpToolResult:
		forbidden, err := blocks(result)
		switch {
		case err != nil:
			return err
		case forbidden:
			return conflict("action_blocked", "Policy blocked the action; execution evidence cannot be appended")
		case result == approvalRequired && review != humanApproved:
			return conflict("approval_required", "The action requires a signed human approval before execution")
		case review == humanRejected:
			return conflict("action_rejected", "The action was rejected by a human reviewer")
		}
	case outcomeObserved:
		if policy == nil {
			return nil
		}
		if result == approvalRequired && review == "" {
			return conflict("approval_required", "Cannot record an executed outcome before the required human review")
		}
		forbidden, err := blocks(result)
		if err != nil {
			return err
		}
		if !forbidden && review != humanRejected && s.last(toolExecuted, toolResult, mcpToolResult) == nil {
			return conflict("execution_missing", "Observed outcome requires prior execution/tool-result evidence")
		}
	}
	return nil
}

// resultName is a policy result in a sentence.
func resultName(result any) string {
	if s, ok := result.(string); ok && s != "" {
		return s
	}
	if !truthy(result) {
		return "unknown"
	}
	return string(text(result))
}

// lifecycle returns the state of the decision.
func (s *story) lifecycle() (jsontext.Value, error) {
	result, review := s.policyResult(), s.reviewed()
	state := func(name, label string, terminal bool, next ...string) (jsontext.Value, error) {
		return evidence.Object(
			kv("state", quoted(name)), kv("label", quoted(label)), kv("terminal", boolean(terminal)), kv("expected_next", texts(next))), nil
	}
	if s.last(outcomeObserved) != nil {
		return state("evidence_complete", "Evidence complete", true, replayExecuted, "incident_flagged", humanAdjudicated)
	}
	forbidden, err := blocks(result)
	switch {
	case err != nil:
		return nil, err
	case forbidden:
		return state("blocked", "Blocked by policy", true, outcomeObserved, replayExecuted, humanAdjudicated)
	case review == humanRejected:
		return state("rejected", "Rejected by human reviewer", true, outcomeObserved, replayExecuted, humanAdjudicated)
	case s.last(toolExecuted, toolResult, mcpToolResult) != nil:
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

// captured returns a field of what was captured when the decision was created, {} where it cannot be seen.
func (s *story) captured(name string) any {
	if value, visible := s.content(s.events[0]).values[name]; visible {
		return value
	}
	return newObject()
}

func (s *story) proofOnly() bool { return s.events[0].privacyMode == modeProofOnly }

// decisionType is a string where it can be seen and was not redacted.
func (s *story) decisionType() any {
	if s.proofOnly() {
		return "protected_decision"
	}
	return s.content(s.events[0]).get("decision_type")
}

// summary returns the fields of a decision's summary.
func (s *story) summary() ([]evidence.Field, error) {
	lifecycle, err := s.lifecycle()
	if err != nil {
		return nil, err
	}
	approvalEvent := null()
	if review := s.reviewed(); review != "" {
		approvalEvent = quoted(review)
	}
	first := s.events[0]
	fields := []evidence.Field{
		kv("decision_id", quoted(first.decisionID)),
		kv("workspace_id", quoted(first.workspaceID)),
		kv("privacy_mode", quoted(first.privacyMode)),
		kv("decision_type", text(s.decisionType())),
		kv("service_name", text(s.content(first).get("service_name"))),
		kv("created_at", quoted(first.occurredAt)),
	}
	for _, name := range []string{"agent", "authority", "model", "context", "input", "proposed_action", "metadata"} {
		fields = append(fields, kv(name, text(s.captured(name))))
	}
	return append(fields,
		kv("policy", text(s.payload(policyEvaluated))),
		kv("approval", text(s.payload(humanApproved, humanRejected, humanAdjudicated))),
		kv("approval_event", approvalEvent),
		kv("tool", text(s.payload(toolExecuted, toolRequested, mcpToolRequested))),
		kv("outcome", text(s.payload(outcomeObserved))),
		kv("last_replay", text(s.payload(replayExecuted))),
		kv("event_count", number(len(s.events))),
		kv("lifecycle", lifecycle),
	), nil
}

// item returns the decision as one of a list, which puts the known fields first, and the values in it that may nest too deep. Lists take every
// chain for valid.
func (s *story) item() (item jsontext.Value, open []jsontext.Value, err error) {
	summary, err := s.summary()
	if err != nil {
		return nil, nil, err
	}
	if _, ok := s.decisionType().(string); !ok {
		return nil, nil, errInternal
	}
	first := []string{
		"decision_id", "workspace_id", "privacy_mode", "decision_type", "created_at", "agent", "proposed_action", "policy", "approval", "outcome",
		"lifecycle",
	}
	var known, rest []evidence.Field
	for _, name := range first {
		i := slices.IndexFunc(summary, func(f evidence.Field) bool { return f.Name == name })
		known = append(known, summary[i])
	}
	for _, field := range summary {
		if !slices.Contains(first, field.Name) {
			rest, open = append(rest, field), append(open, field.Value)
		}
	}
	fields := append(append(known, rest...), kv("coverage", s.coverage(true)))
	return evidence.Object(fields...), open, nil
}

// coverage tells which parts of the evidence are there. It is called after lifecycle, which fails where this would.
func (s *story) coverage(valid bool) jsontext.Value {
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
	agent, _ := s.captured("agent").(*object)
	model, _ := s.captured("model").(*object)
	policy, _ := s.payload(policyEvaluated).(*object)
	approval := truthy(s.payload(humanApproved, humanRejected, humanAdjudicated))
	tool := truthy(s.payload(toolExecuted, toolRequested, mcpToolRequested))
	outcome := truthy(s.payload(outcomeObserved))
	forbidden, _ := blocks(s.policyResult())
	required := s.policyResult() == approvalRequired
	hidden := s.proofOnly()
	awaiting := required && !approval
	approved, rejected := s.reviewed() == humanApproved, s.reviewed() == humanRejected

	checks := []struct{ id, label, status string }{
		{"agent_identity", "Agent identity", status(truthy(agent.get("id")) || hidden, false, true)},
		{"authority", "Delegated authority", status(truthy(s.captured("authority")) || hidden, false, true)},
		{"model", "Model provenance", status(truthy(model.get("name")) || hidden, false, true)},
		{"context", "Prompt / context version", status(truthy(s.captured("context")) || hidden, false, true)},
		{"policy", "Policy provenance", status(truthy(policy.get("version")) || truthy(policy.get("policy_id")) || hidden, false, true)},
		{"human_oversight", "Human oversight", status(approval, awaiting, required)},
		{"action", "Action evidence", status(tool || hidden, awaiting || approved && !tool, !forbidden && !rejected)},
		{"outcome", "Observed outcome", status(outcome || hidden, awaiting || approved && !outcome, !rejected)},
		{"cryptographic_proof", "Cryptographic proof", status(valid, false, true)},
	}
	count := map[string]int{}
	var rows []jsontext.Value
	for _, check := range checks {
		count[check.status]++
		rows = append(rows, evidence.Object(
			kv("id", quoted(check.id)), kv("label", quoted(check.label)), kv("present", boolean(check.status == present)),
			kv("status", quoted(check.status))))
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
		kv("score", number(int(math.RoundToEven(float64(count[present])/float64(total)*100)))),
		kv("passed", number(count[present])),
		kv("total", number(total)),
		kv("pending", number(count[pending])),
		kv("missing", number(count[missing])),
		kv("complete", boolean(state == "complete")),
		kv("state", quoted(state)),
		kv("label", quoted(label)),
		kv("checks", array(rows)),
	)
}
