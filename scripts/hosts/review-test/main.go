// Command review-test puts the question of record_review to persons behind other official clients: Python's and both TypeScript ones, in
// both eras of the protocol.
//
//	go -C scripts/hosts run ./review-test
//	go -C scripts/hosts run ./review-test -command bin/loopgrid-mcp
//
// The clients are installed from their registries into a cache folder, in pinned versions, the first time. Python 3.10 and Node 20 or newer
// have to be there. Everything is recorded in a sandbox that it starts.
//
// Exit codes: 0 all passed, 1 something failed, 2 wrong usage.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/loopgridio/loopgrid-mcp/scripts/launch"
)

// patience bounds one client with all of its answers.
const patience = time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout)
	stop()
	os.Exit(code)
}

// run is the program. When it returns, the processes that it started are gone.
func run(ctx context.Context, args []string, out io.Writer) int {
	r := &report{out: out}
	flags := flag.NewFlagSet("review-test", flag.ContinueOnError)
	flags.SetOutput(out)
	command := flags.String("command", "", "the `binary` to try; built if not given")
	cache := flags.String("cache", filepath.Join("..", "..", "bin", "clients"), "the `folder` that the clients are installed in")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if flags.NArg() > 0 {
		r.line("FAIL", "review-test takes no arguments besides its flags")
		return 2
	}
	temp, err := os.MkdirTemp("", "loopgrid-review-test-")
	if err == nil {
		err = try(ctx, r, temp, *command, *cache)
		err = errors.Join(err, os.RemoveAll(temp))
	}
	if err != nil {
		r.line("FAIL", "%v", err)
		return 1
	}
	r.line("PASS", "Persons behind other clients were asked, and what they answered was recorded.")
	return 0
}

// try goes through all clients; one that fails does not keep the others from being tried.
func try(ctx context.Context, r *report, temp, command, cache string) error {
	installed, err := install(ctx, cache)
	if err != nil {
		return err
	}
	if command == "" {
		command, err = launch.Build(ctx, temp, launch.Program)
	} else {
		command, err = filepath.Abs(command)
	}
	if err != nil {
		return err
	}
	sandbox, err := launch.StartSandbox(ctx, command)
	if err != nil {
		return err
	}
	defer sandbox.Stop()
	environ := launch.Environment("LOOPGRID_BASE_URL="+sandbox.URL, "LOOPGRID_EVIDENCE_DIR="+filepath.Join(temp, "evidence"),
		"LOOPGRID_MCP_ENABLE_REVIEW_TOOL=true", "LOOPGRID_MCP_REVIEWER_ID="+reviewer)
	var failures []error
	for _, c := range installed.clients(command) {
		if err := c.try(ctx, r, environ); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", c.name, err))
		}
	}
	return errors.Join(failures...)
}

// try gives all answers of the plan by one client, and checks what came of each.
func (c client) try(ctx context.Context, r *report, environ []string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	steps := plan()
	input, err := json.Marshal(steps)
	if err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	cmd := exec.CommandContext(ctx, c.command[0], c.command[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &stdout, &stderr
	cmd.Env = environ
	launch.EndGently(cmd)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w\n%.2000s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	var happened []event
	if err := json.Unmarshal(stdout.Bytes(), &happened); err != nil {
		return fmt.Errorf("read what happened: %w", err)
	}
	if len(happened) != len(steps) {
		return fmt.Errorf("%d of %d answers were given", len(happened), len(steps))
	}
	for i, step := range steps {
		if err := step.check(happened[i], c.version); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		r.line("PASS", "%s: %s", c.name, step.name)
	}
	return nil
}

// report prints the lines. An output that cannot be written to ends nothing: the exit code tells the result too.
type report struct{ out io.Writer }

func (r *report) line(result, format string, args ...any) {
	_, _ = fmt.Fprintf(r.out, "[%s] %s\n", result, fmt.Sprintf(format, args...))
}
