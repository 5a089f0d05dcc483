package story

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/bridge"
)

// Whatever is not as it should be ends the story with an error that names it.
func TestWalkNoticesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit     func(*program)
		expected string
	}{
		"nothing":               {func(*program) {}, ""},
		"nobody reviews":        {nobodyReviews, ""},
		"policy":                {edit("record_decision 720.00", needsOne, allowed), `the policy says "auto_allowed" of 720.00 USD`},
		"next":                  {edit("record_decision 720.00", `"next":"human_approval_required`, `"next":"go`), "next does not begin"},
		"commitment differs":    {edit("record_decision 720.00", `"commitment_verified":true`, `"commitment_verified":false`), "decision: what was recorded is not proven"},
		"commitment is unknown": {edit("record_action dec_720", `"commitment_verified":true`, `"commitment_verified":null`), "action: what was recorded is not proven"},
		"digits of the model":   {edit("record_decision 720.00", "720.0,", "720,"), "decision: it is not what was sent"},
		"digits of the action":  {edit("record_action dec_720", "9007199254740993", "9007199254740992"), "action: it is not what was sent"},
		"digits of the outcome": {edit("record_outcome dec_720", "-0.0", "0.0"), "outcome: it is not what was sent"},
		"not captured":          {edit("record_decision 720.00", `"captured":true`, `"captured":false`), "not captured"},
		"executed":              {edit("record_decision 720.00", `"action_executed":false`, `"action_executed":true`), "no action was carried out"},
		"action not refused":    {func(p *program) { p.early = "" }, "record_action was not refused"},
		"refusal is vague":      {func(p *program) { p.early = "Not recorded: no" }, "does not say that the action was not recorded"},
		"review disabled":       {edit("record_review dec_720", `"state":"approve"`, `"disabled":true`), "the approval was not recorded"},
		"review by the model":   {edit("record_review dec_720", "elicited", "host"), "the approval was not recorded"},
		"review enabled": {func(p *program) {
			nobodyReviews(p)
			edit("record_review dec_720", `"disabled":true`, `"recorded":true`)(p)
		}, "not disabled by default"},
		"action not recorded": {edit("record_action dec_720", `"recorded":true`, `"recorded":false`), "action: the event was not recorded"},
		"recorded twice":      {edit("again", "dec_720", "dec_721"), "repeat: the same key does not lead to decision dec_720"},
		"not valid":           {edit("verify_evidence dec_720", "true", "false"), "the chain of the workspace is not valid"},
		"not complete":        {edit("get_evidence dec_720", "evidence_complete", "awaiting_outcome"), "not complete and valid"},
		"sha256":              {edit("get_evidence dec_720", `"sha256":"4`, `"sha256":"x`), "not the one in the result"},
		"size":                {edit("get_evidence dec_720", `"bytes":3`, `"bytes":4`), "not the one in the result"},
		"no file":             {edit("get_evidence dec_720", "evidence.zip", "nothing.zip"), "read the evidence"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := wellBehaved(t)
			c.edit(p)
			s := &Story{Caller: p, DecisionType: "t", Agent: "a", Confirmation: p.confirmation}
			err := s.Walk(t.Context(), p)
			if c.expected != "" {
				require.ErrorContains(t, err, c.expected)
				assert.Equal(t, p.begun-1, p.ended, "the story ends with the step that failed")
				return
			}
			require.NoError(t, err)
			assert.Equal(t, p.begun, p.ended)
			assert.NotEmpty(t, s.Bundle)
		})
	}
}

// Without the policy that LoopGrid ships the story goes on without one.
func TestWalkWithoutPolicy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ policy, said string }{
		"missing": {"", "this workspace has no active refund-policy"},
		"another": {"blocked", "the refund-policy here says blocked of 320.00 USD"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := wellBehaved(t)
			nobodyReviews(p)
			p.policy = c.policy
			if c.policy == "" {
				p.early = ""
			}
			require.NoError(t, (&Story{Caller: p, DecisionType: "t", Agent: "a"}).Walk(t.Context(), p))
			assert.Contains(t, p.told, c.said)
		})
	}
}

func TestCheckTools(t *testing.T) {
	t.Parallel()
	var names []string
	for _, tool := range bridge.Document() {
		names = append(names, tool.Name)
	}
	require.NoError(t, CheckTools(names))
	require.ErrorContains(t, CheckTools(names[1:]), "the tools are")
	require.ErrorContains(t, CheckTools(append(names, "x")), "the tools are")
}

// program stands in for loopgrid-mcp: results by tool and amount, or decision.
type program struct {
	result       map[string]string
	early        string // the refusal of the action of a decision that waits for a person
	policy       string // of the small refund; empty: there is none at all
	confirmation string
	key, decided string // of the last decision
	acted        bool
	begun, ended int
	told         string
}

// edit returns an edit that replaces a part of one result, which has to be there.
func edit(key, from, to string) func(*program) {
	return func(p *program) {
		changed := strings.Replace(p.result[key], from, to, 1)
		if changed == p.result[key] {
			panic(key + " holds no " + from)
		}
		p.result[key] = changed
	}
}

func nobodyReviews(p *program) {
	p.confirmation = ""
	p.result["record_review dec_720"] = `{"disabled":true,"message":"disabled here"}`
}

func wellBehaved(t *testing.T) *program {
	t.Helper()
	file := filepath.Join(t.TempDir(), "evidence.zip")
	require.NoError(t, os.WriteFile(file, []byte("zip"), 0o600))
	path, err := json.Marshal(file)
	require.NoError(t, err)
	// The SHA-256 of "zip".
	const sum = "4a70fe9aa6436e02c2dea340fbd1e352e4ef2d8ce6ca52ad25d4b95471fc8bf2"
	p := &program{
		result: map[string]string{"again": `{"decision_id":"dec_720","idempotent_replay":true}`}, early: "Not recorded: approval_required: a person has to approve it.",
		policy: allowed, confirmation: "elicited",
	}
	p.result["record_review dec_720"] = `{"decision_id":"dec_720","state":"approve","human_confirmation":"elicited"}`
	for id, amount := range map[string]string{"dec_720": "720.00", "dec_320": "320.00"} {
		p.result["record_decision "+amount] = `{"decision_id":"` + id + `","captured":true,"action_executed":false,"commitment_verified":true,"model_event":{"payload":` + synthetic + `}`
		details := strings.TrimSuffix(synthetic, "}")
		p.result["record_action "+id] = `{"recorded":true,"commitment_verified":true,"event":{"event_id":"evt_1","event_type":"tool_executed","payload":` + details + "," + refund + "}}}"
		p.result["record_outcome "+id] = `{"recorded":true,"commitment_verified":true,"event":{"event_id":"evt_2","event_type":"outcome_observed","payload":` + details + "," + observed + "}}}"
		p.result["verify_evidence "+id] = `{"verification":{"valid":true,"total_ledger_events":6}}`
		p.result["get_evidence "+id] = `{"downloaded":true,"bundle":{"path":` + string(path) + `,"bytes":3,"sha256":"` + sum + `"},` +
			`"server_verification":{"valid":true},"lifecycle":{"state":"evidence_complete"}}`
	}
	p.result["record_decision 720.00"] += `,"policy_evaluation":{"decision":"human_approval_required"},"next":"human_approval_required: wait"`
	return p
}

func (p *program) Begin(Step) { p.begun++ }

func (p *program) End(_ Step, told Told) {
	p.ended++
	p.told += fmt.Sprintln(told)
}

func (p *program) Call(_ context.Context, tool, arguments string) (Answer, error) {
	var args struct {
		DecisionID string `json:"decision_id"`
		Key        string `json:"idempotency_key"`
		PolicyID   string `json:"policy_id"`
		Action     struct {
			Amount json.Number `json:"amount"`
		} `json:"proposed_action"`
	}
	if err := json.Unmarshal([]byte(arguments), &args); err != nil {
		return Answer{}, err
	}
	key := tool + " " + args.DecisionID + args.Action.Amount.String()
	switch {
	case tool == "record_decision" && args.Key == p.key:
		return Answer{Text: strings.ReplaceAll(p.result["again"], "dec_720", p.decided)}, nil
	case tool == "record_decision":
		p.key, p.decided = args.Key, "dec_"+strings.TrimSuffix(args.Action.Amount.String(), ".00")
		text := p.result[key]
		if args.PolicyID == "" {
			text, _, _ = strings.Cut(text, `,"policy_evaluation"`)
		}
		if args.PolicyID != "" && p.policy == "" {
			return Answer{"no active policy", true}, nil
		}
		if args.PolicyID != "" && key == "record_decision 320.00" {
			text += `,"policy_evaluation":{"decision":"` + p.policy + `"},"next":"` + p.policy + `: go"`
		}
		p.acted = key == "record_decision 320.00" || args.PolicyID == ""
		return Answer{Text: text + "}"}, nil
	case tool == "record_review":
		p.acted = true
	case tool == "record_action" && !p.acted && p.early != "":
		return Answer{p.early, true}, nil
	}
	return Answer{Text: p.result[key]}, nil
}
