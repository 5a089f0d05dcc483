package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
	"github.com/loopgridio/loopgrid-mcp/scripts/wire"
)

const (
	appendTime = 7 * time.Millisecond  // what an append takes in LoopGrid
	distance   = 30 * time.Millisecond // to a service on another machine
	inFlight   = 4                     // calls of each bridge
)

// writers measures how many writes a second several bridges get done, beside HTTP clients that send the same requests: to a ledger that breaks
// when two writes overlap it is one client, to one that orders writes as many as there are calls in flight.
func (b *bench) writers(ctx context.Context) error {
	sqlite := sandbox.Options{Faults: sandbox.Faults{ForkChain: true, WriteTime: appendTime}}
	for bridges, row := range map[int]string{1: rowWrites1, 4: rowWrites4, 8: rowWrites8} {
		if err := b.write(ctx, row, sqlite, 0, bridges, 1); err != nil {
			return fmt.Errorf("%s: %w", row, err)
		}
	}
	postgres := sandbox.Options{PostgreSQL: true, Faults: sandbox.Faults{WriteTime: appendTime}}
	if err := b.write(ctx, rowPostgres, postgres, distance, 8, 8*inFlight); err != nil {
		return fmt.Errorf("%s: %w", rowPostgres, err)
	}
	return nil
}

// write measures one row: bridges first, then so many clients without one.
func (b *bench) write(ctx context.Context, row string, o sandbox.Options, away time.Duration, bridges, clients int) error {
	o.Limits = sandbox.Limits{IngestPerMinute: 1e9, OtherPerMinute: 1e9, Events: 1e6, MemoryBytes: 1 << 30}
	for _, name := range []string{ours, bareHTTP} {
		ledger := sandbox.New(o)
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("start a sandbox: %w", err)
		}
		w := &writing{url: "http://" + listener.Addr().String(), bench: b}
		server := serve(listener, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			if w.begun.Load() {
				time.Sleep(away)
			}
			ledger.ServeHTTP(out, r)
		}))
		do, n := w.bridge, bridges
		if name == bareHTTP {
			do, n = w.client, clients
		}
		err = w.run(ctx, n, do)
		_ = server.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if !ledger.Verify("default") {
			return fmt.Errorf("%s: the chain is broken", name)
		}
		b.figures.add(row, name, float64(w.done)/w.took.Seconds())
	}
	return nil
}

// writing is a number of writers at work on one ledger.
type writing struct {
	*bench

	url   string
	begun atomic.Bool
	mu    sync.Mutex
	done  int // writes
	took  time.Duration
}

// run has n writers work, each on decisions of its own, from the time when all of them are ready.
func (w *writing) run(ctx context.Context, n int, do func(ctx context.Context, ready *sync.WaitGroup, decisions []string) (int, error)) error {
	var ready, writers sync.WaitGroup
	ready.Add(n)
	var failed error
	for range n {
		var decisions []string
		for range 2 * inFlight { // so that calls in flight are about different ones
			id, err := w.decide(ctx)
			if err != nil {
				return err
			}
			decisions = append(decisions, id)
		}
		writers.Go(func() {
			done, err := do(ctx, &ready, decisions)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.done += done
			failed = errors.Join(failed, err)
		})
	}
	ready.Wait()
	w.begun.Store(true)
	began := time.Now()
	writers.Wait()
	w.took = time.Since(began)
	return failed
}

// decide records a decision.
func (w *writing) decide(ctx context.Context) (string, error) {
	answer, err := post(ctx, http.DefaultClient, w.url+"/api/v1/decisions", `{"decision_type":"bench","proposed_action":{},"agent":{"id":"bench"}}`)
	return evidence.GetText(answer, "decision_id"), err
}

// bridge writes through a process of the program.
func (w *writing) bridge(ctx context.Context, ready *sync.WaitGroup, decisions []string) (done int, err error) {
	ours := w.ours()
	cmd := ours.command(ctx)
	cmd.Env = append(cmd.Env, "LOOPGRID_BASE_URL="+w.url) // the last one counts
	p, err := wire.Start(cmd)
	if err == nil {
		err = p.Initialize("2025-11-25")
	}
	ready.Done()
	if err != nil {
		return 0, err
	}
	ready.Wait()
	var params []string
	for _, id := range decisions {
		params = append(params, strings.ReplaceAll(ours.params[record], decisionID, id))
	}
	took, err := p.Run(wire.Load{Params: params, Calls: 1_000_000, InFlight: inFlight, Until: time.Now().Add(w.writing)})
	_, ended := p.Close()
	return len(took), errors.Join(err, ended)
}

// client writes without a bridge.
func (w *writing) client(ctx context.Context, ready *sync.WaitGroup, decisions []string) (done int, err error) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	ready.Done()
	ready.Wait()
	for end := time.Now().Add(w.writing); err == nil && time.Now().Before(end); done++ {
		_, err = post(ctx, client, w.url+"/api/v1/decisions/"+decisions[done%len(decisions)]+"/events", bareEvent(smallDetails, rand.Text()))
	}
	return done, err
}
