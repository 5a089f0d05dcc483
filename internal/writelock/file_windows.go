package writelock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// lockOffsetHigh is the high half of the offset of the byte that is locked. Locks are mandatory on Windows: this byte
// is far beyond the time at the start of the file, so that a person can read that while the lock is held.
const lockOffsetHigh = 1 << 30

// DefaultDir returns the folder of the lock files: one place for all processes of this user, in the local application
// data folder. The system is asked for it and not the environment, of which hosts pass on almost nothing.
func DefaultDir() (string, error) {
	local, err := windows.KnownFolderPath(windows.FOLDERID_LocalAppData, windows.KF_FLAG_DEFAULT)
	if err != nil {
		return "", fmt.Errorf("find the local application data folder: %w", err)
	}
	return filepath.Join(local, "loopgrid-mcp"), nil
}

// checkLockDir accepts every folder: modes mean nothing here, and the folder's parent is closed to other users.
func checkLockDir(os.FileInfo) error { return nil }

// checkOwner accepts every file, for the same reason.
func checkOwner(os.FileInfo) error { return nil }

// flock locks the file. If it must not block and another handle holds the lock, it returns false.
func flock(f *os.File, block bool) (ok bool, err error) {
	flags := uint32(windows.LOCKFILE_EXCLUSIVE_LOCK)
	if !block {
		flags |= windows.LOCKFILE_FAIL_IMMEDIATELY
	}
	// The handle is synchronous, so without the second flag the call returns when the lock is there.
	err = windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{OffsetHigh: lockOffsetHigh})
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION) && !block:
		return false, nil
	}
	return false, fmt.Errorf("lock %s: %w", f.Name(), err)
}

// funlock drops the lock.
func funlock(f *os.File) error {
	err := windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &windows.Overlapped{OffsetHigh: lockOffsetHigh})
	if err != nil {
		return fmt.Errorf("unlock %s: %w", f.Name(), err)
	}
	return nil
}
