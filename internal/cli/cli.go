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
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/loopgridio/loopgrid-mcp/internal/config"
	"github.com/loopgridio/loopgrid-mcp/internal/text"
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
	// NoStdin says that stdin is connected to nothing, as /dev/null is: no host can speak to the program.
	NoStdin bool
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
	if isServe(args) {
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

// isServe says whether the arguments ask to serve. Other servers take a command or --transport stdio, so hosts are set up with them.
func isServe(args []string) bool {
	if len(args) > 0 && (args[0] == "serve" || args[0] == "stdio") {
		args = args[1:]
	}
	switch strings.Join(args, " ") {
	case "", "--stdio", "--transport stdio", "--transport=stdio", "-t stdio":
		return true
	}
	return false
}

// command is a subcommand.
type command struct {
	name  string
	words []string // other spellings
	run   func(context.Context, Process, []string) int
}

func commands() []command {
	return []command{
		{name: "serve", words: []string{"stdio"}, run: func(_ context.Context, p Process, args []string) int {
			return usage(p, "serve: unknown argument "+quotedArgument(args[0])+"; it speaks MCP over stdio only")
		}},
		{name: "doctor", run: runDoctor},
		{name: "sandbox", run: runSandbox},
		{name: "config", run: func(_ context.Context, p Process, args []string) int { return runConfig(p, args) }},
		{name: "version", words: []string{"--version", "-version", "-v", "-V"}, run: func(_ context.Context, p Process, args []string) int {
			if len(args) > 0 {
				return usage(p, "version takes no arguments")
			}
			return runVersion(p.Stdout)
		}},
		{name: "help", words: []string{"--help", "-help", "-h"}, run: func(_ context.Context, p Process, args []string) int { return runHelp(p, args) }},
	}
}

func findCommand(name string) (command, bool) {
	for _, c := range commands() {
		if c.name == name || slices.Contains(c.words, name) {
			return c, true
		}
	}
	return command{}, false
}

func runCommand(ctx context.Context, p Process, args []string) int {
	c, ok := findCommand(args[0])
	if !ok {
		problem := "unknown command " + quotedArgument(args[0]) + didYouMean(args[0], commandNames())
		if !p.Terminal {
			problem += "\nA host starts the server without arguments: then loopgrid-mcp speaks MCP on stdin and stdout."
		}
		return usage(p, problem)
	}
	for _, arg := range args[1:] {
		switch arg {
		case "-h", "--help", "-help":
			return runHelp(p, []string{c.name})
		case "-V", "--version":
			return runVersion(p.Stdout)
		}
	}
	return c.run(ctx, p, args[1:])
}

func commandNames() []string {
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
	}
	return names
}

// didYouMean names the known word that a mistyped one is nearest to, as the end of an error.
func didYouMean(typed string, known []string) string {
	if near := config.Nearest(typed, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// quotedArgument shows an argument in an error, unless it is a key that was given in the wrong place.
func quotedArgument(arg string) string {
	const longest = 40
	if strings.Contains(arg, "lg_") {
		return "(not shown: it looks like a key)"
	}
	return strconv.Quote(text.Clip(arg, longest))
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
	n, err := p.out.Write(text) // not under the lock: a reader that never reads must not keep the command from ending
	p.mu.Lock()
	defer p.mu.Unlock()
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
