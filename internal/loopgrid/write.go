package loopgrid

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/loopgridio/loopgrid-mcp/internal/writelock"
)

// Write is one caller's turn at the ledger: the requests of a call that records something, from the first to the last, without
// any other writer in between. Two writes at once break LoopGrid's chain for good where it runs on SQLite, its default.
//
// [Client.NewWrite] takes a place in the queue, [Write.Begin] waits for the turn, the methods that send follow, and [Write.End]
// gives the turn up. A Write is used by one goroutine, but for [Write.Sent], which others may ask.
type Write struct {
	c      *Client
	ticket *writelock.Ticket
	// deadline bounds everything after Begin. sent is set with the first POST: from then on the call goes on until it is
	// complete, even where its context has ended, so that no decision is left half recorded.
	deadline time.Time
	sent     atomic.Bool
}

// NewWrite takes the next place in the queue of this process's writers and returns at once.
func (c *Client) NewWrite() *Write { return &Write{c: c, ticket: c.lock.Enter()} }

// Begin waits until it is this call's turn, no other process is writing, and no unanswered write can still be running in the
// service. It waits for the client's time-out at most; the call has twice that for all of its requests, counted from now. The
// error is a [*WriteError]: nothing was sent.
func (w *Write) Begin(ctx context.Context) error {
	w.deadline = time.Now().Add(2 * w.c.o.Timeout)
	ctx, cancel := context.WithTimeout(ctx, w.c.o.Timeout)
	defer cancel()
	if err := w.ticket.Lock(ctx); err != nil {
		return &WriteError{Err: err}
	}
	return nil
}

// End gives up the turn, or the place in the queue. It may be called at any time, and more than once.
func (w *Write) End() { w.ticket.Leave() }

// Sent says whether a request of this call may have reached the service.
func (w *Write) Sent() bool { return w.sent.Load() }

// UnsettledFor returns for how long other writes wait now because a request of this call went unanswered; 0 if they need not.
func (w *Write) UnsettledFor() time.Duration { return w.ticket.UnsettledFor() }

// Settled says that an unanswered request of this call is known to be over, because its evidence was read back: other writes need not
// wait for it.
func (w *Write) Settled() { w.ticket.Answered() }

// ErrNoTimeLeft is the cause of a [*WriteError] for a request that was not begun because the call's time was nearly over.
var ErrNoTimeLeft = errors.New("not sent: the time for this call was nearly over")

// send sends one request of the call. The error is a [*WriteError].
func (w *Write) send(ctx context.Context, r *request) (answer, error) {
	if time.Until(w.deadline) < min(2*time.Second, w.c.o.Timeout/4) {
		return answer{}, &WriteError{Err: ErrNoTimeLeft}
	}
	// In this order whoever cancels the context and then asks Sent learns of every request that is sent.
	if first := !w.sent.Swap(true); first && ctx.Err() != nil {
		w.sent.Store(false)
		return answer{}, &WriteError{Err: fmt.Errorf("cancelled before anything was sent: %w", context.Cause(ctx))}
	}
	ctx, cancel := w.context(ctx)
	defer cancel()
	if r.kind != evaluate {
		r.posting = w.ticket.Posting
		r.ended = func(f failure) {
			switch {
			case f == failNone:
				w.ticket.Answered()
			case f.unsettles():
				w.ticket.GaveUp()
			default:
				w.ticket.Ended()
			}
		}
	}
	return w.c.send(ctx, r)
}

// cause takes the [*WriteError] off an error of a request that appends nothing.
func cause(err error) error {
	if w, ok := errors.AsType[*WriteError](err); ok {
		return w.Err
	}
	return err
}

// GetDecision is [Client.GetDecision] within the call: it has the call's time, and goes on where the context of the call has ended
// after something was sent.
func (w *Write) GetDecision(ctx context.Context, decisionID string) (*DecisionRecord, error) {
	ctx, cancel := w.context(ctx)
	defer cancel()
	return w.c.GetDecision(ctx, decisionID)
}

func (w *Write) context(ctx context.Context) (context.Context, context.CancelFunc) {
	if w.sent.Load() {
		ctx = context.WithoutCancel(ctx)
	}
	return context.WithDeadline(ctx, w.deadline)
}

// DefaultLockDir returns the folder of the lock files that the processes of this user share. It is fixed, and not taken from the
// environment, of which hosts pass on almost nothing. The error says why the system names none: then only the writes of this process
// can be ordered.
func DefaultLockDir() (string, error) { return writelock.DefaultDir() }

// CheckLockDir finds out whether the lock files may be kept in dir: see [writelock.CheckDir].
func CheckLockDir(dir string) error { return writelock.CheckDir(dir) }
