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
// any other writer in between. Two writes at once break LoopGrid's chain for good where it runs on SQLite, its default.
//
// [Client.NewTurn] takes a place in the queue, [Turn.Begin] waits for the turn, the methods that send follow, and [Turn.End]
// gives the turn up. A Turn is used by one goroutine, but for [Turn.Sent], which others may ask.
type Turn struct {
	c      *Client
	ticket *writelock.Ticket
	// deadline bounds everything after Begin. sent is set with the first POST: from then on the call goes on until it is
	// complete, even where its context has ended, so that no decision is left half recorded.
	deadline time.Time
	sent     atomic.Bool
}

// NewTurn takes the next place in the queue of this process's writers and returns at once.
func (c *Client) NewTurn() *Turn { return &Turn{c: c, ticket: c.lock.Enter()} }

// Begin waits until it is this call's turn, no other process is writing, and no unanswered write can still be running in the
// service. It waits for the client's time-out at most; the call has twice that for all of its requests, counted from now. The
// error is a [*WriteError]: nothing was sent.
func (t *Turn) Begin(ctx context.Context) error {
	t.deadline = time.Now().Add(2 * t.c.o.Timeout)
	ctx, cancel := context.WithTimeout(ctx, t.c.o.Timeout)
	defer cancel()
	if err := t.ticket.Lock(ctx); err != nil {
		return &WriteError{Err: err}
	}
	return nil
}

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
	if r.kind != evaluate {
		r.beforeTry, r.afterTry = t.ticket.Posting, t.afterTry
	}
	return t.c.doJSON(ctx, r, use)
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

func (t *Turn) context(ctx context.Context) (context.Context, context.CancelFunc) {
	if t.sent.Load() {
		ctx = context.WithoutCancel(ctx)
	}
	return context.WithDeadline(ctx, t.deadline)
}

// DefaultLockDir returns the folder of the lock files that the processes of this user share. It is fixed, and not taken from the
// environment, of which hosts pass on almost nothing. The error says why the system names none: then only the writes of this process
// can be ordered.
func DefaultLockDir() (string, error) { return writelock.DefaultDir() }

// CheckLockDir finds out whether the lock files may be kept in dir: see [writelock.CheckDir].
func CheckLockDir(dir string) error { return writelock.CheckDir(dir) }
