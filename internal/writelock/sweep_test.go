package writelock

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The files of a lock that nobody has used for 30 days are removed, unless somebody holds it.
func TestOldLockFilesAreRemoved(t *testing.T) {
	t.Parallel()
	dir := lockFolder(t)
	open := func(name string, age time.Duration) *Lock {
		l := New(Options{Dir: dir, Name: name, Warn: func(msg string) { t.Errorf("warning: %s", msg) }})
		closeAtEnd(t, l)
		locked(t, l).Leave()
		then := time.Now().Add(-age)
		for _, suffix := range []string{lockSuffix, gateSuffix} {
			require.NoError(t, os.Chtimes(filepath.Join(dir, name+suffix), then, then))
		}
		return l
	}
	const day = 24 * time.Hour
	old, held := open("old", 31*day), open("held", 31*day)
	open("fresh", 29*day)
	holder := locked(t, held)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "note.txt"), nil, 0o600))
	require.NoError(t, os.Chtimes(filepath.Join(dir, "note.txt"), time.Time{}, time.Now().Add(-99*day)))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder.lock"), 0o700))

	open("ledger", 0)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	require.Equal(t, []string{"folder.lock", "fresh.gate", "fresh.lock", "held.gate", "held.lock", "ledger.gate", "ledger.lock", "note.txt"}, files)
	holder.Leave()

	// A process that had them open makes them again.
	again := locked(t, old)
	other := New(Options{Dir: dir, Name: "old"})
	closeAtEnd(t, other)
	requireShut(t, other, waitFile)
	again.Leave()
}
