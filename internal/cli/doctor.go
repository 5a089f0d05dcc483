package cli

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/loopgridio/loopgrid-mcp/internal/config"
)

// runDoctor checks the settings and asks the service for its health. The lines that the Python bridge printed are printed as it did.
func runDoctor(ctx context.Context, p Process, args []string) int {
	if len(args) > 0 {
		return usage(p, "doctor takes no arguments")
	}
	s := config.Load()
	for _, w := range s.Warnings {
		fmt.Fprintf(p.Stdout, "[WARN] %s\n  → %s\n", w.Message, w.Remedy)
	}
	for _, problem := range s.Problems {
		fmt.Fprintf(p.Stdout, "[FAIL] %s\n  → %s\n", problem.Message, problem.Remedy)
	}
	if len(s.Problems) > 0 {
		return exitUsage
	}
	client := newClient(s, slog.New(slog.DiscardHandler))
	const remedy = "  → Check that LoopGrid runs at LOOPGRID_BASE_URL and that the address is right.\n"
	health, err := client.Health(ctx)
	if err != nil {
		fmt.Fprintf(p.Stdout, "[FAIL] %v\n"+remedy, err)
		return exitFailed
	}
	ready, err := client.Ready(ctx)
	if err != nil {
		fmt.Fprintf(p.Stdout, "[FAIL] %v\n  → LoopGrid runs, but it cannot record: its operator should look at its database and its log.\n", err)
		return exitFailed
	}
	fmt.Fprintf(p.Stdout, "[OK] LoopGrid reachable: %s\n", s.BaseURL)
	fmt.Fprintf(p.Stdout, "[OK] version: %s\n", known(health.Version))
	fmt.Fprintf(p.Stdout, "[OK] evidence profile: %s\n", known(health.EvidenceProfile))
	fmt.Fprintf(p.Stdout, "[OK] database: %s\n", known(ready.Database))
	fmt.Fprintf(p.Stdout, "[OK] signer: %s\n", known(ready.Signer))
	fmt.Fprintf(p.Stdout, "[OK] MCP workspace: %s\n", s.Workspace)
	fmt.Fprintf(p.Stdout, "[INFO] service key configured: %s\n", yesNo(s.ServiceKey.IsSet()))
	fmt.Fprintf(p.Stdout, "[INFO] human review tool enabled: %s\n", yesNo(s.EnableReviewTool))
	fmt.Fprintf(p.Stdout, "[INFO] raw payload export enabled: %s\n", yesNo(s.AllowPayloadExport))
	fmt.Fprintf(p.Stdout, "[INFO] evidence directory: %s (%s)\n", s.EvidenceDir.Path, s.EvidenceDir.Why)
	if health.Sandbox {
		fmt.Fprint(p.Stdout, "[WARN] this is a sandbox, not LoopGrid: what it records proves nothing\n  → Set LOOPGRID_BASE_URL to a LoopGrid service to keep evidence.\n")
	}
	return exitOK
}

func known(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
