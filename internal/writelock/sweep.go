package writelock

import (
	"os"
	"strings"
	"time"
)

// untouched is how long the files of a lock are kept after the last write that used it.
const untouched = 30 * 24 * time.Hour

// sweep removes the files of locks that nobody has used for long, except those of the lock named own. A lock file goes under its own lock,
// so none is removed that somebody holds; a process that has it open finds out that it is gone before it relies on it. What cannot be
// removed stays: the folder only grows a little.
func sweep(root *os.Root, own string) {
	dir, err := root.Open(".")
	if err != nil {
		return
	}
	defer dir.Close() //nolint:errcheck // Only read.
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return
	}
	for _, entry := range entries {
		name, isLock := strings.CutSuffix(entry.Name(), lockSuffix)
		info, err := entry.Info()
		if !isLock || name == own || err != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) < untouched {
			continue
		}
		removeUnused(root, name)
	}
}

func removeUnused(root *os.Root, name string) {
	file, err := openLockFile(root, name+lockSuffix)
	if err != nil {
		return
	}
	defer file.Close() //nolint:errcheck // Nothing was written to it.
	if ok, err := flock(file.File, false); !ok || err != nil {
		return
	}
	// Somebody may have used it since.
	if info, err := file.Stat(); err != nil || time.Since(info.ModTime()) < untouched || !file.current() {
		return
	}
	_ = root.Remove(name + gateSuffix) // Without its lock it does no harm.
	_ = root.Remove(name + lockSuffix) // Windows removes no open file.
}
