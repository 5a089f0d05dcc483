package bundle

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"
)

// A viewer that has the old file open keeps it from being replaced: told after the patience, with the old file as it was.
func TestSaveOverAFileThatIsOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, testDecision+"-evidence.zip")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	name, err := windows.UTF16PtrFromString(path)
	require.NoError(t, err)
	viewer, err := windows.CreateFile(name, windows.GENERIC_READ, windows.FILE_SHARE_READ, nil, windows.OPEN_EXISTING, 0, 0)
	require.NoError(t, err)

	_, err = keep(t, dir, false, wholeBundle(t, testDecision, false))

	require.NoError(t, windows.CloseHandle(viewer))
	require.ErrorIs(t, err, ErrTarget)
	require.ErrorContains(t, err, path)
	assert.Equal(t, map[string]string{path: "old"}, filesIn(t, dir))

	_, err = keep(t, dir, false, wholeBundle(t, testDecision, false))
	require.NoError(t, err, "once it is closed")
}

func TestNoRoomIsToldApart(t *testing.T) {
	t.Parallel()
	for _, code := range []error{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED} {
		path := &os.PathError{Op: "write", Path: newTemporaryName(), Err: code}
		require.ErrorIs(t, (&folder{path: `C:\d`}).writeError("write", path), ErrNoRoom)
		require.ErrorIs(t, dirError(path), ErrNoRoom)
	}
}
