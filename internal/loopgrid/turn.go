package loopgrid

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/loopgridio/loopgrid-mcp/internal/writelock"
)

// Turn is one caller's turn at the ledger: the requests of a call that records something, from the first to the last, without
// any other writer in between. Two writes at once break LoopGrid's chain for good where it runs on SQLite, its default. Where LoopGrid
// orders writes itself (see [WriteLock]), only calls about the same decision or idempotency key wait for each other.
//
// [Client.NewTurn] takes a place in the queue, [Turn.Begin] waits for the turn, the methods that send follow, and [Turn.End]
// gives the turn up. A Turn is used by one goroutine, but for [Turn.Sent], which others may ask.
type Turn struct {
	c      *Client
	ticket *writelock.Ticket
	// deadline bounds everything after Begin. sent is set with the first POST: from then on the call goes on until it is
	// complete, even where its context has ended, so that no decision is left half recorded.
	deadline   time.Time
	sent       atomic.Bool
	decisionID string // of the decision that the call is about, once it is known
	unlocked   bool
	tries      int // of the current POST
}

// NewTurn takes the next place in the queue of this process's writers and returns at once.
func (c *Client) NewTurn() *Turn { return &Turn{c: c, ticket: c.lock.Enter()} }

// Subject is what a call writes about; empty where it does not say.
type Subject struct {
	DecisionID     string
	IdempotencyKey string
	// Review says that the call records a review: two of them at once could both be accepted.
	Review bool
}

// Begin waits until it is this call's turn, no other process is writing, and no unanswered write can still be running in the
// service. It waits for the client's time-out at most; the call has twice that for all of its requests, counted from now. The
// error is a [*WriteError]: nothing was sent.
func (t *Turn) Begin(ctx context.Context, about Subject) error {
	t.deadline = time.Now().Add(2 * t.c.o.Timeout)
	t.decisionID = about.DecisionID
	ctx, cancel := context.WithTimeout(ctx, t.c.o.Timeout)
	defer cancel()
	var claim writelock.Claim
	if claim.SideBySide, t.unlocked = t.c.ordersWrites(ctx); claim.SideBySide {
		claim.OneAtATime = about.Review
	}
	if about.DecisionID != "" {
		claim.Names = append(claim.Names, decisionName(about.DecisionID))
	}
	if about.IdempotencyKey != "" {
		claim.Names = append(claim.Names, "key "+about.IdempotencyKey)
	}
	if err := t.ticket.Lock(ctx, claim); err != nil {
		return &WriteError{Err: err}
	}
	return nil
}

func decisionName(id string) string { return "decision " + id }

// Unlocked says that the operator switched the write lock off although this service needs it.
func (t *Turn) Unlocked() bool { return t.unlocked }

// Suspend gives the turn back for a while, for something that takes long and writes nothing: other calls may pass, except those about the
// same decision or idempotency key. [Turn.Resume] takes it again. While a request of this call is unanswered it does nothing, and returns
// false.
func (t *Turn) Suspend() bool {
	if t.decisionID == "" {
		return t.ticket.StepAside()
	}
	return t.ticket.StepAside(decisionName(t.decisionID))
}

// Resume waits until the turn comes back after [Turn.Suspend], within the call's time. The error is a [*WriteError].
func (t *Turn) Resume(ctx context.Context) error {
	ctx, cancel := t.context(ctx)
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, t.c.o.Timeout)
	defer stop()
	if err := t.ticket.Return(ctx); err != nil {
		return &WriteError{Err: err}
	}
	return nil
}

// TimeLeft returns how much of the call's time is left for its requests.
func (t *Turn) TimeLeft() time.Duration { return time.Until(t.deadline) }

// End gives up the turn, or the place in the queue. It may be called at any time, and more than once.
func (t *Turn) End() { t.ticket.Leave() }

// Sent says whether a request of this call may have reached the service.
func (t *Turn) Sent() bool { return t.sent.Load() }

// Settled says that an unanswered request of this call is known to be over, because its evidence was read back: other writes need not
// wait for it.
func (t *Turn) Settled() { t.ticket.Answered() }

// ErrNoTimeLeft is the cause of a [*WriteError] for a request that was not begun because the call's time was nearly over.
var ErrNoTimeLeft = errors.New("not sent: the time for this call was nearly over")

// do sends one request of the call. The error is a [*WriteError].
func (t *Turn) do(ctx context.Context, r *request, use func(answer) string) error {
	if time.Until(t.deadline) < min(2*time.Second, t.c.o.Timeout/4) {
		return &WriteError{Err: ErrNoTimeLeft}
	}
	// In this order whoever cancels the context and then asks Sent learns of every request that is sent.
	if first := !t.sent.Swap(true); first && ctx.Err() != nil {
		t.sent.Store(false)
		return &WriteError{Err: fmt.Errorf("cancelled before anything was sent: %w", context.Cause(ctx))}
	}
	ctx, cancel := t.context(ctx)
	defer cancel()
	t.tries = 0
	if r.kind != evaluate {
		r.beforeTry, r.afterTry, r.pause = t.beforeTry, t.afterTry, t.pause
	}
	return t.c.doJSON(ctx, r, use)
}

// beforeTry asks the write lock whether a POST may be sent. After one that went unanswered it waits until the service has answered
// something else.
func (t *Turn) beforeTry(ctx context.Context) error {
	if err := t.ticket.Repeat(ctx); err != nil {
		return err
	}
	t.tries++
	return t.ticket.Posting()
}

// pause waits before a repeat. Who waits because of a rate limit lets others pass.
func (t *Turn) pause(ctx context.Context, after failure, d time.Duration) error {
	if after != failLimited || !t.Suspend() {
		return pause(ctx, d)
	}
	if err := pause(ctx, d); err != nil {
		return err
	}
	return t.ticket.Return(ctx)
}

// afterTry tells the write lock how a POST ended.
func (t *Turn) afterTry(f failure) {
	switch {
	case f == failNone:
		t.ticket.Answered()
	case f.unsettles:
		t.ticket.GaveUp()
	default:
		t.ticket.Ended()
	}
}

// GetDecision is [Client.GetDecision] within the call: it has the call's time, and goes on where the context of the call has ended
// after something was sent.
func (t *Turn) GetDecision(ctx context.Context, decisionID string) (*DecisionRecord, error) {
	ctx, cancel := t.context(ctx)
	defer cancel()
	return t.c.GetDecision(ctx, decisionID)
}

// Health is [Client.Health] within the call, as [Turn.GetDecision] is.
func (t *Turn) Health(ctx context.Context) (Health, error) {
	ctx, cancel := t.context(ctx)
	defer cancel()
	return t.c.Health(ctx)
}

func (t *Turn) context(ctx context.Context) (context.Context, context.CancelFunc) {
	if t.sent.Load() {
		ctx = context.WithoutCancel(ctx)
	}
	return context.WithDeadline(context.WithValue(ctx, writeLane{}, true), t.deadline)
}

// DefaultLockDir returns the folder of the lock files that the processes of this user share. It is fixed, and not taken from the
// environment, of which hosts pass on almost nothing. The error says why the system names none: then only the writes of this process
// can be ordered.
func DefaultLockDir() (string, error) { return writelock.DefaultDir() }

// CheckLockDir finds out whether the lock files may be kept in dir: see [writelock.CheckDir].
func CheckLockDir(dir string) error { return writelock.CheckDir(dir) }
