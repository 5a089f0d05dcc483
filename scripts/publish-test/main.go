// Command publish-test publishes what make dist has made twice, with the scripts of the release workflow, to registries on this
// machine: the second time must change nothing, and a file that differs under the same version must be refused.
//
//	go run ./scripts/publish-test
//
// The registries are Verdaccio for npm and pypiserver for PyPI, which it installs into bin/registries, a bare repository for Homebrew,
// and stand-ins for GitHub and the MCP Registry. It needs npm, Python and uv; what this machine lacks is skipped, with a word, or with
// -strict a failure. The container image is not among them: it takes Docker and a registry that has its base.
//
// Exit codes: 0 all passed, 1 something failed, 2 wrong usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/loopgridio/loopgrid-mcp/internal/cli"
	"github.com/loopgridio/loopgrid-mcp/scripts/launch"
)

// patience bounds one registry, with its installation.
const patience = 15 * time.Minute

func main() {
	strict := flag.Bool("strict", false, "fail where a tool is missing")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "publish-test takes no arguments besides its flags")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, *strict)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "publish-test:", err)
		os.Exit(1)
	}
}

// errMissing says that this machine lacks a tool.
var errMissing = errors.New("is not installed here")

// run publishes everywhere, and goes on after one that fails. What it makes lies in a folder that is gone when it returns.
func run(ctx context.Context, out io.Writer, strict bool) (err error) {
	scratch, err := os.MkdirTemp("", "loopgrid-publish-test-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	var failed []string
	for _, registry := range []struct {
		label   string
		publish func(context.Context, *trial) error
	}{
		{"npm", publishNPM},
		{"PyPI", publishPyPI},
		{"GitHub", publishGitHub},
		{"Homebrew", publishHomebrew},
		{"MCP Registry", publishRegistry},
	} {
		err := try(ctx, filepath.Join(scratch, strings.ReplaceAll(registry.label, " ", "-")), registry.publish)
		switch {
		case err == nil:
			fmt.Fprintf(out, "[PASS] %s: published, published again without effect, another file refused\n", registry.label)
		case errors.Is(err, errMissing) && !strict:
			fmt.Fprintf(out, "[SKIP] %s: %v\n", registry.label, err)
		default:
			fmt.Fprintf(out, "[FAIL] %s: %v\n", registry.label, err)
			failed = append(failed, registry.label)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of the registries: %s", len(failed), strings.Join(failed, ", "))
	}
	return nil
}

// try publishes to one registry from a copy of what the scripts read, so that files can be changed.
func try(ctx context.Context, folder string, publish func(context.Context, *trial) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, part := range []string{"dist", "packaging/publish"} {
		if err := os.CopyFS(filepath.Join(folder, part), os.DirFS(part)); err != nil {
			return fmt.Errorf("copy %s, which make dist makes: %w", part, err)
		}
	}
	changes, err := os.ReadFile("CHANGELOG.md")
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "CHANGELOG.md"), changes, 0o600) //nolint:gosec // A folder of our own.
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(folder, "bin"), 0o700)
	}
	if err != nil {
		return fmt.Errorf("copy the source tree: %w", err)
	}
	return publish(ctx, &trial{folder: folder, version: cli.Version})
}

// trial is a copy of the tree that publishes.
type trial struct {
	folder  string
	version string
	environ []string // for the scripts
}

// twice runs a script of packaging/publish twice: the second time it must succeed too, and say what it found.
func (t *trial) twice(ctx context.Context, found, script string, args ...string) error {
	if _, err := t.run(ctx, script, args...); err != nil {
		return err
	}
	printed, err := t.run(ctx, script, args...)
	if err != nil {
		return fmt.Errorf("again: %w", err)
	}
	if !strings.Contains(printed, found) {
		return fmt.Errorf("again: it does not say %q but\n%s", found, printed)
	}
	return nil
}

// refuse runs a script that has to fail, and to say why.
func (t *trial) refuse(ctx context.Context, why, script string, args ...string) error {
	printed, err := t.run(ctx, script, args...)
	if err == nil {
		return fmt.Errorf("%s succeeds with another file under the same version:\n%s", script, printed)
	}
	if !strings.Contains(err.Error(), why) {
		return fmt.Errorf("%s does not say %q: %w", script, why, err)
	}
	return nil
}

// run runs a script and returns all that it prints, which an error holds too.
func (t *trial) run(ctx context.Context, script string, args ...string) (string, error) {
	return t.command(ctx, append([]string{filepath.Join(t.folder, "packaging", "publish", script)}, args...)...)
}

func (t *trial) command(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = t.folder
	cmd.Env = append(launch.Environment(t.environ...), "PATH="+filepath.Join(t.folder, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	launch.EndGently(cmd)
	printed, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", filepath.Base(args[0]), err, printed)
	}
	return string(printed), nil
}

// program writes a shell script in place of a program that the scripts call.
func (t *trial) program(name, script string) error {
	if err := os.WriteFile(filepath.Join(t.folder, "bin", name), []byte("#!/usr/bin/env bash\nset -euo pipefail\n"+script), 0o700); err != nil { //nolint:gosec // It is to be run.
		return fmt.Errorf("write a stand-in: %w", err)
	}
	return nil
}

// spoil changes bytes of the first file in dist that the pattern names.
func (t *trial) spoil(pattern string, change func([]byte)) error {
	found, err := filepath.Glob(filepath.Join(t.folder, "dist", pattern))
	if err != nil || len(found) == 0 {
		return fmt.Errorf("find %s: %w", pattern, errors.Join(err, os.ErrNotExist))
	}
	content, err := os.ReadFile(found[0])
	if err != nil {
		return fmt.Errorf("change a file: %w", err)
	}
	change(content)
	if err := os.WriteFile(found[0], content, 0o600); err != nil { //nolint:gosec // In a folder of our own.
		return fmt.Errorf("change a file: %w", err)
	}
	return nil
}

// need finds the programs.
func need(names ...string) error {
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%s %w", name, errMissing)
		}
	}
	return nil
}
