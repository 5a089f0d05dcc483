package writelock

import (
	"context"
	"sync"
	"time"
)

const (
	// settleAfter is how long a write without an answer may still be running in a service that has shown to be alive: LoopGrid on SQLite
	// waits 5 s for the database, one second more is for the way there.
	settleAfter = 6 * time.Second
	// repeatAfter is how long the same POST waits after that sign of life before it is sent again.
	repeatAfter = time.Second
	// probeTime is how long one probe may take, probePause how long the next one waits after it, and probeFor how long the service is
	// probed although nobody waits for its answer.
	probeTime  = 5 * time.Second
	probePause = 500 * time.Millisecond
	probeFor   = time.Minute
)

// doubt is whether a write that got no answer may still be running in the service. The zero value is none: the ledger is settled.
type doubt struct {
	mu       sync.Mutex
	serial   int       // counts the attempts that were given up
	since    time.Time // when the last of them was given up; zero: there is no doubt
	answered time.Time // when the service answered a request that was sent after that; zero: it has not yet

	asking chan struct{} // see ask; nil: the service is not being asked
	asked  int           // the serial that it is asked about
}

// raise says that an attempt was given up now.
func (d *doubt) raise() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.serial++
	d.since, d.answered = time.Now(), time.Time{}
}

// seen says that the service answered at some time a request that was sent after the attempt that another process gave up.
func (d *doubt) seen(answered time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.serial++
	d.since, d.answered = answered, answered
}

// settle ends the doubt.
func (d *doubt) settle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.serial++
	d.since, d.answered = time.Time{}, time.Time{}
}

// state returns when the last attempt was given up and when the service answered after that.
func (d *doubt) state() (since, answered time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.since, d.answered
}

// exists reports whether there is a doubt.
func (d *doubt) exists() bool {
	since, _ := d.state()
	return !since.IsZero()
}

// left returns how much of a pause after the service's answer is still to come, all of it where the service has not answered, and 0 where
// there is no doubt.
func (d *doubt) left(pause time.Duration) time.Duration {
	switch since, answered := d.state(); {
	case since.IsZero():
		return 0
	case answered.IsZero():
		return pause
	default:
		return max(0, pause-time.Since(answered))
	}
}

// ask probes the service in the background until it answers, unless that is under way already. The channel is closed when it has answered,
// another attempt was given up, or nothing came of it. Only what is sent after an attempt was given up tells something about it.
func (d *doubt) ask(probe func(context.Context) error) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asking != nil && d.asked == d.serial {
		return d.asking
	}
	d.asking, d.asked = make(chan struct{}), d.serial
	go d.keepAsking(d.serial, d.asking, probe)
	return d.asking
}

func (d *doubt) keepAsking(serial int, done chan struct{}, probe func(context.Context) error) {
	defer close(done)
	for end := time.Now().Add(probeFor); ; time.Sleep(probePause) {
		ctx, cancel := context.WithTimeout(context.Background(), probeTime)
		err := probe(ctx)
		cancel()
		d.mu.Lock()
		isOver := d.serial != serial || err == nil || time.Now().After(end)
		if isOver && d.asking == done {
			d.asking = nil
		}
		if d.serial == serial && err == nil && !d.since.IsZero() {
			d.answered = time.Now()
		}
		d.mu.Unlock()
		if isOver {
			return
		}
	}
}

// wait waits until the service has answered and the pause after that is over. It asks until then; proven, if not nil, is called with the
// time of the answer. The error is that of the context.
func (d *doubt) wait(ctx context.Context, pause time.Duration, probe func(context.Context) error, proven func(time.Time)) error {
	for d.exists() {
		if _, answered := d.state(); answered.IsZero() {
			select {
			case <-d.ask(probe):
				continue
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		} else if proven != nil {
			proven(answered)
		}
		timer := time.NewTimer(d.left(pause))
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
	return nil
}
