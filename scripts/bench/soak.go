package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/loopgridio/loopgrid-mcp/internal/faultproxy"
	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
	"github.com/loopgridio/loopgrid-mcp/scripts/launch"
)

// A soak has processes of the program record, review, download and verify for a long time, through a network that fails, and holds
// what they say against the ledger. The ledger's chain breaks when two writes overlap.
const (
	soakProcesses = 2 // so that the lock between processes is in use
	soakInFlight  = 4 // calls of each
	// Every so many events a new ledger takes the place of the old one, which is looked through: a check of the chain takes longer with
	// each event, and the processes are to be worn out, not this one.
	soakLedger  = 2000
	soakFaults  = 0.002           // share of the requests that something happens to
	soakTimeout = 3 * time.Second // of one request
	soakSettle  = 2 * time.Minute // for the calls that are in flight when the time is over
	soakSamples = 200             // of memory, threads and descriptors, unless that is more than one in 50 ms or less than one in 5 s
)

// soak is one run.
type soak struct {
	command  string
	duration time.Duration
	plan     faultproxy.Plan
	temp     string
	progress func(string)

	service         atomic.Pointer[sandbox.Server]
	proxy           *faultproxy.Proxy
	url             string
	requests, wrong atomic.Int64

	mu     sync.Mutex
	told   map[string][]string // event types that were said to be recorded, by decision, in the ledger of now
	calls  map[string]int      // by tool
	open   int                 // answers that left something open
	events int                 // in all ledgers that were looked through

	samples []samples // by process
}

// runSoak builds the program, lets it work, and prints what came of it. The error tells what is wrong with the program, too.
func runSoak(ctx context.Context, o *options, stdout, stderr io.Writer) (err error) {
	temp, err := os.MkdirTemp("", "loopgrid-soak-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	progress := func(what string) { _, _ = fmt.Fprintf(stderr, "bench: %s\n", what) }
	if o.command == "" {
		progress("building")
		if o.command, err = launch.BuildRelease(ctx, temp, launch.Program); err != nil {
			return err
		}
	}
	s := newSoak(o.command, o.soak, temp, faultproxy.Random(uint64(time.Now().UnixNano()), soakFaults), progress)
	if err := s.run(ctx); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(stdout, "loopgrid-mcp: soak of %s, %s, %s\n\n%s", o.soak, o.date, o.machine, s.text()); err != nil {
		return err
	}
	return s.flat()
}

func newSoak(command string, duration time.Duration, temp string, plan faultproxy.Plan, progress func(string)) *soak {
	return &soak{
		command: command, duration: duration, temp: temp, plan: plan, progress: progress,
		told: map[string][]string{}, calls: map[string]int{}, samples: make([]samples, soakProcesses),
	}
}

// run lets the processes work until the time is over and all that they left open is settled.
func (s *soak) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.duration+soakSettle, errors.New("not all calls were settled in time"))
	defer cancel()
	defer func() {
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = errors.Join(cause, err)
		}
	}()
	stop, err := s.serve(ctx)
	if err != nil {
		return err
	}
	defer stop()
	var hosts []*host
	defer func() {
		for _, h := range hosts {
			err = errors.Join(err, h.close())
		}
	}()
	for range soakProcesses {
		h, err := startHost(s.start(ctx))
		if err != nil {
			return err
		}
		hosts = append(hosts, h)
	}
	end := time.Now().Add(s.duration)
	stopSampling := s.sample(hosts)
	defer stopSampling()
	for time.Now().Before(end) {
		if err := s.work(ctx, hosts, end); err != nil {
			return err
		}
		s.proxy.Wait()
		if err := s.look(); err != nil {
			return err
		}
		s.progress(fmt.Sprintf("%s to go, %s events so far", max(0, time.Until(end)).Round(time.Second), thousands(float64(s.events))))
	}
	return nil
}

// serve starts the service, behind a proxy that does what the plan says.
func (s *soak) serve(ctx context.Context) (stop func(), err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the service: %w", err)
	}
	s.url = "http://" + listener.Addr().String()
	s.proxy = faultproxy.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.service.Load().ServeHTTP(w, r) }), nil)
	server := &http.Server{Handler: s.proxy, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // ends with stop
	return func() { _ = server.Close() }, nil
}

// newLedger makes an empty one, with no limits to what a minute may bring.
func (s *soak) newLedger() {
	const noLimit = 1 << 30
	s.service.Store(sandbox.New(sandbox.Options{
		Limits: sandbox.Limits{IngestPerMinute: noLimit, OtherPerMinute: noLimit, Events: noLimit, MemoryBytes: noLimit},
		Faults: sandbox.Faults{ForkChain: true},
	}))
	clear(s.told)
}

// disturbed is the plan, counted.
func (s *soak) disturbed(r *http.Request) faultproxy.Fault {
	f := s.plan(r)
	s.requests.Add(1)
	if f.Delay > 0 || f.Reply != faultproxy.Relayed {
		s.wrong.Add(1)
	}
	return f
}

// calm counts the requests and leaves them alone.
func (s *soak) calm(*http.Request) faultproxy.Fault {
	s.requests.Add(1)
	return faultproxy.Fault{}
}

func (s *soak) start(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.command)
	cmd.Env = launch.Environment(
		"LOOPGRID_BASE_URL="+s.url, "LOOPGRID_EVIDENCE_DIR="+filepath.Join(s.temp, "evidence"), fmt.Sprintf("LOOPGRID_MCP_TIMEOUT_SECONDS=%g", soakTimeout.Seconds()),
		"LOOPGRID_MCP_ENABLE_REVIEW_TOOL=true", "LOOPGRID_MCP_REVIEWER_ID=alice@acme.example", "LOOPGRID_MCP_REVIEW_CONFIRMATION=host", "LOOPGRID_MCP_LOG_LEVEL=error",
	)
	return cmd
}

// work fills one ledger. When it returns, no call is in flight and nothing is left open.
func (s *soak) work(ctx context.Context, hosts []*host, end time.Time) error {
	s.newLedger()
	s.proxy.SetPlan(s.disturbed)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	full := func() bool { return s.service.Load().Stats().Writes >= soakLedger || !time.Now().Before(end) }
	var lanes sync.WaitGroup
	for i := range soakProcesses * soakInFlight {
		lanes.Go(func() {
			l := &lane{soak: s, host: hosts[i%len(hosts)], number: i}
			for !full() && ctx.Err() == nil {
				if err := l.story(ctx); err != nil {
					cancel(err)
				}
			}
			if !time.Now().Before(end) {
				s.proxy.SetPlan(s.calm) // What is open can be settled now.
			}
		})
	}
	lanes.Wait()
	return context.Cause(ctx)
}

// tell notes that an event is recorded.
func (s *soak) tell(decision string, events ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told[decision] = append(s.told[decision], events...)
}

// called counts a call.
func (s *soak) called(tool string, leftOpen bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[tool]++
	if leftOpen {
		s.open++
	}
}

// look holds the ledger against what was said: every event that was said to be recorded is there once, and nothing else.
func (s *soak) look() error {
	service := s.service.Load()
	events := service.Events("default")
	s.events += len(events)
	problems := []error{compare(s.told, events)}
	if n := service.Stats().Overlaps; n > 0 {
		problems = append(problems, fmt.Errorf("%d writes overlapped", n))
	}
	if !service.Verify("default") {
		problems = append(problems, errors.New("the chain is broken"))
	}
	return errors.Join(problems...)
}

func compare(told map[string][]string, events []sandbox.Event) error {
	there := map[string][]string{}
	for i := range events {
		there[events[i].DecisionID] = append(there[events[i].DecisionID], events[i].EventType)
	}
	var problems []error
	for id, types := range told {
		slices.Sort(types)
		slices.Sort(there[id])
		if !slices.Equal(types, there[id]) {
			problems = append(problems, fmt.Errorf("decision %s: said to be recorded: %s; recorded: %s", id, strings.Join(types, ", "), strings.Join(there[id], ", ")))
		}
		delete(there, id)
	}
	for id, types := range there {
		problems = append(problems, fmt.Errorf("decision %s, which nobody knows: recorded: %s", id, strings.Join(types, ", ")))
	}
	return errors.Join(problems...)
}

// text tells what was done, and what it took.
func (s *soak) text() string {
	total, byTool := 0, []string{}
	for _, tool := range slices.Sorted(maps.Keys(s.calls)) {
		total += s.calls[tool]
		byTool = append(byTool, tool+" "+thousands(float64(s.calls[tool])))
	}
	var out strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&out, "%-12s "+format+"\n", append([]any{name}, args...)...)
	}
	number := func(n int) string { return thousands(float64(n)) }
	line("calls", "%s of %d processes: %s", number(total), soakProcesses, strings.Join(byTool, ", "))
	line("requests", "%s, %s of them disturbed", number(int(s.requests.Load())), number(int(s.wrong.Load())))
	line("left open", "%s of the calls; each was settled by calling again, with its key where it has one", number(s.open))
	line("evidence", "%s events, at most about %s in a ledger: all that was said to be recorded is there once, and nothing else", number(s.events), number(soakLedger))
	line("chain", "valid; no write overlapped another one")
	for i := range s.samples {
		for _, r := range resources() {
			before, after, ok := s.samples[i].quarters(r.name)
			if !ok {
				continue
			}
			line(r.name, "process %d: %s in the second quarter, %s in the last one; may be %.2f × and %s more", i+1, r.print(before), r.print(after), flatFactor, r.print(r.slack))
		}
	}
	return out.String()
}
