package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
)

// sandboxStops is how long requests in progress may take when the sandbox is told to end.
const sandboxStops = time.Second

// runSandbox serves an in-memory LoopGrid until it is told to stop.
func runSandbox(ctx context.Context, p Process, args []string) int {
	flags := flag.NewFlagSet("sandbox", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	addr := flags.String("addr", "127.0.0.1:8000", "")
	auth := flags.Bool("auth", false, "")
	quiet := flags.Bool("quiet", false, "")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return runHelp(p, []string{"sandbox"})
	case err != nil:
		return usage(p, "sandbox: "+err.Error())
	case flags.NArg() > 0:
		return usage(p, fmt.Sprintf("sandbox: unknown argument %q", flags.Arg(0)))
	}
	var events io.Writer
	if !*quiet {
		events = p.Stdout
	}
	s := sandbox.New(sandbox.Options{Auth: *auth, Log: events})
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", *addr)
	if err != nil {
		fmt.Fprintf(p.Stderr, "loopgrid-mcp: sandbox: %v\nChoose another address with --addr, for example --addr 127.0.0.1:0 for any free port.\n", err)
		return exitFailed
	}
	fmt.Fprintf(p.Stdout, "SANDBOX, not LoopGrid: %s, all in memory, gone when it ends. What it records proves nothing.\n", sandbox.Version)
	address, warning := reached(listener.Addr().String())
	fmt.Fprintf(p.Stdout, "Listening on http://%s (workspace default, policy refund-policy).\n", address)
	if warning != "" {
		fmt.Fprintln(p.Stdout, warning)
	}
	if *auth {
		fmt.Fprintln(p.Stdout, "Keys of workspace default (LOOPGRID_SERVICE_KEY):")
		for _, scopes := range [][]string{{"ingest", "read"}, {"ingest", "read", "review"}, {"admin"}} {
			fmt.Fprintf(p.Stdout, "  %s  %v\n", s.CreateKey("default", scopes...), scopes)
		}
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 5 * time.Second}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-p.Stop:
		case <-ctx.Done():
		}
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), sandboxStops)
		defer cancel()
		if server.Shutdown(ending) != nil {
			_ = server.Close() // what is still in progress is cut off
		}
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintf(p.Stderr, "loopgrid-mcp: sandbox: %v\n", err)
		return exitFailed
	}
	<-stopped
	return exitOK
}

// reached returns the address at which this machine reaches what listens at address, and a warning where others do too.
func reached(address string) (usable, warning string) {
	listening, err := netip.ParseAddrPort(address)
	switch ip := listening.Addr(); {
	case err != nil, ip.IsLoopback():
		return address, ""
	case ip.IsUnspecified():
		// Go listens on IPv4 as well where it is told to listen on every IPv6 address.
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), listening.Port()).String(),
			"WARNING: other machines can reach it, on every address of this one."
	default:
		return address, "WARNING: other machines can reach it."
	}
}
