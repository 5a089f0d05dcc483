package evidence_test

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

func TestHasLargeIntegers(t *testing.T) {
	t.Parallel()
	for _, number := range []string{
		"9007199254740992", "9007199254740993", "-9007199254740992", "9007199254740992.0", "9007199254740993.000", "9.007199254740992e15", "9007199254740992e0",
		"90071992547409920e-1", "0.9007199254740992e+16", "900719925474099.2e1", "1e16", "1E300", "-1e16", "123456789012345678901234567890", "10000000000000000", "1e99999999999999999999",
	} {
		for _, text := range []string{number, `{"a":[{"b":` + number + `}]}`, `{"x":"9","b":` + number + ` }`, "[1, " + number + ",2]"} {
			assert.True(t, evidence.HasLargeIntegers(jsontext.Value(text)), text)
		}
	}
	for _, text := range []string{
		"9007199254740991", "-9007199254740991", "9007199254740991.0", "9007199254740992.5", "9007199254740993e-1", "720.0", "1e2", "1e15", "9e15", "0", "-0.0", "0e99999999999999999999",
		"1e-99999999999999999999", "0.00000000000000000001", `"9007199254740993"`, `{"9007199254740993":"9007199254740993\"9007199254740993"}`, "true", "null", "[]", "12345678901234567890.5",
	} {
		assert.False(t, evidence.HasLargeIntegers(jsontext.Value(text)), text)
	}
}
