package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever is not as it should be ends the demonstration with an error that names it.
func TestRefundsNoticesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit     func(*program)
		expected string
	}{
		"nothing":               {func(*program) {}, ""},
		"a tool is missing":     {func(p *program) { p.without = "record_review" }, "the tools are"},
		"policy":                {func(p *program) { p.result["record_decision 720.00"] = allowed }, `the policy says "auto_allowed" of 720.00 USD`},
		"next":                  {edit("record_decision 320.00", "auto_allowed: go", "go"), "next does not tell"},
		"commitment differs":    {edit("record_decision 320.00", `"commitment_verified":true`, `"commitment_verified":false`), "not proven"},
		"commitment is unknown": {edit("record_decision 320.00", `"commitment_verified":true`, `"commitment_verified":null`), "not proven"},
		"not captured":          {edit("record_decision 320.00", `"captured":true`, `"captured":false`), "not captured"},
		"action not refused":    {func(p *program) { delete(p.refusal, "record_action dec_720") }, "record_action was not refused"},
		"refusal is vague":      {func(p *program) { p.refusal["record_action dec_720"] = "no" }, "does not say that the action was not recorded"},
		"review enabled":        {edit("record_review dec_720", `"disabled":true`, `"recorded":true`), "not disabled by default"},
		"action refused":        {func(p *program) { p.refusal["record_action dec_320"] = "no such decision" }, "record_action failed: no such decision"},
		"outcome event":         {edit("record_outcome dec_320", "outcome_observed", "tool_executed"), "not both recorded"},
		"not valid":             {edit("verify_evidence dec_320", "true", "false"), "not 6 valid events"},
		"an event too many":     {edit("verify_evidence dec_320", "6", "7"), "not 6 valid events"},
		"not complete":          {edit("get_evidence dec_320", "evidence_complete", "awaiting_outcome"), "not complete and valid"},
		"sha256":                {edit("get_evidence dec_320", `"sha256":"4`, `"sha256":"x`), "not the one that was told"},
		"size":                  {edit("get_evidence dec_320", `"bytes":3`, `"bytes":4`), "not the one that was told"},
		"no file":               {edit("get_evidence dec_320", "evidence.zip", "nothing.zip"), "read the evidence"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := wellBehaved(t)
			c.edit(p)
			var out bytes.Buffer
			w := &walk{teller: &teller{out: &out}}
			require.NoError(t, w.connect(t.Context(), p.serve(t)))
			err := w.refunds(t.Context())
			require.NoError(t, w.session.Close())
			if c.expected == "" {
				require.NoError(t, err, out.String())
			} else {
				require.ErrorContains(t, err, c.expected)
			}
		})
	}
}

const allowed = `{"decision_id":"dec_320","captured":true,"commitment_verified":true,"policy_evaluation":{"decision":"auto_allowed"},"next":"auto_allowed: go"}`

// program stands in for loopgrid-mcp: results and refusals by tool and amount, or decision.
type program struct {
	result, refusal map[string]string
	without         string
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

func wellBehaved(t *testing.T) *program {
	t.Helper()
	file := filepath.Join(t.TempDir(), "evidence.zip")
	require.NoError(t, os.WriteFile(file, []byte("zip"), 0o600))
	path, err := json.Marshal(file)
	require.NoError(t, err)
	// The SHA-256 of "zip".
	const sum = "4a70fe9aa6436e02c2dea340fbd1e352e4ef2d8ce6ca52ad25d4b95471fc8bf2"
	return &program{
		result: map[string]string{
			"record_decision 720.00":  `{"decision_id":"dec_720","captured":true,"commitment_verified":true,"policy_evaluation":{"decision":"human_approval_required"},"next":"human_approval_required: wait"}`,
			"record_decision 320.00":  allowed,
			"record_action dec_720":   `{"recorded":true}`,
			"record_review dec_720":   `{"disabled":true,"message":"disabled here"}`,
			"record_action dec_320":   `{"recorded":true,"event":{"event_id":"evt_1","event_type":"tool_executed"}}`,
			"record_outcome dec_320":  `{"recorded":true,"event":{"event_id":"evt_2","event_type":"outcome_observed"}}`,
			"verify_evidence dec_320": `{"verification":{"valid":true,"total_ledger_events":6}}`,
			"get_evidence dec_320": `{"downloaded":true,"bundle":{"path":` + string(path) + `,"bytes":3,"sha256":"` + sum + `"},` +
				`"server_verification":{"valid":true},"lifecycle":{"state":"evidence_complete"}}`,
		},
		refusal: map[string]string{"record_action dec_720": "Not recorded: a person has to approve it first."},
	}
}

func (p *program) serve(t *testing.T) mcp.Transport {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "loopgrid-mcp", Version: "test"}, nil)
	for _, tool := range []string{"record_decision", "record_review", "record_action", "record_outcome", "get_evidence", "verify_evidence"} {
		if tool == p.without {
			continue
		}
		server.AddTool(&mcp.Tool{Name: "loopgrid." + tool, InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				var args struct {
					DecisionID string `json:"decision_id"`
					Action     struct {
						Amount json.Number `json:"amount"`
					} `json:"proposed_action"`
				}
				if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
					return nil, err
				}
				key := tool + " " + args.DecisionID + args.Action.Amount.String()
				text, refused := p.refusal[key]
				if !refused {
					text = p.result[key]
				}
				assert.NotEmpty(t, text, key)
				return &mcp.CallToolResult{IsError: refused, Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
			})
	}
	ours, theirs := mcp.NewInMemoryTransports()
	go func() { _ = server.Run(t.Context(), ours) }()
	return theirs
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}
