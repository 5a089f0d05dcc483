//go:build unix

package config

import "syscall"

const (
	openWithoutWaiting = syscall.O_NONBLOCK // opening a FIFO would wait for its writer
	modesCount         = true
)
