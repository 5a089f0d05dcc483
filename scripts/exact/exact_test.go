package exact_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/scripts/exact"
)

func TestSame(t *testing.T) {
	t.Parallel()
	numbers := jsontext.Value(exact.Numbers)
	require.NoError(t, exact.Same(numbers, numbers))
	require.NoError(t, exact.Same(jsontext.Value(`{ "b": 100.0, "a": 1e-5 }`), jsontext.Value(`{"a":1e-05,"b":1e2}`)))
	require.ErrorContains(t, exact.Same(nil, numbers), "it is missing")
	require.ErrorContains(t, exact.Same(jsontext.Value(`{`), numbers), "read what came back")
	require.ErrorContains(t, exact.Same(numbers, jsontext.Value(`{`)), "read what was sent")

	for from, to := range map[string]string{
		"9007199254740993":               "9007199254740992",
		"720.0":                          "720",
		"1e2":                            "100",
		"1.10":                           "1.100001",
		"1e-05":                          "0.0",
		"-0.0":                           "0.0",
		"123456789012345678901234567890": "1.2345678901234568e+29",
		`"big"`:                          `"Big"`,
	} {
		changed := strings.Replace(exact.Numbers, from, to, 1)
		require.NotEqual(t, exact.Numbers, changed, from)
		require.ErrorContains(t, exact.Same(jsontext.Value(changed), numbers), "not what was sent", from)
	}
}
