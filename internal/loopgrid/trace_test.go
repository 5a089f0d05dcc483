package loopgrid_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

// A caller's trace goes on to LoopGrid as it is, or not at all.
func TestTraceContext(t *testing.T) {
	t.Parallel()
	const (
		id     = "4bf92f3577b34da6a3ce929d0e0e4736"
		parent = "00-" + id + "-00f067aa0ba902b7-01"
		state  = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"
	)
	for name, c := range map[string]struct {
		parent, state string
		wantParent    bool
		wantState     bool
	}{
		"both":                      {parent, state, true, true},
		"no state":                  {parent, "", true, false},
		"a tenant, blanks":          {parent, "fw529a3039@dt=FfAAAABB , a= b", true, true},
		"an empty member":           {parent, "a=1,,b=2", true, true},
		"a later version":           {"cc-" + id + "-00f067aa0ba902b7-01-what-comes", state, true, true},
		"more in this version":      {parent + "-more", state, false, false},
		"version ff":                {"ff" + parent[2:], state, false, false},
		"capitals":                  {strings.ToUpper(parent), state, false, false},
		"no trace id":               {"00-00000000000000000000000000000000-00f067aa0ba902b7-01", state, false, false},
		"no parent id":              {"00-" + id + "-0000000000000000-01", state, false, false},
		"short":                     {parent[1:], state, false, false},
		"a header in it":            {parent + "\r\nX-Loopgrid-Key: other", state, false, false},
		"a line break at its end":   {parent + "\n", state, false, false},
		"empty":                     {"", state, false, false},
		"a header in the state":     {parent, "a=1\r\nX-Loopgrid-Key: other", true, false},
		"a key twice":               {parent, "a=1,a=2", true, false},
		"no value":                  {parent, "a", true, false},
		"capital key":               {parent, "A=1", true, false},
		"33 members":                {parent, strings.Repeat("a=1,", 32) + "b=2", true, false},
		"513 characters":            {parent, "a=" + strings.Repeat("x", 250) + ",b=" + strings.Repeat("y", 257), true, false},
		"what is not ASCII":         {parent, "a=é", true, false},
		"an equals sign in a value": {parent, "a=b=c", true, false},
		"the longest key":           {parent, strings.Repeat("k", 241) + "=1", true, true},
		"a longer key":              {parent, strings.Repeat("k", 242) + "=1", true, false},
		"the longest system":        {parent, "t@" + strings.Repeat("s", 14) + "=1", true, true},
		"a longer system":           {parent, "t@" + strings.Repeat("s", 15) + "=1", true, false},
		"the longest value":         {parent, "a=" + strings.Repeat("v", 256), true, true},
		"a longer value":            {parent, "a=" + strings.Repeat("v", 257), true, false},
		"the longest later version": {"cc-" + id + "-00f067aa0ba902b7-01-" + strings.Repeat("x", 200), state, true, true},
		"a longer later version":    {"cc-" + id + "-00f067aa0ba902b7-01-" + strings.Repeat("x", 201), state, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := mount(t, answerJSON(verifyText))
			ctx, got := loopgrid.WithTrace(t.Context(), c.parent, c.state)
			_, err := m.Verify(ctx, decisionID)
			require.NoError(t, err)
			header := m.only(t).header
			if c.wantParent {
				assert.Equal(t, id, got)
				assert.Equal(t, []string{c.parent}, header["Traceparent"])
			} else {
				assert.Empty(t, got)
				assert.Empty(t, header["Traceparent"])
			}
			if c.wantState {
				assert.Equal(t, []string{c.state}, header["Tracestate"])
			} else {
				assert.Empty(t, header["Tracestate"])
			}
			assert.Equal(t, []string{serviceKey}, header["X-Loopgrid-Key"])
		})
	}
}
