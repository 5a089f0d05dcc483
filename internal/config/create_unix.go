//go:build unix

package config

import (
	"os"
	"syscall"
)

// canCreateIn says whether dir is a directory in which this process may create
// files. It asks the system, and creates nothing.
func canCreateIn(dir string) bool {
	const writeAndSearch = 0x2 | 0x1 // W_OK | X_OK of access(2)

	info, err := os.Stat(dir)

	return err == nil && info.IsDir() && syscall.Access(dir, writeAndSearch) == nil
}
