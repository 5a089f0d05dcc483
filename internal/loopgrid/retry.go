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
	longestBackOff  = 5 * time.Second
	afterUnanswered = time.Second // the service may still be at work on a write whose answer was lost
)

// attempts is what has happened to a request so far.
type attempts struct {
	tries   int
	refused time.Time // when the first of the refusals in a row began; zero: the last try was none
	servers int       // of these, how many ended in a 5xx of the service itself
	last    failure   // how the last try ended
	worst   failure   // the failure that decides what is known of the write; see add
	wait    time.Duration
}

// add notes how a try ended. A success settles everything. A later refusal does not undo an earlier loss: the lost try may have
// been recorded, and the service may still be at work on it.
func (a *attempts) add(began time.Time, f failure, err error) {
	a.tries++
	switch {
	case f != failRefused:
		a.refused = time.Time{}
	case a.refused.IsZero():
		a.refused = began
	}
	if f == failServer {
		a.servers++
	}
	a.last = f
	if f == failNone {
		a.worst = failNone
	} else {
		a.worst = max(a.worst, f)
	}
	a.wait = 0
	if api, ok := errors.AsType[*APIError](err); ok {
		a.wait = api.RetryAfter
	}
}

// wrap gives the last error the outcome that all tries together allow.
func (a *attempts) wrap(err error) error {
	outcome := NotRecorded
	if a.worst.mayHaveLanded() {
		outcome = Unknown
	}
	return &WriteError{Outcome: outcome, Err: err}
}

// repeatAfter is the whole policy of repeats: whether a request is sent again after its last failure, and how long to wait.
//
//	failure                 read   evaluate   keyed   once
//	connection refused      yes    yes        yes     yes    any number of tries within 3 s: nothing was sent
//	lost, 502–504, 520–     yes    yes        yes     no     4 tries; a write no sooner than 1 s after
//	429                     yes    yes        yes     yes    4 tries, after Retry-After and a second more: it is rounded down
//	500                     once   no         once    no     it may have landed, the key finds out
//	anything else           no     no         no      no
func repeatAfter(k kind, a *attempts) (time.Duration, bool) {
	backOff := min(firstBackOff<<min(a.tries-1, 10), longestBackOff)
	backOff = backOff/2 + rand.N(backOff) //nolint:gosec // spreads repeats in time, keeps no secret
	switch a.last {
	case failRefused:
		return backOff, time.Since(a.refused)+backOff <= refusedFor
	case failLost, failGateway:
		if k == keyed {
			backOff = max(backOff, afterUnanswered)
		}
		return backOff, k != once && a.tries < maxTries
	case failLimited:
		return a.wait + time.Second, a.tries < maxTries
	case failServer:
		return backOff, (k == read || k == keyed) && a.servers == 1
	case failNone, failRejected, failUnreached, failCancelled, failAnswer, failAborted, failTimedOut:
	}
	return 0, false
}
