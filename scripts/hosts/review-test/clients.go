package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// The clients, pinned: a new one is tried on purpose.
const (
	pythonClient = "mcp==2.3.0"
	firstSDK     = "@modelcontextprotocol/sdk@1.32.2"
	secondSDK    = "@modelcontextprotocol/client@2.4.0"

	olderProtocol  = "2025-11-25" // the newest that begins with initialize
	newestProtocol = "2026-07-28"
)

var (
	//go:embed client.py
	pythonProgram []byte
	//go:embed client.mjs
	nodeProgram []byte
)

// client is an official client in one era of the protocol.
type client struct {
	name    string
	version string // of the protocol
	command []string
}

// clients are the installed clients.
type clients struct {
	python, node               string // the interpreters
	pythonProgram, nodeProgram string
}

// clients returns the clients to try, each with the command that goes through the plan with the program at that path.
func (i clients) clients(program string) []client {
	return []client{
		{"Python " + pythonClient + ", " + olderProtocol, olderProtocol, []string{i.python, i.pythonProgram, program, "legacy"}},
		{"Python " + pythonClient + ", " + newestProtocol, newestProtocol, []string{i.python, i.pythonProgram, program, newestProtocol}},
		{"TypeScript " + firstSDK, olderProtocol, []string{i.node, i.nodeProgram, program, "v1"}},
		{"TypeScript " + secondSDK + ", " + olderProtocol, olderProtocol, []string{i.node, i.nodeProgram, program, "legacy"}},
		{"TypeScript " + secondSDK + ", " + newestProtocol, newestProtocol, []string{i.node, i.nodeProgram, program, newestProtocol}},
	}
}

// install puts the clients and the programs that drive them into the cache folder, unless they are there.
func install(ctx context.Context, cache string) (clients, error) {
	cache, err := filepath.Abs(cache)
	if err != nil {
		return clients{}, fmt.Errorf("find the cache folder: %w", err)
	}
	if err := os.MkdirAll(cache, 0o750); err != nil {
		return clients{}, fmt.Errorf("make the cache folder: %w", err)
	}
	installed := clients{node: "node", pythonProgram: filepath.Join(cache, "client.py"), nodeProgram: filepath.Join(cache, "client.mjs")}
	for path, text := range map[string][]byte{installed.pythonProgram: pythonProgram, installed.nodeProgram: nodeProgram} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return clients{}, fmt.Errorf("write the driver of a client: %w", err)
		}
	}
	environment := filepath.Join(cache, "python")
	installed.python = filepath.Join(environment, "bin", "python")
	base := "python3"
	if runtime.GOOS == "windows" {
		installed.python, base = filepath.Join(environment, "Scripts", "python.exe"), "python"
	}
	err = once(filepath.Join(cache, "python.installed"), pythonClient, func() error {
		if err := command(ctx, cache, base, "-m", "venv", "--clear", environment); err != nil {
			return err
		}
		return command(ctx, cache, installed.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", pythonClient)
	})
	if err != nil {
		return clients{}, fmt.Errorf("install the Python client: %w", err)
	}
	err = once(filepath.Join(cache, "node.installed"), firstSDK+" "+secondSDK, func() error {
		return command(ctx, cache, "npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", cache, firstSDK, secondSDK)
	})
	if err != nil {
		return clients{}, fmt.Errorf("install the TypeScript clients: %w", err)
	}
	return installed, nil
}

// once does what, unless the file says that it was done, and notes there that it was.
func once(mark, what string, do func() error) error {
	switch text, err := os.ReadFile(mark); {
	case err == nil && string(text) == what:
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("look what is installed: %w", err)
	}
	if err := do(); err != nil {
		return err
	}
	if err := os.WriteFile(mark, []byte(what), 0o600); err != nil {
		return fmt.Errorf("note what is installed: %w", err)
	}
	return nil
}

func command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%.2000s", name, err, bytes.TrimSpace(out))
	}
	return nil
}
