package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/examples/story"
	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
	"github.com/loopgridio/loopgrid-mcp/scripts/exact"
)

// rest walks the story by REST: it answers the calls of tools with requests to LoopGrid.
type rest struct {
	client   *loopgrid.Client
	reviews  bool   // may record a synthetic review
	dir      string // of the evidence file
	recorded []recorded
}

// recorded is an event that was recorded, and the payload that was sent for it.
type recorded struct {
	event loopgrid.Event
	sent  jsontext.Value
}

// Call sends the requests behind a tool. A request that LoopGrid refuses is a refusal of the tool.
func (r *rest) Call(ctx context.Context, tool, arguments string) (story.Answer, error) {
	args := jsontext.Value(arguments)
	id := evidence.GetText(args, "decision_id")
	var fields []evidence.Field
	var err error
	switch tool {
	case "record_decision":
		fields, err = r.decide(ctx, args)
	case "record_action", "record_outcome":
		fields, err = r.observe(ctx, id, tool, args)
	case "record_review":
		fields, err = r.review(ctx, id, args)
	case "get_evidence":
		fields, err = r.export(ctx, id)
	case "verify_evidence":
		var v loopgrid.Verification
		v, err = r.client.Verify(ctx, id)
		fields = []evidence.Field{{Name: "verification", Value: v.Raw}}
	}
	if api := new(loopgrid.APIError); errors.As(err, &api) {
		return story.Answer{Text: "Not recorded: " + err.Error(), Refused: true}, nil
	}
	return story.Answer{Text: string(evidence.Object(fields...))}, err
}

// decide records a decision, what the model said, and what the policy says of it.
func (r *rest) decide(ctx context.Context, args jsontext.Value) ([]evidence.Field, error) {
	d := &loopgrid.Decision{
		DecisionType: evidence.GetText(args, "decision_type"), ServiceName: evidence.GetText(args, "service_name"),
		PrivacyMode: evidence.GetText(args, "privacy_mode"), IdempotencyKey: evidence.GetText(args, "idempotency_key"),
		Agent:     evidence.Object(evidence.Field{Name: "id", Value: evidence.Get(args, "agent_id")}),
		Authority: evidence.Get(args, "authority"), Model: evidence.Get(args, "model"), Context: evidence.Get(args, "context"),
		Input: evidence.Get(args, "input_data"), ProposedAction: evidence.Get(args, "proposed_action"), Metadata: evidence.Get(args, "metadata"),
	}
	policy := evidence.GetText(args, "policy_id")
	var evaluation loopgrid.Evaluation
	var created loopgrid.Created
	err := r.write(ctx, func(w *loopgrid.Turn) (err error) {
		if policy != "" {
			if evaluation, err = w.EvaluatePolicy(ctx, policy, d.ProposedAction, d.Authority, d.Context); err != nil {
				return err
			}
		}
		created, err = w.CreateDecision(ctx, d)
		return err
	})
	if api := new(loopgrid.APIError); errors.As(err, &api) && api.Status == 404 {
		return nil, fmt.Errorf("no active policy: %w", err)
	}
	if err != nil {
		return nil, err
	}
	fields := []evidence.Field{text("decision_id", created.DecisionID), truth("captured", true), truth("action_executed", false)}
	if created.Replayed {
		return append(fields, truth("idempotent_replay", true)), nil
	}
	r.recorded = nil
	version := evidence.GetText(created.Event.Payload, "spec_version")
	if version == "" {
		version = loopgrid.DefaultSpecVersion
	}
	proven, err := r.compare(created.DecisionID, created.Event, "decision_created", d.Payload(version))
	if err != nil {
		return nil, err
	}
	model, err := r.append(ctx, created.DecisionID, &loopgrid.NewEvent{
		EventType: "model_completed", ActorType: "agent", ActorID: evidence.GetText(args, "agent_id"), Payload: evidence.Get(args, "model_output"),
	})
	if err != nil {
		return nil, err
	}
	fields = append(fields, proven, evidence.Field{Name: "model_event", Value: model.Raw})
	// Another result would forbid the action that is still to come, so it is not recorded. Without a policy result nothing does.
	if policy == "" || evaluation.Decision != "auto_allowed" && evaluation.Decision != "human_approval_required" {
		return append(fields, evidence.Field{Name: "policy_evaluation", Value: orNull(evaluation.Raw)}), nil
	}
	_, err = r.append(ctx, created.DecisionID, &loopgrid.NewEvent{
		EventType: "policy_evaluated", ActorType: "policy", ActorID: policy, Payload: evaluation.Raw,
	})
	return append(fields, evidence.Field{Name: "policy_evaluation", Value: evaluation.Raw}, text("next", evaluation.Decision)), err
}

// observe records an action or an outcome.
func (r *rest) observe(ctx context.Context, id, tool string, args jsontext.Value) ([]evidence.Field, error) {
	e := &loopgrid.NewEvent{EventType: "tool_executed", ActorType: "tool", ActorID: evidence.GetText(args, "actor_id"), Payload: evidence.Get(args, "details")}
	if tool == "record_outcome" {
		e.EventType, e.ActorType = "outcome_observed", "integration"
	}
	var fields []evidence.Field
	for name, value := range evidence.Members(args) {
		if name != "decision_id" && name != "actor_id" && name != "details" {
			fields = append(fields, evidence.Field{Name: name, Value: value})
		}
	}
	e.Payload = evidence.Merge(e.Payload, fields...)
	event, err := r.append(ctx, id, e)
	return []evidence.Field{truth("recorded", true), truth("commitment_verified", true), {Name: "event", Value: event.Raw}}, err
}

// review records a review. A program must not sign for a person in a ledger that proves something, so it is for a sandbox alone.
func (r *rest) review(ctx context.Context, id string, args jsontext.Value) ([]evidence.Field, error) {
	if !r.reviews {
		return []evidence.Field{truth("disabled", true), text("message", "this is no sandbox, and a review is a person's to make")}, nil
	}
	review := &loopgrid.Review{Action: evidence.GetText(args, "action"), Reviewer: agent, Reason: evidence.GetText(args, "reason")}
	var reviewed loopgrid.Reviewed
	err := r.write(ctx, func(w *loopgrid.Turn) (err error) {
		reviewed, err = w.Review(ctx, id, review)
		return err
	})
	if err == nil {
		_, err = r.compare(id, reviewed.Event, "human_approved", review.Payload())
	}
	return []evidence.Field{text("state", review.Action), text("human_confirmation", "host")}, err
}

// export downloads the evidence, with the payloads, into a file.
func (r *rest) export(ctx context.Context, id string) ([]evidence.Field, error) {
	body, err := r.client.Evidence(ctx, id, true)
	if err != nil {
		return nil, err
	}
	bundle, err := io.ReadAll(body)
	path := filepath.Join(r.dir, id+"-evidence.zip")
	if err = errors.Join(err, body.Close()); err == nil {
		err = os.WriteFile(path, bundle, 0o600)
	}
	if err != nil {
		return nil, err
	}
	record, err := r.client.GetDecision(ctx, id)
	if err != nil {
		return nil, err
	}
	verified, err := r.client.Verify(ctx, id)
	sum := sha256.Sum256(bundle)
	return []evidence.Field{
		truth("downloaded", true),
		{Name: "lifecycle", Value: evidence.Object(text("state", record.State))},
		{Name: "server_verification", Value: verified.Raw},
		{Name: "bundle", Value: evidence.Object(text("path", path), text("sha256", hex.EncodeToString(sum[:])),
			evidence.Field{Name: "bytes", Value: jsontext.Value(strconv.Itoa(len(bundle)))})},
	}, err
}

// write calls do in its turn among the writers of this machine: two writes at once can break LoopGrid's chain.
func (r *rest) write(ctx context.Context, do func(*loopgrid.Turn) error) error {
	w := r.client.NewTurn()
	defer w.End()
	if err := w.Begin(ctx, loopgrid.Subject{}); err != nil {
		return err
	}
	return do(w)
}

// append records an event of a decision.
func (r *rest) append(ctx context.Context, id string, e *loopgrid.NewEvent) (event loopgrid.Event, err error) {
	e.IdempotencyKey = "lgm-smoke-" + rand.Text()
	err = r.write(ctx, func(w *loopgrid.Turn) (err error) {
		event, _, err = w.AppendEvent(ctx, id, e)
		return err
	})
	if err == nil {
		_, err = r.compare(id, event, e.EventType, e.Payload)
	}
	return event, err
}

// compare checks that LoopGrid recorded what was sent, by its own answer and by the commitment that it signed.
func (r *rest) compare(id string, event loopgrid.Event, eventType string, sent jsontext.Value) (evidence.Field, error) {
	r.recorded = append(r.recorded, recorded{event, sent})
	commitment, err := evidence.Commitment(sent)
	switch {
	case err != nil:
		return evidence.Field{}, fmt.Errorf("compute the commitment: %w", err)
	case event.EventType != eventType || event.DecisionID != id:
		return evidence.Field{}, fmt.Errorf("the event recorded is %q of decision %q", event.EventType, event.DecisionID)
	case event.PayloadCommitment != commitment:
		return evidence.Field{}, fmt.Errorf("the commitment of %s is %q, but that of what was sent is %s", eventType, event.PayloadCommitment, commitment)
	}
	if err := exact.Same(event.Payload, sent); err != nil {
		return evidence.Field{}, fmt.Errorf("the payload of %s: %w", eventType, err)
	}
	return truth("commitment_verified", true), nil
}

func text(name, value string) evidence.Field {
	return evidence.Field{Name: name, Value: evidence.Text(value)}
}

func truth(name string, value bool) evidence.Field {
	return evidence.Field{Name: name, Value: jsontext.Value(strconv.FormatBool(value))}
}

func orNull(v jsontext.Value) jsontext.Value {
	if v == nil {
		return jsontext.Value("null")
	}
	return v
}
