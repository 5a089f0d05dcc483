package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/loopgridio/loopgrid-mcp/scripts/launch"
	"github.com/loopgridio/loopgrid-mcp/scripts/wire"
)

// The contenders, as they are called in tables and files.
const (
	bareHTTP  = "bare HTTP"
	emptyTool = "go-sdk, empty tool"
	sameTool  = "go-sdk, same request"
	ours      = "loopgrid-mcp"
)

// task is something that contenders do, each in its way.
type task int

const (
	record      task = iota // append a small event: record_action
	recordLarge             // append an event with a text of 1 MB
	verify                  // read a verification: verify_evidence
	download                // fetch the evidence: get_evidence
)

// The arguments of record_action; the rest of the payload is the same for all.
const (
	smallDetails = `{"amount":320.0,"currency":"USD","order":9007199254740993}`
	otherDetails = `"tool":"payments.refund","external_reference":"re_0001"`
)

func largeDetails() string { return `{"text":"` + strings.Repeat("evidence ", 1_000_000/9) + `"}` }

// contender is one way to get to the service.
type contender struct {
	name string
	// command starts it; nil where it is no process.
	command func(context.Context) *exec.Cmd
	// params of tools/call, by task. A task that is missing is not one of its own.
	params map[task]string
	// slow contenders are given less to do, or a run would take hours.
	slow bool
}

// session is a contender that is ready for tasks.
type session interface {
	// run does a task so many times, so many at once, and returns how long each took.
	run(t task, calls, inFlight int, until time.Time) ([]time.Duration, error)
	// pid is the process to look at, 0 if there is none.
	pid() int
	close() error
}

// contenders returns what is measured in this run: stock is the server of the SDK alone, and the other bridge may be missing.
func contenders(s *service, o *options, stock, temp string) []*contender {
	program := func(environ []string, name string, args ...string) func(context.Context) *exec.Cmd {
		return func(ctx context.Context) *exec.Cmd {
			cmd := exec.CommandContext(ctx, name, args...)
			cmd.Env = environ
			return cmd
		}
	}
	call := func(tool, args string) string { return `{"name":"` + tool + `","arguments":` + args + `}` }
	event := func(details string) string {
		return `{"decision_id":"` + decisionID + `",` + otherDetails + `,"details":` + details + `}`
	}
	decision := `{"decision_id":"` + decisionID + `"}`
	bridge := map[task]string{
		record: call("loopgrid.record_action", event(smallDetails)), recordLarge: call("loopgrid.record_action", event(largeDetails())),
		verify: call("loopgrid.verify_evidence", decision), download: call("loopgrid.get_evidence", decision),
	}
	all := []*contender{
		{name: bareHTTP, params: map[task]string{record: "", recordLarge: "", verify: "", download: ""}},
		{
			name: emptyTool, command: program(launch.Environment(), stock),
			params: map[task]string{record: call("empty", event(smallDetails))},
		},
		{
			name: sameTool, command: program(launch.Environment("STOCK_URL="+s.url), stock),
			params: map[task]string{record: call("post", event(smallDetails)), recordLarge: call("post", event(largeDetails())), verify: call("get", decision)},
		},
		{
			name: ours, params: bridge,
			command: program(launch.Environment("LOOPGRID_BASE_URL="+s.url, "LOOPGRID_EVIDENCE_DIR="+filepath.Join(temp, "ours")), o.command),
		},
	}
	if words := strings.Fields(o.peer); len(words) > 0 {
		all = append(all, &contender{
			name: o.peerName, params: bridge, slow: true,
			command: program(launch.Environment("LOOPGRID_BASE_URL="+s.url, "LOOPGRID_EVIDENCE_DIR="+filepath.Join(temp, "peer")), words[0], words[1:]...),
		})
	}
	return all
}

// start makes a contender ready.
func (c *contender) start(ctx context.Context, s *service) (session, error) {
	if c.command == nil {
		return &bare{ctx: ctx, service: s, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}, nil
	}
	p, _, err := c.coldStart(ctx)
	if err != nil {
		return nil, err
	}
	return &process{Process: p, contender: c}, nil
}

// coldStart starts the process and returns how long it took to begin a session, and to list the tools.
func (c *contender) coldStart(ctx context.Context) (p *wire.Process, took [2]time.Duration, err error) {
	began := time.Now()
	p, err = wire.Start(c.command(ctx))
	if err != nil {
		return nil, took, err
	}
	err = p.Initialize("2025-11-25")
	took[0] = time.Since(began)
	if err == nil {
		_, err = p.Call("tools/list", "{}")
		took[1] = time.Since(began)
	}
	if err != nil {
		_, _ = p.Close()
		return nil, took, fmt.Errorf("%s: %w", c.name, err)
	}
	return p, took, nil
}

// process is a contender that is a program.
type process struct {
	*wire.Process

	contender *contender
}

func (p *process) run(t task, calls, inFlight int, until time.Time) ([]time.Duration, error) {
	took, err := p.Run(wire.Load{Params: []string{p.contender.params[t]}, Calls: calls, InFlight: inFlight, Until: until})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.contender.name, err)
	}
	return took, nil
}

func (p *process) pid() int { return p.PID() }

func (p *process) close() error {
	_, err := p.Close()
	return err
}

// bare is the HTTP client of Go without anything in between: what the service and the loopback cost.
type bare struct {
	ctx     context.Context //nolint:containedctx // the context of the run
	service *service
	client  *http.Client
}

func (b *bare) pid() int { return 0 }

func (b *bare) close() error {
	b.client.CloseIdleConnections()
	return nil
}

func (b *bare) run(t task, calls, inFlight int, until time.Time) ([]time.Duration, error) {
	body := ""
	method, route := http.MethodGet, "verify"
	switch t {
	case record, recordLarge:
		details := smallDetails
		if t == recordLarge {
			details = largeDetails()
		}
		method, route = http.MethodPost, "events"
		body = bareEvent(details, "bare")
	case download:
		route = "evidence?include_payloads=false"
	case verify:
	}
	url := b.service.url + "/api/v1/decisions/" + decisionID + "/" + route
	var next atomic.Int64
	var mu sync.Mutex
	var took []time.Duration
	var failed error
	var workers sync.WaitGroup
	for range inFlight {
		workers.Go(func() {
			var mine []time.Duration
			var err error
			for n := next.Add(1); err == nil && n <= int64(calls) && (until.IsZero() || n == 1 || time.Now().Before(until)); n = next.Add(1) {
				began := time.Now()
				err = b.request(method, url, body, t == download)
				mine = append(mine, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
			failed = errors.Join(failed, err)
		})
	}
	workers.Wait()
	return took, failed
}

// bareEvent is the body that record_action sends.
func bareEvent(details, key string) string {
	return `{"event_type":"tool_executed","actor_type":"tool","actor_id":"external-system","payload":` + strings.TrimSuffix(details, "}") + "," + otherDetails +
		`},"idempotency_key":"` + key + `"}`
}

// request sends one request and reads the answer, into a file where toDisk is true.
func (b *bare) request(method, url, body string, toDisk bool) (err error) {
	answer, err := send(b.ctx, b.client, method, url, body)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, answer.Close()) }()
	if !toDisk {
		_, err = io.Copy(io.Discard, answer)
		return err
	}
	file, err := os.CreateTemp("", "loopgrid-bench-")
	if err != nil {
		return err
	}
	_, err = io.Copy(file, answer)
	return errors.Join(err, file.Sync(), file.Close(), os.Remove(file.Name()))
}

// post sends a body and returns the answer.
func post(ctx context.Context, client *http.Client, url, body string) ([]byte, error) {
	answer, err := send(ctx, client, http.MethodPost, url, body)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(answer)
	return text, errors.Join(err, answer.Close())
}

// send sends one request, which has to be answered with 200.
func send(ctx context.Context, client *http.Client, method, url, body string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("the service answered %d", res.StatusCode), res.Body.Close())
	}
	return res.Body, nil
}
