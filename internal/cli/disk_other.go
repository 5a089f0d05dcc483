//go:build !linux && !darwin && !freebsd && !windows

package cli

import (
	"errors"
	"io/fs"
)

// freeBytes cannot tell on this system.
func freeBytes(string) (uint64, error) { return 0, errors.ErrUnsupported }

// isForeign cannot tell on this system.
func isForeign(fs.FileInfo) bool { return false }
