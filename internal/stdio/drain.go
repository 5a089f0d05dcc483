package stdio

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// drainAfterEOF bounds how long calls in flight may take once the host has closed our input.
	drainAfterEOF = 10 * time.Second

	// drainAfterStop bounds the same from a signal on: clients kill two seconds after theirs.
	drainAfterStop = 1500 * time.Millisecond

	// lastWords is how long before the bound calls that have sent nothing give up, so that their "not recorded" is still written, and
	// lastWordsPerThousand what every thousand calls in flight add to it.
	lastWords            = 300 * time.Millisecond
	lastWordsPerThousand = 100 * time.Millisecond

	// lastAnswers is how long before the bound calls that wait for LoopGrid are answered without it.
	lastAnswers = 150 * time.Millisecond
)

// drain is the end of a session: what makes it end, and how far it has come.
type drain struct {
	endOnce, stopOnce, refuseOnce, overOnce sync.Once

	endedC    chan struct{} // the host can answer no more
	stoppedC  chan struct{} // Stop was called
	refusingC chan struct{} // no request begins any more
	waitingC  chan struct{} // calls that have sent nothing give up
	leavingC  chan struct{} // calls that have sent something are answered with what is known
	over      chan struct{} // nothing is waited for any more

	failure error // why it ended, if not by EOF or Stop; written before endedC is closed
}

func newDrain() drain {
	return drain{
		endedC:    make(chan struct{}),
		stoppedC:  make(chan struct{}),
		refusingC: make(chan struct{}),
		waitingC:  make(chan struct{}),
		leavingC:  make(chan struct{}),
		over:      make(chan struct{}),
	}
}

// Ended returns a channel that is closed when the host can answer no more: it closed its end of our input or our output, or Stop was
// called. A question to a person ends then.
func (t *Transport) Ended() <-chan struct{} { return t.endedC }

// CancelWaiting returns a channel that is closed shortly before the drain is over. A call that has sent nothing to LoopGrid by then gives
// up and says so.
func (t *Transport) CancelWaiting() <-chan struct{} { return t.waitingC }

// Leaving returns a channel that is closed after that, just before the drain is over. A call that still waits for LoopGrid is answered
// with what is known of it.
func (t *Transport) Leaving() <-chan struct{} { return t.leavingC }

// Stop ends the session from our side, as a signal asks for: no request begins any more, and those in flight have a short time. It may be
// called at any time, also during the drain, and more than once.
func (t *Transport) Stop() {
	t.stopOnce.Do(func() { close(t.stoppedC) })
	t.refuseAll()
	t.end(nil)
}

// refuseAll refuses all requests from now on.
func (t *Transport) refuseAll() {
	t.refuseOnce.Do(func() {
		t.calls.close()
		close(t.refusingC)
	})
}

func (t *Transport) isRefusing() bool {
	select {
	case <-t.refusingC:
		return true
	default:
		return false
	}
}

// end begins the drain.
func (t *Transport) end(failure error) {
	t.endOnce.Do(func() {
		t.failure = failure
		close(t.endedC)
	})
}

// leave ends the drain: go-sdk is told about the end of the input.
func (t *Transport) leave() { t.overOnce.Do(func() { close(t.over) }) }

// Serve runs a session of s on t until the host closes its end, t.Stop is called or ctx is done, and the calls in flight have been
// answered or their time is over. It returns nil at the end of the input and after a Stop, and otherwise the error that made the input or
// the output unusable. It leaves behind handlers that outlive the bound, and a read that waits for a line: the process is expected to exit.
//
// The context of the calls has the values of ctx, but is not cancelled with it.
func Serve(ctx context.Context, s *mcp.Server, t *Transport) error {
	defer t.leave()
	for _, session := range []*session{t.legacy, t.stateless} {
		if _, err := s.Connect(context.WithoutCancel(ctx), session, nil); err != nil {
			return fmt.Errorf("begin the session: %w", err)
		}
	}
	defer context.AfterFunc(ctx, t.Stop)()
	<-t.endedC
	return t.runDrain()
}

// runDrain waits until all is answered and the host has read it, or the bound is reached.
func (t *Transport) runDrain() error {
	end := newCountdown(drainAfterEOF, t.calls.count())
	defer end.stop()
	answered, written, stopped := t.calls.answered(), (<-chan struct{})(nil), t.stoppedC
	for {
		select {
		case <-answered:
			if written = t.out.pendingAbove(0); written == nil {
				return t.failure
			}
			answered = nil
		case <-written:
			if written = t.out.pendingAbove(0); written == nil {
				return t.failure
			}
		case <-stopped:
			stopped = nil
			end.shorten(drainAfterStop, t.calls.count())
		case <-end.waiting.C:
			t.refuseAll()
			close(t.waitingC)
		case <-end.leaving.C:
			close(t.leavingC)
		case <-end.bound.C:
			t.log.Warn("leaving before all is answered and read", "requests", t.calls.count())
			return t.failure
		}
	}
}

// countdown has the stages of the end of a drain. Each timer fires once.
type countdown struct {
	deadline                time.Time
	waiting, leaving, bound *time.Timer
}

// newCountdown begins the end after d. Where very many calls wait, they give up earlier, since each needs its time to say so.
func newCountdown(d time.Duration, calls int) *countdown {
	return &countdown{
		deadline: time.Now().Add(d),
		waiting:  time.NewTimer(untilLastWords(d, calls)), leaving: time.NewTimer(d - lastAnswers), bound: time.NewTimer(d),
	}
}

func untilLastWords(d time.Duration, calls int) time.Duration {
	return max(0, d-lastWords-time.Duration(calls/1000)*lastWordsPerThousand)
}

// shorten lets the end come after d, if that is sooner.
func (c *countdown) shorten(d time.Duration, calls int) {
	if !time.Now().Add(d).Before(c.deadline) {
		return
	}
	c.deadline = time.Now().Add(d)
	for timer, at := range map[*time.Timer]time.Duration{c.waiting: untilLastWords(d, calls), c.leaving: d - lastAnswers, c.bound: d} {
		if timer.Stop() { // one that has fired must not fire again
			timer.Reset(at)
		}
	}
}

func (c *countdown) stop() {
	c.waiting.Stop()
	c.leaving.Stop()
	c.bound.Stop()
}
