//go:build linux || darwin || freebsd

package cli

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// freeBytes returns how many bytes this user may still write to the file system of a directory.
func freeBytes(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	// The types differ between systems; FreeBSD counts below zero where only root has space left.
	available, size := int64(s.Bavail), int64(s.Bsize) //nolint:gosec,unconvert // no file system has 2^63 blocks
	return uint64(max(0, available)) * uint64(max(0, size)), nil
}

// isForeign says whether a file belongs to another user than root and this one.
func isForeign(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid()
}
