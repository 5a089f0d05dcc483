// Command quickstart shows the main job of loopgrid-mcp on any machine with Go, and needs nothing else:
//
//	go run ./examples/quickstart
//
// It builds the program, starts its sandbox (an in-memory LoopGrid), connects to the real program over stdio as an AI host does, and
// walks a refund of 720 USD from the agent's proposal over a person's approval to a signed evidence file. Anything that goes wrong ends
// it with exit code 1. It leaves nothing behind but the evidence file that it names.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/examples/story"
	"github.com/loopgridio/loopgrid-mcp/scripts/launch"
)

// patience bounds everything after the build, which takes as long as it takes on a machine that builds for the first time.
const patience = time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted")
		}
		fmt.Fprintf(os.Stderr, "\nquickstart: %v\n", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

// run builds the program, and demonstrates it.
func run(ctx context.Context, out io.Writer) (err error) {
	p := &printer{out: out}
	p.line("A refund of 720 USD becomes signed evidence.")
	p.title("Build the program, and start its sandbox: LoopGrid in memory")
	bin, err := os.MkdirTemp("", "loopgrid-mcp-bin-")
	if err != nil {
		return fmt.Errorf("make a folder for the program: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(bin)) }()
	program, err := launch.Build(ctx, bin, launch.Program)
	if err != nil {
		return err
	}
	return demonstrate(ctx, p, program)
}

// demonstrate starts a sandbox and the program, and walks the story. When it returns, the processes that it started are gone.
func demonstrate(ctx context.Context, p *printer, program string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sandbox, err := launch.StartSandbox(ctx, program)
	if err != nil {
		return err
	}
	defer sandbox.Stop()
	p.fact("sandbox", sandbox.URL+" (for trying: what it records proves nothing)")

	evidence, err := os.MkdirTemp("", "loopgrid-evidence-")
	if err != nil {
		return fmt.Errorf("make a folder for the evidence: %w", err)
	}
	defer func() { _ = os.Remove(evidence) }() // which only works while nothing is in it
	var log bytes.Buffer
	server := exec.CommandContext(ctx, program)
	server.Env = launch.Environment("LOOPGRID_BASE_URL="+sandbox.URL, "LOOPGRID_EVIDENCE_DIR="+evidence,
		"LOOPGRID_MCP_ENABLE_REVIEW_TOOL=true", "LOOPGRID_MCP_REVIEWER_ID=alice@acme.example", "LOOPGRID_MCP_REVIEW_CONFIRMATION=required")
	server.Stderr = &log
	launch.EndGently(server)

	bundle, err := walk(ctx, p, server)
	if err != nil {
		cancel() // Whatever state it is in, the program ends.
		if server.Process != nil && server.ProcessState == nil {
			_ = server.Wait()
		}
		if log.Len() > 0 {
			err = fmt.Errorf("%w\n\nWhat loopgrid-mcp logged:\n%s", err, bytes.TrimSpace(log.Bytes()))
		}
		return err
	}
	p.line("\nAll went well. The evidence file is all that is left behind.")
	p.next(bundle)
	return nil
}

// walk connects to the program and walks the story. It returns the path of the evidence file.
func walk(ctx context.Context, p *printer, server *exec.Cmd) (bundle string, err error) {
	p.title("Connect to the program over stdio, as an AI host does")
	host, err := story.Connect(ctx, server, p.answer)
	if err != nil {
		return "", err
	}
	// The program ends when its input does; Close waits for that.
	defer func() { err = errors.Join(err, host.Close()) }()
	info := host.InitializeResult()
	p.fact("protocol", info.ProtocolVersion+", server "+info.ServerInfo.Name+" "+info.ServerInfo.Version)
	tools, err := host.Tools(ctx)
	if err != nil {
		return "", err
	}
	for _, tool := range tools {
		p.fact("tool", tool)
	}
	s := &story.Story{Caller: host, DecisionType: "customer_refund", Agent: "refund-agent", Confirmation: "elicited"}
	err = s.Walk(ctx, p)
	return s.Bundle, err
}

// answer is the person: it gets the form that the host shows, and fills it in.
func (p *printer) answer(form *mcp.ElicitParams) *mcp.ElicitResult {
	p.line("      The host shows the person this form:")
	p.quote(form.Message)
	p.line("      The person answers it. (Here the quickstart does; in your host it is you.)")
	p.fact("action", "approve")
	p.fact("reason", "the carrier confirms the loss")
	return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"action": "approve", "reason": "the carrier confirms the loss"}}
}

// next prints what to run after the demonstration.
func (p *printer) next(bundle string) {
	program := filepath.Join("bin", "loopgrid-mcp")
	p.line("\nWhat to run next, in the folder of the repository:")
	p.commands("check the evidence without relying on any service (Python)",
		"pip install loopgrid-verify==0.1.0",
		"loopgrid-verify "+bundle+" --expected-key-id KEY_ID_FROM_YOUR_OPERATOR")
	p.commands("build the program, and read what it can do",
		"go build -o bin/ ./cmd/loopgrid-mcp",
		program+" help")
	p.commands("run a sandbox, and check the connection from another terminal",
		program+" sandbox",
		program+" doctor")
	p.commands("connect your host, here Claude Code ("+program+" config HOST prints it for yours)",
		hostLine("$PWD/bin/loopgrid-mcp"))
}

// hostLine is README's line for Claude Code, with the program at that path.
func hostLine(program string) string {
	return "claude mcp add loopgrid --scope user -e LOOPGRID_BASE_URL=http://127.0.0.1:8000 -- " + program
}
