package loopgrid

import (
	"errors"
	"math/rand/v2"
	"time"
)

const (
	maxTries        = 4
	refusedFor      = 3 * time.Second // how long a refused connection is tried again: a service that restarts is back by then
	firstBackOff    = 200 * time.Millisecond
	afterUnanswered = time.Second // the service may still be at work on a write whose answer was lost
)

// attempts is what has happened to a request so far.
type attempts struct {
	n       int
	refused time.Time // when the first of the refusals in a row began; zero: the last try was none
	failed  int       // how many ended in a failure of LoopGrid or of something in front of it
	last    failure
	landed  bool // one of them may have been recorded
	wait    time.Duration
}

// add notes how a try ended. A later refusal does not undo an earlier loss: the lost try may have been recorded, and the service may
// still be at work on it.
func (a *attempts) add(began time.Time, f failure, err error) {
	a.n++
	switch {
	case f != failRefused:
		a.refused = time.Time{}
	case a.refused.IsZero():
		a.refused = began
	}
	if f == failServer || f == failInFront {
		a.failed++
	}
	a.last = f
	a.landed = a.landed || f.mayHaveLanded
	a.wait = 0
	if api, ok := errors.AsType[*APIError](err); ok {
		a.wait = api.RetryAfter
	}
}

// outcome gives the last error of a POST the outcome that all tries together allow.
func (a *attempts) outcome(k kind, err error) error {
	switch {
	case k == read, k == probe:
		return err
	case k != evaluate && a.landed:
		return &WriteError{Outcome: Unknown, Err: err}
	default:
		return &WriteError{Outcome: NotRecorded, Err: err}
	}
}

// repeatAfter is the whole policy of repeats: whether a request is sent again after its last failure, and how long to wait.
//
//	failure                   read   evaluate   keyed   once
//	refused                   yes    yes        yes     yes    any number of tries within 3 s: nothing was sent
//	lost, gateway error       yes    yes        yes     no     4 tries; a write no sooner than 1 s after; never before Retry-After
//	limited                   yes    yes        yes     yes    4 tries, after Retry-After and a second more: it is rounded down
//	server error, front error once   no         once    no     it may have landed, the key finds out
//	anything else             no     no         no      no
//
// A probe is never repeated.
func repeatAfter(k kind, a *attempts) (time.Duration, bool) {
	backOff := firstBackOff << min(a.n-1, 10)
	backOff = backOff/2 + rand.N(backOff) //nolint:gosec // spreads repeats in time, keeps no secret
	if k == keyed && a.last.unsettles {
		backOff = max(backOff, afterUnanswered)
	}
	switch {
	case k == probe:
		return 0, false
	case a.last == failRefused:
		return backOff, time.Since(a.refused)+backOff <= refusedFor
	case a.last == failLost, a.last == failGateway:
		return max(backOff, a.wait), k != once && a.n < maxTries
	case a.last == failLimited:
		return a.wait + time.Second, a.n < maxTries
	case a.last == failServer, a.last == failInFront:
		return max(backOff, a.wait), (k == read || k == keyed) && a.failed == 1
	default:
		return 0, false
	}
}
