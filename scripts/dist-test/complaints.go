package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/loopgridio/loopgrid-mcp/scripts/launch"
)

// refuseSource has pip build the source distribution, as it does where no wheel fits: it must say in one line what to do.
func (t *trial) refuseSource(ctx context.Context, folder string) error {
	if _, err := t.installPip(ctx, folder); err != nil {
		return err // The virtual environment with pip comes from there.
	}
	source, err := t.find("loopgrid_mcp-" + t.version + ".tar.gz")
	if err != nil {
		return err
	}
	python := filepath.Join(folder, "venv", "bin", "python")
	if windows {
		python = filepath.Join(folder, "venv", "Scripts", "python.exe")
	}
	printed, err := refused(ctx, folder, nil, python, "-m", "pip", "--isolated", "install", "--no-index", "--no-cache-dir", "--force-reinstall", source)
	if err != nil {
		return err
	}
	for line := range strings.Lines(printed) {
		if strings.Contains(line, "has wheels for Linux, macOS 12 and Windows") && strings.Contains(line, "go install github.com/loopgridio/loopgrid-mcp/cmd/loopgrid-mcp@v"+t.version) {
			return nil
		}
	}
	return fmt.Errorf("the build of the source distribution does not say in one line what to do:\n%s", printed)
}

// refuseBrokenNPM breaks the program that npm has installed in several ways: each must end in one line and exit code 1.
func (t *trial) refuseBrokenNPM(ctx context.Context, folder string) error {
	npm, err := lookPath("npm")
	if err != nil {
		return err
	}
	node, err := lookPath("node")
	if err != nil {
		return err
	}
	npx, err := t.installNPX(ctx, folder) // For its registry.
	if err != nil {
		return err
	}
	if _, err := command(ctx, folder, npx.environ, []string{npm, "install", "--no-save", "loopgrid-mcp@" + t.version}); err != nil {
		return err
	}
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	system := map[string]string{"windows": "win32"}[runtime.GOOS]
	if system == "" {
		system = runtime.GOOS
	}
	platform := filepath.Join(folder, "node_modules", "@loopgridio", "mcp-"+system+"-"+arch)
	program := filepath.Join(platform, "bin", "loopgrid-mcp"+executable(".exe"))
	starter := filepath.Join(folder, "node_modules", "loopgrid-mcp", "bin", "loopgrid-mcp.js")

	type fault struct {
		makeIt func() error
		says   string
	}
	faults := []fault{
		{func() error { return os.WriteFile(program, []byte("\x7fELF for another processor"), 0o600) }, "cannot be run"},
		{func() error { return os.RemoveAll(platform) }, "package-lock.json"},
	}
	if !windows {
		faults = append([]fault{{func() error { return os.Chmod(program, 0o600) }, "chmod +x"}}, faults...)
		faults[1].makeIt = func() error {
			return errors.Join(os.Chmod(program, 0o700), os.WriteFile(program, []byte("\x7fELF for another processor"), 0o600)) //nolint:gosec // It is to be run.
		}
	}
	for _, fault := range faults {
		if err := fault.makeIt(); err != nil {
			return fmt.Errorf("break the program: %w", err)
		}
		printed, err := refused(ctx, folder, nil, node, starter, "version")
		if err != nil {
			return err
		}
		if !strings.Contains(printed, fault.says) || strings.Count(strings.TrimSpace(printed), "\n") > 0 {
			return fmt.Errorf("it prints %q, not one line with %q", printed, fault.says)
		}
	}
	return nil
}

// refused runs a command that has to end with 1, and returns all that it prints.
func refused(ctx context.Context, folder string, environ []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = folder
	cmd.Env = launch.Environment(environ...)
	launch.EndGently(cmd)
	printed, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != 1 {
		return "", fmt.Errorf("%s ends with %s, not with exit status 1\n%s", strings.Join(args, " "), cmd.ProcessState, printed)
	}
	return string(printed), nil
}
