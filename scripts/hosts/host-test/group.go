package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"sync"
	"time"
)

const (
	// stopsWithin is how long what was asked to end may take.
	stopsWithin = 3 * time.Second
	// maxOutput is how much of what a program prints is kept.
	maxOutput = 1 << 20
)

// runGroup runs a command with all that it starts, and returns what it printed. When it returns, they are gone.
func runGroup(cmd *exec.Cmd) ([]byte, error) {
	out := &head{}
	cmd.Stdout, cmd.Stderr = out, out
	ownGroup(cmd)
	cmd.Cancel = func() error { return endGroup(cmd, false) }
	cmd.WaitDelay = stopsWithin
	err := cmd.Run()
	if cmd.Process != nil {
		_ = endGroup(cmd, true) // the usual error says that nothing is left
	}
	if err != nil {
		err = fmt.Errorf("run %s: %w", cmd.Path, err)
	}
	return out.bytes(), err
}

// head keeps the beginning of what is written to it.
type head struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text.Write(p[:min(len(p), maxOutput-h.text.Len())])
	return len(p), nil
}

func (h *head) bytes() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return bytes.Clone(h.text.Bytes())
}
