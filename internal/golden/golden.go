// Package golden holds tests to files that the repository keeps: goldens, generated documents, examples. make update writes all of them
// anew. It is for tests alone.
package golden

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Updating says that the files are to be written: make update sets UPDATE_GOLDEN.
func Updating() bool {
	return os.Getenv("UPDATE_GOLDEN") != "" //nolint:forbidigo // a switch of make update, no setting of the program
}

// Equal fails the test if the file at path does not hold got. When [Updating], it writes the file first.
func Equal(tb testing.TB, path, got string) {
	tb.Helper()
	if Updating() {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // a folder of the repository
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil { //nolint:gosec // a file of the repository
			tb.Fatal(err)
		}
	}
	text, err := os.ReadFile(path) //nolint:gosec // named by a test
	if err != nil {
		tb.Fatalf("%v; make update writes it", err)
	}
	want := strings.ReplaceAll(string(text), "\r\n", "\n") // as git checks out on Windows
	if want != got {
		line := firstDifference(want, got)
		tb.Errorf("%s is stale from line %d on; make update writes it anew\nfile: %s\nnow:  %s", path, line+1, lineAt(want, line), lineAt(got, line))
	}
}

// firstDifference returns the index of the first line that differs.
func firstDifference(a, b string) int {
	n := 0
	for lineAt(a, n) == lineAt(b, n) {
		n++
	}
	return n
}

func lineAt(text string, n int) string {
	lines := strings.Split(text, "\n")
	if n >= len(lines) {
		return "(end)"
	}
	return lines[n]
}
