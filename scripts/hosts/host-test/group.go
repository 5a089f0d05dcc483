package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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

// endStrays kills what a host left running with that home: some start a service of their own, which outlives them. It finds them where
// the system shows the environment of processes in /proc.
func endStrays(home string) {
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return
	}
	for _, file := range environments {
		environ, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(append([]byte{0}, environ...), []byte("\x00HOME="+home+"\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && pid != os.Getpid() {
			if process, err := os.FindProcess(pid); err == nil {
				_ = process.Kill()
			}
		}
	}
}
