package evidence_test

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

const numbers = `{"big":9007199254740993,"f":720.0,"e":1e2,"t":1.10,"neg":-0.0,"huge":123456789012345678901234567890}`

func TestMerge(t *testing.T) {
	t.Parallel()
	tool := evidence.Field{Name: "tool", Value: evidence.Text("t<>&")}
	reference := evidence.Field{Name: "external_reference", Value: evidence.Text("ref")}
	absent := evidence.Field{Name: "external_reference"}
	for _, tt := range []struct {
		name, obj, want string
		fields          []evidence.Field
	}{
		{"empty", `{}`, `{"tool":"t<>&","external_reference":"ref"}`, []evidence.Field{tool, reference}},
		{"missing", ``, `{"tool":"t<>&"}`, []evidence.Field{tool, absent}},
		{"appended", numbers, numbers[:len(numbers)-1] + `,"tool":"t<>&"}`, []evidence.Field{tool}},
		{"in place", `{"a":1,"tool":"evil","b":2}`, `{"a":1,"tool":"t<>&","b":2}`, []evidence.Field{tool}},
		{"in place, escaped name", `{"\u0074ool":"evil"}`, `{"\u0074ool":"t<>&"}`, []evidence.Field{tool}},
		{"absent field stays as the caller has it", `{"external_reference":null}`, `{"external_reference":null}`, []evidence.Field{absent}},
		{
			"escapes and blanks are kept", "{ \"\\u00fc\" : \"\\u00e9é\\/<>&\" ,\n\"n\": [ 1 , {\"x\" : 1.10} ] }",
			`{"\u00fc":"\u00e9é\/<>&","n":[ 1 , {"x" : 1.10} ],"tool":"t<>&"}`,
			[]evidence.Field{tool},
		},
		{"nested names are not touched", `{"a":{"tool":1}}`, `{"a":{"tool":1},"tool":"t<>&"}`, []evidence.Field{tool}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, string(evidence.Merge(jsontext.Value(tt.obj), tt.fields...)))
		})
	}
}

func TestObjectLeavesAbsentFieldsOut(t *testing.T) {
	t.Parallel()
	got := evidence.Object(
		evidence.Field{Name: "a", Value: jsontext.Value("1.10")},
		evidence.Field{Name: "b"},
		evidence.Field{Name: "c\"", Value: evidence.Text("é\u2028<&>\x00")},
	)
	assert.Equal(t, "{\"a\":1.10,\"c\\\"\":\"é\u2028<&>\\u0000\"}", string(got))
	assert.JSONEq(t, "{}", string(evidence.Object()))
	assert.Equal(t, `[1.10,"é"]`, string(evidence.Array(jsontext.Value("1.10"), evidence.Text("é"))))
	assert.Equal(t, "[]", string(evidence.Array()))
}

func TestMembersAndElements(t *testing.T) {
	t.Parallel()
	var names, values []string
	for name, value := range evidence.Members(jsontext.Value(` { "a\"\u0062" : [1,{"x":"]"}] , "c":"\\" ,"d" :-1e5, "e":{ } , "f":null} `)) {
		names, values = append(names, name), append(values, string(value))
	}
	assert.Equal(t, []string{`a"b`, "c", "d", "e", "f"}, names)
	assert.Equal(t, []string{`[1,{"x":"]"}]`, `"\\"`, "-1e5", "{ }", "null"}, values)

	var elements []string
	for e := range evidence.Elements(jsontext.Value(` [ 1 , "a,b" ,[ 2,3 ], {"x":[]} ] `)) {
		elements = append(elements, string(e))
	}
	assert.Equal(t, []string{"1", `"a,b"`, "[ 2,3 ]", `{"x":[]}`}, elements)
}

func TestMembersOfNonsenseEnd(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{", `{"`, `{"a`, `{"a"`, `{"a":`, `{"a":1`, `{"a":"`, `{"a":"\`, `{"a" 1}`, `[1`, `{,}`, `{"a":}`, `}`, `{"a":]}`, `[`, `[,`, `[}`, `"\`} {
		count := 0
		for range evidence.Members(jsontext.Value(text)) {
			count++
		}
		for range evidence.Elements(jsontext.Value(text)) {
			count++
		}
		assert.LessOrEqual(t, count, 2, text)
	}
}

func TestCompact(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		" { \"a b\" : [ 1.10 ,\n\"\\\" \\u00e9\" , { } ] ,\t\"c\":null } ": `{"a b":[1.10,"\" \u00e9",{}],"c":null}`,
		" -0.0 ": "-0.0", `" "`: `" "`, "": "", "[ ]": "[]",
	} {
		assert.Equal(t, want, string(evidence.Compact(jsontext.Value(in))))
	}
	assert.Nil(t, evidence.Compact(nil))
}

func TestUnquote(t *testing.T) {
	t.Parallel()
	got, ok := evidence.Unquote(jsontext.Value(`"\u00e9\n"`))
	assert.True(t, ok)
	assert.Equal(t, "é\n", got)
	for _, no := range []string{"1", "null", "{}", "", `"\ud800"`} {
		_, ok := evidence.Unquote(jsontext.Value(no))
		assert.False(t, ok, no)
	}
}

func TestHasLineBreakers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"{\"a\":\"x\u2028\"}":  true,
		"{\"a\":\"x\u2029\"}":  true,
		"{\"a\":\"x\u0085\"}":  true,
		"{\"\u2028\":1}":       true,
		`{"a":"\u2028"}`:       true,
		`{"a":"\\\u2029"}`:     true,
		`{"a":"\u0085"}`:       true,
		`{"a":"\\u2028"}`:      false,
		`{"a":"\n\u000a\u202"`: false,
		"{\"a\":\"é…\u00a0\"}": false,
	} {
		assert.Equal(t, want, evidence.HasLineBreakers(jsontext.Value(text)), text)
	}
}

func TestCheckObjectAccepts(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		`{}`, " {\"a\" : [ ] } ", numbers,
		`{"a":{"x":1},"b":{"x":1}}`,
		"{\"a\":\"\u2028 \\u0000 \\ud83d\\ude00 \U0001F600\"}",
		`{"a":` + strings.Repeat("9", evidence.MaxIntegerDigits) + `}`,
		`{"a":-` + strings.Repeat("9", evidence.MaxIntegerDigits) + `}`,
		`{"a":1.7976931348623157e308,"b":1e-400,"c":0.` + strings.Repeat("1", 5000) + `}`,
		strings.Repeat(`{"a":`, evidence.MaxDepth-1) + "{}" + strings.Repeat("}", evidence.MaxDepth-1),
		`{"a":"` + strings.Repeat("[", 500) + `"}`,
	} {
		require.NoError(t, evidence.CheckObject([]byte(raw)), "%.60s", raw)
	}
}

func TestCheckObjectRefuses(t *testing.T) {
	t.Parallel()
	deep := func(levels int) string {
		return strings.Repeat(`{"a":`, levels-1) + "{}" + strings.Repeat("}", levels-1)
	}
	for _, tt := range []struct{ name, raw, path, reason string }{
		{"array", `[]`, "", "must be a JSON object, got an array"},
		{"string", `"{}"`, "", "must be a JSON object, got a string"},
		{"null", `null`, "", "must be a JSON object, got null"},
		{"number", `1`, "", "must be a JSON object, got a number"},
		{"boolean", `true`, "", "must be a JSON object, got a boolean"},
		{"nothing", ``, "", "is not complete JSON"},
		{"cut", `{"a":{"b":[1,`, "a.b[1]", "is not complete JSON"},
		{"two values", `{} {}`, "", "is more than one JSON value"},
		{"not JSON", `{"a":01}`, "a", "is not valid JSON (at byte 6)"},
		{"NaN", `{"a":[NaN]}`, "a[0]", "is not valid JSON (at byte 6)"},
		{"duplicate", `{"a":1,"a":2}`, "a", "this name appears twice in its object"},
		{"duplicate, escaped", `{"k":1,"\u006b":2}`, "k", "this name appears twice in its object"},
		{"duplicate, deep", `{"items":[0,{"x":1},{"y":{"p":1,"q":2,"p":3}}]}`, "items[2].y.p", "this name appears twice in its object"},
		{"invalid UTF-8", "{\"a\":{\"b\":\"x\xff\"}}", "a.b", "is not valid UTF-8"},
		{"invalid UTF-8 in a name", "{\"a\":{\"b\xff\":1}}", "a[\"b\uFFFD\"]", "is not valid UTF-8"},
		{"surrogate half", `{"a":["\ud800"]}`, "a[0]", "holds half of a surrogate pair, which is no Unicode character"},
		{"surrogates reversed", `{"a":["\udc00\ud800"]}`, "a[0]", "holds half of a surrogate pair, which is no Unicode character"},
		{"surrogate half in a name", `{"\uDBFF":1}`, "[\"\uFFFD\"]", "holds half of a surrogate pair, which is no Unicode character"},
		{"too deep", deep(evidence.MaxDepth + 1), strings.TrimSuffix(strings.Repeat("a.", 12), ".") + "…", "nests deeper than 200 levels"},
		{"far too deep", `{"x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, "x" + strings.Repeat("[0]", 11) + "…", "nests deeper than 200 levels"},
		{"float", `{"items":[1,{"price":1e400}]}`, "items[1].price", "is a number that a 64-bit float cannot hold, which LoopGrid cannot record"},
		{"negative float", `{"a":-1e309}`, "a", "is a number that a 64-bit float cannot hold, which LoopGrid cannot record"},
		{"float without exponent", `{"a":` + strings.Repeat("9", 400) + `.0}`, "a", "is a number that a 64-bit float cannot hold, which LoopGrid cannot record"},
		{"integer", `{"a":` + strings.Repeat("9", evidence.MaxIntegerDigits+1) + `}`, "a", "is an integer of more than 4300 digits, which LoopGrid cannot read"},
		{"odd names", `{"a b":{"":{"c.d":1e400}}}`, `["a b"][""]["c.d"]`, "is a number that a 64-bit float cannot hold, which LoopGrid cannot record"},
		{"hostile name", "{\"\u202e\\u001b[31m" + strings.Repeat("x", 99) + "\":1e400}", `["\u202e\x1b[31m` + strings.Repeat("x", 34) + `…"]`, "is a number that a 64-bit float cannot hold, which LoopGrid cannot record"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := evidence.CheckObject([]byte(tt.raw))
			var problem *evidence.Problem
			require.ErrorAs(t, err, &problem)
			assert.Equal(t, tt.path, problem.Path)
			assert.Equal(t, tt.reason, problem.Reason)
		})
	}
}

func TestShallowObjectLeavesMembersToTheirOwnChecks(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{`{"a":{"x":1,"x":2},"b":1e400,"c":"\ud800"}`, "{\"a\":\"\xff\"}", `{"a":1,"a":2}`, `{"x":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}`} {
		require.NoError(t, evidence.ShallowObject([]byte(raw)), "%.60s", raw)
	}
	for _, raw := range []string{``, `[]`, `null`, `{"a":}`, `{} x`, `{"x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`} {
		assert.Error(t, evidence.ShallowObject([]byte(raw)), "%.60s", raw)
	}
}

func TestCanonicalFloatSpelling(t *testing.T) {
	t.Parallel()
	var recorded struct {
		Table []struct{ Sent, Canonical string }
	}
	readTestdata(t, "float_spelling.json", &recorded)
	require.NotEmpty(t, recorded.Table)
	for _, row := range recorded.Table {
		got, err := evidence.AppendCanonical(nil, []byte(row.Sent))
		require.NoError(t, err)
		assert.Equal(t, row.Canonical, string(got), row.Sent)
	}
}

func TestCanonical(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want string }{
		{" { } ", "{}"},
		{"[ ]", "[]"},
		{`[ 1 , 2 ]`, `[1,2]`},
		{`-0`, `0`},
		{`[-0,-0.0,0.0,1E5,1e+2,0e0]`, `[0,-0.0,0.0,100000.0,100.0,0.0]`},
		{`123456789012345678901234567890`, `123456789012345678901234567890`},
		{`{"b":1,"a":{"d":2,"c":3}}`, `{"a":{"c":3,"d":2},"b":1}`},
		{`{"𝄞":1,"\uffff":2,"é":3,"z":4,"Z":5}`, `{"Z":5,"z":4,"é":3,"` + "\uffff" + `":2,"𝄞":1}`},
		{`{"a":1,"b":2,"a":3,"a":4}`, `{"a":4,"b":2}`},
		{`{"a":1,"\u0061":2}`, `{"a":2}`},
		{`"\u00e9\/\u2028\u007f\u0001\u001F\b\f\n\r\t\"\\"`, "\"é/\u2028\x7f\\u0001\\u001f\\b\\f\\n\\r\\t\\\"\\\\\""},
		{`[true,false,null]`, `[true,false,null]`},
		{`{"c":[{"y":1,"x":2}],"b":{},"a":[]}`, `{"a":[],"b":{},"c":[{"x":2,"y":1}]}`},
	} {
		got, err := evidence.AppendCanonical([]byte("> "), []byte(tt.in))
		require.NoError(t, err, tt.in)
		assert.Equal(t, "> "+tt.want, string(got), tt.in)
	}
	for _, in := range []string{``, `{`, `1 2`, `"\ud800"`, `{"\ud800":1}`, `1e400`, `{"a":-1e999}`, "\"\xff\"", `nul`} {
		_, err := evidence.AppendCanonical(nil, []byte(in))
		assert.Error(t, err, in)
	}
}

// TestCommitmentOfRecordedEvidence computes payload_commitment of everything that a real LoopGrid recorded and whose clear
// payload follows from the request.
func TestCommitmentOfRecordedEvidence(t *testing.T) {
	t.Parallel()
	// In these the event answered is one that an idempotency key was bound to before, so the request says nothing of it.
	replayed := []string{"event_idempotent_replay_other_type_and_body", "event_replay_of_create_key"}
	var recorded struct {
		Commitments []struct{ Name, Kind, Body, Commitment string }
	}
	readTestdata(t, "commitments.json", &recorded)
	computed := 0
	for _, r := range recorded.Commitments {
		got := maps.Collect(evidence.Members(jsontext.Value(r.Body)))
		or := func(name, otherwise string) evidence.Field {
			if v, ok := got[name]; ok {
				return evidence.Field{Name: name, Value: v}
			}
			return evidence.Field{Name: name, Value: jsontext.Value(otherwise)}
		}
		var payload jsontext.Value
		switch r.Kind {
		case "create":
			payload = evidence.Object(
				evidence.Field{Name: "spec_version", Value: evidence.Text("loopgrid/3.0-draft")},
				or("decision_type", ""), or("service_name", `"ai-agent"`), or("agent", "{}"), or("authority", "{}"), or("model", "{}"),
				or("context", "{}"), or("input", "{}"), or("proposed_action", "{}"), or("metadata", "{}"))
		case "event":
			payload = or("payload", "{}").Value
		case "review":
			approved := jsontext.Value("false")
			if string(got["action"]) == `"approve"` {
				approved = jsontext.Value("true")
			}
			payload = evidence.Object(evidence.Field{Name: "approved", Value: approved}, or("reviewer", ""), or("reason", `""`))
		}
		commitment, err := evidence.Commitment(payload)
		require.NoError(t, err, r.Name)
		if slices.Contains(replayed, r.Name) {
			assert.NotEqual(t, r.Commitment, commitment, r.Name)
			continue
		}
		assert.Equal(t, r.Commitment, commitment, r.Name)
		computed++
	}
	assert.Greater(t, computed, 140)
}

func readTestdata(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, into))
}

func TestGet(t *testing.T) {
	t.Parallel()
	object := jsontext.Value(` {"a": {"b": [1], "b": "l\u0061st", "n": 1e2}, "e\u0301": null, "s": "x"} `)
	assert.Equal(t, `"l\u0061st"`, string(evidence.Get(object, "a", "b")))
	assert.Equal(t, "last", evidence.GetText(object, "a", "b"))
	assert.Equal(t, "1e2", string(evidence.Get(object, "a", "n")))
	assert.Equal(t, "null", string(evidence.Get(object, "e\u0301")))
	assert.Equal(t, string(object), string(evidence.Get(object)))
	assert.Nil(t, evidence.Get(object, "a", "c"))
	assert.Nil(t, evidence.Get(object, "s", "x"))
	assert.Nil(t, evidence.Get(nil, "a"))
	assert.Empty(t, evidence.GetText(object, "a", "n"))
}
