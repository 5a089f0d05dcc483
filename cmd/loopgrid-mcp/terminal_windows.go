package main

import (
	"os"
	"syscall"
)

// showsColors says whether a file is a console that understands the escape sequences of colours: older ones print them.
func showsColors(f *os.File) bool {
	const virtualTerminal = 0x4 // ENABLE_VIRTUAL_TERMINAL_PROCESSING

	var mode uint32
	return syscall.GetConsoleMode(syscall.Handle(f.Fd()), &mode) == nil && mode&virtualTerminal != 0
}

// isTerminal says whether a file is a console: NUL is a character device too.
func isTerminal(f *os.File) bool {
	var mode uint32
	return syscall.GetConsoleMode(syscall.Handle(f.Fd()), &mode) == nil
}
