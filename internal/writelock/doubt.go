package writelock

import (
	"context"
	"sync"
	"time"
)

const (
	// settleAfter is how long a service that answers may still be at work on a write without an answer: LoopGrid on SQLite waits 5 s for the
	// database, one second more is for the way there.
	settleAfter = 6 * time.Second
	// repeatAfter is how long the same POST waits for before it is sent again.
	repeatAfter = time.Second

	// probeTime is how long one probe may take, probePause how long the next one waits after it, and probeFor how long the service is
	// probed although nobody waits for its answer.
	probeTime  = 5 * time.Second
	probePause = 500 * time.Millisecond
	probeFor   = time.Minute
	// longestGap is how far apart two answers are between which the service was alive all the time. Of a longer gap than mostOfGap no more
	// than that counts.
	longestGap = 2 * time.Second
	mostOfGap  = time.Second
)

// doubt is whether a write that got no answer may still be running in the service. The zero value is none: the ledger is settled.
//
// Time that has passed proves nothing: the service may have been stopped, and goes on with what it had read. So it is probed, again and
// again, and what counts is for how long it has answered without a break since the write was given up.
type doubt struct {
	mu       sync.Mutex
	serial   int           // counts the attempts that were given up
	since    time.Time     // when the last of them was given up; zero: there is no doubt
	answered time.Time     // when the service last answered something that was sent after that; zero: it has not yet
	alive    time.Duration // for how long it has answered without a break

	asking  int           // the serial that the service is probed about; 0: it is not
	changed chan struct{} // closed when something of this has changed; nil: nobody waits for that
}

// raise says that an attempt was given up now.
func (d *doubt) raise() { d.set(time.Now()) }

// settle ends the doubt.
func (d *doubt) settle() { d.set(time.Time{}) }

func (d *doubt) set(since time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.serial++
	d.since, d.answered, d.alive = since, time.Time{}, 0
	d.tell()
}

// tell wakes those that wait for a change. The caller holds mu.
func (d *doubt) tell() {
	if d.changed != nil {
		close(d.changed)
		d.changed = nil
	}
}

// givenUp returns when the last attempt was given up, zero if there is no doubt.
func (d *doubt) givenUp() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.since
}

// exists reports whether there is a doubt.
func (d *doubt) exists() bool { return !d.givenUp().IsZero() }

// left returns how long the service has still to answer without a break until the ledger is settled, 0 if it is. silent says that it has
// not answered at all.
func (d *doubt) left() (left time.Duration, silent bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.since.IsZero() {
		return 0, false
	}
	if d.answered.IsZero() {
		return settleAfter, true
	}
	return max(0, settleAfter-d.alive-min(time.Since(d.answered), mostOfGap)), false
}

// ask has the service probed in the background until the ledger is settled, unless it is already.
func (d *doubt) ask(probe func(context.Context) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.since.IsZero() && d.asking != d.serial && d.alive < settleAfter {
		d.asking = d.serial
		go d.probe(d.serial, time.Now().Add(probeFor), probe)
	}
}

// probe sends a probe, and the next one later.
func (d *doubt) probe(serial int, end time.Time, probe func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	err := probe(ctx)
	if d.note(serial, err == nil, time.Now().After(end)) {
		time.AfterFunc(probePause, func() { d.probe(serial, end, probe) })
	}
}

// note notes what came of a probe, and reports whether there is more to ask. Only what was sent after the last attempt was given up tells
// something about it.
func (d *doubt) note(serial int, answered, enough bool) (goOn bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.serial != serial {
		return false // it is about another attempt by now
	}
	if now := time.Now(); answered {
		gap := now.Sub(d.answered)
		d.alive += min(gap, mostOfGap)
		if gap > longestGap { // also where it is the first answer
			d.alive = 0
		}
		d.answered = now
	}
	if enough || d.alive >= settleAfter {
		d.asking = 0
	}
	d.tell()
	return d.asking == serial
}

// wait waits until the service has answered for some time without a break since the last attempt was given up. The error is that of the
// context.
func (d *doubt) wait(ctx context.Context, alive time.Duration, probe func(context.Context) error) error {
	for {
		d.ask(probe)
		d.mu.Lock()
		isOver := d.since.IsZero() || !d.answered.IsZero() && d.alive >= alive
		if d.changed == nil {
			d.changed = make(chan struct{})
		}
		changed := d.changed
		d.mu.Unlock()
		if isOver {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
