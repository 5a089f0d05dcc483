// Package writelock lets one writer at a time into a LoopGrid ledger, within this process and between the processes of one user, and
// remembers the write that went unanswered. It knows no route, no HTTP and no MCP: a client says when a POST is sent and how it ended.
package writelock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/loopgridio/loopgrid-mcp/internal/address"
)

// settleAfter is how long a write without an answer may still be running in the service after its last attempt was
// given up: LoopGrid on SQLite waits 5 s for the database, one second more is for the way there.
const settleAfter = 6 * time.Second

var (
	errLeft      = errors.New("the place in the queue was given up")
	errNotLocked = errors.New("post: the write lock is not held")
)

// Lock lets one writer at a time into the ledger of a workspace, since two writes at once break LoopGrid's chain
// for good on SQLite, its default. Within this process writers are served in the order of their arrival. The
// processes of this user on this machine are kept apart by an advisory file lock, in turns where several want it (see
// [fileLock]); one that is killed lets go of it.
//
// A write that got no answer (reset, end of file, time-out, 502, 503, 504) may still be running in the service: the
// ledger is unsettled until the same POST, repeated with its key, is answered, or the settle time has passed since
// the last attempt was given up. Nobody gets the lock before that. This process remembers it in memory, the others
// find it in the lock file, and so does who comes after a process that was killed in the middle of a POST.
//
// # What it does not cover
//
//   - Containers that do not share the folder, other users of the machine, other machines.
//   - Other clients of LoopGrid: they do not know this lock.
//   - One service under two names (its host name here, its address there): two locks. Only the spellings of
//     loopback and the default port count as one, see [Name].
//   - A lock file that is deleted while somebody holds its lock: the next process makes a new one and is not kept
//     out. At any other time it may be deleted.
//   - A folder that cannot be trusted or written: then the writers of this process alone are ordered, and warn is
//     called.
//   - Loss of power: the file is not synced to the disk, it only has to outlive the process.
//
// LoopGrid on PostgreSQL does not break when writes overlap: use it where one of these matters.
type Lock struct {
	settle time.Duration
	warn   func(msg string)
	warned sync.Once
	file   *fileLock // nil: the writers of this process alone

	mu        sync.Mutex
	queue     []*Ticket // the head is the only one that may hold the file lock
	unsettled time.Time // when an unanswered attempt was given up; zero: the ledger is settled
}

// Options are the options of New.
type Options struct {
	// Dir is the folder of the lock file, see DefaultDir. Empty: order the writers of this process only. Tests in a
	// synctest bubble leave it empty: a goroutine that waits for a file lock is never durably blocked.
	Dir string
	// Name is the name of the lock file without its extension, see Name.
	Name string
	// Warn, if not nil, is called at most once, when other processes cannot be kept out or cannot be told of an
	// unanswered write.
	Warn func(msg string)
	// Settle is how long an unanswered write is waited for; 0 is settleAfter.
	Settle time.Duration
}

// New returns a lock that nobody holds. It touches no file: the first [Ticket.Lock] does.
func New(o Options) *Lock {
	l := &Lock{settle: o.Settle, warn: o.Warn}
	if l.settle == 0 {
		l.settle = settleAfter
	}
	if o.Dir != "" {
		l.file = &fileLock{dir: o.Dir, name: o.Name}
	}
	return l
}

// Name returns the name under which the ledger of the workspace behind base is locked: the hexadecimal SHA-256 of
// host and port, base path and workspace. The scheme's default port is filled in and every spelling of loopback is
// the same host, the unspecified address included, since dialling it ends there too. Two spellings that are one
// ledger but get two names would not exclude each other; two ledgers under one name only wait for each other.
func Name(base *url.URL, workspace string) string {
	host := address.HostPort(base)
	if address.IsLoopback(base.Hostname()) {
		_, port, _ := net.SplitHostPort(host) // HostPort has joined them
		host = "loopback:" + port
	}
	path := strings.TrimRight(base.Path, "/")
	// NUL cannot be part of a host, and config lets none into a path or a workspace: no two triples read the same.
	sum := sha256.Sum256([]byte(host + "\x00" + path + "\x00" + workspace))
	return hex.EncodeToString(sum[:])
}

// Enter takes a place in the queue. It never blocks. The Ticket must be left, whatever becomes of the call: until
// then nobody behind it gets the lock.
func (l *Lock) Enter() *Ticket {
	t := &Ticket{l: l, head: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, t)
	if len(l.queue) == 1 {
		close(t.head)
	}
	return t
}

// remove takes t out of the queue and lets the next one know if it is the head now.
func (l *Lock) remove(t *Ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.queue, t)
	l.queue = slices.Delete(l.queue, i, i+1)
	if i == 0 && len(l.queue) > 0 {
		close(l.queue[0].head)
	}
}

// UnsettledFor returns how long the ledger stays unsettled as far as this process knows, 0 if it is settled.
func (l *Lock) UnsettledFor() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unsettled.IsZero() {
		return 0
	}
	return max(0, l.settle-time.Since(l.unsettled))
}

// setUnsettled remembers when an attempt was given up; the zero time says that the ledger is settled.
func (l *Lock) setUnsettled(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsettled = at
}

// lastGivenUp returns the time that setUnsettled was called with.
func (l *Lock) lastGivenUp() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unsettled
}

// warnOnce reports what is not covered, the first time.
func (l *Lock) warnOnce(what string, err error) {
	l.warned.Do(func() {
		if l.warn != nil {
			l.warn(fmt.Sprintf("write lock: %s: %v", what, err))
		}
	})
}

// Ticket is a place in the queue of a Lock, from [Lock.Enter] to Leave, and the lock itself once Lock has
// returned nil. It belongs to one call: leave may be called at any time from any goroutine, the other methods one at
// a time.
type Ticket struct {
	l    *Lock
	head chan struct{} // closed when this Ticket is the head of the queue

	mu       sync.Mutex
	cancel   context.CancelCauseFunc // not nil while lock is running
	left     bool
	held     bool // lock returned nil and leave was not called
	inFile   bool // the file lock is ours; while lock is running only lock uses it
	inFlight bool // a POST was announced and nothing was said about its end
}

// Lock waits until the Ticket is the head of the queue, then for the other processes, then until the ledger is
// settled. On a Ticket that already holds the lock it waits until the ledger is settled: call it before every write
// that is not a repeat of the unanswered one.
//
// The context bounds the whole wait. When it ends first, the error is a *[WaitError], the lock is not held, and the
// Ticket keeps its place until it is left.
func (t *Ticket) Lock(ctx context.Context) error {
	t.mu.Lock()
	if t.left || t.cancel != nil {
		t.mu.Unlock()
		return fmt.Errorf("wait for the write lock: %w", errLeft)
	}
	ctx, t.cancel = context.WithCancelCause(ctx)
	cancel := t.cancel
	t.mu.Unlock()

	err := t.acquire(ctx)

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
	}
	if t.left {
		t.l.remove(t)
	}
	return err
}

// acquire does the three waits of lock. It sets inFile, and leaves it to lock to let go of the file after an error.
func (t *Ticket) acquire(ctx context.Context) error {
	if ctx.Err() != nil {
		return t.l.stopped(ctx, waitNone)
	}
	select {
	case <-t.head:
	case <-ctx.Done():
		return t.l.stopped(ctx, waitQueue)
	}
	if t.l.file != nil && !t.inFile {
		err := t.l.file.acquire(ctx)
		if err != nil && ctx.Err() != nil {
			return t.l.stopped(ctx, waitFile)
		}
		if err != nil {
			t.l.warnOnce("only the writes of this process are ordered, other processes of this user are not kept out", err)
		}
		t.inFile = err == nil
	}
	if t.inFile {
		t.learn()
	}
	if left := t.l.UnsettledFor(); left > 0 {
		timer := time.NewTimer(left)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return t.l.stopped(ctx, waitSettled)
		}
	}
	if !t.l.lastGivenUp().IsZero() {
		t.l.setUnsettled(time.Time{})
		t.mark(time.Time{})
	}
	return nil
}

// learn takes over what another process, or a killed one, left in the lock file.
//
// A time in the future (the clock was set back) counts as now, and so does text that is no time: somebody wrote
// there, and the worst it can mean is a POST in flight. Both are put right in the file, so that the wait begins once
// and not anew with each process that looks. An empty file is a new one: every writer fills it before its first POST.
func (t *Ticket) learn() {
	at, err := t.l.file.read()
	now := time.Now()
	switch {
	case errors.Is(err, errNoTime):
		at = now
		t.mark(now)
	case err != nil:
		t.l.warnOnce("unanswered writes of other processes are not seen", err)
		return
	case at.IsZero():
		return
	case at.After(now):
		at = now
		t.mark(now)
	}
	// Counted from now, so that the rest of the wait follows the monotonic clock.
	at = now.Add(at.Sub(now))
	if at.After(t.l.lastGivenUp()) {
		t.l.setUnsettled(at)
	}
}

// mark writes the time of an attempt into the lock file, the zero time to clear it. A write that fails is no reason
// to refuse evidence: what is lost is that others learn of an unanswered write, and the warning says so.
func (t *Ticket) mark(at time.Time) {
	if !t.inFile {
		return
	}
	if err := t.l.file.write(at); err != nil {
		t.l.warnOnce("unanswered writes are not shown to other processes", err)
	}
}

// Leave gives up the place in the queue or the lock, and ends a lock that is still waiting. An attempt in flight
// counts as given up now. Further calls do nothing.
func (t *Ticket) Leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left {
		return
	}
	t.left = true
	if t.cancel != nil {
		t.cancel(errLeft) // lock lets go of what it has and leaves the queue.
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
	t.held = false
	if t.inFile {
		t.inFile = false
		t.l.file.release()
	}
}

// Posting announces that a POST which appends to the ledger is sent now. Each one announced ends with gaveUp,
// answered or ended. The error says that the Ticket does not hold the lock: then nothing may be sent.
func (t *Ticket) Posting() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.held {
		return errNotLocked
	}
	t.inFlight = true
	t.mark(time.Now())
	return nil
}

// GaveUp says that the attempt in flight got no answer, or one that does not tell whether it is over (502, 503, 504):
// the ledger is unsettled from now on.
func (t *Ticket) GaveUp() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held {
		t.giveUp()
	}
}

func (t *Ticket) giveUp() {
	now := time.Now()
	t.inFlight = false
	t.l.setUnsettled(now)
	t.mark(now)
}

// Answered says that the write is known to be over, earlier attempts of it included: the ledger is settled.
func (t *Ticket) Answered() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.held {
		return
	}
	t.inFlight = false
	t.l.setUnsettled(time.Time{})
	t.mark(time.Time{})
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
	t.mark(t.l.lastGivenUp())
}

// UnsettledFor returns how long the ledger stays unsettled as far as this process knows, 0 if it is settled. The
// Ticket need not hold the lock.
func (t *Ticket) UnsettledFor() time.Duration {
	return t.l.UnsettledFor()
}

// stopped returns the error of a wait that ctx ended.
func (l *Lock) stopped(ctx context.Context, wait wait) error {
	return &WaitError{wait: wait, unsettled: l.UnsettledFor(), cause: context.Cause(ctx)}
}

// wait names what a call was waiting for.
type wait int

const (
	waitNone    wait = iota // the context had ended before
	waitQueue               // earlier writes of this process
	waitFile                // a write of another process
	waitSettled             // an unanswered write, of whichever process
)

func (w wait) String() string {
	switch w {
	case waitNone:
		return "not begun"
	case waitQueue:
		return "earlier writes of this process are not finished"
	case waitFile:
		return "another process is writing to this workspace"
	case waitSettled:
		return "a write that got no answer may still be running in LoopGrid"
	}
	return "unknown"
}

// WaitError says that the context ended before the lock was there: nothing was sent.
type WaitError struct {
	wait      wait
	unsettled time.Duration // how long the ledger stays unsettled, 0 if this process knows nothing of that
	cause     error         // of the context
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
	if e.wait != waitNone {
		what += ": " + e.wait.String()
	}
	if s := e.CallAgainIn(); s > 0 {
		what += fmt.Sprintf("; call again in %d s", s)
	}
	return what
}

// Unwrap returns the cause of the context's end.
func (e *WaitError) Unwrap() error { return e.cause }

// callAgainIn returns in how many seconds the ledger will be settled, rounded up; 0 if it is not known to be
// unsettled.
func (e *WaitError) CallAgainIn() int {
	return int(math.Ceil(e.unsettled.Seconds()))
}

// CheckDir finds out whether the lock files may be kept in dir, as it is now; it makes and changes nothing. The error says why
// not: dir is no folder or a link, belongs to another user, or is open to one. A folder that is missing is made with the first write.
func CheckDir(dir string) error {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, os.ErrNotExist) { // or a link to nothing
		if _, err := os.Lstat(dir); err != nil {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("open the lock folder: %w", err)
	}
	defer root.Close() //nolint:errcheck // Nothing was written through it.
	return checkLockRoot(root)
}
