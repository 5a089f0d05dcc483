// Package launch builds the program and runs its sandbox as a child process, for the demo and the scripts that try the program from
// outside. It knows how the program is built, what its sandbox prints, and which lock files a bridge leaves for it. It must not know MCP.
package launch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/loopgridio/loopgrid-mcp/internal/writelock"
)

// Program is the import path of the program's main package, for [Build] and [BuildRelease].
const Program = module + "/cmd/loopgrid-mcp"

const module = "github.com/loopgridio/loopgrid-mcp"

// stopsWithin is how long a child that was asked to end may take before it is killed.
const stopsWithin = 2 * time.Second

// Build compiles a main package of this module into dir, and returns the path of the binary. It works in every folder of the module.
// The error holds what the compiler printed.
func Build(ctx context.Context, dir, pkg string) (string, error) {
	return build(ctx, dir, pkg, os.Environ())
}

// BuildRelease is [Build] with the flags of a release (see the Makefile): a stripped, static binary.
func BuildRelease(ctx context.Context, dir, pkg string) (string, error) {
	return build(ctx, dir, pkg, append(os.Environ(), "CGO_ENABLED=0"), "-trimpath", "-tags=nethttpomithttp2", "-ldflags=-s -w")
}

func build(ctx context.Context, dir, pkg string, environ []string, flags ...string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", path.Base(pkg), err)
	}
	binary := filepath.Join(dir, path.Base(pkg))
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	root, err := moduleDir(ctx)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", path.Base(pkg), err)
	}
	args := append([]string{"-C", root, "build", "-buildvcs=false", "-o", binary}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Env = environ
	EndGently(cmd)
	// However busy the machine is: a compiler that outlives go would go on writing into the folder for temporary files.
	cmd.WaitDelay = 0
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", path.Base(pkg), err, bytes.TrimSpace(out))
	}
	return binary, nil
}

// moduleDir returns the folder of this module, from its own folders and from those of a module that replaces it by a path.
func moduleDir(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("find the folder of %s: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Environment returns the environment of this process without the program's own settings, and with those given as NAME=value: what
// the user has set for real work must not reach a trial, nor a trial the user's service.
func Environment(settings ...string) []string {
	var environ []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(strings.ToUpper(variable), "LOOPGRID_") {
			environ = append(environ, variable)
		}
	}
	return append(environ, settings...)
}

// Sandbox is a running "loopgrid-mcp sandbox".
type Sandbox struct {
	// URL is its address, for LOOPGRID_BASE_URL.
	URL string

	cancel context.CancelFunc
	ended  chan struct{}
}

// StartSandbox starts the sandbox of the program at that path on a free port of the loopback, and returns as soon as it listens. It
// ends with ctx, or by [Sandbox.Stop].
func StartSandbox(ctx context.Context, program string) (*Sandbox, error) {
	ctx, cancel := context.WithCancel(ctx)
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, "sandbox", "--addr", "127.0.0.1:0", "--quiet")
	cmd.Env = Environment()
	cmd.Stderr = &stderr
	EndGently(cmd)
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("start the sandbox: %w", err)
	}
	s := &Sandbox{cancel: cancel, ended: make(chan struct{})}
	address := make(chan string, 1)
	go func() {
		defer close(s.ended)
		findAddress(stdout, address)
		_ = cmd.Wait() // It ends by being stopped; whether it had begun is what counts.
	}()
	select {
	case s.URL = <-address:
		return s, nil
	case <-s.ended:
		cancel()
		return nil, fmt.Errorf("start the sandbox: it ended before it listened: %s", bytes.TrimSpace(stderr.Bytes()))
	case <-ctx.Done():
		s.Stop()
		return nil, fmt.Errorf("start the sandbox: %w", ctx.Err())
	}
}

// Stop ends the sandbox, and returns when the process is gone. Bridges that wrote into it must have ended before: nobody can write there
// any more, so their lock files are deleted. It may be called more than once.
func (s *Sandbox) Stop() {
	s.cancel()
	<-s.ended
	for _, file := range lockFiles(s.URL) {
		_ = os.Remove(file) // What stays is in nobody's way.
	}
}

// lockFiles returns the files by which bridges take turns at the service with that address.
func lockFiles(address string) []string {
	base, err := url.Parse(address)
	if err != nil || base.Host == "" {
		return nil
	}
	dir, err := writelock.DefaultDir()
	if err != nil {
		return nil
	}
	files, _ := filepath.Glob(filepath.Join(dir, writelock.Name(base)+".*")) // the pattern is valid
	return files
}

// findAddress reads what the sandbox prints until it ends, and sends the address that it listens on.
func findAddress(stdout io.Reader, address chan<- string) {
	listening := regexp.MustCompile(`^Listening on (http://\S+)`)
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if found := listening.FindStringSubmatch(lines.Text()); found != nil {
			address <- found[1]
			break
		}
	}
	_, _ = io.Copy(io.Discard, stdout) // A full pipe would stop it.
}

// EndGently has the end of the command's context ask the process to end, and kill it if it has not after two seconds. Windows knows
// no such request: there it is killed at once.
func EndGently(cmd *exec.Cmd) {
	cmd.WaitDelay = stopsWithin
	cmd.Cancel = func() error {
		err := cmd.Process.Signal(os.Interrupt)
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			return cmd.Process.Kill()
		}
		return err
	}
}
