package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// amounts are how much of everything a run does.
type amounts struct {
	rounds     int
	coldStarts int           // in a round
	calls      int           // of each load in a round
	large      int           // calls with 1 MB in a round
	budget     time.Duration // after which a load ends early
	writing    time.Duration // of several bridges at once in a round
	manyCalls  int           // for the memory of a long session
	bundle     int           // bytes of the evidence
	crowd      int           // calls in flight under extreme load
}

func fullRun(rounds int) amounts {
	return amounts{rounds: rounds, coldStarts: 20, calls: 3000, large: 30, budget: 5 * time.Second, writing: 3 * time.Second, manyCalls: 200_000, bundle: 50_000_000, crowd: 300}
}

// quickRun is for seeing that the benchmark works; its figures say little.
func quickRun(rounds int) amounts {
	return amounts{rounds: min(rounds, 2), coldStarts: 3, calls: 300, large: 3, budget: time.Second, writing: time.Second, manyCalls: 10_000, bundle: 5_000_000, crowd: 40}
}

// bench is one run.
type bench struct {
	amounts

	service    *service
	contenders []*contender
	figures    *figures
	progress   func(string)
}

// run measures everything. In each round all contenders take their turn at each load before the next load comes, so that whatever else
// the machine does meanwhile hits all of them.
func (b *bench) run(ctx context.Context) error {
	for round := range b.rounds {
		b.progress(fmt.Sprintf("round %d of %d", round+1, b.rounds))
		order := slices.Concat(b.contenders[round%len(b.contenders):], b.contenders[:round%len(b.contenders)])
		if err := b.coldRound(ctx, order); err != nil {
			return err
		}
		if err := b.round(ctx, order); err != nil {
			return err
		}
		if err := b.writers(ctx); err != nil {
			return err
		}
	}
	b.progress("memory of a long session")
	return b.longSession(ctx)
}

// coldRound measures what a host waits for when it starts a server, and ends it.
func (b *bench) coldRound(ctx context.Context, order []*contender) error {
	taken := map[string]map[*contender][]float64{}
	note := func(row string, c *contender, value float64) {
		if taken[row] == nil {
			taken[row] = map[*contender][]float64{}
		}
		taken[row][c] = append(taken[row][c], value)
	}
	for i := range b.coldStarts {
		for _, c := range order {
			// What has no process, and what is the same program again, is left out.
			if c.command == nil || c.name == sameTool || c.slow && i >= max(1, b.coldStarts/10) {
				continue
			}
			p, took, err := c.coldStart(ctx)
			if err != nil {
				return err
			}
			note(rowInitialize, c, milliseconds(took[0]))
			note(rowListTools, c, milliseconds(took[1]))
			if i == 0 {
				if err := pause(ctx, 100*time.Millisecond); err != nil { // until what the start left to do is done
					return errors.Join(err, closeOf(p.Close()))
				}
				if now, _, ok := memory(p.PID()); ok {
					note(rowIdle, c, now)
				}
			}
			ended, err := p.Close()
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			note(rowExit, c, milliseconds(ended))
		}
	}
	for row, values := range taken {
		for c, v := range values {
			b.figures.add(row, c.name, median(v))
		}
	}
	return nil
}

func closeOf(_ time.Duration, err error) error { return err }

// round measures the calls.
func (b *bench) round(ctx context.Context, order []*contender) (err error) {
	sessions := map[*contender]session{}
	defer func() {
		for _, s := range sessions {
			err = errors.Join(err, s.close())
		}
	}()
	for _, c := range order {
		s, err := c.start(ctx, b.service)
		if err != nil {
			return err
		}
		sessions[c] = s
		if _, err := s.run(record, 200, 4, b.until(c)); err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
	}
	for _, l := range []struct {
		task            task
		calls, inFlight int
		p50, p99, cpu   string // rows, where they are wanted
		rate            string
	}{
		{task: record, calls: b.calls, inFlight: 1, p50: rowRecord, p99: rowRecordP99, cpu: rowRecordCPU},
		{task: record, calls: b.calls, inFlight: 16, rate: rowRecord16},
		{task: record, calls: b.calls, inFlight: 64, rate: rowRecord64},
		{task: verify, calls: b.calls, inFlight: 1, p50: rowVerify, cpu: rowVerifyCPU},
		{task: verify, calls: b.calls, inFlight: 16, rate: rowVerify16},
		{task: verify, calls: 2 * b.calls, inFlight: 64, rate: rowVerify64},
		{task: recordLarge, calls: b.large, inFlight: 1, p50: rowLarge},
	} {
		for _, c := range order {
			s := sessions[c]
			if _, does := c.params[l.task]; !does {
				continue
			}
			before, _ := cpu(s.pid())
			began := time.Now()
			took, err := s.run(l.task, l.calls, l.inFlight, b.until(c))
			if err != nil {
				return err
			}
			elapsed := time.Since(began)
			if after, ok := cpu(s.pid()); ok && l.cpu != "" {
				b.figures.add(l.cpu, c.name, microseconds(after-before)/float64(len(took)))
			}
			b.figures.add(l.rate, c.name, float64(len(took))/elapsed.Seconds())
			slices.Sort(took)
			b.figures.add(l.p50, c.name, microseconds(took[len(took)/2]))
			b.figures.add(l.p99, c.name, microseconds(took[len(took)*99/100]))
		}
	}
	for _, c := range order {
		if err := b.downloadOnce(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// until is when a load ends early.
func (b *bench) until(c *contender) time.Time {
	budget := b.budget
	if c.slow {
		budget /= 2
	}
	return time.Now().Add(budget)
}

// downloadOnce measures a download in a fresh process, whose memory has not grown yet.
func (b *bench) downloadOnce(ctx context.Context, c *contender) (err error) {
	if _, does := c.params[download]; !does {
		return nil
	}
	s, err := c.start(ctx, b.service)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if _, err := s.run(verify, 20, 1, time.Time{}); err != nil {
		return err
	}
	forgetPeak(s.pid())
	before, _, measured := memory(s.pid())
	took, err := s.run(download, 1, 1, time.Time{})
	if err != nil {
		return err
	}
	b.figures.add(rowDownload, c.name, milliseconds(took[0]))
	if _, peak, ok := memory(s.pid()); ok && measured {
		b.figures.add(rowDownloadPeak, c.name, peak-before)
	}
	return nil
}

// longSession measures how the memory grows with the number of calls.
func (b *bench) longSession(ctx context.Context) error {
	for _, c := range b.contenders {
		if c.command == nil || c.name == emptyTool {
			continue
		}
		s, err := c.start(ctx, b.service)
		if err != nil {
			return err
		}
		many := b.manyCalls
		if c.slow {
			many = 0
		}
		if err := errors.Join(b.longSessionOf(c, s, many), s.close()); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) longSessionOf(c *contender, s session, many int) error {
	const few = 1000
	done := 0
	for _, part := range []struct {
		calls int
		row   string
	}{{few, rowMemoryFew}, {many, rowMemoryMany}} {
		if part.calls <= done {
			continue
		}
		if _, err := s.run(record, part.calls-done, 1, time.Time{}); err != nil {
			return err
		}
		done = part.calls
		if now, _, ok := memory(s.pid()); ok {
			b.figures.add(part.row, c.name, now)
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
