package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

const reviewer = "alice@acme.example"

// step is one decision, what a model proposes for it, and what the person answers. The marshaled part is for the client.
type step struct {
	name string
	want want

	Decision map[string]any `json:"decision"`
	Review   map[string]any `json:"review"`
	Answer   map[string]any `json:"answer"`
	CanAsk   bool           `json:"canAsk"`
}

// want is what has to come of a step.
type want struct {
	state        string // recorded; empty where nothing is
	confirmation string
	text         string // a part of the result's text
}

// event is what happened in a step, as the client tells it.
type event struct {
	Questions []struct {
		Message string          `json:"message"`
		Schema  json.RawMessage `json:"schema"`
	} `json:"questions"`
	Text    string `json:"text"`
	IsError bool   `json:"isError"`
	Version string `json:"version"` // of the protocol; empty where the client does not tell
}

// plan returns what every client goes through.
func plan() []step {
	answering := func(action string, content map[string]any) map[string]any {
		answer := map[string]any{"action": action}
		if content != nil {
			answer["content"] = content
		}
		return answer
	}
	steps := []step{
		{
			name: "approve", want: want{state: "approve", confirmation: "elicited", text: `"reason":"Charged twice: größer, 更多 😀"`},
			Answer: answering("accept", map[string]any{"action": "approve", "reason": "Charged twice: größer, 更多 😀"}),
		},
		{
			name: "reject what the model would approve", want: want{state: "reject", confirmation: "elicited", text: "The call proposed approve and the person chose reject"},
			Answer: answering("accept", map[string]any{"action": "reject"}),
		},
		{name: "decline", want: want{text: "Not recorded: "}, Answer: answering("decline", nil)},
		{name: "cancel", want: want{text: "Not recorded: "}, Answer: answering("cancel", nil)},
		{name: "undecided", want: want{text: "Not recorded: "}, Answer: answering("accept", map[string]any{"action": "undecided", "reason": "later"})},
		{name: "accept nothing", want: want{text: "ecorded"}, Answer: answering("accept", map[string]any{})},
		{name: "cannot be asked", want: want{state: "approve", confirmation: "host"}},
	}
	for i := range steps {
		steps[i].CanAsk = steps[i].Answer != nil
		steps[i].Decision = map[string]any{
			"decision_type": "loopgrid_mcp_review_test", "policy_id": "refund-policy",
			"proposed_action": map[string]any{"tool": "synthetic.refund", "amount": 720, "currency": "USD"},
		}
		steps[i].Review = map[string]any{"action": "approve", "reason": "The model's words."}
	}
	return steps
}

// check compares what happened with what is wanted.
func (s step) check(e event, version string) error {
	if e.Version != "" && e.Version != version {
		return fmt.Errorf("the protocol agreed on is %s, not %s", e.Version, version)
	}
	if s.CanAsk != (len(e.Questions) == 1) {
		return fmt.Errorf("the person was asked %d times", len(e.Questions))
	}
	for _, q := range e.Questions {
		lines := strings.Split(q.Message, "\n")
		if first := lines[0]; !strings.Contains(first, "synthetic.refund") || !strings.Contains(first, "amount 720") {
			return fmt.Errorf("the form does not begin with the decision, but with %q", first)
		}
		for _, line := range []string{"- amount: 720", "- reviewer of record: " + reviewer, `The model says: approve, "The model's words."`} {
			if !slices.Contains(lines, line) {
				return fmt.Errorf("the form has no line %q, but is:\n%s", line, q.Message)
			}
		}
		var schema struct {
			Required   []string                  `json:"required"`
			Properties map[string]map[string]any `json:"properties"`
		}
		if err := json.Unmarshal(q.Schema, &schema); err != nil {
			return fmt.Errorf("the form's schema: %w", err)
		}
		if _, prefilled := schema.Properties["action"]["default"]; prefilled || !slices.Equal(schema.Required, []string{"action"}) {
			return errors.New("the form does not ask for a choice")
		}
	}
	if !strings.Contains(e.Text, s.want.text) {
		return fmt.Errorf("the result is %s", e.Text)
	}
	if s.want.state == "" {
		if !e.IsError {
			return fmt.Errorf("the result is no error: %s", e.Text)
		}
		return nil
	}
	result := jsontext.Value(e.Text)
	state, confirmation := evidence.GetText(result, "state"), evidence.GetText(result, "human_confirmation")
	if e.IsError || state != s.want.state || confirmation != s.want.confirmation {
		return fmt.Errorf("recorded is %q with human_confirmation %q: %s", state, confirmation, e.Text)
	}
	return nil
}
