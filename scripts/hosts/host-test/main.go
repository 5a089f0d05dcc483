// Command host-test tries loopgrid-mcp in real AI hosts: Claude Code, Codex, Gemini CLI, Copilot CLI, OpenCode, Qwen Code, Cline, Kilo and
// the MCP Inspector.
//
//	go -C scripts/hosts run ./host-test [-cache DIRECTORY] [HOST...]
//
// It fetches pinned versions of them from the npm registry into the cache, about two gigabytes, once. Each one is set up as loopgrid-mcp
// config says, in a home of its own, and is pointed at a model on the loopback that makes five calls. What it then sends to the program is
// written down. The test passes if the host connects, lists the six tools and records a decision, an action and an outcome in a sandbox
// that asks for a key, with every digit that the host sent. It goes through that in both spellings of the tool names and with a repeated
// initialize, and then finds out what the model hears of a service that is down. No login and no real key is needed, and past the
// installation no network: the hosts are given a proxy that is not there.
//
// It needs npm and Node. Exit codes: 0 all passed, 1 something failed, 2 wrong usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/loopgridio/loopgrid-mcp/scripts/launch"
)

// patience bounds what one host may take, without its installation.
const patience = 3 * time.Minute

func main() {
	if isTap(os.Args[0]) {
		os.Exit(tap(os.Args[0], os.Args[1:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout)
	stop()
	os.Exit(code)
}

// run is the program. When it returns, the processes that it started are gone.
func run(ctx context.Context, args []string, out io.Writer) int {
	r := &report{out: out}
	flags := flag.NewFlagSet("host-test", flag.ContinueOnError)
	flags.SetOutput(out)
	cache := flags.String("cache", filepath.Join("..", "..", "bin", "host-test"), "the `directory` that hosts are installed in")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	chosen := hosts()
	if flags.NArg() > 0 {
		var names []string
		for _, h := range hosts() {
			names = append(names, h.name)
		}
		chosen = slices.DeleteFunc(chosen, func(h host) bool { return !slices.Contains(flags.Args(), h.name) })
		if len(chosen) < flags.NArg() {
			r.line("FAIL", "the hosts are %s", strings.Join(names, ", "))
			return 2
		}
	}
	if err := try(ctx, r, *cache, chosen); err != nil {
		r.line("FAIL", "%v", err)
		return 1
	}
	if r.failed {
		return 1
	}
	r.line("PASS", "The host test passed.")
	return 0
}

// try installs the hosts and tries one after the other. A host that fails does not keep the others from being tried.
func try(ctx context.Context, r *report, cache string, chosen []host) error {
	cache, err := filepath.Abs(cache)
	if err != nil {
		return fmt.Errorf("find the cache: %w", err)
	}
	// Some hosts refuse to keep programs below the directory for temporary files, so the homes are here.
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return fmt.Errorf("make the cache: %w", err)
	}
	scratch, err := os.MkdirTemp(cache, "run-")
	if err != nil {
		return fmt.Errorf("make a directory for the run: %w", err)
	}
	defer os.RemoveAll(scratch) //nolint:errcheck // it is in a cache that may be deleted
	program, err := launch.Build(ctx, scratch, launch.Program)
	if err != nil {
		return err
	}
	node, err := node().install(ctx, r, cache)
	if err != nil {
		return err
	}
	for _, h := range chosen {
		where, err := h.install(ctx, r, cache)
		if err == nil {
			err = tryHost(ctx, r, h, &places{scratch: filepath.Join(scratch, h.name), binary: program, node: nodePath(node), installed: where})
		}
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			r.failed = true
			r.line("FAIL", "%s %s: %v", h.name, h.version, err)
		}
	}
	return nil
}

// report prints the lines. An output that cannot be written to ends nothing: the exit code tells the result too.
type report struct {
	out    io.Writer
	failed bool
}

func (r *report) line(result, format string, args ...any) {
	_, _ = fmt.Fprintf(r.out, "[%s] %s\n", result, fmt.Sprintf(format, args...))
}
