//go:build unix

package loopgrid

import (
	"math"
	"syscall"
)

// descriptorLimit returns how many files and connections this process may have open.
func descriptorLimit() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil || uint64(limit.Cur) > math.MaxInt32 { //nolint:unconvert // signed on some systems
		return math.MaxInt32
	}
	return int(limit.Cur)
}
