package bridge

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

// recordOf is what LoopGrid would return for a decision with this action, nil for none.
func recordOf(decisionType, policyReason string, action jsontext.Value) *loopgrid.DecisionRecord {
	payload := evidence.Object(field("decision_type", decisionType), raw("proposed_action", action))
	commitment, _ := evidence.Commitment(payload)
	return &loopgrid.DecisionRecord{Events: []loopgrid.Event{
		{
			Raw: jsontext.Value(`{"payload_available":true}`), DecisionID: "dec_1", EventType: "decision_created", PrivacyMode: "full",
			PayloadCommitment: commitment, Payload: payload,
		},
		{EventType: "policy_evaluated", Payload: evidence.Object(field("decision", "human_approval_required"), field("reason", policyReason))},
	}}
}

func TestNoFormWithoutAnAction(t *testing.T) {
	t.Parallel()
	p := proposal{"dec_1", "approve", ""}
	for _, action := range []jsontext.Value{nil, jsontext.Value("null"), jsontext.Value("[]"), jsontext.Value(`"text"`)} {
		f, refusal := reviewForm(recordOf("t", "r", action), p, "alice", hiderOf(""))
		assert.Empty(t, f)
		assert.Equal(t, "LoopGrid does not show its proposed action", refusal)
	}
	f, refusal := reviewForm(recordOf("t", "r", jsontext.Value("{}")), p, "alice", hiderOf(""))
	assert.Empty(t, refusal)
	assert.Contains(t, f.message, "Proposed action:\n\n- (empty)\n\n")
	f, _ = reviewForm(recordOf("t", "r", jsontext.Value(" { \"a\" : [ 1 ,\n 2 ] } ")), p, "alice", hiderOf(""))
	assert.Contains(t, f.message, "\n- a: [1,2]\n")
}

// TestTheFirstLine: some hosts show little more than it, so it is the decision itself, with the whole amount.
func TestTheFirstLine(t *testing.T) {
	t.Parallel()
	for action, want := range map[string]string{
		`{"tool":"stripe.refunds.create","amount":720.0,"currency":"USD"}`: "refund: stripe.refunds.create, amount 720.0, currency USD",
		`{"a":[],"currency":"USD","b":{},"amount":720.0,"tool":"x"}`:       "refund: x, amount 720.0, currency USD (+2 more)",
		`{"amount":"1\n000"}`:    `refund: amount "1\n000"`,
		`{"amount":{"value":1}}`: "refund (+1 more)",
		`{}`:                     "refund",
		`{"tool":7,"urgent":true,"why":"two words","n":null}`:             `refund: tool 7, urgent true, why "two words" (+1 more)`,
		`{"tool":"` + strings.Repeat("t", 31) + `","amount":1e5}`:         "refund: " + strings.Repeat("t", 29) + "…, amount 1e5",
		`{"tool":"x y` + strings.Repeat("t", 31) + `","amount":1}`:        `refund: "x y` + strings.Repeat("t", 24) + `…", amount 1`,
		`{"amount":1,"note":"` + strings.Repeat("n", 99) + `","z":false}`: "refund: amount 1, z false (+1 more)",
		`{"amount":"1\u202e, currency EUR"}`:                              `refund: amount "1\u202e, currency EUR"`,
		`{"amount":` + strings.Repeat("1", 60) + `,"currency":"USD"}`:     "refund: amount " + strings.Repeat("1", 60) + ", currency USD",
	} {
		f, refusal := reviewForm(recordOf("refund", "r", jsontext.Value(action)), proposal{"dec_1", "approve", ""}, "alice", hiderOf(""))
		assert.Empty(t, refusal)
		line, rest, _ := strings.Cut(f.message, "\n")
		assert.Equal(t, want, line)
		assert.NotContains(t, strings.Split(rest, "\n")[:4], "", "no blank line among the first five")
		assert.True(t, strings.HasPrefix(evidence.GetText(f.schema, "properties", "action", "description"), line+". "), "hosts that show little of the message show this")
	}
	_, refusal := reviewForm(recordOf(strings.Repeat("refund ", 9), "r", jsontext.Value(`{"tool":"t","amount":`+strings.Repeat("1", 80)+`}`)), proposal{"dec_1", "approve", ""}, "alice", hiderOf(""))
	assert.Equal(t, "its amount is too long to show in one line", refusal)
}

func TestVisible(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{`"plain"`, `"plain"`},
		{"1234567890", "1234567890"},
		{"12345678901", "1234567890… (+1)"},
		{"123456789é!", "123456789é… (+1)"},
		{"1234567\u202e", "1234567… (+1)"}, // an escape is shown whole or not at all
		{"1234\u202e", `1234\u202e`},
		{"12345\u202e6", "12345… (+2)"},
		{"", ""},
		{"a & b", "a & b"},
		{"R&D;", `R\u0026D;`},
		{"a < b", "a < b"},
		{"a<b", `a\u003cb`},
		{"[a] (b)", "[a] (b)"},
		{"](", `\u005d(`},
		{"~ ~", "~ ~"},
		{"e\u0301", "e\u0301"},
		{"\U000e0041", "… (+1)"}, // twelve letters
	} {
		assert.Equal(t, tt.want, visible(tt.text, 10), "%q", tt.text)
	}
	assert.Equal(t, `\udb40\udc41`, visible("\U000e0041", 12))
}

// FuzzReviewForm: whatever a model writes, the form keeps to its limits, has exactly its own lines, hides nothing and shows the amount on
// its own line, or nobody is asked.
func FuzzReviewForm(f *testing.F) {
	f.Add("t", "r", `"b":"x"`, "reason", true)
	f.Add("t\n- a: 1", "\u202e", `"b\n- amount: 1":"\n\n\n\n- amount: 1"`, "\u001b[2K", false)
	f.Add("", "", `"":"","a":null,"b":[{}]`, "", true)
	f.Add("t", "r", `"x":"`+strings.Repeat("y", 3000)+`"`, strings.Repeat("z", 1000), true)
	f.Add("t", "r", `"\u200b":"<!-- ](http://x) &#1; ~~"`, "<script>", true)
	f.Add("t", "r", `"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"m":1,"n":1,"o":1,"p":1,"q":1,"r":1,"s":1,"t":1,"u":1,"v":1,"w":1,"x":1,"y":1`, "r", true)
	hides := regexp.MustCompile(`<[A-Za-z/!?]|\]\(|\]\[|~~|&#?[A-Za-z0-9]+;`)
	f.Fuzz(func(t *testing.T, decisionType, policyReason, members, reason string, first bool) {
		amount := `"amount":720.5`
		action := "{" + amount + "," + members + "}"
		if !first {
			action = "{" + members + "," + amount + "}"
		}
		if evidence.CheckObject([]byte(action)) != nil || !utf8.ValidString(decisionType+policyReason+reason) {
			t.Skip("LoopGrid does not hold it")
		}
		count := 0
		for range evidence.Members(jsontext.Value(action)) {
			count++
		}
		f, refusal := reviewForm(recordOf(decisionType, policyReason, jsontext.Value(action)), proposal{"dec_1", "approve", reason}, "alice", hiderOf(""))
		text := f.message
		if refusal != "" {
			require.Empty(t, f)
			require.Less(t, len(refusal), 200)
			return
		}
		require.LessOrEqual(t, utf8.RuneCountInString(text)+utf8.RuneCount(f.schema), maxForm)
		require.True(t, f.schema.IsValid())
		require.True(t, utf8.ValidString(text))
		lines := strings.Split(text, "\n")
		require.Len(t, lines, 11+count)
		for _, r := range strings.Join(lines, "") {
			require.True(t, isVisible(r), "%q in %q", r, text)
		}
		require.LessOrEqual(t, utf8.RuneCountInString(lines[0]), maxFormSummary)
		require.Contains(t, lines[0], "amount 720.5")
		require.False(t, hides.MatchString(lines[0]), lines[0])
		require.Equal(t, "Proposed action:", lines[7])
		require.Empty(t, lines[8])
		amounts := 0
		for _, line := range lines[9 : 9+count] {
			require.True(t, strings.HasPrefix(line, "- "), line)
			require.LessOrEqual(t, utf8.RuneCountInString(line), maxFormName+maxFormValue+len("- … (+3000): … (+3000)"))
			require.False(t, hides.MatchString(line), line)
			if line == "- amount: 720.5" {
				amounts++
			}
		}
		require.Equal(t, 1, amounts, text)
		require.Empty(t, lines[9+count])
		model, ok := strings.CutPrefix(lines[10+count], "The model says: approve")
		require.True(t, ok)
		require.LessOrEqual(t, utf8.RuneCountInString("approve"+model), maxFormModel)
		require.False(t, hides.MatchString(model), model)
	})
}
