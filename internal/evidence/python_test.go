package evidence_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// python is a text and what Python's json.dumps made of it; nil where it has no canonical form.
type python struct {
	Text      string  `json:"text"`
	Canonical *string `json:"canonical"`
}

// recordedPython reads what testdata/python_json_dumps.py wrote.
func recordedPython(tb testing.TB) []python {
	tb.Helper()
	recorded, err := os.ReadFile("testdata/python_json_dumps.jsonl")
	require.NoError(tb, err)
	var all []python
	for line := range bytes.Lines(recorded) {
		var one python
		require.NoError(tb, json.Unmarshal(line, &one))
		all = append(all, one)
	}
	require.Greater(tb, len(all), 900)
	return all
}

func TestAppendCanonical_AsPythonWrites(t *testing.T) {
	t.Parallel()
	for _, one := range recordedPython(t) {
		got, err := evidence.AppendCanonical(nil, []byte(one.Text))
		if one.Canonical == nil {
			require.Error(t, err, one.Text)
			require.Error(t, evidence.CheckValue([]byte(one.Text)), one.Text)
			continue
		}
		require.NoError(t, err, one.Text)
		assert.Equal(t, *one.Canonical, string(got), one.Text)
	}
}

// FuzzCanonical compares the canonical form with one that is written from decoded values, as Python does it.
func FuzzCanonical(f *testing.F) {
	for _, one := range recordedPython(f) {
		f.Add([]byte(one.Text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := evidence.AppendCanonical([]byte("before"), raw)
		if !bytes.HasPrefix(got, []byte("before")) {
			t.Fatalf("what stood before is gone: %q", got)
		}
		if evidence.CheckValue(raw) != nil {
			return // that is FuzzCheck's
		}
		if err != nil {
			t.Fatalf("no canonical form of %q: %v", raw, err)
		}
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.UseNumber()
		var value any
		if err := decoder.Decode(&value); err != nil {
			t.Fatalf("accepted, but no JSON: %v", err)
		}
		if want := "before" + dumps(value); string(got) != want {
			t.Fatalf("got %q, want %q for %q", got, want, raw)
		}
	})
}

// dumps is Python's json.dumps for a decoded value.
func dumps(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(value)
	case string:
		return dumpsText(value)
	case json.Number:
		return dumpsNumber(value.String())
	case []any:
		var parts []string
		for _, element := range value {
			parts = append(parts, dumps(element))
		}
		return "[" + strings.Join(parts, ",") + "]"
	case map[string]any:
		var parts []string
		// Go orders strings by bytes, which in UTF-8 is Python's order by code points.
		for _, name := range slices.Sorted(maps.Keys(value)) {
			parts = append(parts, dumpsText(name)+":"+dumps(value[name]))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	panic("no JSON value")
}

func dumpsText(text string) string {
	var quoted strings.Builder
	quoted.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"', r == '\\':
			quoted.WriteByte('\\')
			quoted.WriteRune(r)
		case r >= 0x20:
			quoted.WriteRune(r)
		default:
			escaped, _ := json.Marshal(string(r)) // \b, \f, \n, \r, \t, else \u00XX
			quoted.Write(bytes.Trim(escaped, `"`))
		}
	}
	quoted.WriteByte('"')
	return quoted.String()
}

// dumpsNumber spells a number from the shortest digits that give its value, which Python places as repr does.
func dumpsNumber(number string) string {
	if !strings.ContainsAny(number, ".eE") {
		if number == "-0" {
			return "0"
		}
		return number
	}
	value, _ := strconv.ParseFloat(number, 64)
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(value, 'e', -1, 64), "e")
	sign := ""
	if mantissa[0] == '-' {
		sign, mantissa = "-", mantissa[1:]
	}
	digits := strings.Replace(mantissa, ".", "", 1)
	point, _ := strconv.Atoi(exponent)
	point++ // the decimal point stands behind so many digits
	switch {
	case point > 16 || point < -3:
		if len(digits) > 1 {
			digits = digits[:1] + "." + digits[1:]
		}
		return sign + digits + "e" + exponent
	case point <= 0:
		return sign + "0." + strings.Repeat("0", -point) + digits
	case point >= len(digits):
		return sign + digits + strings.Repeat("0", point-len(digits)) + ".0"
	default:
		return sign + digits[:point] + "." + digits[point:]
	}
}
