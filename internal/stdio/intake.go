package stdio

import (
	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// limits bound the memory that a session takes, whatever the host does. They are bytes.
type limits struct {
	unread int // answers that the host has not read: beyond it requests wait
	held   int // requests that wait. It is more than a pipe takes, so that the end of the input is noticed even then.
	calls  int // calls in flight: beyond it they are answered as busy
}

func defaultLimits() limits { return limits{unread: 64 << 20, held: 16 << 20, calls: 64 << 20} }

// intake is what was read and not dealt with yet. Only the reading session uses it.
type intake struct {
	lines     *lineReader
	held      []readLine // in the order of the input
	heldBytes int
	over      bool // the input ended
}

// hold keeps a line for later.
func (in *intake) hold(line readLine) {
	line.wasHeld = true
	in.held = append(in.held, line)
	in.heldBytes += len(line.text)
}

// takeHeld returns the first line that is held.
func (in *intake) takeHeld() (readLine, bool) {
	if len(in.held) == 0 {
		in.held = nil // its memory too
		return readLine{}, false
	}
	line := in.held[0]
	in.held[0] = readLine{}
	in.held = in.held[1:]
	in.heldBytes -= len(line.text)
	return line, true
}

// dropHeld drops the request under key if it is held, and reports whether it was.
func (in *intake) dropHeld(key string) bool {
	for i, line := range in.held {
		e := cutEnvelope(line.text)
		if e.name != "" && isID(e.id) && requestKey(e.id) == key {
			in.heldBytes -= len(line.text)
			in.held = append(in.held[:i], in.held[i+1:]...)
			return true
		}
	}
	return false
}

// nextLine returns the next line to deal with; false at the end of the input. While the host leaves too many answers unread, requests
// wait, because their answers would need more memory. What needs none, or hardly any, passes them: pings, cancellations and answers to
// our questions.
func (t *Transport) nextLine() (readLine, bool) {
	for {
		progress := t.out.pendingAbove(t.limits.unread)
		refusing := t.isRefusing()
		if progress == nil || refusing {
			if line, ok := t.in.takeHeld(); ok {
				return line, true
			}
		}
		if t.in.over && len(t.in.held) == 0 {
			return readLine{}, false
		}
		line, ok := t.readLine(progress, refusing)
		if !ok {
			continue
		}
		if line.err != nil && len(line.text) == 0 && !line.tooLong {
			t.in.over = true
			t.inputEnded(line.err)
			continue
		}
		if t.out.pendingAbove(t.limits.unread) == nil || !t.mustWait(line) { // reading may have taken long
			return line, true
		}
		t.in.hold(line)
		t.calls.hold()
	}
}

// readLine returns the next line of the input; false if something else is to be looked at first. It only reads as much as may be held.
func (t *Transport) readLine(progress <-chan struct{}, refusing bool) (readLine, bool) {
	if progress == nil {
		return t.in.lines.next(), true
	}
	var input <-chan readLine
	if !refusing && !t.in.over && t.in.heldBytes <= t.limits.held && t.out.pendingAbove(t.limits.unread+t.limits.held) == nil {
		input = t.in.lines.ahead()
	}
	var refused <-chan struct{}
	if !refusing { // or it would wake us again and again
		refused = t.refusingC
	}
	select {
	case line := <-input:
		t.in.lines.taken()
		return line, true
	case <-progress:
	case <-refused:
	case <-t.over:
		t.in.over, t.in.held = true, nil
	}
	return readLine{}, false
}

// mustWait reports whether a line has to wait until the host has read. It deals with the cancellation of a request that waits.
func (t *Transport) mustWait(line readLine) bool {
	if len(line.text) == 0 {
		return false
	}
	if line.tooLong {
		return true
	}
	e := cutEnvelope(line.text)
	switch {
	case e.isResponse(), e.name == methodPing && isID(e.id):
		return false
	case e.name == methodCancelled && e.id == nil:
		if id := evidence.Find(e.params, "requestId").Of(e.params); isID(id) && t.in.dropHeld(requestKey(id)) {
			t.calls.unhold() // and MCP forbids answering it
		}
		return false
	}
	return true
}
