//go:build !windows

package bundle

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestSaveInADirectoryThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	content := wholeBundle(t, testDecision, false)
	for _, below := range []string{"", "a/b"} {
		dir := t.TempDir()
		if os.Geteuid() == 0 { // whom modes do not stop
			if runtime.GOOS != "linux" {
				t.Skip("root may write everywhere here")
			}
			dir = "/sys"
		} else {
			require.NoError(t, os.Chmod(dir, 0o500)) //nolint:gosec // a directory
		}
		dir = filepath.Join(dir, below)

		_, err := keep(t, dir, false, content)

		require.ErrorIs(t, err, ErrDir, dir)
		require.ErrorContains(t, err, dir[:4], dir)
		assert.NoFileExists(t, filepath.Join(dir, testDecision+"-evidence.zip"))
	}
}

func TestSaveLeavesANamedPipeAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, testDecision+"-evidence.zip")
	require.NoError(t, unix.Mkfifo(path, 0o600))

	_, err := keep(t, dir, false, wholeBundle(t, testDecision, false))

	require.ErrorIs(t, err, ErrTarget)
	require.ErrorContains(t, err, "is not a regular file")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 1)
}

// A full disk, as far as a process can have one of its own: the test runs itself once more with a limit on the size of files.
//
//nolint:paralleltest // the limit is that of the process
func TestSaveBeyondTheFileSizeLimit(t *testing.T) {
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &limit))
	if limit.Cur > 1<<20 {
		self, err := os.Executable()
		require.NoError(t, err)
		// The limit is in blocks of 512 or 1024 bytes.
		const again = `ulimit -f 64 && exec "$0" -test.run='^TestSaveBeyondTheFileSizeLimit$' -test.v`
		cmd := exec.CommandContext(t.Context(), "sh", "-c", again, self) //nolint:gosec // the test itself
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.Contains(t, string(out), "--- PASS: TestSaveBeyondTheFileSizeLimit")
		return
	}

	dir := t.TempDir()
	old := filepath.Join(dir, testDecision+"-evidence.zip")
	require.NoError(t, os.WriteFile(old, []byte("old"), 0o600))

	_, err := keep(t, dir, false, zipOf(t, append(bundleEntries(testDecision, false), largeEntry(1<<20))...))

	require.ErrorIs(t, err, ErrNoRoom)
	require.ErrorContains(t, err, dir)
	assert.Equal(t, map[string]string{old: "old"}, filesIn(t, dir))

	_, err = keep(t, dir, false, wholeBundle(t, testDecision, false))
	require.NoError(t, err, "a small one still fits")
}

func TestNoRoomIsToldApart(t *testing.T) {
	t.Parallel()
	for _, err := range []error{unix.ENOSPC, unix.EDQUOT, unix.EFBIG} {
		path := &os.PathError{Op: "write", Path: "/d/" + newTemporaryName(), Err: err}
		require.ErrorIs(t, (&folder{path: "/d"}).writeError("write", path), ErrNoRoom)
		require.ErrorIs(t, dirError(path), ErrNoRoom)
		assert.Equal(t, "there is no room for the evidence bundle: write in /d: "+err.Error(), (&folder{path: "/d"}).writeError("write", path).Error())
	}
	link := &os.LinkError{Op: "rename", Old: "a", New: "b", Err: unix.EACCES}
	require.ErrorIs(t, (&folder{path: "/d"}).writeError("rename", link), ErrDir)
	require.EqualError(t, (&folder{path: "/d"}).writeError("rename", link), "the evidence directory cannot be used: rename in /d: permission denied")
}

// largeEntry is not compressed, so that it makes a large ZIP.
func largeEntry(size int) zipEntry { return zipEntry{"large", strings.Repeat("x", size)} }
