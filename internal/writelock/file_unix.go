//go:build unix && !aix

package writelock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// DefaultDir returns the folder of the lock files: one place for all processes of this user. It does not come from the
// environment: hosts pass on almost none of it, and two processes with different ones would not meet.
func DefaultDir() (string, error) {
	return filepath.Join("/tmp", "loopgrid-mcp-"+strconv.Itoa(os.Geteuid())), nil
}

// checkLockDir refuses a folder that somebody else owns or could look or write into.
func checkLockDir(info os.FileInfo) error {
	if info.Mode().Perm() != 0o700 {
		return fmt.Errorf("has mode %v instead of 0700", info.Mode().Perm())
	}
	return checkOwner(info)
}

// checkOwner refuses what another user owns.
func checkOwner(info os.FileInfo) error {
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int64(stat.Uid) != int64(os.Geteuid()) {
		return errors.New("belongs to another user")
	}
	return nil
}

// flock locks the file. If it must not block and another descriptor holds the lock, it returns false.
func flock(f *os.File, block bool) (ok bool, err error) {
	how := unix.LOCK_EX
	if !block {
		how |= unix.LOCK_NB
	}
	for {
		err := unix.Flock(int(f.Fd()), how)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		default:
			return false, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
}

// funlock drops the lock.
func funlock(f *os.File) error {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_UN); err != nil {
		return fmt.Errorf("unlock %s: %w", f.Name(), err)
	}
	return nil
}
