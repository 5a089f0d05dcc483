package bundle

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func mountTmpfs(t *testing.T, flags uintptr, options string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", flags, options); err != nil {
		t.Skipf("needs a file system of its own, and this user may not mount one: %v", err)
	}
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

func TestSaveOnAFullDisk(t *testing.T) {
	t.Parallel()
	dir := mountTmpfs(t, 0, "size=128k")
	old := filepath.Join(dir, testDecision+"-evidence.zip")
	require.NoError(t, os.WriteFile(old, []byte("old"), 0o600))

	large := zipOf(t, append(bundleEntries(testDecision, false), largeEntry(1<<20))...)
	for range 3 { // what is left behind would fill the disk for good
		_, err := keep(t, dir, false, large)
		require.ErrorIs(t, err, ErrNoRoom)
		require.ErrorIs(t, err, unix.ENOSPC)
		require.ErrorContains(t, err, dir)
		assert.Equal(t, map[string]string{old: "old"}, filesIn(t, dir))
	}

	_, err := keep(t, dir, false, wholeBundle(t, testDecision, false))
	require.NoError(t, err, "a small one still fits")
}

func TestSaveOnADiskWithoutRoomForANewFile(t *testing.T) {
	t.Parallel()
	dir := mountTmpfs(t, 0, "nr_inodes=1") // the root directory's
	for _, below := range []string{"", "a"} {
		_, err := keep(t, filepath.Join(dir, below), false, wholeBundle(t, testDecision, false))
		require.ErrorIs(t, err, ErrNoRoom)
		require.ErrorContains(t, err, filepath.Join(dir, below))
	}
}

func TestSaveOnAReadOnlyMount(t *testing.T) {
	t.Parallel()
	dir := mountTmpfs(t, unix.MS_RDONLY, "")
	for _, below := range []string{"", "a/b"} {
		_, err := keep(t, filepath.Join(dir, below), false, wholeBundle(t, testDecision, false))
		require.ErrorIs(t, err, ErrDir)
		require.ErrorIs(t, err, unix.EROFS)
		require.ErrorContains(t, err, dir)
	}
	assert.Empty(t, filesIn(t, dir))
}
