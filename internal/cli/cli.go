// Package cli is the program: its subcommands, what they print and how they exit.
//
// It joins the other packages together. It must not touch the process: arguments, streams and signals are handed to [Run], and the
// environment is read by package config alone.
package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // something was tried and did not work
	exitUsage  = 2 // wrong arguments, or a configuration that cannot be used
)

// Process is what the program gets from its process.
type Process struct {
	Args     []string // as os.Args
	Stdin    io.Reader
	Stdout   io.Writer
	Stderr   io.Writer
	Terminal bool // stdin is a terminal: a person started it, not a host
	// StdoutTerminal says that stdout is a terminal, which shows colours.
	StdoutTerminal bool
	// Transport carries the requests to LoopGrid. Nil: the network.
	Transport http.RoundTripper
	// Executable is the path of the program's own file, "" where it is not known.
	Executable string
	// LockDir is the folder of the lock files; empty is [loopgrid.DefaultLockDir].
	LockDir string
	// OS is the system that config writes for, as [runtime.GOOS] names it; empty is this one.
	OS string
	// Stop is closed at the first signal that asks the program to end.
	Stop <-chan struct{}
}

// Run runs the subcommand that the arguments name, or serves MCP where they name none, and returns the exit code.
func Run(ctx context.Context, p Process) int {
	args := p.Args[1:]
	// The second program that the Python bridge installed.
	if name := strings.TrimSuffix(filepath.Base(p.Args[0]), ".exe"); name == "loopgrid-mcp-doctor" {
		args = append([]string{"doctor"}, args...)
	}
	if len(args) == 0 {
		return runServe(ctx, p)
	}
	out := &printer{out: p.Stdout}
	p.Stdout = out
	code := runCommand(ctx, p, args)
	if err := out.failed(); err != nil {
		fmt.Fprintf(p.Stderr, "loopgrid-mcp: cannot write to stdout: %v\n", err)
		code = max(code, exitFailed)
	}
	return code
}

func runCommand(ctx context.Context, p Process, args []string) int {
	switch command, rest := args[0], args[1:]; command {
	case "doctor":
		return runDoctor(ctx, p, rest)
	case "sandbox":
		return runSandbox(ctx, p, rest)
	case "config":
		return runConfig(p, rest)
	case "version", "--version", "-version", "-v":
		return alone(p, command, rest, runVersion)
	case "help", "--help", "-help", "-h":
		return alone(p, command, rest, runHelp)
	default:
		return usage(p, fmt.Sprintf("unknown command %q", command))
	}
}

// alone runs a command that takes no arguments.
func alone(p Process, command string, rest []string, run func(io.Writer) int) int {
	if len(rest) > 0 {
		return usage(p, command+" takes no arguments")
	}
	return run(p.Stdout)
}

// usage says what is wrong with the command line, and where to read on.
func usage(p Process, problem string) int {
	fmt.Fprintf(p.Stderr, "loopgrid-mcp: %s\nRun loopgrid-mcp help for the commands.\n", problem)
	return exitUsage
}

// printer is the stdout of a command: it remembers that something could not be written.
type printer struct {
	out io.Writer

	mu  sync.Mutex
	err error
}

func (p *printer) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := p.out.Write(text)
	if p.err == nil {
		p.err = err
	}
	return n, err
}

func (p *printer) failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}
