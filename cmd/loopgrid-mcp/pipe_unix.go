//go:build unix

package main

import (
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// ignoreBrokenPipe turns a host that closed our stdout into an error of Write: the signal would end the process in the middle of
// a write to LoopGrid.
func ignoreBrokenPipe() { signal.Ignore(syscall.SIGPIPE) }

// patientFile is a stream that other processes share. Node makes its pipes non-blocking for all of them, so that a read or a write may
// fail with EAGAIN where it should wait.
type patientFile struct{ file *os.File }

func shared(f *os.File) patientFile { return patientFile{f} }

func (p patientFile) Write(data []byte) (int, error) {
	written := 0
	for {
		n, err := p.file.Write(data[written:])
		written += n
		if !errors.Is(err, syscall.EAGAIN) {
			return written, err
		}
		if err := wait(p.file, unix.POLLOUT); err != nil {
			return written, err
		}
	}
}

func (p patientFile) Read(data []byte) (int, error) {
	for {
		n, err := p.file.Read(data)
		if n > 0 || !errors.Is(err, syscall.EAGAIN) {
			return n, err
		}
		if err := wait(p.file, unix.POLLIN); err != nil {
			return 0, err
		}
	}
}

// wait blocks until f is ready or broken, which the next read or write then tells.
func wait(f *os.File, event int16) error {
	ready := []unix.PollFd{{Fd: int32(f.Fd()), Events: event}} //nolint:gosec // a descriptor
	for {
		if _, err := unix.Poll(ready, -1); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// hostInput is stdin. While it is read, reads park a goroutine and not a thread, which saves a fifth of the time of a call: the thread
// that read a message can go on with it. That takes O_NONBLOCK, which everybody who has the pipe open shares: a shell that reads its
// commands or its loop from the same pipe would lose lines, so it is set at the first read and taken back at the end.
type hostInput struct {
	stdin, stdout *os.File

	mu      sync.Mutex
	reader  patientFile
	changed bool // O_NONBLOCK is ours
	over    bool
}

func newHostInput(stdin, stdout *os.File) *hostInput {
	return &hostInput{stdin: stdin, stdout: stdout}
}

func (in *hostInput) Read(data []byte) (int, error) { return in.begin().Read(data) }

func (in *hostInput) begin() patientFile {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.reader.file == nil {
		in.reader.file = in.stdin
		if !in.over && in.poll() {
			in.changed = true
			in.reader.file = os.NewFile(in.stdin.Fd(), in.stdin.Name()) // os.Stdin stays, or its descriptor would be closed with it
		}
	}
	return in.reader
}

// poll makes stdin non-blocking and reports whether it did. It leaves all but pipes and sockets alone, because a terminal's mode is the
// shell's too. Where stdout is the same socket, its mode would change with it, so both stay as they are.
func (in *hostInput) poll() bool {
	info, err := in.stdin.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 || nonblocking(in.stdin) || nonblocking(in.stdout) {
		return false
	}
	if syscall.SetNonblock(int(in.stdin.Fd()), true) != nil {
		return false
	}
	if nonblocking(in.stdout) {
		_ = syscall.SetNonblock(int(in.stdin.Fd()), false) // it was so before
		return false
	}
	return true
}

// restore leaves stdin as it was found.
func (in *hostInput) restore() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.over = true; in.changed {
		in.changed = false
		_ = syscall.SetNonblock(int(in.stdin.Fd()), false)
	}
}

func nonblocking(f *os.File) bool {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_NONBLOCK != 0
}
