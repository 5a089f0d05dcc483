package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDocument(t *testing.T) {
	t.Parallel()
	text := document([]string{"System: a machine", "go: go version"}, "abc", map[string]result{
		"test":    {Passed: true, Commit: "abc", Date: "2026-01-02", Command: "go test ./..."},
		"install": {Passed: false, Commit: "abc", Date: "2026-01-02", Command: "make dist-test", Lines: []string{"[SKIP] Windows under Wine: wine64 is not installed here"}},
		"demo":    {Passed: true, Commit: "older", Date: "2026-01-01", Command: "make demo"},
		"image":   {Passed: true, Commit: "abc", Date: "2026-01-02", Command: "make image-test ENGINE='podman'"},
	})
	for name, want := range map[string]string{
		"test": "| `go test ./...` | passed, 2026-01-02 |\n", "install": "| `make dist-test` | **failed**, 2026-01-02 |\n",
		"demo": "| `make demo` | passed, 2026-01-01, at older |\n", "image": "| `make image-test ENGINE='podman'` | passed, 2026-01-02 |\n",
		"publish": "| `make publish-test` | **not run** |\n",
	} {
		assert.Contains(t, text, want, name)
	}
	assert.Contains(t, text, "\nIn detail, `make dist-test`:\n\n```text\n[SKIP] Windows under Wine: wine64 is not installed here\n```\n")
	assert.Contains(t, text, "- System: a machine\n- go: go version\n")
}

func TestCheckRun_KeepsWhatTheLogTells(t *testing.T) {
	t.Chdir(t.TempDir())
	require.Error(t, func() error { _, err := check{name: "a"}.run(t.Context(), ""); return err }(), "there is no folder")
	c := check{"x", "", `echo noise; echo "[PASS] archive: works (0.4 s)"; echo "[SKIP] b: is not installed here" >&2; exit 1`}
	require.NoError(t, os.MkdirAll(folder, 0o700))
	r, err := c.run(t.Context(), "abc")
	require.NoError(t, err)
	assert.False(t, r.Passed)
	assert.Equal(t, []string{"[PASS] archive: works", "[SKIP] b: is not installed here"}, r.Lines)
}

func TestRun_UnknownNamesAndTheList(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.ErrorContains(t, run(context.Background(), &out, false, []string{"nothing"}), `there is no check "nothing"`)
	require.NoError(t, run(context.Background(), &out, true, nil))
	assert.Len(t, checks(), strings.Count(out.String(), "\n"))
}
