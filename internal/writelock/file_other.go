//go:build aix || (!unix && !windows)

package writelock

import (
	"errors"
	"fmt"
	"os"
)

// DefaultDir fails: there is no advisory file lock here, the writes of one process are all that can be ordered.
func DefaultDir() (string, error) {
	return "", fmt.Errorf("find the lock folder: %w", errors.ErrUnsupported)
}

func checkLockDir(os.FileInfo) error { return errors.ErrUnsupported }

func checkOwner(os.FileInfo) error { return errors.ErrUnsupported }

func flock(*os.File, bool) (ok bool, err error) { return false, errors.ErrUnsupported }

func funlock(*os.File) error { return errors.ErrUnsupported }
