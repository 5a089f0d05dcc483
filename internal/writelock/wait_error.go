package writelock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// wait names what a call was waiting for.
type wait int

const (
	waitNone    wait = iota // the context had ended before
	waitQueue               // earlier writes of this process
	waitFile                // a write of another process
	waitSettled             // an unanswered write, of whichever process
)

// WaitError says that the context ended before the lock was there: nothing was sent.
type WaitError struct {
	wait      wait
	unsettled time.Duration // how long the ledger stays unsettled, 0 if it is settled as far as this process knows
	silent    bool          // the service has not answered since a write went unanswered
	cause     error         // of the context
}

// stopped returns the error of a wait that ctx ended.
func (l *Lock) stopped(ctx context.Context, wait wait) error {
	left, silent := l.doubt.left()
	return &WaitError{wait: wait, unsettled: left, silent: silent, cause: context.Cause(ctx)}
}

// Error names the wait and, where the ledger is unsettled, the seconds after which it makes sense to call again.
func (e *WaitError) Error() string {
	what := "cancelled before anything was sent"
	switch {
	case errors.Is(e.cause, context.DeadlineExceeded):
		what = "nothing was sent in time"
	case !errors.Is(e.cause, context.Canceled):
		what += fmt.Sprintf(" (%v)", e.cause)
	}
	switch {
	case e.wait == waitNone:
	case e.silent:
		what += ": an earlier write got no answer and may still be running in LoopGrid, which has not answered anything since. Nothing is sent before it does: the operator should check that LoopGrid is running"
	case e.wait == waitQueue:
		what += ": earlier writes of this process are not finished"
	case e.wait == waitFile:
		what += ": another process is writing to this LoopGrid"
	case e.wait == waitSettled:
		what += ": an earlier write got no answer and may still be running in LoopGrid"
	}
	switch s := e.CallAgainIn(); {
	case s > 0:
		what += fmt.Sprintf("; call again in %d s", s)
	case !e.silent && e.wait != waitNone && errors.Is(e.cause, context.DeadlineExceeded):
		what += "; call again later"
	}
	return what
}

// Unwrap returns the cause of the context's end.
func (e *WaitError) Unwrap() error { return e.cause }

// CallAgainIn returns in how many seconds the ledger will be settled, rounded up; 0 if it is not known to be
// unsettled, or if nobody can tell because the service does not answer.
func (e *WaitError) CallAgainIn() int {
	if e.silent {
		return 0
	}
	return int(math.Ceil(e.unsettled.Seconds()))
}
