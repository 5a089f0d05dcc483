package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
)

const (
	sandboxAddress = "127.0.0.1:8000"
	sandboxStops   = time.Second      // for which requests in progress may go on when the sandbox is told to end
	sandboxReads   = 10 * time.Second // for which a request may arrive
	sandboxWrites  = time.Minute      // for which an answer may be made and read
)

// runSandbox serves an in-memory LoopGrid until it is told to stop.
func runSandbox(ctx context.Context, p Process, args []string) int {
	flags := flag.NewFlagSet("sandbox", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	addr := flags.String("addr", sandboxAddress, "")
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
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", *addr)
	if err != nil {
		fmt.Fprintf(p.Stderr, "loopgrid-mcp: sandbox: %v\nChoose another address with --addr, for example --addr 127.0.0.1:0 for any free port.\n", err)
		return exitFailed
	}
	out := newLogWriter(p.Stdout) // the sandbox goes on when nobody reads it
	defer out.flush()
	o := sandbox.Options{Auth: *auth}
	if !*quiet {
		o.Log = out
	}
	s := sandbox.New(o)
	introduce(out, p, s, listener.Addr().String(), *auth)
	server := sandboxServer(s.Local(*addr, listener.Addr().String()))
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

// sandboxServer is a server that no client can hold up.
func sandboxServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ErrorLog: log.New(io.Discard, "", 0),
		ReadTimeout: sandboxReads, WriteTimeout: sandboxWrites, IdleTimeout: 5 * time.Second,
	}
}

// introduce prints what the sandbox is, where it is and what to do next.
func introduce(out io.Writer, p Process, s *sandbox.Server, listening string, auth bool) {
	var b strings.Builder
	address, warning := reached(listening)
	fmt.Fprintf(&b, "SANDBOX, not LoopGrid: %s, all in memory, gone when it ends. What it records proves nothing.\n", sandbox.Version)
	fmt.Fprintf(&b, "Listening on http://%s (workspace default, policy refund-policy).\n", address)
	if warning != "" {
		if !auth {
			warning += " Without --auth anybody there can record and approve."
		}
		b.WriteString(warning + "\n")
	}
	page, key := "http://"+address+"/", ""
	if auth {
		b.WriteString("Keys of workspace default (LOOPGRID_SERVICE_KEY):\n")
		issue := func(scopes ...string) (secret string) {
			secret = s.CreateKey("default", scopes...)
			fmt.Fprintf(&b, "  %s  %v\n", secret, scopes)
			return secret
		}
		key = issue("ingest", "read")
		issue("ingest", "read", "review")
		page += "#key=" + issue("admin")
	}
	doctor, config := "loopgrid-mcp doctor", "loopgrid-mcp config HOST"
	set := func(name, value string) {
		if p.system() == "windows" {
			doctor = fmt.Sprintf(`$env:%s = "%s"; %s`, name, value, doctor)
		} else {
			doctor = fmt.Sprintf("%s=%s %s", name, value, doctor)
		}
	}
	if key != "" {
		set("LOOPGRID_SERVICE_KEY", key)
		config += " --env LOOPGRID_SERVICE_KEY"
	}
	if address != sandboxAddress { // which is where the bridge looks anyway
		set("LOOPGRID_BASE_URL", "http://"+address)
		config += " --env LOOPGRID_BASE_URL=http://" + address
	}
	fmt.Fprintf(&b, "\nWhat to do next:\n  See what is recorded, approve or reject:  %s\n  Check settings and connection:            %s\n"+
		"  Set up an AI host:                        %s\n\n", page, doctor, config)
	_, _ = io.WriteString(out, b.String()) // It never fails.
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
