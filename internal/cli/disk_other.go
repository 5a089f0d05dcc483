//go:build !linux && !darwin && !freebsd && !windows

package cli

import "errors"

// freeBytes cannot tell on this system.
func freeBytes(string) (uint64, error) { return 0, errors.ErrUnsupported }
