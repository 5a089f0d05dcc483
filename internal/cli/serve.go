package cli

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/loopgridio/loopgrid-mcp/internal/bridge"
	"github.com/loopgridio/loopgrid-mcp/internal/config"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

// runServe serves MCP until the host closes stdin. A broken configuration does not keep it from starting, because hosts hide a server
// that ends: the calls that it touches are answered with what is wrong.
func runServe(ctx context.Context, p Process) int {
	settings := config.Load()
	stderr := newLogWriter(p.Stderr)
	defer stderr.flush()
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: settings.LogLevel}))
	for _, w := range settings.Warnings {
		log.Warn("configuration", slog.String("variable", w.Variable), slog.String("problem", w.Message), slog.String("remedy", w.Remedy))
	}
	for _, problem := range settings.Problems {
		log.Error("configuration", slog.String("variable", problem.Variable), slog.String("problem", problem.Message), slog.String("remedy", problem.Remedy))
	}
	if p.NoStdin {
		fmt.Fprintln(stderr, "loopgrid-mcp: stdin is connected to nothing, so no MCP host can speak to it: start it from a host; containers need docker run -i, or stdin_open: true in compose.")
	}
	if p.Terminal {
		fmt.Fprintln(stderr, "loopgrid-mcp is waiting for an MCP host on stdin. loopgrid-mcp config HOST prints how to set up a host, loopgrid-mcp doctor checks the setup; Ctrl-C quits.")
	}
	b := bridge.New(bridge.Options{Settings: settings, Version: Version, Client: newClient(p, settings, log), Log: log})
	if err := b.Serve(ctx, p.Stdin, p.Stdout, p.Stop); err != nil {
		log.Error("the session ended", slog.Any("error", err))
		return exitFailed
	}
	return exitOK
}

// newClient returns the client for the settings; nil where they do not name a service and a workspace that can be used.
func newClient(p Process, s config.Settings, log *slog.Logger) *loopgrid.Client {
	if len(s.ProblemsFor(config.AllCalls)) > 0 {
		return nil
	}
	lockDir, err := p.lockDir()
	if err != nil {
		log.Warn("the write lock covers only this process; other processes can write at the same time", slog.Any("error", err))
	}
	return loopgrid.New(loopgrid.Options{
		BaseURL: s.BaseURL, Workspace: s.Workspace, ServiceKey: s.ServiceKey.Reveal(), UserAgent: "loopgrid-mcp/" + Version,
		Timeout: s.Timeout, MaxEvidenceBytes: s.MaxEvidenceBytes, LockDir: lockDir, Transport: p.Transport,
		CACertificates: s.CACertificates, Log: log, RereadKey: rereadKey(s), WriteLock: loopgrid.WriteLock(s.WriteLock),
	})
}

// rereadKey returns how the client reads the key again from its file; nil where the key comes from no file.
func rereadKey(s config.Settings) func() (string, error) {
	if s.RereadServiceKey == nil {
		return nil
	}
	return func() (string, error) {
		key, err := s.RereadServiceKey()
		return key.Reveal(), err
	}
}

// lockDir returns the folder of the lock files; the error says why there is none.
func (p Process) lockDir() (string, error) {
	if p.LockDir != "" {
		return p.LockDir, nil
	}
	return loopgrid.DefaultLockDir()
}
