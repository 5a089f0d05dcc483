// Package story walks the story that loopgrid-mcp exists for: an agent proposes a refund, the policy asks for a person, the person
// approves, and the refund, its outcome and the whole chain become signed evidence.
//
// It is the one walker behind the quickstart and the tests that try a program or a service from outside. It knows the tools and what
// they have to answer; how a call gets there is up to a [Caller], and what a person reads is up to a [Teller].
package story

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/scripts/exact"
)

// Caller calls a tool by its name without prefix, such as "record_decision". The arguments are a JSON object. The error says that the
// call got no answer; a refusal is an answer.
type Caller interface {
	Call(ctx context.Context, tool, arguments string) (Answer, error)
}

// Answer is what a tool answered: a JSON object, or the reason for a refusal.
type Answer struct {
	Text    string
	Refused bool
}

// Teller hears about each step before it is taken and after it went well.
type Teller interface {
	Begin(Step)
	End(Step, Told)
}

// Step is one turn of the story.
type Step struct {
	Tool  string // that is called
	Name  string // a word or two, for a line of a report
	Title string // a sentence
}

// Told is what came of a step.
type Told struct {
	Facts   []Fact
	Quote   string // what the tool says to the model
	Skipped string // why the step was not taken; empty if it was
}

// String returns the facts in a line.
func (t Told) String() string {
	var facts []string
	for _, fact := range t.Facts {
		facts = append(facts, fact.Name+" "+fact.Value)
	}
	return strings.Join(facts, ", ")
}

// Fact is a name and its value.
type Fact struct{ Name, Value string }

// Story is the story of one run.
type Story struct {
	Caller

	// DecisionType and Agent are recorded with the evidence. Agent is also the actor of the action and the outcome.
	DecisionType, Agent string
	// Confirmation is the expected human_confirmation of the review: "elicited" where a person answers a form, "host" where the host
	// shows none. Empty: nobody can review here, and a smaller refund goes on without a person.
	Confirmation string
	// Bundle is the path of the evidence file after the walk.
	Bundle string
	// Decision is the id of the decision that was acted on.
	Decision string

	proposal string // the arguments of the decision that was acted on
}

const (
	policy    = "refund-policy" // LoopGrid ships it
	allowed   = "auto_allowed"
	needsOne  = "human_approval_required"
	synthetic = `{"synthetic":true,"text":"größer, 更多, 😀 <&>","numbers":` + exact.Numbers + `}`
	refund    = `"tool":"payments.refund","external_reference":"synthetic-1"`
	observed  = `"status":"refunded","verified_against":"payments.refunds","external_reference":"synthetic-1"`
)

// Walk walks the story to its end, or to the first answer that is not as it should be.
func (s *Story) Walk(ctx context.Context, t Teller) error {
	w := &walk{Story: s, teller: t}
	w.step(ctx, Step{"record_decision", "decision", "An agent proposes a refund of 720 USD, and the refund policy is asked"}, w.proposeLarge)
	if w.waiting {
		w.step(ctx, Step{"record_action", "early action", "It acts without waiting for a person, and the action is refused"}, w.actTooEarly)
		w.step(ctx, Step{"record_review", "review", "A person is asked to approve"}, w.review)
	}
	if w.waiting {
		w.step(ctx, Step{"record_decision", "decision", "The agent proposes a refund of 320 USD, which needs no person"}, w.proposeSmall)
	}
	w.step(ctx, Step{"record_action", "action", "The refund is made elsewhere, and recorded"}, w.act)
	w.step(ctx, Step{"record_outcome", "outcome", "What came of it is observed, and recorded"}, w.observe)
	w.step(ctx, Step{"record_decision", "repeat", "The agent repeats its first call with the same key, and nothing is recorded twice"}, w.repeat)
	w.step(ctx, Step{"get_evidence", "evidence", "The evidence is exported as a file"}, w.export)
	w.step(ctx, Step{"verify_evidence", "verify", "The signed chain is verified"}, w.verify)
	return w.err
}

// walk is a story on its way.
type walk struct {
	*Story

	teller  Teller
	waiting bool  // the decision waits for a person
	err     error // of the step that failed: those after it are not taken
}

func (w *walk) step(ctx context.Context, step Step, take func(context.Context) (Told, error)) {
	if w.err != nil {
		return
	}
	w.teller.Begin(step)
	told, err := take(ctx)
	if err != nil {
		w.err = fmt.Errorf("%s: %w", step.Name, err)
		return
	}
	w.teller.End(step, told)
}

func (w *walk) proposeLarge(ctx context.Context) (Told, error) {
	return w.propose(ctx, "720.00", policy, needsOne)
}

func (w *walk) proposeSmall(ctx context.Context) (Told, error) {
	return w.propose(ctx, "320.00", policy, allowed)
}

// propose records the decision to refund an amount. Where the policy is missing, or is not the one that LoopGrid ships, the story goes on
// with a decision that no policy was asked about.
func (w *walk) propose(ctx context.Context, amount, policyID, expected string) (Told, error) {
	arguments := fmt.Sprintf(`{"decision_type":%q,"agent_id":%q,"service_name":%q,"privacy_mode":"full","idempotency_key":%q,`+
		`"proposed_action":{"tool":"payments.refund","amount":%s,"currency":"USD","order":"A-1001"},"authority":{"limit_usd":1500},`+
		`"input_data":%s,"model":%[6]s,"context":%[6]s,"metadata":%[6]s,"model_output":%[6]s`,
		w.DecisionType, w.Agent, w.Agent, newKey(), amount, synthetic)
	if policyID != "" {
		arguments += `,"policy_id":"` + policyID + `"`
	}
	w.proposal = arguments + "}"
	answer, err := w.Call(ctx, "record_decision", w.proposal)
	if err == nil && answer.Refused && policyID != "" && strings.Contains(answer.Text, "no active policy") {
		return w.withoutPolicy(ctx, amount, "this workspace has no active "+policyID)
	}
	r, err := succeeded(answer, err)
	if err != nil {
		return Told{}, err
	}
	w.Decision, w.waiting = r.DecisionID, r.Policy.Decision == needsOne
	told := Told{Facts: []Fact{{"decision", r.DecisionID}}, Quote: r.Next}
	if policyID != "" {
		told.Facts = append(told.Facts, Fact{"policy", r.Policy.Decision + " (" + r.Policy.Reason + ")"})
		if r.Policy.Decision != expected && expected == allowed {
			return w.withoutPolicy(ctx, amount, fmt.Sprintf("the %s here says %s of %s USD", policyID, r.Policy.Decision, amount))
		}
	}
	switch {
	case r.DecisionID == "" || !r.Captured:
		return Told{}, errors.New("the decision was not captured")
	case r.ActionExecuted == nil || *r.ActionExecuted:
		return Told{}, errors.New("the result does not say that no action was carried out")
	case policyID != "" && r.Policy.Decision != expected:
		return Told{}, fmt.Errorf("the policy says %q of %s USD, not %q", r.Policy.Decision, amount, expected)
	case policyID != "" && !strings.HasPrefix(r.Next, expected):
		return Told{}, fmt.Errorf("next does not begin with the policy's result: %s", r.Next)
	}
	return told, errors.Join(r.proven(), exact.Same(r.ModelEvent.Payload, jsontext.Value(synthetic)))
}

func (w *walk) withoutPolicy(ctx context.Context, amount, why string) (Told, error) {
	told, err := w.propose(ctx, amount, "", "")
	told.Facts = append(told.Facts, Fact{"policy", "not asked: " + why})
	return told, err
}

// actTooEarly shows that the action of a decision that waits for a person cannot be recorded.
func (w *walk) actTooEarly(ctx context.Context) (Told, error) {
	answer, err := w.Call(ctx, "record_action", w.about(refund))
	switch {
	case err != nil:
		return Told{}, err
	case !answer.Refused:
		return Told{}, fmt.Errorf("record_action was not refused: %s", answer.Text)
	case !strings.HasPrefix(answer.Text, "Not recorded") || !strings.Contains(answer.Text, "approval_required"):
		return Told{}, fmt.Errorf("the refusal does not say that the action was not recorded, and why: %s", answer.Text)
	}
	return Told{Facts: []Fact{{"refused", "approval_required"}}, Quote: answer.Text}, nil
}

// review has a person approve. Without one it shows that the agent cannot approve its own refund.
func (w *walk) review(ctx context.Context) (Told, error) {
	answer, err := w.Call(ctx, "record_review", w.about(`"action":"approve","reason":"the parcel never arrived"`))
	r, err := succeeded(answer, err)
	switch {
	case err != nil:
		return Told{}, err
	case w.Confirmation == "" && (!r.Disabled || r.Recorded):
		return Told{}, fmt.Errorf("the review tool is not disabled by default: %s", answer.Text)
	case w.Confirmation == "":
		return Told{Skipped: "nobody can review here: " + r.Message}, nil
	case r.State != "approve" || r.Confirmation != w.Confirmation:
		return Told{}, fmt.Errorf("the approval was not recorded as %q: %s", w.Confirmation, answer.Text)
	}
	w.waiting = false
	return Told{Facts: []Fact{{"state", r.State}, {"confirmed", r.Confirmation}}}, nil
}

func (w *walk) act(ctx context.Context) (Told, error) { return w.record(ctx, "record_action", refund) }

func (w *walk) observe(ctx context.Context) (Told, error) {
	return w.record(ctx, "record_outcome", observed)
}

// record records an event whose payload is the details together with those arguments.
func (w *walk) record(ctx context.Context, tool, arguments string) (Told, error) {
	answer, err := w.Call(ctx, tool, w.about(`"actor_id":"`+w.Agent+`","details":`+synthetic+`,`+arguments))
	r, err := succeeded(answer, err)
	if err != nil {
		return Told{}, err
	}
	if !r.Recorded || r.Event.ID == "" {
		return Told{}, fmt.Errorf("the event was not recorded: %s", answer.Text)
	}
	payload := strings.TrimSuffix(synthetic, "}") + "," + arguments + "}"
	return Told{Facts: []Fact{{"event", r.Event.ID + " " + r.Event.Type}}}, errors.Join(r.proven(), exact.Same(r.Event.Payload, jsontext.Value(payload)))
}

// repeat sends the decision again under its key.
func (w *walk) repeat(ctx context.Context) (Told, error) {
	answer, err := w.Call(ctx, "record_decision", w.proposal)
	r, err := succeeded(answer, err)
	if err == nil && (!r.Replayed || r.DecisionID != w.Decision) {
		err = fmt.Errorf("the same key does not lead to decision %s: %s", w.Decision, answer.Text)
	}
	return Told{Facts: []Fact{{"decision", w.Decision}}}, err
}

// export has the evidence written to a file, and looks at it.
func (w *walk) export(ctx context.Context) (Told, error) {
	answer, err := w.Call(ctx, "get_evidence", w.about(""))
	r, err := succeeded(answer, err)
	if err != nil {
		return Told{}, err
	}
	if !r.Downloaded || r.Lifecycle.State != "evidence_complete" || !r.ServerVerification.Valid {
		return Told{}, fmt.Errorf("the evidence is not complete and valid: %s", answer.Text)
	}
	file, err := os.ReadFile(r.Bundle.Path)
	if err != nil {
		return Told{}, fmt.Errorf("read the evidence: %w", err)
	}
	sum := sha256.Sum256(file)
	if hex.EncodeToString(sum[:]) != r.Bundle.SHA256 || int64(len(file)) != r.Bundle.Bytes {
		return Told{}, errors.New("the file on disk is not the one in the result")
	}
	w.Bundle = r.Bundle.Path
	return Told{Facts: []Fact{
		{"state", r.Lifecycle.State},
		{"evidence", r.Bundle.Path},
		{"sha256", r.Bundle.SHA256},
		{"bytes", strconv.FormatInt(r.Bundle.Bytes, 10)},
	}}, nil
}

func (w *walk) verify(ctx context.Context) (Told, error) {
	answer, err := w.Call(ctx, "verify_evidence", w.about(""))
	r, err := succeeded(answer, err)
	if err == nil && !r.Verification.Valid {
		err = fmt.Errorf("the chain of the workspace is not valid: %s", answer.Text)
	}
	if err != nil {
		return Told{}, err
	}
	return Told{Facts: []Fact{{"verified", fmt.Sprintf("valid, %d events in the signed chain", r.Verification.Events)}}}, nil
}

// about returns the arguments of a call about the decision.
func (w *walk) about(members string) string {
	if members != "" {
		members = "," + members
	}
	return `{"decision_id":"` + w.Decision + `"` + members + `}`
}

// result is what the story reads of the results of all tools.
type result struct {
	DecisionID         string `json:"decision_id"`
	Captured           bool   `json:"captured"`
	Replayed           bool   `json:"idempotent_replay"`
	ActionExecuted     *bool  `json:"action_executed"`
	Recorded           bool   `json:"recorded"`
	Disabled           bool   `json:"disabled"`
	Downloaded         bool   `json:"downloaded"`
	Message            string `json:"message"`
	Next               string `json:"next"`
	State              string `json:"state"`
	Confirmation       string `json:"human_confirmation"`
	CommitmentVerified *bool  `json:"commitment_verified"`
	ModelEvent         event  `json:"model_event"`
	Event              event  `json:"event"`
	Policy             struct {
		Decision string `json:"decision"`
		Reason   string `json:"reason"`
	} `json:"policy_evaluation"`
	Verification       verification `json:"verification"`
	ServerVerification verification `json:"server_verification"`
	Lifecycle          struct {
		State string `json:"state"`
	} `json:"lifecycle"`
	Bundle struct {
		Path   string `json:"path"`
		SHA256 string `json:"sha256"`
		Bytes  int64  `json:"bytes"`
	} `json:"bundle"`
}

type event struct {
	ID      string         `json:"event_id"`
	Type    string         `json:"event_type"`
	Payload jsontext.Value `json:"payload"` // its digits are what is compared
}

type verification struct {
	Valid  bool `json:"valid"`
	Events int  `json:"total_ledger_events"`
}

// succeeded reads the answer of a call that has to succeed.
func succeeded(answer Answer, err error) (*result, error) {
	if err != nil {
		return nil, err
	}
	if answer.Refused {
		return nil, errors.New(answer.Text)
	}
	r := &result{}
	if err := json.Unmarshal([]byte(answer.Text), r); err != nil {
		return nil, fmt.Errorf("read the result: %w", err)
	}
	return r, nil
}

// proven says whether LoopGrid signed what was sent.
func (r *result) proven() error {
	if r.CommitmentVerified == nil || !*r.CommitmentVerified {
		return errors.New("what was recorded is not proven to be what was sent")
	}
	return nil
}
