// Command bench measures loopgrid-mcp side by side with what it could be replaced by, on this machine and in one run:
//
//	go run ./scripts/bench          # five rounds, a few minutes
//	go run ./scripts/bench -quick   # to see that it works
//	go run ./scripts/bench -limits  # memory and answers under load that no host should make
//
// The others are bare HTTP requests to the same service; a server of the official Go SDK with an empty tool; one whose tools send the
// same request and do nothing else; and with -peer any other bridge that has the same tools and variables, such as the Python bridge
// 0.1.0. The service is a minimal one in this process, which answers like LoopGrid and costs little. Where several bridges write at once
// it is the sandbox, at the 7 ms that an append takes in LoopGrid.
//
// All take their turn at each load before the next load comes. Figures are medians of the rounds; compare only those of one run. They
// stand beside the limits that the project has set itself. Only Linux tells memory and processor time.
//
// Exit codes: 0 all was measured, whether or not it is within the limits; 1 something failed; 2 wrong usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"

	"github.com/loopgridio/loopgrid-mcp/scripts/launch"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	// The driver and the service are to stay out of the way.
	debug.SetGCPercent(400)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are the flags.
type options struct {
	rounds         int
	quick, limits  bool
	svg, command   string
	peer, peerName string
}

// run is the program. When it returns, the processes that it started are gone.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.rounds, "rounds", 5, "how many `rounds`")
	flags.BoolVar(&o.quick, "quick", false, "do little, to see that it works")
	flags.BoolVar(&o.limits, "limits", false, "measure memory and answers under extreme load, and nothing else")
	flags.StringVar(&o.svg, "svg", "", "also draw a picture into this `file`")
	flags.StringVar(&o.peer, "peer", "", "another bridge to measure: a `command` with its arguments, separated by blanks")
	flags.StringVar(&o.peerName, "peer-name", "peer", "what to call the other bridge")
	flags.StringVar(&o.command, "command", "", "the `binary` to measure; built if not given")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0 || o.rounds < 1:
		_, _ = fmt.Fprintln(stderr, "bench: no arguments besides the flags, and at least one round")
		return 2
	}
	a := fullRun(o.rounds)
	if o.quick {
		a = quickRun(o.rounds)
	}
	if err := measure(ctx, &o, a, stdout, stderr); err != nil {
		_, _ = fmt.Fprintf(stderr, "bench: %v\n", err)
		return 1
	}
	return 0
}

// measure builds what is to be measured, measures it, and prints the result.
func measure(ctx context.Context, o *options, a amounts, stdout, stderr io.Writer) (err error) {
	temp, err := os.MkdirTemp("", "loopgrid-bench-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	progress := func(what string) { _, _ = fmt.Fprintf(stderr, "bench: %s\n", what) }
	progress("building")
	if o.command == "" {
		if o.command, err = launch.BuildRelease(ctx, temp, launch.Program); err != nil {
			return err
		}
	}
	stock, err := launch.BuildRelease(ctx, temp, "github.com/loopgridio/loopgrid-mcp/scripts/bench/stock")
	if err != nil {
		return err
	}
	service, err := startService(ctx, a.bundle, 0)
	if err != nil {
		return err
	}
	defer service.close()
	b := &bench{
		amounts: a, service: service, contenders: contenders(service, o, stock, temp),
		figures: newFigures(), progress: progress,
	}
	for name, path := range map[string]string{ours: o.command, emptyTool: stock} {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("look up the size of the binary: %w", err)
		}
		b.figures.add(rowBinary, name, float64(info.Size()))
	}
	do := b.run
	if o.limits {
		do = b.extremes
	}
	if err := do(ctx); err != nil {
		return err
	}
	r := &report{options: o, amounts: a, figures: b.figures, rows: rows(a)}
	for _, c := range b.contenders {
		r.names = append(r.names, c.name)
	}
	if o.limits {
		r.rows, r.names = limitRows(a), []string{ours}
	}
	if o.svg != "" {
		if err := os.WriteFile(o.svg, []byte(r.svg()), 0o644); err != nil { //nolint:gosec // a picture for everybody
			return fmt.Errorf("draw the picture: %w", err)
		}
	}
	_, err = io.WriteString(stdout, r.text())
	return err
}

// machine tells this machine in words.
func machine() string {
	text := fmt.Sprintf("%d processors, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	if name := processor(); name != "" {
		return name + ", " + text
	}
	return text
}
