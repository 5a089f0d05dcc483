package main

import (
	"context"
	"os/exec"
	"strconv"
)

// ownGroup does nothing: on Windows the system knows which process started which.
func ownGroup(*exec.Cmd) {}

// endGroup kills the command and what it started: Windows has no way to ask.
func endGroup(cmd *exec.Cmd, _ bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopsWithin)
	defer cancel()
	return exec.CommandContext(ctx, "taskkill", "/T", "/F", "/PID", strconv.Itoa(cmd.Process.Pid)).Run()
}
