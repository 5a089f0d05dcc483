//go:build unix

package main

import (
	"os/signal"
	"syscall"
)

// ignoreBrokenPipe turns a host that closed our stdout into an error of Write: the signal would end the process in the middle of
// a write to LoopGrid.
func ignoreBrokenPipe() { signal.Ignore(syscall.SIGPIPE) }
