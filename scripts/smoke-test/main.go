// Command smoke-test tries a LoopGrid service over REST, without MCP: whether it records, keeps every digit, and hands out evidence.
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
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/loopgridio/loopgrid-mcp/internal/config"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

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
	t := &trial{report: r, client: loopgrid.New(loopgrid.Options{
		BaseURL: s.BaseURL, Workspace: s.Workspace, ServiceKey: s.ServiceKey.Reveal(), UserAgent: "loopgrid-mcp-smoke-test",
		Timeout: s.Timeout, MaxEvidenceBytes: s.MaxEvidenceBytes, LockDir: lockDir,
	})}
	for _, step := range t.steps() {
		said, err := step.try(ctx)
		if err != nil {
			r.line("FAIL", "%s: %v", step.name, err)
			r.line("FAIL", "The smoke test of %s failed.", s.BaseURL)
			return 1
		}
		if said.skipped {
			r.line("SKIP", "%s: %s", step.name, said.what)
		} else {
			r.line("PASS", "%s: %s", step.name, said.what)
		}
	}
	r.line("PASS", "The smoke test of %s passed.", s.BaseURL)
	return 0
}

// report prints the lines. An output that cannot be written to ends nothing: the exit code tells the result too.
type report struct{ out io.Writer }

func (r *report) line(result, format string, args ...any) {
	_, _ = fmt.Fprintf(r.out, "[%s] %s\n", result, fmt.Sprintf(format, args...))
}
