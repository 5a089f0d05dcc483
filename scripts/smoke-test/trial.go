package main

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
	"github.com/loopgridio/loopgrid-mcp/scripts/exact"
)

const (
	decisionType = "loopgrid_mcp_smoke_test"
	policyID     = "refund-policy" // the one that LoopGrid ships
	agent        = "loopgrid-mcp-smoke-test"
)

// step is one thing to try. A step that fails ends the trial, since the next ones build on it.
type step struct {
	name string
	try  func(context.Context) (said, error)
}

// said is what a step tells.
type said struct {
	what    string
	skipped bool
}

func saying(format string, args ...any) said { return said{what: fmt.Sprintf(format, args...)} }

// trial is one decision, from its creation to its evidence.
type trial struct {
	*report

	client   *loopgrid.Client
	decision loopgrid.Decision
	id       string
	recorded []recorded
}

// recorded is an event that was recorded, and the payload that was sent for it.
type recorded struct {
	event loopgrid.Event
	sent  jsontext.Value
}

func (t *trial) steps() []step {
	return []step{
		{"health", t.health},
		{"ready", t.ready},
		{"create", t.create},
		{"repeated create", t.createAgain},
		{"model event", t.model},
		{"policy", t.policy},
		{"action", t.action},
		{"outcome", t.outcome},
		{"read back", t.readBack},
		{"verify", t.verify},
		{"evidence", t.evidence},
	}
}

func (t *trial) health(ctx context.Context) (said, error) {
	h, err := t.client.Health(ctx)
	if err != nil {
		return said{}, err
	}
	text := fmt.Sprintf("version %s, evidence profile %s", h.Version, h.EvidenceProfile)
	if h.Sandbox {
		text += " (a sandbox, not LoopGrid)"
	}
	return saying("%s", text), nil
}

func (t *trial) ready(ctx context.Context) (said, error) {
	r, err := t.client.Ready(ctx)
	if err != nil {
		return said{}, err
	}
	return saying("database %s, signer %s", r.Database, r.Signer), nil
}

func (t *trial) create(ctx context.Context) (said, error) {
	object := jsontext.Value(`{"numbers":` + exact.Numbers + `}`)
	t.decision = loopgrid.Decision{
		DecisionType: decisionType, ServiceName: agent, PrivacyMode: "full", IdempotencyKey: newKey(),
		Agent:          evidence.Object(evidence.Field{Name: "id", Value: evidence.Text(agent)}),
		Authority:      jsontext.Value(`{"limit_usd":1500,"numbers":` + exact.Numbers + `}`),
		Model:          object,
		Context:        object,
		Input:          object,
		ProposedAction: jsontext.Value(`{"tool":"synthetic.refund","amount":320.0,"currency":"USD","numbers":` + exact.Numbers + `}`),
		Metadata:       jsontext.Value(`{"source":"loopgrid-mcp","synthetic":true,"numbers":` + exact.Numbers + `}`),
	}
	created, err := t.send(ctx)
	switch {
	case err != nil:
		return said{}, err
	case created.Replayed:
		return said{}, errors.New("a key that was made a moment ago is said to be in use")
	}
	t.id = created.DecisionID
	return t.compare(created.Event, "decision_created", t.decision.Payload(t.specVersion(created)))
}

// specVersion is a part of the payload that the service adds.
func (t *trial) specVersion(created loopgrid.Created) string {
	if v := evidence.GetText(created.Event.Payload, "spec_version"); v != "" {
		return v
	}
	return loopgrid.DefaultSpecVersion
}

func (t *trial) createAgain(ctx context.Context) (said, error) {
	again, err := t.send(ctx)
	switch {
	case err != nil:
		return said{}, err
	case !again.Replayed || again.DecisionID != t.id:
		return said{}, fmt.Errorf("the same idempotency key made decision %s besides %s", again.DecisionID, t.id)
	}
	return saying("the same key returns the same decision"), nil
}

// send sends the decision of the trial.
func (t *trial) send(ctx context.Context) (created loopgrid.Created, err error) {
	err = t.write(ctx, func(w *loopgrid.Turn) error {
		created, err = w.CreateDecision(ctx, &t.decision)
		return err
	})
	return created, err
}

func (t *trial) model(ctx context.Context) (said, error) {
	return t.append(ctx, &loopgrid.NewEvent{
		EventType: "model_completed", ActorType: "agent", ActorID: agent,
		Payload: jsontext.Value(`{"text":"a synthetic answer: größer, 更多, 😀 <&>","numbers":` + exact.Numbers + `}`),
	})
}

func (t *trial) policy(ctx context.Context) (said, error) {
	var evaluation loopgrid.Evaluation
	err := t.write(ctx, func(w *loopgrid.Turn) (err error) {
		evaluation, err = w.EvaluatePolicy(ctx, policyID, t.decision.ProposedAction, t.decision.Authority, t.decision.Context)
		return err
	})
	var api *loopgrid.APIError
	switch {
	case errors.As(err, &api) && api.Status == 404:
		return said{"this workspace has no active " + policyID, true}, nil
	case err != nil:
		return said{}, err
	case evaluation.Decision != "auto_allowed":
		// Recorded, it would forbid the action that is still to come. Without a policy result nothing does.
		return said{fmt.Sprintf("this workspace's %s says %s of a refund of 320 USD, so its result is not recorded", policyID, evaluation.Decision), true}, nil
	}
	recorded, err := t.append(ctx, &loopgrid.NewEvent{
		EventType: "policy_evaluated", ActorType: "policy", ActorID: policyID, Payload: evaluation.Raw,
	})
	recorded.what += ": " + evaluation.Decision
	return recorded, err
}

func (t *trial) action(ctx context.Context) (said, error) {
	return t.append(ctx, &loopgrid.NewEvent{
		EventType: "tool_executed", ActorType: "tool", ActorID: agent,
		Payload: jsontext.Value(`{"tool":"synthetic.refund","external_reference":"synthetic","amount":320.0,"numbers":` + exact.Numbers + `}`),
	})
}

func (t *trial) outcome(ctx context.Context) (said, error) {
	return t.append(ctx, &loopgrid.NewEvent{
		EventType: "outcome_observed", ActorType: "integration", ActorID: agent,
		Payload: jsontext.Value(`{"status":"synthetic","verified_against":"nothing","numbers":` + exact.Numbers + `}`),
	})
}

// readBack compares what the service holds with what was sent.
func (t *trial) readBack(ctx context.Context) (said, error) {
	record, err := t.client.GetDecision(ctx, t.id)
	if err != nil {
		return said{}, err
	}
	if len(record.Events) != len(t.recorded) {
		return said{}, fmt.Errorf("the decision has %d events, not %d", len(record.Events), len(t.recorded))
	}
	for i, r := range t.recorded {
		event := record.Events[i]
		if event.EventID != r.event.EventID {
			return said{}, fmt.Errorf("event %d is %s, not %s", i+1, event.EventID, r.event.EventID)
		}
		if err := exact.Same(event.Payload, r.sent); err != nil {
			return said{}, fmt.Errorf("the payload of %s: %w", event.EventType, err)
		}
	}
	return saying("%d events, state %s, every number as it was sent", len(record.Events), record.State), nil
}

func (t *trial) verify(ctx context.Context) (said, error) {
	v, err := t.client.Verify(ctx, t.id)
	switch {
	case err != nil:
		return said{}, err
	case !v.Valid:
		return said{}, fmt.Errorf("the workspace's chain is not valid: %.300s", v.Raw)
	}
	return saying("the chain of the workspace is valid"), nil
}

// evidence reads the bundle, which is kept in memory only.
func (t *trial) evidence(ctx context.Context) (said, error) {
	body, err := t.client.Evidence(ctx, t.id, true)
	if err != nil {
		return said{}, err
	}
	bundle, err := io.ReadAll(body)
	if err = errors.Join(err, body.Close()); err != nil {
		return said{}, err
	}
	archive, err := zip.NewReader(bytes.NewReader(bundle), int64(len(bundle)))
	if err != nil {
		return said{}, fmt.Errorf("open the ZIP: %w", err)
	}
	manifest, err := entry(archive, "manifest.json")
	if err != nil {
		return said{}, err
	}
	if id := evidence.GetText(manifest, "decision_id"); id != t.id {
		return said{}, fmt.Errorf("the manifest names decision %q, not %s", id, t.id)
	}
	disclosures, err := entry(archive, "disclosures.jsonl")
	if err != nil {
		return said{}, err
	}
	disclosed := map[string]jsontext.Value{}
	for line := range strings.Lines(string(disclosures)) {
		for name, value := range evidence.Members(jsontext.Value(line)) {
			if name == "payload" {
				disclosed[evidence.GetText(jsontext.Value(line), "event_id")] = value
			}
		}
	}
	for _, r := range t.recorded {
		if err := exact.Same(disclosed[r.event.EventID], r.sent); err != nil {
			return said{}, fmt.Errorf("the payload of %s in disclosures.jsonl: %w", r.event.EventType, err)
		}
	}
	return saying("a ZIP of %d bytes with %d entries, every number as it was sent", len(bundle), len(archive.File)), nil
}

func entry(archive *zip.Reader, name string) (jsontext.Value, error) {
	file, err := archive.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open %s in the ZIP: %w", name, err)
	}
	content, err := io.ReadAll(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("read %s in the ZIP: %w", name, err)
	}
	return content, nil
}

// write calls do in its turn among the writers of this machine: two writes at once can break LoopGrid's chain.
func (t *trial) write(ctx context.Context, do func(*loopgrid.Turn) error) error {
	w := t.client.NewTurn()
	defer w.End()
	if err := w.Begin(ctx); err != nil {
		return err
	}
	return do(w)
}

// append records an event of the decision.
func (t *trial) append(ctx context.Context, e *loopgrid.NewEvent) (said, error) {
	e.IdempotencyKey = newKey()
	var event loopgrid.Event
	err := t.write(ctx, func(w *loopgrid.Turn) (err error) {
		event, _, err = w.AppendEvent(ctx, t.id, e)
		return err
	})
	if err != nil {
		return said{}, err
	}
	return t.compare(event, e.EventType, e.Payload)
}

// compare checks that the service recorded what was sent, by its own answer and by the commitment that it signed.
func (t *trial) compare(event loopgrid.Event, eventType string, sent jsontext.Value) (said, error) {
	t.recorded = append(t.recorded, recorded{event, sent})
	commitment, err := evidence.Commitment(sent)
	switch {
	case err != nil:
		return said{}, fmt.Errorf("compute the commitment: %w", err)
	case event.EventType != eventType:
		return said{}, fmt.Errorf("the event recorded is %q", event.EventType)
	case event.DecisionID != t.id:
		return said{}, fmt.Errorf("the event is of decision %q, not %s", event.DecisionID, t.id)
	case event.PayloadCommitment != commitment:
		return said{}, fmt.Errorf("the commitment is %q, but that of what was sent is %s", event.PayloadCommitment, commitment)
	}
	if err := exact.Same(event.Payload, sent); err != nil {
		return said{}, fmt.Errorf("the payload of %s: %w", event.EventID, err)
	}
	return saying("%s %s", event.EventID, eventType), nil
}

func newKey() string { return "lgm-smoke-" + strings.ToLower(rand.Text()) }
