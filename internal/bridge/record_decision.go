package bridge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

// recordDecision is the tool that records what an agent proposes to do, with what its model said and what a policy says of it.
func recordDecision() *tool {
	return &tool{
		name:  "record_decision",
		title: "Record a decision",
		description: "Record a consequential decision before acting on it: what is proposed, under which authority, and on request what a LoopGrid policy says. " +
			"It carries out nothing. Read next in the result before acting.",
		parameters: []parameter{
			{name: "decision_type", kind: textKind, required: true, limit: 120, description: "Kind of decision, for example customer_refund."},
			{name: "proposed_action", kind: objectKind, required: true, description: "What is to be done, for example {\"tool\":\"stripe.refunds.create\",\"amount\":320,\"currency\":\"USD\"}."},
			{name: "agent_id", kind: textKind, limit: 128, clear: true, fallback: "mcp-agent", description: "Agent that decides."},
			{name: "agent_version", kind: textKind, description: "Its version."},
			{name: "service_name", kind: textKind, limit: 120, fallback: "mcp-agent", description: "Service that the agent belongs to."},
			{name: "authority", kind: objectKind, description: "On what authority the agent acts, for example {\"limit_usd\":1500}."},
			{name: "model", kind: objectKind, description: "Model behind the decision, for example its provider and name."},
			{name: "context", kind: objectKind, description: "What the decision was made from, for example a prompt version."},
			{name: "input_data", kind: objectKind, description: "Input that led to the decision."},
			{name: "metadata", kind: objectKind, description: "Anything else. source is always set to loopgrid-mcp."},
			{name: "privacy_mode", kind: textKind, choices: []string{"full", "redacted", "proof_only"}, description: "What LoopGrid keeps of the payloads. Left out: the workspace's own mode. A policy is not enforced in proof_only."},
			idempotencyKey("decision"),
			{name: "model_output", kind: objectKind, description: "What the model said, recorded as an event of its own."},
			{name: "policy_id", kind: textKind, limit: 128, clear: true, description: "LoopGrid policy to evaluate, for example refund-policy; its result is recorded."},
		},
		results: []result{
			{"decision_id", "string", true},
			{"captured", "boolean", true},
			{"idempotent_replay", "boolean", true},
			{"action_executed", "boolean", true},
			{name: "note", kind: "string"},
			{name: "model_event", kind: "object"},
			{name: "policy_evaluation", kind: "object"},
			{name: "policy_event", kind: "object"},
			{name: "receipt", kind: "object"},
			{"idempotency_key", "string", true},
			{"next", "string", true},
			{name: "warnings", kind: "array"},
		},
		annotations: recording(),
		meta:        mcp.Meta{"anthropic/alwaysLoad": true},
		writes:      true,
		effect:      "appends one to three events",
		route:       "POST /api/v1/decisions, POST /api/v1/decisions/{id}/events, POST /api/v1/workspaces/{w}/policies/evaluate",
		run: func(ctx context.Context, c *call) *mcp.CallToolResult {
			return (&decisionCall{call: c}).run(ctx)
		},
	}
}

// decisionCall is a call of record_decision: a create, and up to two events after it. A step that fails leaves the decision where
// it is; the same call with the same key goes on from there.
type decisionCall struct {
	*call
	decision loopgrid.Decision
	key      string
	given    bool // the caller gave the key
	created  loopgrid.Created
	record   *loopgrid.DecisionRecord // what LoopGrid holds already, read on a replay
	fidelity fidelity
	appended int // events recorded on a replay

	modelEvent, policyEvent *loopgrid.Event
	evaluation              jsontext.Value
	policyResult            string
}

func (d *decisionCall) run(ctx context.Context) *mcp.CallToolResult {
	d.prepare()
	if err := d.begin(ctx, d.key); err != nil {
		return d.writeFailed("the decision", err, d.key)
	}
	defer d.begun("", "the decision")()
	d.progress.step("recording the decision")
	created, err := d.write.CreateDecision(ctx, &d.decision)
	if err != nil {
		d.steps.set("decision", stateOf(err))
		return d.writeFailed("the decision", err, d.key)
	}
	d.created = created
	d.steps.decisionID(created.DecisionID)
	d.warnSandbox(created.Sandbox)
	if refusal := d.compareCreated(ctx); refusal != nil {
		return refusal
	}
	d.steps.set("decision", recordedNow)
	if d.replayed() {
		d.steps.set("decision", alreadyThere)
		d.readRecord(ctx)
	}
	var failure error
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
	if failure != nil || d.steps.anyDiffers() {
		return d.unfinished(failure)
	}
	return d.finished()
}

// prepare builds the decision from the arguments.
func (d *decisionCall) prepare() {
	d.key, d.given = d.call.key()
	d.steps.expect("decision")
	if d.args.object("model_output") != nil {
		d.steps.expect("model_event")
	}
	if d.args.text("policy_id") != "" {
		d.steps.expect("policy_event")
	}
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
	}
}

// replayed says whether the caller's key found an earlier decision. A replay under a key of our own is a repeat of this very call.
func (d *decisionCall) replayed() bool { return d.created.Replayed && d.given }

// compareCreated checks that the event answered is the decision that was sent. The service compares nothing on a replay.
func (d *decisionCall) compareCreated(ctx context.Context) *mcp.CallToolResult {
	event := &d.created.Event
	d.fidelity = d.commitmentOfCreated(ctx)
	if d.replayed() && (d.fidelity == differs || event.EventType != "" && event.EventType != "decision_created") {
		d.steps.set("decision", notRecorded)
		return d.usedForSomethingElse("the decision", d.key, event)
	}
	d.warnMismatch(d.fidelity)
	if mode := d.decision.PrivacyMode; mode != "" && event.PrivacyMode != "" && event.PrivacyMode != mode {
		d.warn("privacy_mode_differs", "The decision is recorded in privacy mode "+shorten(event.PrivacyMode)+", not in "+mode+".")
	}
	return nil
}

// commitmentOfCreated compares the commitment of decision_created, whose payload holds the service's spec_version too: the one it
// shows, else the one of LoopGrid 0.8, else the one that /health tells.
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
	if version = d.specVersion(ctx); version == "" || version == loopgrid.DefaultSpecVersion {
		return f
	}
	return compareCommitment(event, d.decision.Payload(version))
}

// readRecord reads what the earlier call left, if a step is asked for that it may have recorded.
func (d *decisionCall) readRecord(ctx context.Context) {
	if d.args.object("model_output") == nil && d.args.text("policy_id") == "" {
		return
	}
	d.progress.step("reading what is recorded already")
	record, err := d.write.GetDecision(ctx, d.created.DecisionID)
	if err != nil {
		d.warn("steps_not_checked", "Which steps were recorded before could not be read: "+sentence(err)+
			" They were sent under keys of their own, which record nothing twice unless another program recorded them without.")
		return
	}
	d.record = record
}

// stepKey is the idempotency key of a step. It can be no key of a caller's own choice by accident, and is found again from the
// call's key alone.
func (d *decisionCall) stepKey(step string) string {
	sum := sha256.Sum256([]byte(d.key))
	return "lgm1-" + step + "-" + hex.EncodeToString(sum[:])[:40]
}

// recordModel appends model_completed, unless a replay finds one: an equal one is done whatever its key, another one stands.
func (d *decisionCall) recordModel(ctx context.Context, output jsontext.Value) error {
	sent := &loopgrid.NewEvent{
		EventType: "model_completed", ActorType: "agent", ActorID: d.args.text("agent_id"), Payload: output, IdempotencyKey: d.stepKey("model"),
	}
	if d.record != nil {
		var other *loopgrid.Event
		for i := range d.record.Events {
			e := &d.record.Events[i]
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
			d.steps.differs("model_event", describe(other))
			return nil
		}
	}
	d.progress.step("recording the model's output")
	event, _, err := d.write.AppendEvent(ctx, d.created.DecisionID, sent)
	if err != nil {
		d.steps.set("model_event", stateOf(err))
		return err
	}
	d.modelEvent = &event
	f := compare(&event, sent)
	if f == differs && d.given {
		d.steps.differs("model_event", describe(&event))
		return nil
	}
	d.stepDone("model_event", f)
	return nil
}

// stepDone notes a step that was recorded in this call.
func (d *decisionCall) stepDone(step string, f fidelity) {
	d.steps.set(step, recordedNow)
	if d.record != nil { // else nobody knows whether the service appended it or found it under its key
		d.appended++
	}
	if f == differs && d.fidelity != differs {
		d.warnMismatch(f)
	}
	d.fidelity = max(d.fidelity, f)
}

// recordPolicy asks the policy and appends policy_evaluated with the very bytes of its answer. A result that is recorded already
// stands, and today's policy is not asked: the decision was made under that one.
func (d *decisionCall) recordPolicy(ctx context.Context, policy string) error {
	if e := d.recordedPolicy(); e != nil {
		d.useRecordedPolicy(e, policy)
		return nil
	}
	d.progress.step("evaluating the policy")
	evaluation, err := d.write.EvaluatePolicy(ctx, policy, d.decision.ProposedAction, d.decision.Authority, d.decision.Context)
	if err != nil {
		d.steps.set("policy_event", stateOf(err))
		return err
	}
	sent := &loopgrid.NewEvent{
		EventType: "policy_evaluated", ActorType: "policy", ActorID: policy, Payload: evaluation.Raw, IdempotencyKey: d.stepKey("policy"),
	}
	d.progress.step("recording the policy's result")
	event, _, err := d.write.AppendEvent(ctx, d.created.DecisionID, sent)
	switch {
	case err == nil:
	case conflict(err) != nil && conflict(err).Code == "policy_already_evaluated":
		// Somebody recorded one since the record was read, or it could not be read.
		if d.record, err = d.write.GetDecision(ctx, d.created.DecisionID); err == nil {
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
		// The key is that of an earlier call of this decision: what that one recorded stands.
		d.useRecordedPolicy(&event, policy)
		return nil
	}
	d.evaluation, d.policyResult = evaluation.Raw, evaluation.Decision
	d.stepDone("policy_event", f)
	if mode := event.PrivacyMode; mode == "proof_only" {
		d.warn("policy_not_enforced", "In privacy mode proof_only LoopGrid hides the policy's result from itself: it will not refuse an action that the policy blocks, and takes no review.")
	}
	return nil
}

func (d *decisionCall) recordedPolicy() *loopgrid.Event {
	if d.record == nil {
		return nil
	}
	for i := range d.record.Events {
		if e := &d.record.Events[i]; e.EventType == "policy_evaluated" {
			return e
		}
	}
	return nil
}

// useRecordedPolicy takes over a policy_evaluated event of an earlier call.
func (d *decisionCall) useRecordedPolicy(e *loopgrid.Event, policy string) {
	d.policyEvent = e
	if e.EventType != "policy_evaluated" || e.ActorID != policy {
		d.steps.differs("policy_event", describe(e))
		return
	}
	d.steps.set("policy_event", alreadyThere)
	if !e.PayloadAvailable || compareCommitment(e, e.Payload) != verified {
		d.warn("policy_result_hidden", "The policy's result was recorded before, and the decision's privacy mode does not show it.")
		return
	}
	d.evaluation, d.policyResult = e.Payload, evidence.GetText(e.Payload, "decision")
}

// finished is the result of a call all of whose steps are in the ledger.
func (d *decisionCall) finished() *mcp.CallToolResult {
	fields := []evidence.Field{
		field("decision_id", d.created.DecisionID), flag("captured", true), flag("idempotent_replay", d.replayed()), flag("action_executed", false),
	}
	if d.replayed() {
		fields = append(fields, field("note", d.replayNote()))
	}
	if d.modelEvent != nil {
		fields = append(fields, raw("model_event", d.modelEvent.Raw))
	}
	fields = append(fields, raw("policy_evaluation", d.evaluation))
	if d.policyEvent != nil {
		fields = append(fields, raw("policy_event", d.policyEvent.Raw))
	}
	return d.success(append(fields, raw("receipt", receipt(d.created.Event.Raw)), field("idempotency_key", d.key),
		raw("commitment_verified", d.fidelity.value()), field("next", d.next()))...)
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

// receipt is a signed event without its payload, which repeats what was sent; nil where there is no event.
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

// next says what the policy's result means for the caller.
func (d *decisionCall) next() string {
	switch {
	case d.args.text("policy_id") == "" && d.replayed():
		return "captured: this call asked no policy, so its answer allows nothing; " + d.the("get_evidence") + " shows whether a policy result was recorded before, and act only as that says."
	case d.args.text("policy_id") == "":
		return "captured: no policy was asked, so this record allows nothing by itself. After the action was carried out, call " + d.the("record_action") + "."
	case d.policyResult == "auto_allowed":
		return "auto_allowed: the policy allows the action. After it was carried out, call " + d.the("record_action") + "."
	case d.policyResult == "human_approval_required" && d.policyEvent.PrivacyMode == "proof_only":
		return "human_approval_required: do not act. LoopGrid takes no review of a decision in privacy mode proof_only: ask a person, or record the decision anew in another mode with a new idempotency_key."
	case d.policyResult == "human_approval_required":
		return "human_approval_required: do not act yet. A person has to approve this decision first; " + d.the("get_evidence") + " shows whether one has."
	case d.policyResult == "blocked":
		return "blocked: do not act. The policy forbids the action."
	case d.policyResult == "manual_review_required":
		return "manual_review_required: the policy could not judge the action. Ask a person before acting."
	case d.policyResult == "":
		return "unknown: the policy's result cannot be read here. Ask a person before acting."
	default:
		return "unknown: this version does not know the policy's result " + shorten(d.policyResult) + ". Ask a person before acting."
	}
}

// unfinished is the error of a call that did not record all it was asked for. failure is nil where something else stands in place
// of a step.
func (d *decisionCall) unfinished(failure error) *mcp.CallToolResult {
	d.outcome, d.cause = "unfinished", loopgrid.Cause(failure)
	text := []string{"The decision is recorded, but not every step of it. decision_id: " + d.created.DecisionID + "."}
	text = append(text, d.steps.lines(failure)...)
	if failure != nil {
		repeat := d.repeat(d.key)
		if policyMissing(failure) {
			repeat = d.repeatWith(d.key, "and a policy_id that exists, and otherwise")
		}
		text = append(text, d.mendable(failure), repeat+" Missing steps are appended.")
	}
	if d.steps.anyDiffers() {
		text = append(text, "What is recorded stands: a decision takes one model output and one policy result. For other ones record a new decision with a new idempotency_key.")
	}
	return failed(append(text, "Do not act on this decision yet.")...)
}

// policyMissing says whether LoopGrid knows no active policy of the name that was asked for.
func policyMissing(err error) bool {
	var api *loopgrid.APIError
	return errors.As(err, &api) && api.Status == http.StatusNotFound && strings.Contains(api.Route, "/policies/")
}

// conflict returns the 409 that an error carries; nil for any other error.
func conflict(err error) *loopgrid.APIError {
	var api *loopgrid.APIError
	if errors.As(err, &api) && api.Status == http.StatusConflict {
		return api
	}
	return nil
}
