package config_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLoadFrom_NamesWhatIsSet(t *testing.T) {
	t.Parallel()

	s := load(t)
	assert.Empty(t, s.Set)
	assert.Empty(t, s.Unread)
	assert.False(t, s.NoColor)

	s = load(t, "LOOPGRID_SERVICE_KEY=k", "LOOPGRID_BASE_URL=nonsense", "LOOPGRID_WORKSPACE= ", "LOOPGRID_EVIDENCE_DIR=",
		"LOOPGRID_SIGNING_\x1b[31mKEY=x", "LOOPGRID_DATABASE_URL=postgresql://user:pw@host/db", "LOOPGRID_EMPTY=", "OTHER=1", "NO_COLOR=0")
	assert.Equal(t, []string{"LOOPGRID_BASE_URL", "LOOPGRID_SERVICE_KEY"}, s.Set, "in the order of the documentation, usable or not")
	assert.Equal(t, []string{"LOOPGRID_DATABASE_URL", "LOOPGRID_SIGNING_?[31mKEY"}, s.Unread, "nothing in a name can reach a terminal")
	assert.True(t, s.NoColor, "any text counts")

	assert.False(t, load(t, "NO_COLOR=").NoColor)
}
