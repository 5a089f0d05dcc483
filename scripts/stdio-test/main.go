// Command stdio-test tries loopgrid-mcp from outside: it starts the binary as an AI host does, and calls all six tools over stdio.
//
//	go run ./scripts/stdio-test -sandbox
//	LOOPGRID_BASE_URL=http://127.0.0.1:8000 go run ./scripts/stdio-test -command bin/loopgrid-mcp
//
// It walks the story of a refund with the official Go client in the newest revision of the protocol, and then with raw lines in an older
// one, in which every digit can be seen. With -sandbox it starts a sandbox to record in, where the refund is also reviewed. Otherwise the
// variables of loopgrid-mcp say where the service is; what is recorded there is synthetic, of decision type loopgrid_mcp_stdio_test, and
// stays. The key needs the scopes ingest and read.
//
// Exit codes: 0 all passed, 1 something failed, 2 wrong usage.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/examples/story"
	"github.com/loopgridio/loopgrid-mcp/scripts/launch"
)

const (
	finished = "Real stdio MCP client test completed successfully."

	newestProtocol = "2026-07-28"
	// olderProtocol is a revision that begins with initialize, as hosts of today speak it.
	olderProtocol = "2025-11-25"

	// patience bounds everything after the build.
	patience = 2 * time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout)
	stop()
	os.Exit(code)
}

// run is the program. When it returns, the processes that it started are gone.
func run(ctx context.Context, args []string, out io.Writer) int {
	r := &report{out: out}
	flags := flag.NewFlagSet("stdio-test", flag.ContinueOnError)
	flags.SetOutput(out)
	sandbox := flags.Bool("sandbox", false, "start a sandbox, and record in that")
	command := flags.String("command", "", "the `binary` to try; built if not given")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if flags.NArg() > 0 {
		r.line("FAIL", "stdio-test takes no arguments besides its flags")
		return 2
	}
	temp, err := os.MkdirTemp("", "loopgrid-stdio-test-")
	if err == nil {
		err = try(ctx, r, temp, *command, *sandbox)
		err = errors.Join(err, os.RemoveAll(temp))
	}
	if err != nil {
		r.line("FAIL", "%v", err)
		return 1
	}
	r.line("PASS", finished)
	return 0
}

// try starts what is needed and goes through the tools twice.
func try(ctx context.Context, r *report, temp, command string, sandbox bool) (err error) {
	if command == "" {
		if command, err = launch.Build(ctx, temp, launch.Program); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	program := &program{path: command, evidence: filepath.Join(temp, "evidence")}
	if sandbox {
		s, err := launch.StartSandbox(ctx, command)
		if err != nil {
			return err
		}
		defer s.Stop()
		r.line("PASS", "sandbox: %s", s.URL)
		program.environ = launch.Environment("LOOPGRID_BASE_URL="+s.URL, "LOOPGRID_MCP_ENABLE_REVIEW_TOOL=true", "LOOPGRID_MCP_REVIEWER_ID=stdio-test")
		program.reviews = true
	} else {
		// What is tried is the program as it comes, whatever the operator has opened.
		program.environ = append(os.Environ(), "LOOPGRID_MCP_ENABLE_REVIEW_TOOL=", "LOOPGRID_MCP_REVIEWER_ID=")
	}
	if err := withLog("Go client: ", program, tryClient(ctx, &caller{r, "Go client"}, program)); err != nil {
		return err
	}
	return withLog("raw lines: ", program, tryLines(ctx, &caller{r, "raw lines"}, program))
}

// tryClient walks the story as a host with the official client does, where a person answers the form.
func tryClient(ctx context.Context, c *caller, p *program) (err error) {
	// On an early return it ends the program, whatever state the session is in.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client, err := story.Connect(ctx, p.command(ctx), func(*mcp.ElicitParams) *mcp.ElicitResult {
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"action": "approve", "reason": "a synthetic one"}}
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	if got := client.InitializeResult().ProtocolVersion; got != newestProtocol {
		return fmt.Errorf("the protocol agreed on is %s, not %s", got, newestProtocol)
	}
	c.pass("protocol %s", newestProtocol)
	if _, err := client.Tools(ctx); err != nil {
		return err
	}
	c.pass("six tools are listed")
	return c.walk(ctx, client, p.confirmation("elicited"))
}

// caller reports on one way of calling the tools.
type caller struct {
	*report

	who string
}

func (c *caller) pass(format string, args ...any) {
	c.line("PASS", "%s: %s", c.who, fmt.Sprintf(format, args...))
}

// walk walks the story, after a call that must not reach the service.
func (c *caller) walk(ctx context.Context, tools story.Caller, confirmation string) error {
	refusal, err := tools.Call(ctx, "record_action", `{"decision_id":"../decisions","tool":"none"}`)
	if err != nil {
		return err
	}
	if !refusal.Refused || !strings.Contains(refusal.Text, "decision_id") || !strings.Contains(refusal.Text, "Nothing was recorded.") {
		return fmt.Errorf("a malformed id is not refused as it should be: %s", refusal.Text)
	}
	c.pass("malformed id: refused, nothing was recorded")
	s := &story.Story{Caller: tools, DecisionType: "loopgrid_mcp_stdio_test", Agent: "loopgrid-mcp-stdio-test", Confirmation: confirmation}
	return s.Walk(ctx, c)
}

// Begin is silent: a line is printed when the step is over.
func (c *caller) Begin(story.Step) {}

// End prints the line of a step.
func (c *caller) End(step story.Step, told story.Told) {
	if told.Skipped != "" {
		c.line("SKIP", "%s: %s: %s", c.who, step.Tool, told.Skipped)
		return
	}
	c.pass("%s: %s", step.Tool, told)
}

// program is the binary that is tried, and what it last logged.
type program struct {
	path     string
	environ  []string
	reviews  bool   // the review tool is open
	evidence string // directory
	log      bytes.Buffer
}

// command returns the command that starts the program as a host does.
func (p *program) command(ctx context.Context) *exec.Cmd {
	p.log.Reset()
	cmd := exec.CommandContext(ctx, p.path)
	cmd.Env = append(slices.Clone(p.environ), "LOOPGRID_EVIDENCE_DIR="+p.evidence, "LOOPGRID_MCP_TOOL_NAMES=", "LOOPGRID_MCP_REVIEW_CONFIRMATION=",
		"LOOPGRID_MCP_ALLOW_PAYLOAD_EXPORT=")
	cmd.Stderr = &p.log
	launch.EndGently(cmd)
	return cmd
}

// confirmation is how a review is confirmed where the host is of that kind; empty where there are no reviews.
func (p *program) confirmation(kind string) string {
	if !p.reviews {
		return ""
	}
	return kind
}

// withLog says at what an error came up, and what the program had logged.
func withLog(what string, p *program, err error) error {
	switch {
	case err == nil:
		return nil
	case p.log.Len() == 0:
		return fmt.Errorf("%s%w", what, err)
	default:
		return fmt.Errorf("%s%w\nThe program logged:\n%s", what, err, bytes.TrimSpace(p.log.Bytes()))
	}
}

// report prints the lines. An output that cannot be written to ends nothing: the exit code tells the result too.
type report struct{ out io.Writer }

func (r *report) line(result, format string, args ...any) {
	_, _ = fmt.Fprintf(r.out, "[%s] %s\n", result, fmt.Sprintf(format, args...))
}
