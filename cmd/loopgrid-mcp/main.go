// Command loopgrid-mcp connects an AI host to LoopGrid over MCP: see loopgrid-mcp help.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/loopgridio/loopgrid-mcp/internal/cli"
)

// softMemoryLimit is how much memory the runtime tries not to exceed.
const softMemoryLimit = 200 << 20

func main() {
	stdout := os.Stdout
	// Whatever prints by mistake must not end up between the messages of the protocol.
	os.Stdout = os.Stderr
	// net/http complains there of servers that speak out of turn, past the log that never waits for its reader.
	log.SetOutput(io.Discard)
	// The heap is a few megabytes: collecting it at each doubling costs more than the memory is worth.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	// Under load that would let garbage pile up: from here on the collector works harder instead.
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softMemoryLimit)
	}
	ignoreBrokenPipe()
	stdin := newHostInput(os.Stdin, stdout)

	stop := make(chan struct{})
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signal.Notify(signals, syscall.SIGHUP) // the terminal of the host was closed
	}
	go func() {
		<-signals
		close(stop)
		// A launcher that passes a signal on makes two of one that its whole group got: those count once.
		for first := time.Now(); ; {
			if <-signals; time.Since(first) > 250*time.Millisecond {
				stdin.restore()
				os.Exit(130)
			}
		}
	}()

	executable, _ := os.Executable() // "" says that it is not known
	terminal := isTerminal(os.Stdin)
	info, err := os.Stdin.Stat()
	code := cli.Run(context.Background(), cli.Process{
		Args: os.Args, Stdin: stdin, Stdout: shared(stdout), Stderr: shared(os.Stderr),
		Terminal: terminal, NoStdin: !terminal && err == nil && info.Mode()&os.ModeCharDevice != 0, StdoutTerminal: showsColors(stdout),
		Executable: executable, Stop: stop,
	})
	stdin.restore()
	os.Exit(code)
}
