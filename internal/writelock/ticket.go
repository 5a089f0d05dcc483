package writelock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

var (
	errLeft      = errors.New("the place in the queue was given up")
	errNotLocked = errors.New("post: the write lock is not held")
)

// Ticket is a place in the queue of a Lock, from [Lock.Enter] to Leave, and the lock itself once Lock has
// returned nil. It belongs to one call: Leave may be called at any time from any goroutine, the other methods one at
// a time.
type Ticket struct {
	l     *Lock
	place place // guarded by the Lock

	mu       sync.Mutex
	claim    Claim
	cancel   context.CancelCauseFunc // not nil while Lock is running
	left     bool
	held     bool // Lock returned nil, and neither StepAside nor Leave was called since
	inFile   bool // the file lock is ours; while Lock is running only Lock uses it
	inFlight bool // a POST was announced and nothing was said about its end
	own      doubt
}

// doubts returns what the attempts of this call raise a doubt about: the ledger, or only the call itself where writes go side by side.
func (t *Ticket) doubts() *doubt {
	if t.claim.SideBySide {
		return &t.own
	}
	return &t.l.doubt
}

// Lock waits until it is the Ticket's turn, then for the other processes, then until the ledger is settled. On a Ticket that
// holds the lock it waits until the ledger is settled.
//
// The context bounds the whole wait. When it ends first, the error is a *[WaitError], the lock is not held, and the
// Ticket keeps its place until it is left.
func (t *Ticket) Lock(ctx context.Context, claim Claim) error {
	if claim.OneAtATime {
		claim.Names = append(slices.Clone(claim.Names), oneAtATime)
	}
	t.mu.Lock()
	if t.left || t.cancel != nil {
		t.mu.Unlock()
		return fmt.Errorf("wait for the write lock: %w", errLeft)
	}
	held := t.held
	if !held {
		t.claim = claim
	}
	ctx, t.cancel = context.WithCancelCause(ctx)
	cancel := t.cancel
	t.mu.Unlock()

	err := t.acquire(ctx, held)

	t.mu.Lock()
	defer t.mu.Unlock()
	cancel(nil)
	t.cancel = nil
	if err == nil && t.left {
		err = fmt.Errorf("wait for the write lock: %w", errLeft)
	}
	t.held = err == nil
	if err != nil {
		t.release()
		t.l.yield(t, false)
	}
	if t.left {
		t.l.remove(t)
	}
	return err
}

// acquire does the three waits of Lock. It sets inFile, and leaves it to Lock to let go of the file after an error.
func (t *Ticket) acquire(ctx context.Context, held bool) error {
	if !held {
		turn := t.l.claim(t)
		if ctx.Err() != nil {
			return t.l.stopped(ctx, waitNone)
		}
		select {
		case <-turn:
		case <-ctx.Done():
			return t.l.stopped(ctx, waitQueue)
		}
	}
	if t.l.file != nil && !t.inFile && t.claim.usesFile() {
		err := t.l.file.acquire(ctx)
		if err != nil && ctx.Err() != nil {
			return t.l.stopped(ctx, waitFile)
		}
		if err != nil {
			t.l.warnOnce("only the writes of this process are ordered, other processes of this user are not kept out", err)
		}
		t.inFile = err == nil
	}
	if t.claim.SideBySide {
		return nil
	}
	if t.inFile {
		t.learn()
	}
	if !t.l.doubt.exists() {
		return nil
	}
	if t.l.doubt.wait(ctx, settleAfter, t.l.probe) != nil {
		return t.l.stopped(ctx, waitSettled)
	}
	t.l.doubt.settle()
	t.write(note{})
	return nil
}

// learn takes over what another process, or a killed one, left in the lock file. What this process wrote there itself it knows better: the
// service may have answered it since.
//
// Text that is no note counts as a POST that was given up: somebody wrote there, and that is the worst it can mean.
func (t *Ticket) learn() {
	found, err := t.l.file.read()
	if errors.Is(err, errNoNote) {
		found = note{state: givenUpState, at: time.Now()}
		t.write(found)
		t.l.doubt.raise()
		return
	}
	if err != nil {
		t.l.warnOnce("unanswered writes of other processes are not seen", err)
		return
	}
	if found.equal(t.l.noted) {
		return
	}
	t.l.noted = found
	switch found.state {
	case settledState:
		t.l.doubt.settle()
	case postedState, givenUpState:
		t.l.doubt.raise()
	}
}

// write leaves a note in the lock file. A write that fails is no reason to refuse evidence: what is lost is that others learn of an
// unanswered write, and the warning says so.
func (t *Ticket) write(n note) {
	if !t.inFile || t.claim.SideBySide || n.equal(t.l.noted) {
		return
	}
	if err := t.l.file.write(n); err != nil {
		t.l.warnOnce("unanswered writes are not shown to other processes", err)
		return
	}
	t.l.noted = n
}

// StepAside lets go of the lock for a while, for a call that has to wait for something else: other calls may pass, except those that have a
// name in common with it; names are added to those of its claim. [Ticket.Return] takes the lock again. It returns false, and changes nothing, if a
// write of this call is unanswered.
func (t *Ticket) StepAside(names ...string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.held || t.inFlight || t.doubts().exists() {
		return false
	}
	t.claim.Names = append(slices.Clone(t.claim.Names), names...)
	t.release()
	t.l.yield(t, true)
	return true
}

// Return takes the lock again after [Ticket.StepAside]: the Ticket is the next after those that have passed it. It is [Ticket.Lock]
// otherwise.
func (t *Ticket) Return(ctx context.Context) error {
	t.mu.Lock()
	claim := t.claim
	t.mu.Unlock()
	return t.Lock(ctx, claim)
}

// Leave gives up the place in the queue or the lock, and ends a Lock that is still waiting. An attempt in flight
// counts as given up now. Further calls do nothing.
func (t *Ticket) Leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left {
		return
	}
	t.left = true
	if t.cancel != nil {
		t.cancel(errLeft) // Lock lets go of what it has and leaves the queue.
		return
	}
	t.release()
	t.l.remove(t)
}

// release lets go of the lock but not of the place.
func (t *Ticket) release() {
	if t.inFlight {
		t.giveUp()
	}
	if t.own.exists() {
		t.own.settle()
		t.l.doubt.raise() // for who does not go side by side: the service may not order writes any more
	}
	t.held = false
	if t.inFile {
		t.inFile = false
		t.l.file.release()
	}
}

// Posting announces that a POST which appends to the ledger is sent now. Each one announced ends with GaveUp,
// Answered or Ended. The error says that the Ticket does not hold the lock: then nothing may be sent.
func (t *Ticket) Posting() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.held {
		return errNotLocked
	}
	t.inFlight = true
	t.write(note{state: postedState, at: time.Now()})
	return nil
}

// Repeat waits until the POST that was given up may be sent again: the service has answered requests that were sent after that for a
// moment. The error is a *[WaitError].
func (t *Ticket) Repeat(ctx context.Context) error {
	if t.doubts().wait(ctx, repeatAfter, t.l.probe) != nil {
		return t.l.stopped(ctx, waitSettled)
	}
	return nil
}

// GaveUp says that the attempt in flight got no answer, or one that does not tell whether it is over:
// the ledger is unsettled from now on.
func (t *Ticket) GaveUp() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held {
		t.giveUp()
	}
}

func (t *Ticket) giveUp() {
	t.inFlight = false
	d := t.doubts()
	d.raise()
	d.ask(t.l.probe) // at once: whoever comes next has less to wait for
	t.write(note{state: givenUpState, at: time.Now()})
}

// Answered says that the write is known to be over, earlier attempts of it included: the ledger is settled.
func (t *Ticket) Answered() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.held {
		return
	}
	t.inFlight = false
	t.doubts().settle()
	t.write(note{})
}

// Ended says that the attempt in flight is over but tells nothing about earlier ones: it was refused before it
// reached the service, or answered 4xx or 500. The ledger is as settled as before it was sent.
func (t *Ticket) Ended() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.held {
		return
	}
	t.inFlight = false
	n := note{}
	if since := t.doubts().givenUp(); !since.IsZero() {
		n = note{state: givenUpState, at: since}
	}
	t.write(n)
}
