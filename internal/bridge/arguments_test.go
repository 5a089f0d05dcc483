package bridge_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const numbers = `{"big":9007199254740993,"f":720.0,"e":1e2,"t":1.10,"neg":-0.0,"huge":123456789012345678901234567890}`

func TestBadArguments(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, tool, arguments string
		want                  []string
	}{
		{"missing", "record_action", `{}`, []string{"decision_id: required but missing", "tool: required but missing"}},
		{"no arguments", "record_outcome", `null`, []string{"decision_id: required but missing", "status: required but missing", "verified_against: required but missing"}},
		{"not an object", "verify_evidence", `["dec_1"]`, []string{"arguments: must be a JSON object, got an array"}},
		{"a string", "verify_evidence", `"dec_1"`, []string{"arguments: must be a JSON object, got a string"}},
		{"null for a required one", "record_decision", `{"decision_type":null,"proposed_action":null}`, []string{"decision_type: required but missing", "proposed_action: required but missing"}},
		{"empty", "record_action", `{"decision_id":"","tool":""}`, []string{"decision_id: must not be empty", "tool: must not be empty"}},
		{
			"mis-typed", "record_decision", `{"decision_type":1,"proposed_action":[],"agent_id":{},"authority":"x","model":true,"context":3}`,
			[]string{
				"decision_type: must be a string, got a number", "proposed_action: must be a JSON object, got an array", "agent_id: must be a string, got an object",
				"authority: must be a JSON object, got a string", "model: must be a JSON object, got a boolean", "context: must be a JSON object, got a number",
			},
		},
		{"unknown", "verify_evidence", `{"decision_id":"dec_1","desicion_id":"dec_1"}`, []string{`"desicion_id": unknown argument; did you mean decision_id?`}},
		{"mis-cased", "verify_evidence", `{"Decision_ID":"dec_1"}`, []string{"decision_id: required but missing", `"Decision_ID": unknown argument; did you mean decision_id?`}},
		{"unlike any", "verify_evidence", `{"decision_id":"d","limit":1}`, []string{`"limit": unknown argument; the arguments are decision_id`}},
		{"hostile name", "verify_evidence", "{\"decision_id\":\"d\",\"\u202e\\u001b[31m" + strings.Repeat("x", 99) + "\":1}", []string{`"\u202e\x1b[31m` + strings.Repeat("x", 54) + `…": unknown argument; the arguments are decision_id`}},
		{"twice", "verify_evidence", `{"decision_id":"a","decision_id":"b"}`, []string{"decision_id: given twice; send it once"}},
		{"twice, escaped", "verify_evidence", `{"decision_id":"a","decision\u005fid":"b"}`, []string{"decision_id: given twice; send it once"}},
		{"twice inside", "record_action", `{"decision_id":"d","tool":"t","details":{"items":[0,{"price":1,"price":2}]}}`, []string{"details.items[1].price: this name appears twice in its object"}},
		{"surrogate", "record_action", `{"decision_id":"d","tool":"\ud800","details":{"a":["\udc00"]}}`, []string{"tool: holds half of a surrogate pair, which is no Unicode character", "details.a[0]: holds half of a surrogate pair, which is no Unicode character"}},
		{"invalid UTF-8", "record_action", "{\"decision_id\":\"d\",\"tool\":\"t\",\"details\":{\"a\":\"\xff\"}}", []string{"arguments: details.a: is not valid UTF-8"}},
		{"deep", "record_decision", `{"decision_type":"t","proposed_action":{},"context":` + strings.Repeat(`{"a":`, 200) + "{}" + strings.Repeat("}", 200) + `}`, []string{"context.a.a.a.a.a.a.a.a.a.a.a.a…: nests deeper than 200 levels"}},
		{"very deep", "record_decision", `{"decision_type":"t","proposed_action":{},"context":{"x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}}`, []string{"arguments: context.x" + strings.Repeat("[0]", 10) + "…: nests deeper than 200 levels"}},
		{"float", "record_decision", `{"decision_type":"t","proposed_action":{"items":[{},{"price":1e400}]}}`, []string{"proposed_action.items[1].price: is a number that a 64-bit float cannot hold, which LoopGrid cannot record"}},
		{"integer", "record_action", `{"decision_id":"d","tool":"t","details":{"n":` + strings.Repeat("9", 4301) + `}}`, []string{"details.n: is an integer of more than 4300 digits, which LoopGrid cannot read"}},
		{"limits", "record_decision", `{"decision_type":"` + strings.Repeat("é", 121) + `","proposed_action":{},"agent_id":"` + strings.Repeat("a", 129) + `","service_name":"` + strings.Repeat("s", 121) + `","idempotency_key":"` + strings.Repeat("k", 161) + `","policy_id":"p\u0000"}`, []string{
			"decision_type: must be at most 120 characters, got 121", "agent_id: must be at most 128 characters, got 129", "service_name: must be at most 120 characters, got 121",
			"idempotency_key: must be at most 160 characters, got 161", "policy_id: must not contain U+0000",
		}},
		{"choice", "record_decision", `{"decision_type":"t","proposed_action":{},"privacy_mode":"none"}`, []string{"privacy_mode: must be one of full, redacted, proof_only"}},
		{"review choice", "record_review", `{"decision_id":"d","action":"maybe","reason":"` + strings.Repeat("r", 1001) + `"}`, []string{"action: must be one of approve, reject", "reason: must be at most 1000 characters, got 1001"}},
		{"boolean", "get_evidence", `{"decision_id":"d","include_payloads":1}`, []string{"include_payloads: must be true or false, got a number"}},
		{"boolean in words", "get_evidence", `{"decision_id":"d","include_payloads":"yes"}`, []string{"include_payloads: must be true or false, got a string"}},
		{"string that is no object", "record_action", `{"decision_id":"d","tool":"t","details":"[1]"}`, []string{"details: must be a JSON object, got a string"}},
		{"string that holds a bad object", "record_action", `{"decision_id":"d","tool":"t","details":"{\"a\":{\"x\":1,\"x\":2}}"}`, []string{"details.a.x: this name appears twice in its object"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			x, s := open(t)
			count := "1 problem"
			if len(tt.want) > 1 {
				count = fmt.Sprintf("%d problems", len(tt.want))
			}
			want := "Not recorded: " + count + " with the arguments of loopgrid." + tt.tool + ".\n- " + strings.Join(tt.want, "\n- ") + "\nNothing was recorded. Correct the arguments and call again."
			assert.Equal(t, want, x.fails("loopgrid."+tt.tool, tt.arguments))
			assert.Empty(t, s.sentSince(0), "no request may leave")
		})
	}
}

func TestMalformedDecisionIDs(t *testing.T) {
	t.Parallel()
	x, s := open(t, "LOOPGRID_MCP_ENABLE_REVIEW_TOOL=true", "LOOPGRID_MCP_REVIEWER_ID=r")
	least := leastArguments(t)
	for _, id := range []string{".", "..", "a/b", `a\\b`, "a b", "a%2fb", "é", "a?b", "a#b", `a\u0000b`, "../health", strings.Repeat("a", 129), `dec_1\n`} {
		for tool, arguments := range least {
			if !strings.Contains(arguments, `"decision_id":"x"`) {
				continue
			}
			text := x.fails("loopgrid."+tool, strings.Replace(arguments, `"decision_id":"x"`, `"decision_id":"`+id+`"`, 1))
			assert.Contains(t, text, "- decision_id: must be a decision ID")
			assert.Contains(t, text, "Nothing was recorded.")
		}
	}
	assert.Empty(t, s.sentSince(0))
}

func TestNoArgumentIsEchoed(t *testing.T) {
	t.Parallel()
	x, _ := open(t)
	const private = "4111111111111111"
	for _, arguments := range []string{
		`{"decision_type":` + private + `,"proposed_action":"` + private + `","privacy_mode":"` + private + `","agent_id":["` + private + `"],"metadata":{"card":"` + private + `","card":1}}`,
		`"` + private + `"`,
	} {
		assert.NotContains(t, x.fails("loopgrid.record_decision", arguments), private)
	}
	assert.NotContains(t, x.log.String(), private)
}

// TestLenientForms: arguments whose form is not quite right but whose meaning is clear.
func TestLenientForms(t *testing.T) {
	t.Parallel()
	x, s := open(t)
	body := func(arguments string) map[string]json.RawMessage {
		n := s.count()
		x.ok("loopgrid.record_decision", arguments)
		var members map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(s.sentSince(n)[0].body), &members))
		return members
	}
	b := body(`{"decision_type":"t","proposed_action":"{\"amount\":720.0,\"n\":9007199254740993}","agent_id":null,"agent_version":"","authority":null,"model":"","context":"{}",` +
		`"privacy_mode":"","idempotency_key":null,"policy_id":"","model_output":null,"wait_for_previous":true}`)
	assert.Equal(t, `{"amount":720.0,"n":9007199254740993}`, string(b["proposed_action"]))
	assert.Equal(t, `{"id":"mcp-agent"}`, string(b["agent"]))
	assert.Equal(t, `{}`, string(b["authority"]))
	assert.Equal(t, `{}`, string(b["model"]))
	assert.Equal(t, `{}`, string(b["context"]))
	assert.NotContains(t, b, "privacy_mode")
	assert.NotEqual(t, `""`, string(b["idempotency_key"]))

	b = body(`{"decision_type":"{\"looks\":\"like JSON\"}","proposed_action":{},"agent_id":"[1]"}`)
	assert.Equal(t, `"{\"looks\":\"like JSON\"}"`, string(b["decision_type"]), "a string stays a string")
	assert.Equal(t, `{"id":"[1]"}`, string(b["agent"]))

	r := x.ok("loopgrid.get_evidence", `{"decision_id":"dec_1","include_payloads":"true"}`)
	assert.Equal(t, "false", r.member(t, "downloaded"), "a boolean in quotes counts, and the gate is closed")
}

// TestEveryDigitArrives sends the numbers that do not survive a float64 through every free-form argument.
func TestEveryDigitArrives(t *testing.T) {
	t.Parallel()
	x, s := open(t)
	free := []string{"proposed_action", "authority", "model", "context", "input_data", "metadata", "model_output"}
	var arguments strings.Builder
	for _, name := range free {
		arguments.WriteString(`,"` + name + `":` + numbers)
	}
	r := x.ok("loopgrid.record_decision", `{"decision_type":"tée \u00e9 <&>","policy_id":"refund-policy"`+arguments.String()+"}")
	sent := s.sentSince(0)
	require.Len(t, sent, 4)
	create := members(t, sent[0].body)
	assert.Equal(t, `"tée é <&>"`, create["decision_type"])
	for _, name := range []string{"proposed_action", "authority", "model", "context", "input"} {
		assert.Equal(t, numbers, create[name], name)
	}
	assert.Equal(t, strings.TrimSuffix(numbers, "}")+`,"source":"loopgrid-mcp"}`, create["metadata"])
	assert.Equal(t, numbers, members(t, sent[1].body)["payload"])
	evaluate := members(t, sent[2].body)
	for _, name := range []string{"proposed_action", "authority", "context"} {
		assert.Equal(t, numbers, evaluate[name], name)
	}
	// And back, as the service spells them, both as text and as structured content.
	const answered = `{"big":9007199254740993,"e":100.0,"f":720.0,"huge":123456789012345678901234567890,"neg":-0.0,"t":1.1}`
	assert.Equal(t, answered, r.member(t, "model_event", "payload"))
	assert.Contains(t, string(r.Structured), answered)
	assert.Equal(t, "true", r.member(t, "commitment_verified"))

	id := r.str(t, "decision_id")
	for _, tt := range [][2]string{{"record_action", `,"tool":"t"`}, {"record_outcome", `,"status":"s","verified_against":"v"`}} {
		n := s.count()
		r := x.ok("loopgrid."+tt[0], `{"decision_id":"`+id+`"`+tt[1]+`,"details":`+numbers+`}`)
		assert.Contains(t, members(t, s.sentSince(n)[0].body)["payload"], strings.TrimSuffix(numbers, "}"))
		assert.Contains(t, r.member(t, "event", "payload"), `"big":9007199254740993,"e":100.0,"f":720.0,"huge":123456789012345678901234567890,"neg":-0.0`)
		assert.Equal(t, "true", r.member(t, "commitment_verified"))
	}
}

// members splits an object into its members, as they are written.
func members(t *testing.T, object string) map[string]string {
	t.Helper()
	var raw map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(object), &raw), object)
	all := map[string]string{}
	for name, value := range raw {
		all[name] = string(value)
	}
	return all
}
