package sandbox

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// The expected texts are what Python 3.11 makes of the text: json.loads, then json.dumps with ensure_ascii=False, without blanks, on a line, and
// with indent=2.
func TestSpelling(t *testing.T) {
	t.Parallel()
	const in = "\ufeff" + ` {"z": {}, "a": [], "ключ \u2028 \u0085": [1e-5, 0.00001, 720.0, 1e16, -0.0, -0, 9007199254740993, 123456789012345678901234567890, 1E+2],` +
		` "s": "<&> \u0001 \u007f \u001f \b\f\n\r\t \\ \" \/ \ud83d\ude00", "t": [true, [false, {"x": [[]]}], null]} `
	kept, err := readJSON(&form{}, []byte(in))
	require.NoError(t, err)
	const text = "\"<&> \\u0001 \x7f \\u001f \\b\\f\\n\\r\\t \\\\ \\\" / 😀\""
	assert.Equal(t, "{\"z\":{},\"a\":[],\"ключ \u2028 \u0085\":[1e-05,1e-05,720.0,1e+16,-0.0,0,9007199254740993,123456789012345678901234567890,100.0],"+
		"\"s\":"+text+",\"t\":[true,[false,{\"x\":[[]]}],null]}", string(kept))
	var e export
	e.lines("lines", []jsontext.Value{kept, evidence.Object()})
	assert.Equal(t, "{\"z\": {}, \"a\": [], \"ключ \u2028 \u0085\": [1e-05, 1e-05, 720.0, 1e+16, -0.0, 0, 9007199254740993, 123456789012345678901234567890, 100.0], "+
		"\"s\": "+text+", \"t\": [true, [false, {\"x\": [[]]}], null]}\n{}", string(e.members[0].data))
	assert.Equal(t, "{\n  \"z\": {},\n  \"a\": [],\n  \"ключ \u2028 \u0085\": [\n    1e-05,\n    1e-05,\n    720.0,\n    1e+16,\n    -0.0,\n    0,\n"+
		"    9007199254740993,\n    123456789012345678901234567890,\n    100.0\n  ],\n  \"s\": "+text+",\n  \"t\": [\n    true,\n    [\n      false,\n"+
		"      {\n        \"x\": [\n          []\n        ]\n      }\n    ],\n    null\n  ]\n}", string(indented(kept)))
	answer, err := respell(kept, appendAnswerFloat)
	require.NoError(t, err)
	assert.Contains(t, string(answer), "[0.00001,0.00001,720.0,1e+16,-0.0,0,9007199254740993,123456789012345678901234567890,100.0]")
}

func TestBodiesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	nested := func(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }
	for name, x := range map[string]struct {
		body   string
		status int
	}{
		"longest integer":           {strings.Repeat("9", 4300), 0},
		"longest negative integer":  {"-" + strings.Repeat("9", 4300), 0},
		"a float of many digits":    {"1." + strings.Repeat("9", 5000), 0},
		"deepest":                   {nested(maxNesting), 0},
		"integer too long":          {strings.Repeat("9", 4301), http.StatusBadRequest},
		"too deep":                  {nested(maxNesting + 1), http.StatusBadRequest},
		"invalid UTF-8":             {"\"\xff\"", http.StatusBadRequest},
		"cut UTF-8":                 {"\"\xe2\x82\"", http.StatusBadRequest},
		"no JSON":                   {"{not", http.StatusUnprocessableEntity},
		"more than one value":       {"{} {}", http.StatusUnprocessableEntity},
		"a name that stands twice":  {`{"a":1,"a":2}`, http.StatusUnprocessableEntity},
		"not a number":              {`{"a":NaN}`, http.StatusUnprocessableEntity},
		"nothing":                   {" ", http.StatusUnprocessableEntity},
		"half of a surrogate pair":  {`"\ud800"`, http.StatusInternalServerError},
		"a number without a float":  {"1e400", http.StatusInternalServerError},
		"a number that is too long": {"[-1e999]", http.StatusInternalServerError},
	} {
		_, err := readJSON(&form{place: "body"}, []byte(x.body))
		switch x.status {
		case 0:
			require.NoError(t, err, name)
		case http.StatusInternalServerError:
			assert.Equal(t, errInternal, err, name)
		default:
			var refused *refusal
			require.ErrorAs(t, err, &refused, name)
			assert.Equal(t, x.status, refused.status, name)
		}
	}
}
