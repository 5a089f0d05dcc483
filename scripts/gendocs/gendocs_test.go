package gendocs_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/golden"
	"github.com/loopgridio/loopgrid-mcp/scripts/gendocs"
)

const readme = "../../README.md"

func TestDocuments(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(readme)
	require.NoError(t, err)
	generated, err := gendocs.Tables(strings.ReplaceAll(string(text), "\r\n", "\n"))
	require.NoError(t, err)
	golden.Equal(t, readme, generated)
	golden.Equal(t, "../../.env.example", gendocs.EnvExample())
	golden.Equal(t, "../../docs/warnings.md", gendocs.Warnings())
}

func TestMissingMarkersAreAnError(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "<!-- begin tools (make update) -->\n", "<!-- begin tools (make update) -->\n<!-- end tools -->"} {
		_, err := gendocs.Tables(text)
		assert.Error(t, err)
	}
}
