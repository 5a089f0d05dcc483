package sandbox

import (
	"errors"
	"net/http"
	"time"
)

// Faults make happen on purpose what LoopGrid does to a client now and then. They are for tests; no command-line flag sets them. Pauses are
// [time.Sleep], so they cost nothing under testing/synctest; make the Server inside the bubble.
type Faults struct {
	// ForkChain breaks the chain of a workspace for good when two of its writes are in progress at once, as LoopGrid does on SQLite: both take
	// the same predecessor and both are answered 200. Only the next verification shows it. Otherwise the writes of a workspace take turns. It
	// has no effect with Options.PostgreSQL.
	ForkChain bool
	// PhantomIDs answers a create whose key is already bound as LoopGrid does under load: with a decision_id that does not exist and
	// idempotent_replay null. The id in the event is the real one.
	PhantomIDs bool
	// WriteTime is how long an append takes: 7 ms on LoopGrid with SQLite. With Options.PostgreSQL the workspace's row is locked meanwhile.
	WriteTime time.Duration
	// BeforeAppend is called for each write that is about to append, after the service has read the request and checked chain, lifecycle and key.
	// The write goes on when it returns, so a test can block in it, or call [Server.Suspend] and return.
	BeforeAppend func(Write)
	// ScanTime is how long the check of a chain takes for each of its events.
	ScanTime time.Duration
	// DropAnswer says for which writes the connection is closed at once while the write goes on for another 200 ms.
	DropAnswer func(Write) bool
	// FailAfterAppend says which writes are answered 500 although their event was appended.
	FailAfterAppend func(Write) bool
}

// dropTime is how long a write goes on after its connection was closed.
const dropTime = 200 * time.Millisecond

// Write is a request that reached the ledger.
type Write struct {
	// Number counts the writes of the server from 1.
	Number int
	// Method and Path are those of the request, for example POST /api/v1/decisions.
	Method, Path string
	// DecisionID is empty for a create.
	DecisionID string
	// EventType is the type of the event to append, for example "decision_created".
	EventType string
	// IdempotencyKey is empty if none was sent.
	IdempotencyKey string
}

// turnstile counts the writes in progress in a workspace and, unless the chain may fork, lets them through one at a time.
type turnstile struct {
	inProgress int
	free       chan struct{}
}

func newTurnstile() turnstile { return turnstile{free: make(chan struct{}, 1)} }

// turn is one write in progress.
type turn struct {
	s     *Server
	ws    *workspace
	write Write
	// previous is the head of the chain when the write began.
	previous string
	appended bool
}

// write runs one write of a workspace. The caller does not hold mu.
func (s *Server) write(ws *workspace, w Write, step func(*turn) (*answer, error)) (*answer, error) {
	t := &turn{s: s, ws: ws}
	s.mu.Lock()
	s.stats.Writes++
	w.Number = s.stats.Writes
	if ws.turn.inProgress > 0 {
		s.stats.Overlaps++
	}
	ws.turn.inProgress++
	t.previous, t.write = ws.head(), w
	s.mu.Unlock()
	if s.faults.DropAnswer != nil && s.faults.DropAnswer(w) {
		go func() {
			time.Sleep(dropTime)
			_, _ = t.run(step) // Nobody is left to read the answer.
			s.writeLog()
		}()
		panic(http.ErrAbortHandler)
	}
	a, err := t.run(step)
	if t.appended && s.faults.FailAfterAppend != nil && s.faults.FailAfterAppend(w) {
		return nil, errInternal
	}
	return a, err
}

// run takes the turn and ends it. On PostgreSQL only the append takes it.
func (t *turn) run(step func(*turn) (*answer, error)) (*answer, error) {
	if !t.s.faults.ForkChain && !t.s.postgres {
		t.ws.turn.free <- struct{}{}
		defer func() { <-t.ws.turn.free }()
	}
	defer func() {
		t.s.mu.Lock()
		defer t.s.mu.Unlock()
		t.ws.turn.inProgress--
	}()
	return step(t)
}

// append appends the event of this write.
func (t *turn) append(d draft) (*event, error) {
	if t.s.faults.BeforeAppend != nil {
		t.s.faults.BeforeAppend(t.write)
	}
	t.s.pause()
	if t.s.postgres {
		t.ws.turn.free <- struct{}{}
		defer func() { <-t.ws.turn.free }()
	}
	if t.s.faults.WriteTime > 0 {
		time.Sleep(t.s.faults.WriteTime)
	}
	t.s.pause()
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	previous := t.previous
	if !t.s.faults.ForkChain || t.s.postgres {
		previous = t.ws.head()
	}
	e, err := t.s.append(t.ws, previous, d)
	t.appended = err == nil
	return e, err
}

// Suspend stops the service as SIGSTOP stops a process: connections are still accepted, but no request is read, appended or answered until
// [Server.Resume]. Nothing is lost: a write in progress then appends, whether or not its client is still there.
func (s *Server) Suspend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.suspended == nil {
		s.suspended = make(chan struct{})
	}
}

// Resume lets a suspended service go on, with all that it had read and all that arrived in the meantime at once.
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.suspended != nil {
		close(s.suspended)
		s.suspended = nil
	}
}

// pause waits while the service is suspended. The caller does not hold mu.
func (s *Server) pause() {
	for {
		s.mu.Lock()
		suspended := s.suspended
		s.mu.Unlock()
		if suspended == nil {
			return
		}
		<-suspended
	}
}

// head returns the hash that the next event links to. The caller holds mu.
func (ws *workspace) head() string {
	if len(ws.events) == 0 {
		return genesis()
	}
	return ws.events[len(ws.events)-1].chainHash
}

// errKeyTaken says that an idempotency key was bound while the write was in progress, or that an empty one was bound before: LoopGrid treats an
// empty key as none, but stores it.
var errKeyTaken = errors.New("idempotency key is taken")
