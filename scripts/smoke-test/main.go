// Command smoke-test tries a LoopGrid service over REST, without MCP: it walks the story of a refund, and compares every digit of what the
// service then holds with what was sent.
//
//	LOOPGRID_BASE_URL=http://127.0.0.1:8000 go run ./scripts/smoke-test
//
// It reads the same variables as loopgrid-mcp (LOOPGRID_BASE_URL, LOOPGRID_SERVICE_KEY, LOOPGRID_WORKSPACE). What it records is
// synthetic, of decision type loopgrid_mcp_smoke_test, and stays: a ledger forgets nothing. The key needs the scopes ingest and read.
//
// Exit codes: 0 all passed, 1 something failed, 2 the settings cannot be used.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/loopgridio/loopgrid-mcp/examples/story"
	"github.com/loopgridio/loopgrid-mcp/internal/config"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

// agent is who acts, and who reviews in a sandbox.
const agent = "loopgrid-mcp-smoke-test"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, config.Load(), os.Stdout)
	stop()
	os.Exit(code)
}

// run tries the service that the settings name, prints a line per step, and returns the exit code.
func run(ctx context.Context, s config.Settings, out io.Writer) int {
	r := &report{out: out}
	if problems := s.ProblemsFor(config.AllCalls); len(problems) > 0 {
		for _, p := range problems {
			r.line("FAIL", "%s %s", p.Message, p.Remedy)
		}
		return 2
	}
	// Without a directory for locks only this process is kept in order, and this is all it does.
	lockDir, _ := loopgrid.DefaultLockDir()
	client := loopgrid.New(loopgrid.Options{
		BaseURL: s.BaseURL, Workspace: s.Workspace, ServiceKey: s.ServiceKey.Reveal(), UserAgent: "loopgrid-mcp-smoke-test",
		Timeout: s.Timeout, MaxEvidenceBytes: s.MaxEvidenceBytes, LockDir: lockDir,
	})
	if err := try(ctx, r, client); err != nil {
		r.line("FAIL", "%v", err)
		r.line("FAIL", "The smoke test of %s failed.", s.BaseURL)
		return 1
	}
	r.line("PASS", "The smoke test of %s passed.", s.BaseURL)
	return 0
}

// try asks how the service is, walks the story, and compares what the service holds then with what was sent.
func try(ctx context.Context, r *report, client *loopgrid.Client) (err error) {
	health, err := client.Health(ctx)
	if err != nil {
		return fmt.Errorf("health: %w", err)
	}
	kind := ""
	if health.Sandbox {
		kind = " (a sandbox, not LoopGrid)"
	}
	r.line("PASS", "health: version %s, evidence profile %s%s", health.Version, health.EvidenceProfile, kind)
	ready, err := client.Ready(ctx)
	if err != nil {
		return fmt.Errorf("ready: %w", err)
	}
	r.line("PASS", "ready: database %s, signer %s", ready.Database, ready.Signer)
	dir, err := os.MkdirTemp("", "loopgrid-smoke-test-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	rest := &rest{client: client, reviews: health.Sandbox, dir: dir}
	s := &story.Story{Caller: rest, DecisionType: "loopgrid_mcp_smoke_test", Agent: agent}
	if rest.reviews {
		s.Confirmation = "host"
	}
	if err := s.Walk(ctx, r); err != nil {
		return err
	}
	return rest.readBack(ctx, r, s.Decision)
}

// report prints the lines. An output that cannot be written to ends nothing: the exit code tells the result too.
type report struct{ out io.Writer }

func (r *report) line(result, format string, args ...any) {
	_, _ = fmt.Fprintf(r.out, "[%s] %s\n", result, fmt.Sprintf(format, args...))
}

// Begin is silent: a line is printed when the step is over.
func (r *report) Begin(story.Step) {}

// End prints the line of a step.
func (r *report) End(step story.Step, told story.Told) {
	if told.Skipped != "" {
		r.line("SKIP", "%s: %s", step.Name, told.Skipped)
		return
	}
	r.line("PASS", "%s: %s", step.Name, told)
}
