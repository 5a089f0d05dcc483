// Command dist-test installs what make dist has made for this platform, each artefact from disk into a folder of its own, and uses it
// as a person and a host would: version, the doctor under the name of 0.1.0's second program, and the story of a refund over stdio.
//
//	go run ./scripts/dist-test
//
// Nothing comes from the network: pip and uv look into dist alone, and npm asks a registry on the loopback that has nothing else. What
// this machine has no installer for is skipped, with a word; -strict takes that for a failure.
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
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/loopgridio/loopgrid-mcp/internal/cli"
	"github.com/loopgridio/loopgrid-mcp/scripts/launch"
)

// patience bounds one artefact, with its installation.
const patience = 3 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout)
	stop()
	os.Exit(code)
}

// run is the program. When it returns, the processes that it started and the folders that it made are gone.
func run(ctx context.Context, args []string, out io.Writer) int {
	flags := flag.NewFlagSet("dist-test", flag.ContinueOnError)
	flags.SetOutput(out)
	dist := flags.String("dist", "dist", "the `directory` of the artefacts")
	strict := flags.Bool("strict", false, "fail where an installer is missing")
	image := flags.String("image", "", "try this container `image`, and nothing else")
	engine := flags.String("engine", "docker", "the `program` that runs the image: docker or podman")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintln(out, "dist-test takes no arguments besides its flags")
		return 2
	}
	if err := try(ctx, out, *dist, *image, *engine, *strict); err != nil {
		fmt.Fprintf(out, "[FAIL] %v\n", err)
		return 1
	}
	return 0
}

// errMissing says that this machine lacks an installer.
var errMissing = errors.New("is not installed here")

// trial is what the ways of installation have in common.
type trial struct {
	dist    string // absolute
	version string
	service string // address of a sandbox, for the doctor
}

// installation is the program as one way of installation has put it somewhere.
type installation struct {
	program []string // the command that serves MCP
	doctor  []string // nil where there is none
	environ []string // settings of the program that belong to this installation
	tools   []string // the names that tools/list must have; nil stands for the dotted ones
}

// try goes through all ways of installation, and goes on after one that fails.
func try(ctx context.Context, out io.Writer, dist, image, engine string, strict bool) (err error) {
	scratch, err := os.MkdirTemp("", "loopgrid-dist-test-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	dist, err = filepath.Abs(dist)
	if err != nil {
		return fmt.Errorf("find the artefacts: %w", err)
	}
	t := &trial{dist: dist, version: cli.Version}
	if image != "" {
		return t.tryImage(ctx, out, scratch, engine, image)
	}
	if err := t.checkSums(); err != nil {
		return err
	}
	fmt.Fprintln(out, "[PASS] checksums.txt")

	archive, err := t.installArchive(ctx, filepath.Join(scratch, "sandbox"))
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	sandbox, err := launch.StartSandbox(ctx, archive.program[0])
	if err != nil {
		return err
	}
	defer sandbox.Stop()
	t.service = sandbox.URL
	return t.tryAll(ctx, out, scratch, strict, []way{
		{"every artefact", "its program is small enough, and its bill of materials is about it", t.checkArtefacts, false},
		{"archive", session, t.use(t.installArchive), false},
		{"deb with dpkg", session, t.use(t.installDeb), !linux},
		{"rpm with rpm", session, t.use(t.installRPM), !linux},
		{"wheel with pip", session, t.use(t.installPip), false},
		{"wheel with uvx", session, t.use(t.installUvx), false},
		{"source distribution", "says where there are wheels, and how to do without", t.refuseSource, false},
		{"npm with npx", session, t.use(t.installNPX), false},
		{"npm with a program that cannot run", "one line, exit code 1", t.refuseBrokenNPM, false},
		{"MCP bundle", session, t.use(t.installBundle), false},
		{"links of Cursor, VS Code and Goose", "what they name starts", t.followLinks, false},
		{"Linux on arm64 under qemu", session, t.use(t.installForeign("linux_arm64", "qemu-aarch64-static", "qemu-aarch64")), true},
		{"Windows under Wine", session, t.use(t.installForeign("windows_amd64", "wine64", "wine", "/usr/lib/wine/wine64")), true},
	})
}

// tryImage tries a container image against a sandbox of this source tree: there need be no dist.
func (t *trial) tryImage(ctx context.Context, out io.Writer, scratch, engine, image string) error {
	program, err := launch.Build(ctx, scratch, launch.Program)
	if err != nil {
		return err
	}
	sandbox, err := launch.StartSandbox(ctx, program)
	if err != nil {
		return err
	}
	defer sandbox.Stop()
	t.service = sandbox.URL
	return t.tryAll(ctx, out, scratch, true, []way{{"container image", session, t.use(t.installImage(engine, image)), false}})
}

// session is what happens with an installed program.
const session = "version, doctor, six tools, the story of a refund"

// way is a way in which users get the program, and what is tried of it in a folder that does not exist yet. One that is optional may be
// missing even for -strict.
type way struct {
	label, what string
	try         func(ctx context.Context, folder string) error
	optional    bool
}

// tryAll goes on after one that fails.
func (t *trial) tryAll(ctx context.Context, out io.Writer, scratch string, strict bool, ways []way) error {
	var failed []string
	for i, way := range ways {
		began := time.Now()
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			return way.try(ctx, filepath.Join(scratch, strconv.Itoa(i)))
		}()
		switch {
		case err == nil:
			fmt.Fprintf(out, "[PASS] %s: %s (%.1f s)\n", way.label, way.what, time.Since(began).Seconds())
		case errors.Is(err, errMissing) && (!strict || way.optional):
			fmt.Fprintf(out, "[SKIP] %s: %v\n", way.label, err)
		default:
			fmt.Fprintf(out, "[FAIL] %s: %v\n", way.label, err)
			failed = append(failed, way.label)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of the ways to install: %s", len(failed), strings.Join(failed, ", "))
	}
	return nil
}

// use installs in one way and tries what came of it.
func (t *trial) use(install func(context.Context, string) (installation, error)) func(context.Context, string) error {
	return func(ctx context.Context, folder string) error {
		i, err := install(ctx, folder)
		if err != nil {
			return err
		}
		return t.check(ctx, folder, i)
	}
}

// find returns the one artefact that the pattern names.
func (t *trial) find(pattern string) (string, error) {
	found, err := filepath.Glob(filepath.Join(t.dist, pattern))
	if err != nil {
		return "", fmt.Errorf("find %s: %w", pattern, err)
	}
	if len(found) != 1 {
		return "", fmt.Errorf("find %s: there are %d in %s, one was expected", pattern, len(found), t.dist)
	}
	return found[0], nil
}

const (
	windows = runtime.GOOS == "windows"
	linux   = runtime.GOOS == "linux"
)

// archiveEnding ends the name of this system's archive.
func archiveEnding() string {
	if windows {
		return ".zip"
	}
	return ".tar.gz"
}

// executable is the ending of an executable's name: on Windows the one given, elsewhere none.
func executable(onWindows string) string {
	if windows {
		return onWindows
	}
	return ""
}

// lookPath finds the first of the programs that is there.
func lookPath(names ...string) (string, error) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s %w", names[0], errMissing)
}

// command runs a command in the folder and returns what it prints to stdout. The error holds what it prints to stderr.
func command(ctx context.Context, folder string, environ, args []string) (string, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = folder
	cmd.Env = launch.Environment(environ...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	launch.EndGently(cmd)
	stdout, err := cmd.Output()
	if err != nil {
		return string(stdout), fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(stdout), nil
}
