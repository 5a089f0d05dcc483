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
	// lastWordsPerThousand what every thousand calls in flight add to it. Half of that before the bound, calls that wait for LoopGrid are
	// answered without it. A quarter before it, all that are still not answered get an answer from here: on a busy machine thousands of
	// handlers need longer than there is.
	lastWords            = 300 * time.Millisecond
	lastWordsPerThousand = 100 * time.Millisecond
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
	defer end.timer.Stop()
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
		case <-end.timer.C:
			switch end.stage {
			case waitingGiveUp:
				t.refuseAll()
				close(t.waitingC)
			case sentAreAnswered:
				close(t.leavingC)
			case restIsAnswered:
				t.answerRest()
			case boundReached:
				t.log.Warn("leaving before all is answered and read", "requests", t.calls.count())
				return t.failure
			}
			end.next()
		}
	}
}

// answerRest answers the calls that are still not answered.
func (t *Transport) answerRest() {
	rest := t.calls.takeCalls()
	for _, call := range rest {
		reason := "Not recorded: the server shut down before this call was done. Nothing was recorded. Call again."
		if call.claimed {
			reason = "Outcome unknown: the server shut down before LoopGrid answered. The evidence may be recorded: to find out, call again with the " +
				"same arguments and idempotency_key; if the call had no key, look at the decision before you repeat it."
		}
		t.out.add(resultLine(call.id, toolError(reason, call.session == t.stateless))...)
	}
	if len(rest) > 0 {
		t.log.Warn("answered calls that had no time to finish", "requests", len(rest))
		go t.out.flush()
	}
}

// stage is what happens at the end of a drain, in this order.
type stage int

const (
	waitingGiveUp stage = iota
	sentAreAnswered
	restIsAnswered
	boundReached
)

// countdown has the stages of the end of a drain. Each gets its time also on a machine so busy that the one before it came late.
type countdown struct {
	timer *time.Timer
	stage stage         // the one that the timer is for
	end   time.Time     // the bound
	words time.Duration // from waitingGiveUp to the bound
}

func newCountdown(d time.Duration, calls int) *countdown {
	c := &countdown{end: time.Now().Add(d), words: wordsOf(calls)}
	c.timer = time.NewTimer(max(0, d-c.words))
	return c
}

// wordsOf is how long calls need to give up. Each needs its time to say so.
func wordsOf(calls int) time.Duration {
	return lastWords + time.Duration(calls/1000)*lastWordsPerThousand
}

// shorten lets the end come after d, if that is sooner.
func (c *countdown) shorten(d time.Duration, calls int) {
	if c.stage != waitingGiveUp || !time.Now().Add(d).Before(c.end) {
		return
	}
	c.end, c.words = time.Now().Add(d), min(d, wordsOf(calls))
	c.timer.Reset(d - c.words)
}

// next sets the timer for the next stage.
func (c *countdown) next() {
	if c.stage == waitingGiveUp {
		c.timer.Reset(c.words / 2)
	} else {
		c.timer.Reset(c.words / 4)
	}
	c.stage++
}
