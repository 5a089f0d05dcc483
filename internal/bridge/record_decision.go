package bridge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

func recordDecisionTool() *tool {
	return &tool{
		name:  "record_decision",
		title: "Record a decision",
		description: "Record a consequential decision before acting on it: the proposed action, the authority for it and, on request, the result of a LoopGrid policy. " +
			"It only records. Before acting, follow the next field of the result.",
		parameters: []parameter{
			{name: "decision_type", kind: textKind, required: true, limit: 120, description: "Kind of decision, e.g. customer_refund."},
			{name: "proposed_action", kind: objectKind, required: true, description: "The action to take, e.g. {\"tool\":\"stripe.refunds.create\",\"amount\":320,\"currency\":\"USD\"}."},
			{name: "agent_id", kind: textKind, limit: 128, noNUL: true, fallback: "mcp-agent", description: "Agent making the decision."},
			{name: "agent_version", kind: textKind, description: "Version of the agent."},
			{name: "service_name", kind: textKind, limit: 120, fallback: "mcp-agent", description: "Service the agent belongs to."},
			{name: "authority", kind: objectKind, description: "Authority the agent acts under, e.g. {\"limit_usd\":1500}."},
			{name: "model", kind: objectKind, description: "Model behind the decision, e.g. its provider and name."},
			{name: "context", kind: objectKind, description: "What the decision is based on, e.g. a prompt version."},
			{name: "input_data", kind: objectKind, description: "Input that led to the decision."},
			{name: "metadata", kind: objectKind, description: "Anything else. source is always set to loopgrid-mcp."},
			{name: "privacy_mode", kind: textKind, choices: []string{"full", "redacted", "proof_only"}, description: "How much of the payloads LoopGrid keeps. Default: the workspace's mode. LoopGrid enforces no policy in proof_only."},
			idempotencyKeyFor("decision"),
			{name: "model_output", kind: objectKind, description: "The model's output, recorded as a separate event."},
			{name: "policy_id", kind: textKind, limit: 128, noNUL: true, description: "LoopGrid policy to evaluate, e.g. refund-policy. Its result is recorded."},
		},
		results: []result{
			{name: "decision_id", kind: "string", required: true},
			{name: "next", kind: "string", required: true, description: "Whether you may act, and what to do next."},
			{name: "captured", kind: "boolean", required: true},
			{name: "idempotent_replay", kind: "boolean", required: true},
			{name: "action_executed", kind: "boolean", required: true},
			{name: "note", kind: "string"},
			{name: "model_event", kind: "object"},
			{name: "policy_evaluation", kind: "object"},
			{name: "policy_event", kind: "object"},
			{name: "receipt", kind: "object"},
			{name: "idempotency_key", kind: "string", required: true},
			commitmentResult(),
			{name: "warnings", kind: "array"},
		},
		annotations: recording(),
		meta:        mcp.Meta{"anthropic/alwaysLoad": true},
		queues:      true,
		effect:      "appends one to three events",
		routes:      "POST /api/v1/decisions, POST /api/v1/decisions/{id}/events, POST /api/v1/workspaces/{w}/policies/evaluate",
		handle:      recordDecision,
	}
}

// recordDecision records what an agent proposes to do and, on request, its model's output and the result of a policy.
func recordDecision(ctx context.Context, c *call) *mcp.CallToolResult {
	return (&decisionCall{call: c}).record(ctx)
}

// decisionCall is a call of record_decision: a create, then up to two events. If a step fails, the decision stays as it is; repeating the
// call with the same key continues from there.
type decisionCall struct {
	*call
	decision loopgrid.Decision
	key      string
	given    bool // the caller gave the key
	created  loopgrid.Created
	existing *loopgrid.DecisionRecord // what LoopGrid already holds, read on a replay
	fidelity fidelity
	appended int // events recorded on a replay

	modelEvent, policyEvent *loopgrid.Event
	evaluation              jsontext.Value
	policyResult            string
}

func (d *decisionCall) record(ctx context.Context) *mcp.CallToolResult {
	d.prepare()
	release, err := d.takeTurn(ctx)
	if err != nil {
		return d.writeFailed("the decision", err, d.key)
	}
	defer release()
	d.progress.step("recording the decision")
	created, err := d.turn.CreateDecision(ctx, &d.decision)
	if err != nil {
		d.steps.set("decision", stateOf(err))
		return d.writeFailed("the decision", err, d.key)
	}
	d.created = created
	d.steps.setDecisionID(created.DecisionID)
	d.warnSandbox(created.Sandbox)
	d.warnWorkspace(created.Event.WorkspaceID)
	d.steps.set("decision", recordedNow)
	if d.replayed() {
		if refusal := d.compareWithReplay(ctx); refusal != nil {
			return refusal
		}
	}
	d.warnPrivacyMode()
	failure := d.recordSteps(ctx)
	if failure != nil || d.steps.anyDiffers() {
		return d.unfinished(failure)
	}
	return d.finished(ctx)
}

// recordSteps appends the events requested along with the decision. The error is that of the step that failed.
func (d *decisionCall) recordSteps(ctx context.Context) (failure error) {
	if d.replayed() && len(d.pendingSteps()) > 0 {
		if failure = d.readRecord(ctx); failure != nil {
			for _, step := range d.pendingSteps() {
				d.steps.set(step, notSent)
			}
			return failure
		}
	}
	if output := d.args.object("model_output"); output != nil {
		failure = d.recordModel(ctx, output)
	}
	if policy := d.args.text("policy_id"); policy != "" {
		if failure == nil {
			failure = d.recordPolicy(ctx, policy)
		} else {
			d.steps.set("policy_event", notSent)
		}
	}
	return failure
}

func (d *decisionCall) pendingSteps() []string {
	_, _, pending := d.steps.pending()
	return pending
}

// prepare builds the decision from the arguments.
func (d *decisionCall) prepare() {
	d.key, d.given = d.idempotencyKey()
	steps := []string{"decision"}
	if d.args.object("model_output") != nil {
		steps = append(steps, "model_event")
	}
	if d.args.text("policy_id") != "" {
		steps = append(steps, "policy_event")
	}
	d.steps.expect("", d.key, steps...)
	d.decision = loopgrid.Decision{
		DecisionType:   d.args.text("decision_type"),
		ServiceName:    d.args.text("service_name"),
		Agent:          evidence.Object(field("id", d.args.text("agent_id")), optional("version", d.args.text("agent_version"))),
		Authority:      d.args.object("authority"),
		Model:          d.args.object("model"),
		Context:        d.args.object("context"),
		Input:          d.args.object("input_data"),
		ProposedAction: d.args.object("proposed_action"),
		Metadata:       evidence.Merge(d.args.object("metadata"), field("source", "loopgrid-mcp")),
		PrivacyMode:    d.args.text("privacy_mode"),
		IdempotencyKey: d.key,
		FreshKey:       !d.given,
	}
}

// replayed says whether the caller's key found an earlier decision. A replay under a generated key is just this call's own retry.
func (d *decisionCall) replayed() bool { return d.created.Replayed && d.given }

// compareWithReplay checks that the event found under the key is the decision that was sent: the service does not compare them. Other
// calls may write meanwhile: with a long ledger, LoopGrid takes long to answer.
func (d *decisionCall) compareWithReplay(ctx context.Context) *mcp.CallToolResult {
	event := &d.created.Event
	d.turn.Suspend()
	d.fidelity = d.commitmentOfCreated(ctx)
	if d.fidelity == differs || event.EventType != "" && event.EventType != "decision_created" {
		d.steps.set("decision", notRecorded)
		return d.usedForSomethingElse("the decision", d.key, event)
	}
	d.steps.set("decision", alreadyThere)
	return nil
}

func (d *decisionCall) warnPrivacyMode() {
	recorded := d.created.Event.PrivacyMode
	if mode := d.decision.PrivacyMode; mode != "" && recorded != "" && recorded != mode {
		d.warn(privacyModeDiffers, "The decision was recorded in privacy mode "+d.word(recorded)+", not "+mode+".")
	}
}

// commitmentOfCreated checks the hash of decision_created, whose payload also contains the service's spec_version: the one shown in the
// event, else that of LoopGrid 0.8, else the one in /health.
func (d *decisionCall) commitmentOfCreated(ctx context.Context) fidelity {
	event := &d.created.Event
	version := evidence.GetText(event.Payload, "spec_version")
	visible := version != ""
	if !visible {
		version = loopgrid.DefaultSpecVersion
	}
	f := compareCommitment(event, d.decision.Payload(version))
	if f != differs || visible {
		return f
	}
	if version = d.specVersion(ctx, d.turn); version == "" || version == loopgrid.DefaultSpecVersion {
		return f
	}
	return compareCommitment(event, d.decision.Payload(version))
}

// readRecord reads what the earlier call recorded, and takes the turn again. An error means that the turn did not come in time.
func (d *decisionCall) readRecord(ctx context.Context) error {
	d.progress.step("reading what is already recorded")
	record, err := d.turn.GetDecision(ctx, d.created.DecisionID)
	if err != nil {
		d.warn(stepsNotChecked, "Could not read which steps were already recorded. "+capitalized(d.whatHappened(err))+
			" Steps recorded by this program are not recorded twice; steps recorded by another program may be.")
	}
	d.existing = record
	d.progress.step("waiting for other writes to this LoopGrid")
	return d.turn.Resume(ctx)
}

// stepKey is the idempotency key of a step. It is derived from the call's key alone, and no caller would choose it by accident.
func (d *decisionCall) stepKey(step string) string {
	sum := sha256.Sum256([]byte(d.key))
	return "lgm1-" + step + "-" + hex.EncodeToString(sum[:])[:40]
}

// recordModel appends model_completed, unless a replay finds one: an identical one counts whatever its key, and a different one is kept.
func (d *decisionCall) recordModel(ctx context.Context, output jsontext.Value) error {
	sent := &loopgrid.NewEvent{
		EventType: "model_completed", ActorType: "agent", ActorID: d.args.text("agent_id"), Payload: output, IdempotencyKey: d.stepKey("model"), FreshKey: !d.given,
	}
	if d.existing != nil {
		var other *loopgrid.Event
		for i := range d.existing.Events {
			e := &d.existing.Events[i]
			switch {
			case e.EventType != "model_completed":
			case compareCommitment(e, output) != differs:
				d.modelEvent = e
				d.steps.set("model_event", alreadyThere)
				return nil
			default:
				other = e
			}
		}
		if other != nil {
			d.modelEvent = other
			d.steps.differs("model_event", d.describe(other))
			return nil
		}
	}
	d.progress.step("recording the model's output")
	event, _, err := d.turn.AppendEvent(ctx, d.created.DecisionID, sent)
	if err != nil {
		d.steps.set("model_event", stateOf(err))
		return err
	}
	d.modelEvent = &event
	f := compare(&event, sent)
	if f == differs && d.given {
		d.steps.differs("model_event", d.describe(&event))
		return nil
	}
	d.stepDone("model_event", f)
	return nil
}

// stepDone notes a step that this call recorded.
func (d *decisionCall) stepDone(step string, f fidelity) {
	d.steps.set(step, recordedNow)
	if d.existing != nil { // otherwise it may have been found under its key
		d.appended++
	}
	d.fidelity = max(d.fidelity, f)
}

// recordPolicy evaluates the policy and appends policy_evaluated with the exact bytes of the answer. If a result is already recorded, it
// is kept and the policy is not evaluated again: the decision was made under that result.
func (d *decisionCall) recordPolicy(ctx context.Context, policy string) error {
	if e := d.recordedPolicy(); e != nil {
		d.useRecordedPolicy(e, policy)
		return nil
	}
	d.progress.step("evaluating the policy")
	evaluation, err := d.turn.EvaluatePolicy(ctx, policy, d.decision.ProposedAction, d.decision.Authority, d.decision.Context)
	if err != nil {
		d.steps.set("policy_event", stateOf(err))
		return err
	}
	sent := &loopgrid.NewEvent{
		EventType: "policy_evaluated", ActorType: "policy", ActorID: policy, Payload: evaluation.Raw, IdempotencyKey: d.stepKey("policy"), FreshKey: !d.given,
	}
	d.progress.step("recording the policy's result")
	event, _, err := d.turn.AppendEvent(ctx, d.created.DecisionID, sent)
	switch {
	case err == nil:
	case conflict(err) != nil && conflict(err).Code == "policy_already_evaluated":
		// One was recorded since the record was read, or the record could not be read.
		d.turn.Suspend() // nothing more is recorded
		if d.existing, err = d.turn.GetDecision(ctx, d.created.DecisionID); err == nil {
			if e := d.recordedPolicy(); e != nil {
				d.useRecordedPolicy(e, policy)
				return nil
			}
		}
		d.steps.differs("policy_event", "a policy result that could not be read")
		return nil
	default:
		d.steps.set("policy_event", stateOf(err))
		return err
	}
	d.policyEvent = &event
	f := compare(&event, sent)
	if f == differs && d.given {
		// An earlier call for this decision used the key: its event is kept.
		d.useRecordedPolicy(&event, policy)
		return nil
	}
	d.evaluation, d.policyResult = evaluation.Raw, evaluation.Decision
	d.stepDone("policy_event", f)
	if event.PrivacyMode == "redacted" && evidence.Get(event.Payload, "decision", "redacted").Kind() == 't' {
		d.warn(policyRedacted, "The workspace's redaction_fields hide the policy's result, even from LoopGrid itself: from now on it answers 500 to every request about this decision. "+
			"The operator must remove decision from redaction_fields; then record the decision again with a new idempotency_key.")
	}
	if mode := event.PrivacyMode; mode == "proof_only" {
		d.warn(policyNotEnforced, "In privacy mode proof_only, LoopGrid cannot see the policy's result: it neither refuses an action that the policy blocks nor accepts a review.")
	}
	return nil
}

func (d *decisionCall) recordedPolicy() *loopgrid.Event {
	if d.existing == nil {
		return nil
	}
	for i := range d.existing.Events {
		if e := &d.existing.Events[i]; e.EventType == "policy_evaluated" {
			return e
		}
	}
	return nil
}

// useRecordedPolicy uses the policy_evaluated event of an earlier call.
func (d *decisionCall) useRecordedPolicy(e *loopgrid.Event, policy string) {
	d.policyEvent = e
	if e.EventType != "policy_evaluated" || e.ActorID != policy {
		d.steps.differs("policy_event", d.describe(e))
		return
	}
	d.steps.set("policy_event", alreadyThere)
	if !e.PayloadAvailable || compareCommitment(e, e.Payload) != verified {
		d.warn(policyResultHidden, "The policy's result was recorded earlier, and the decision's privacy mode hides it.")
		return
	}
	d.evaluation, d.policyResult = e.Payload, evidence.GetText(e.Payload, "decision")
}

// finished is the result of a call whose steps are all in the ledger.
func (d *decisionCall) finished(ctx context.Context) *mcp.CallToolResult {
	d.turn.End() // what follows writes nothing
	if !d.replayed() {
		d.fidelity = max(d.fidelity, d.commitmentOfCreated(ctx))
	}
	d.warnMismatch(d.fidelity)
	fields := []evidence.Field{
		field("decision_id", d.created.DecisionID), field("next", d.next()),
		flag("captured", true), flag("idempotent_replay", d.replayed()), flag("action_executed", false),
	}
	if d.replayed() {
		fields = append(fields, field("note", d.replayNote()))
	}
	if d.modelEvent != nil {
		fields = append(fields, d.service("model_event", d.modelEvent.Raw))
	}
	fields = append(fields, d.service("policy_evaluation", d.evaluation))
	if d.policyEvent != nil {
		fields = append(fields, d.service("policy_event", d.policyEvent.Raw))
	}
	return d.success(append(fields, d.service("receipt", receipt(d.created.Event.Raw)), field("idempotency_key", d.key),
		raw("commitment_verified", d.fidelity.value()))...)
}

func (d *decisionCall) replayNote() string {
	switch d.appended {
	case 0:
		return "Existing idempotent decision returned; no duplicate evidence was appended."
	case 1:
		return "Existing decision; 1 missing step appended."
	default:
		return "Existing decision; 2 missing steps appended."
	}
}

// receipt is a signed event without its payload, which repeats what was sent; nil if there is no event.
func receipt(event jsontext.Value) jsontext.Value {
	if event == nil {
		return nil
	}
	var fields []evidence.Field
	for name, value := range evidence.Members(event) {
		if name != "payload" {
			fields = append(fields, raw(name, value))
		}
	}
	return evidence.Object(fields...)
}

// next says whether the caller may act, and what to do.
func (d *decisionCall) next() string {
	actThenRecord := "After the action, call " + d.toolName("record_action") + "."
	switch {
	case d.args.text("policy_id") == "" && d.replayed():
		return "captured: No, do not act on this result: this call evaluated no policy. " + d.toolName("get_evidence") +
			" shows whether an earlier call recorded a policy result; follow that one."
	case d.args.text("policy_id") == "":
		return "captured: Yes, you may act if your own authority covers it: no policy was evaluated, so LoopGrid neither approves nor blocks the action. " + actThenRecord
	case d.policyResult == "auto_allowed":
		return "auto_allowed: Yes, you may act: the policy allows the action. " + actThenRecord
	case d.policyResult == "human_approval_required" && d.policyEvent.PrivacyMode == "proof_only":
		return "human_approval_required: No, do not act. LoopGrid accepts no review of a decision in privacy mode proof_only: ask a person, or record the decision again in another mode with a new idempotency_key."
	case d.policyResult == "human_approval_required":
		return "human_approval_required: No, do not act yet. A person must approve this decision first; " + d.toolName("get_evidence") + " shows whether one has."
	case d.policyResult == "blocked":
		return "blocked: No, do not act. The policy forbids the action."
	case d.policyResult == "manual_review_required":
		return "manual_review_required: No, do not act until a person tells you to: the policy could not judge the action. LoopGrid accepts no review of such a decision and does not block the action, so ask the person yourself."
	case d.policyResult == "":
		return "unknown: No, do not act: the policy's result is not readable here. Ask a person first."
	default:
		return "unknown: No, do not act: this version does not know the policy result " + d.word(d.policyResult) + ". Ask a person first."
	}
}

// unfinished is the error of a call that did not record everything it was asked to. failure is nil if the only reason is that something
// different is already recorded.
func (d *decisionCall) unfinished(failure error) *mcp.CallToolResult {
	d.failedWith("unfinished", failure)
	lines := []string{"The decision is recorded, but not all of its steps. decision_id: " + d.created.DecisionID + "."}
	lines = append(lines, d.steps.lines(d.call, failure)...)
	if failure != nil {
		repeat := d.repeatHint(d.key)
		if isPolicyMissing(failure) {
			repeat = d.repeatHintWith(d.key, ", a policy_id that exists,")
		}
		lines = append(lines, d.serviceSaid(failure), d.remedy(failure), repeat+" Missing steps are appended.")
	}
	if d.steps.anyDiffers() {
		lines = append(lines, "Recorded evidence is never replaced: a decision has one model output and one policy result. To record different ones, record a new decision with a new idempotency_key.")
	}
	return failed(append(lines, "Do not act on this decision yet.")...)
}
