//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// isTerminal says whether a file is a terminal: /dev/null is a character device too.
func isTerminal(f *os.File) bool {
	raw, err := f.SyscallConn() // Fd could change the mode of a pipe that others share
	if err != nil {
		return false
	}
	var ioctlErr error
	err = raw.Control(func(fd uintptr) { _, ioctlErr = unix.IoctlGetWinsize(int(fd), unix.TIOCGWINSZ) })
	return err == nil && ioctlErr == nil
}

// showsColors says whether a file is a terminal.
func showsColors(f *os.File) bool { return isTerminal(f) }
