// Command validate runs what a release is validated by, and writes VALIDATION.md: what was tried, by which command, on which system,
// with which versions, and what could not be tried there.
//
//	go run ./scripts/validate               runs everything, which takes an hour
//	go run ./scripts/validate NAME...       runs these, and keeps the other results
//	go run ./scripts/validate -list         lists the names
//
// Results and logs lie in bin/validation. One that is missing or of another commit is shown as such. It exits 1 when something failed.
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
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/loopgridio/loopgrid-mcp/internal/cli"
)

// check is one of the things that a release is validated by.
type check struct {
	name, what, command string
}

// checks are in the order of the document.
func checks() []check {
	return []check{
		{"test", "Unit tests, recorded exchanges of the real service, the program over stdio", "go test ./..."},
		{"race", "The same under the race detector", "make race"},
		{"lint", "Linter, vet for Linux, macOS and Windows, licences, secrets, versions that agree", "make vet lint licenses release-check"},
		{"verifier", "Exported evidence under the independent verifier, loopgrid-verify", `LOOPGRID_VERIFY="$(.ci/verifier)" go test -count=1 -v ./internal/sandbox -run Verifier`},
		{"demo", "The demo, from proposal to signed evidence", "make demo"},
		{"vuln", "Known vulnerabilities, under the toolchain of releases", "make vuln"},
		{"dist", "Everything of a release built twice, in two places: the same bytes", "make dist-reproducible"},
		{"install", "Every artefact for this platform installed with its users' tools, and used", "make dist-test"},
		{"image", "The container image built, and used", "make image-test"},
		{"publish", "Every publishing step run twice against registries on this machine", "make publish-test"},
	}
}

func main() {
	list := flag.Bool("list", false, "list the names of the checks")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, *list, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "validate:", err)
		os.Exit(1)
	}
}

// folder keeps results and logs.
const folder = "bin/validation"

// result is how a check ended.
type result struct {
	Passed  bool     `json:"passed"`
	Commit  string   `json:"commit"`
	Date    string   `json:"date"`
	Command string   `json:"command"`
	Lines   []string `json:"lines"` // of the log: what passed, was skipped or failed within it
}

// run runs the checks that are named, or all, and writes the document.
func run(ctx context.Context, out io.Writer, list bool, names []string) error {
	if list {
		for _, c := range checks() {
			fmt.Fprintf(out, "%-10s %s\n", c.name, c.command)
		}
		return nil
	}
	for _, name := range names {
		if !slices.ContainsFunc(checks(), func(c check) bool { return c.name == name }) {
			return fmt.Errorf("there is no check %q: -list shows the names", name)
		}
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return fmt.Errorf("keep the results: %w", err)
	}
	commit := printed(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
	var failed error
	for _, c := range checks() {
		if len(names) > 0 && !slices.Contains(names, c.name) {
			continue
		}
		r, err := c.run(ctx, commit)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: passed %t\n", c.name, r.Passed)
		if !r.Passed {
			failed = errors.Join(failed, fmt.Errorf("%s failed: see %s/%s.log", c.name, folder, c.name))
		}
	}
	text := document(environment(ctx), commit, results())
	if err := os.WriteFile("VALIDATION.md", []byte(text), 0o644); err != nil { //nolint:gosec // A document for everybody.
		return fmt.Errorf("write the document: %w", err)
	}
	return failed
}

// run runs a check and keeps its result.
func (c check) run(ctx context.Context, commit string) (result, error) {
	log, err := os.Create(filepath.Join(folder, c.name+".log"))
	if err != nil {
		return result{}, fmt.Errorf("keep the log: %w", err)
	}
	var all bytes.Buffer
	cmd := exec.CommandContext(ctx, "bash", "-c", c.command)
	cmd.Stdout = io.MultiWriter(&all, log)
	cmd.Stderr = cmd.Stdout
	ended := cmd.Run()
	if err := log.Close(); err != nil {
		return result{}, fmt.Errorf("keep the log: %w", err)
	}
	r := result{Passed: ended == nil, Commit: commit, Date: time.Now().UTC().Format(time.DateOnly), Command: c.command}
	for _, setting := range []string{"ENGINE", "IMAGE_FLAGS"} {
		if value := os.Getenv(setting); value != "" && strings.HasPrefix(c.command, "make image") {
			r.Command += fmt.Sprintf(" %s='%s'", setting, value)
		}
	}
	telling := regexp.MustCompile(`(?m)^(?:\[(?:PASS|SKIP|FAIL)\] .*|\s*--- SKIP: .*|race: skipped.*|No vulnerabilities found\.|verifier: skipped.*|release-check: .*)$`)
	for _, line := range telling.FindAllString(all.String(), -1) {
		r.Lines = append(r.Lines, regexp.MustCompile(` \([\d.]+ ?s\)$`).ReplaceAllString(strings.TrimSpace(line), ""))
	}
	text, err := json.Marshal(r)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, c.name+".json"), text, 0o600)
	}
	if err != nil {
		return result{}, fmt.Errorf("keep the result: %w", err)
	}
	return r, nil
}

// results are those that were kept, by the names of their checks.
func results() map[string]result {
	all := map[string]result{}
	for _, c := range checks() {
		var r result
		text, err := os.ReadFile(filepath.Join(folder, c.name+".json"))
		if err == nil && json.Unmarshal(text, &r) == nil {
			all[c.name] = r
		}
	}
	return all
}

// environment are the system and the versions of the tools.
func environment(ctx context.Context) []string {
	system := runtime.GOOS + "/" + runtime.GOARCH
	if text, err := os.ReadFile("/etc/os-release"); err == nil {
		if name := regexp.MustCompile(`(?m)^PRETTY_NAME="(.*)"$`).FindStringSubmatch(string(text)); name != nil {
			system = name[1] + ", " + system
		}
	}
	all := []string{"System: " + system}
	for _, tool := range [][]string{
		{"go", "version"},
		{"make", "--version"},
		{"python3", "--version"},
		{"pip", "--version"},
		{"uv", "--version"},
		{"node", "--version"},
		{"npm", "--version"},
		{"dpkg", "--version"},
		{"rpm", "--version"},
		{"docker", "--version"},
		{"podman", "--version"},
		{"qemu-aarch64-static", "--version"},
		{"wine64", "--version"},
		{"brew", "--version"},
	} {
		text := printed(ctx, tool[0], tool[1:]...)
		if text == "" {
			text = "not installed"
		}
		text, _, _ = strings.Cut(text, " from ") // pip shows where it lies.
		all = append(all, tool[0]+": "+text)
	}
	return all
}

// printed is the first line that a command prints, or nothing where there is no such program.
func printed(ctx context.Context, name string, args ...string) string {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}

// document is VALIDATION.md.
func document(environment []string, commit string, all map[string]result) string {
	var text strings.Builder
	fmt.Fprintf(&text, "# Validation of %s\n\nWritten by `make validate`. A check that was not run, or was run on another commit, says so.\n\n", cli.Version)
	fmt.Fprintf(&text, "Commit: %s\n\n## What was tried\n\n| what | command | result |\n| --- | --- | --- |\n", commit)
	for _, c := range checks() {
		r, ok := all[c.name]
		command, state := c.command, "**not run**"
		if ok {
			command, state = r.Command, "passed"
			if !r.Passed {
				state = "**failed**"
			}
			if state += ", " + r.Date; r.Commit != commit {
				state += ", at " + r.Commit
			}
		}
		fmt.Fprintf(&text, "| %s | `%s` | %s |\n", c.what, strings.ReplaceAll(command, "|", `\|`), state)
	}
	for _, c := range checks() {
		if lines := all[c.name].Lines; len(lines) > 0 {
			fmt.Fprintf(&text, "\nIn detail, `%s`:\n\n```text\n%s\n```\n", c.command, strings.Join(lines, "\n"))
		}
	}
	text.WriteString("\n## On what\n\n")
	for _, line := range environment {
		fmt.Fprintf(&text, "- %s\n", line)
	}
	text.WriteString(notHere)
	return text.String()
}

// notHere is what no single machine can try.
const notHere = `
## What this does not show

- A ` + "`[SKIP]`" + ` above, or a tool that is not installed, means that this part was not tried here.
- Other systems than the one above: the workflow ` + "`ci`" + ` runs all tests on Linux, macOS and Windows, and ` + "`release`" + ` installs the artefacts on all three before it publishes.
- The public registries: publishing was tried against registries on this machine. GitHub and the MCP Registry were stand-ins, and the push of the image was not tried.
- Hosts: ` + "`make host-test`" + ` tries real ones, with a stand-in for the model. Claude Desktop, Cursor, VS Code and Goose are tried by what their configuration and links start, not by running them.
- LoopGrid itself: its answers are recorded exchanges of version 0.8.1. ` + "`go run ./scripts/smoke-test`" + ` tries a running one.
`
