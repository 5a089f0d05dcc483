package golden_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/golden"
)

// recorder is a test that takes note of its failures.
type recorder struct {
	testing.TB

	said string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) { r.said += fmt.Sprintf(format, args...) }

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	panic(r)
}

func (r *recorder) equal(path, got string) (said string) {
	defer func() {
		if caught := recover(); caught != nil && caught != r {
			panic(caught)
		}
		said = r.said
	}()
	golden.Equal(r, path, got)
	return ""
}

func TestEqual(t *testing.T) {
	t.Setenv("UPDATE_GOLDEN", "")
	path := filepath.Join(t.TempDir(), "folder", "file.txt")
	check := func(got string) string { return (&recorder{TB: t}).equal(path, got) }
	assert.Contains(t, check("a\n"), "make update writes it")

	t.Setenv("UPDATE_GOLDEN", "1")
	assert.Empty(t, check("a\nb\n"))
	t.Setenv("UPDATE_GOLDEN", "")
	assert.Empty(t, check("a\nb\n"))
	assert.Contains(t, check("a\nc\n"), "is stale from line 2 on; make update writes it anew\nfile: b\nnow:  c")
	assert.Contains(t, check("a\nb\nc\n"), "line 3 on")
	assert.Contains(t, check("a"), "line 2 on")

	require.NoError(t, os.WriteFile(path, []byte("a\r\nb\r\n"), 0o600))
	assert.Empty(t, check("a\nb\n"), "checked out on Windows")
}
