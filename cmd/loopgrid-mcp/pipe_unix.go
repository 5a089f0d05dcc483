//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// ignoreBrokenPipe turns a host that closed our stdout into an error of Write: the signal would end the process in the middle of
// a write to LoopGrid.
func ignoreBrokenPipe() { signal.Ignore(syscall.SIGPIPE) }

// polled returns stdin such that a read parks a goroutine and not a thread, which saves a fifth of the time of a call: the thread
// that read a message can go on with it. It is for pipes and sockets alone; a terminal's mode is the shell's too. Where stdout is
// the same socket, its mode would change with it, so both stay as they are.
func polled(stdin, stdout *os.File) *os.File {
	info, err := stdin.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 || nonblocking(stdin) || nonblocking(stdout) {
		return stdin
	}
	if syscall.SetNonblock(int(stdin.Fd()), true) != nil {
		return stdin
	}
	if nonblocking(stdout) {
		_ = syscall.SetNonblock(int(stdin.Fd()), false) // it was so before
		return stdin
	}
	return os.NewFile(stdin.Fd(), stdin.Name()) // os.Stdin stays, or its descriptor would be closed with it
}

func nonblocking(f *os.File) bool {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_NONBLOCK != 0
}
