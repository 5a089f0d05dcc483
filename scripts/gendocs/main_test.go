package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadmeIsInSync(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	generated, err := generate(string(text))
	require.NoError(t, err)
	assert.Equal(t, generated, string(text), "run make generate")
}

func TestMissingMarkersAreAnError(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "<!-- begin tools (make generate) -->\n", "<!-- begin tools (make generate) -->\n<!-- end tools -->"} {
		_, err := generate(text)
		assert.Error(t, err)
	}
}
