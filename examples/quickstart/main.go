// Command quickstart shows the main job of loopgrid-mcp on any machine with Go, and needs nothing else:
//
//	go run ./examples/quickstart
//
// It builds the program, starts its sandbox (an in-memory LoopGrid), connects to the real program over stdio as an AI host does, and
// records two refunds: one that a person has to approve first, and one that the policy allows. Whatever does not go as it should
// ends it with exit code 1. It leaves no process behind; the evidence file stays where it says.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/scripts/launch"
)

// patience bounds everything after the build, which takes as long as it takes on a machine that builds for the first time.
const patience = time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted")
		}
		fmt.Fprintf(os.Stderr, "\nquickstart: %v\n", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

// run walks through the demonstration and prints it. When it returns, the processes that it started are gone. The error says what
// was not as expected.
func run(ctx context.Context, out io.Writer) error {
	t := &teller{out: out}
	t.line("loopgrid-mcp, in eight steps: two refunds become signed evidence")

	t.step("Build the program, and start its sandbox: LoopGrid in memory")
	bin, err := os.MkdirTemp("", "loopgrid-mcp-bin-")
	if err != nil {
		return fmt.Errorf("make a folder for the program: %w", err)
	}
	defer func() { _ = os.RemoveAll(bin) }()
	program, err := launch.Build(ctx, bin, launch.Program)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sandbox, err := launch.StartSandbox(ctx, program)
	if err != nil {
		return err
	}
	defer sandbox.Stop()
	t.fact("sandbox", sandbox.URL+" (for trying: what it records proves nothing)")

	evidenceDir, err := os.MkdirTemp("", "loopgrid-evidence-")
	if err != nil {
		return fmt.Errorf("make a folder for the evidence: %w", err)
	}
	defer func() { _ = os.Remove(evidenceDir) }() // which only works while nothing is in it
	var log bytes.Buffer
	server := exec.CommandContext(ctx, program)
	server.Env = launch.Environment("LOOPGRID_BASE_URL="+sandbox.URL, "LOOPGRID_EVIDENCE_DIR="+evidenceDir)
	server.Stderr = &log
	launch.EndGently(server)

	w := &walk{teller: t}
	if err := w.connect(ctx, &mcp.CommandTransport{Command: server}); err != nil {
		cancel()
		if server.Process != nil && server.ProcessState == nil {
			_ = server.Wait()
		}
		return withLog(err, &log)
	}
	walked := w.refunds(ctx)
	ended := w.session.Close() // The program ends when its input does; Close waits for that.
	switch {
	case walked != nil:
		return withLog(walked, &log)
	case ended != nil:
		return withLog(fmt.Errorf("end loopgrid-mcp: %w", ended), &log)
	}
	sandbox.Stop()
	t.line("")
	t.line("All of it went as it should, and no process is left behind.")
	t.next(w.bundle)
	return nil
}

// withLog adds what the program logged to an error.
func withLog(err error, log *bytes.Buffer) error {
	if log.Len() == 0 {
		return err
	}
	return fmt.Errorf("%w\n\nWhat loopgrid-mcp logged:\n%s", err, bytes.TrimSpace(log.Bytes()))
}

// next prints what to run after the demonstration.
func (t *teller) next(bundle string) {
	program := filepath.Join("bin", "loopgrid-mcp")
	absolute, err := filepath.Abs(program)
	if err != nil {
		absolute = program
	}
	t.line("")
	t.line("What to run next, in the folder of the repository:")
	t.commands("check the evidence without relying on any service (Python)",
		"pip install loopgrid-verify==0.1.0",
		"loopgrid-verify "+bundle)
	t.commands("build the program, and read what it can do",
		"go build -o bin/ ./cmd/loopgrid-mcp",
		program+" help")
	t.commands("run a sandbox to try it with an AI host of yours, and check the connection from another terminal",
		program+" sandbox",
		program+" doctor")
	t.commands("tell the host, here Claude Code",
		"claude mcp add loopgrid -- "+absolute)
}
