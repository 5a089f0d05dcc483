package writelock

import "slices"

// maxSideBySide is how many calls of one process may hold the lock at once where they go side by side.
const maxSideBySide = 16

// Claim is what a call wants the lock for. The zero value is all of it: no other writer, in any process.
type Claim struct {
	// Names are what the call writes to: a decision, an idempotency key. Calls with a name in common are served one after the other, in the
	// order of their arrival, and none of them passes another that has stepped aside.
	Names []string
	// SideBySide is for a service that orders writes itself: the call waits neither for calls that have no name in common with it, nor for
	// other processes, nor for a write that went unanswered. A few may go at once.
	SideBySide bool
	// OneAtATime is for calls that go side by side with all others but not with their own kind, in any process.
	OneAtATime bool
}

// oneAtATime is the name that all calls of that kind have in common.
const oneAtATime = "\x00one at a time"

// usesFile reports whether a call with this claim locks the file.
func (c *Claim) usesFile() bool { return !c.SideBySide || c.OneAtATime }

// fits reports whether a call with this claim may hold the lock together with the others.
func (c *Claim) fits(others []*Claim) bool {
	return len(others) == 0 || c.SideBySide && !c.meets(others) && !slices.ContainsFunc(others, func(o *Claim) bool { return !o.SideBySide })
}

// meets reports whether the claim has a name in common with one of the others.
func (c *Claim) meets(others []*Claim) bool {
	return slices.ContainsFunc(others, func(o *Claim) bool {
		return slices.ContainsFunc(c.Names, func(name string) bool { return slices.Contains(o.Names, name) })
	})
}

// Enter takes a place in the queue. It never blocks. The Ticket must be left, whatever becomes of the call: until
// then nobody behind it gets the lock.
func (l *Lock) Enter() *Ticket {
	t := &Ticket{l: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, t)
	return t
}

// remove takes t out of the queue.
func (l *Lock) remove(t *Ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = slices.DeleteFunc(l.queue, func(other *Ticket) bool { return other == t })
	l.serve()
}

// place says what a Ticket in the queue is about; the Lock guards it. A Ticket without a claim lets nobody pass: it may want anything.
type place struct {
	claim *Claim
	turn  chan struct{} // closed when it is the Ticket's turn; nil: it does not wait for it
	has   bool          // it has its turn
	aside bool          // it lets others pass
}

// claim has t wait for its turn. The channel is closed when it has come.
func (l *Lock) claim(t *Ticket) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	turn, claim := make(chan struct{}), t.claim
	t.place = place{claim: &claim, turn: turn}
	l.serve()
	return turn
}

// yield takes t's turn away, or ends its wait. Its place stays; aside says whether others may pass.
func (l *Lock) yield(t *Ticket, aside bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	claim := t.claim
	t.place = place{claim: &claim, aside: aside}
	l.serve()
}

// serve gives their turn to all who may have it now. The caller holds mu.
func (l *Lock) serve() {
	var (
		served []*Claim // of those that have their turn
		ahead  []*Claim // of those before t that nobody passes who does not fit them
		aside  []*Claim // of those before t that stand aside, or are held back by one that does
	)
	for _, t := range l.queue {
		if t.place.has {
			served = append(served, t.place.claim)
		}
	}
	for _, t := range l.queue {
		p := &t.place
		switch {
		case p.claim == nil:
			return
		case p.aside, !p.has && p.claim.meets(aside):
			aside = append(aside, p.claim)
			continue
		case p.turn != nil && !p.has && len(served) < maxSideBySide && p.claim.fits(ahead) && p.claim.fits(served):
			p.has = true
			close(p.turn)
			served = append(served, p.claim)
		}
		if ahead = append(ahead, p.claim); !p.claim.SideBySide {
			return
		}
	}
}
