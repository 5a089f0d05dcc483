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

	// LastWords is how long before the bound calls that have sent nothing are cancelled, so that "not
	// recorded" is still written.
	LastWords = 300 * time.Millisecond
)

// drain is the end of a session: what makes it end, and how far it has come.
type drain struct {
	endOnce, stopOnce, overOnce sync.Once

	endedC   chan struct{} // the host can answer no more
	stoppedC chan struct{} // stop was called
	waitingC chan struct{} // calls that have sent nothing give up
	over     chan struct{} // nothing is waited for any more

	failure error // why it ended, if not by EOF or stop; written before endedC is closed
}

func newDrain() drain {
	return drain{
		endedC:   make(chan struct{}),
		stoppedC: make(chan struct{}),
		waitingC: make(chan struct{}),
		over:     make(chan struct{}),
	}
}

// ended returns a channel that is closed when the host can answer no more: its end of our input or our
// output is closed, or stop was called. A question to a person ends then.
func (t *Transport) Ended() <-chan struct{} { return t.endedC }

// CancelWaiting returns a channel that is closed shortly before the drain is over. A call that has sent
// nothing to LoopGrid by then gives up and says so.
func (t *Transport) CancelWaiting() <-chan struct{} { return t.waitingC }

// stop ends the session from our side, as a signal asks for: no request is begun any more, those in
// flight have a short time. It may be called at any time, also while the session drains already, and more
// than once.
func (t *Transport) Stop() {
	t.stopOnce.Do(func() { close(t.stoppedC) })
	t.end(nil)
}

// end begins the drain.
func (t *Transport) end(failure error) {
	t.endOnce.Do(func() {
		t.failure = failure
		t.calls.close()
		close(t.endedC)
	})
}

// leave ends the drain: Read tells go-sdk about the end of the input.
func (t *Transport) leave() { t.overOnce.Do(func() { close(t.over) }) }

// serve runs a session of s on t until the host closes its end, t.Stop is called or ctx is done, and the
// calls in flight have been answered or their time is over. It returns nil at the end of the input and
// after a stop, and the error that made the input or the output unusable otherwise. Handlers that outlive
// the bound, and a Read that waits for a line, are left behind: the process is expected to exit.
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
	deadline := time.Now().Add(drainAfterEOF)
	bound, lastCall := time.NewTimer(time.Until(deadline)), time.NewTimer(time.Until(deadline.Add(-LastWords)))
	defer bound.Stop()
	defer lastCall.Stop()
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
			if sooner := time.Now().Add(drainAfterStop); sooner.Before(deadline) {
				deadline = sooner
				bound.Reset(time.Until(deadline))
				lastCall.Reset(time.Until(deadline.Add(-LastWords)))
			}
		case <-lastCall.C:
			select {
			case <-t.waitingC:
			default:
				close(t.waitingC)
			}
		case <-bound.C:
			t.log.Warn("leaving before all is answered and read", "requests", t.calls.count())
			return t.failure
		}
	}
}
