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
// the same socket as stdin, its mode has changed with it, and it is wrapped as well.
func polled(stdin, stdout *os.File) (in, out *os.File) {
	info, err := stdin.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 || syscall.SetNonblock(int(stdin.Fd()), true) != nil {
		return stdin, stdout
	}
	in = os.NewFile(stdin.Fd(), stdin.Name())
	if flags, err := unix.FcntlInt(stdout.Fd(), unix.F_GETFL, 0); err == nil && flags&unix.O_NONBLOCK != 0 {
		stdout = os.NewFile(stdout.Fd(), stdout.Name())
	}
	return in, stdout
}
