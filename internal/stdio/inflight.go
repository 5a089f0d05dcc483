package stdio

import (
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// inFlight knows the requests that were handed over and not answered.
type inFlight struct {
	mu     sync.Mutex
	byKey  map[string]pendingCall
	size   int // of all of them
	limit  int // of size
	held   int // requests that were read and will be handed over, see [intake]
	closed bool
	empty  chan struct{} // closed when the last is answered; nil while nobody waits
}

type pendingCall struct {
	id      []byte // as the host spelled it
	method  string
	session *session
	size    int    // bytes that it keeps in memory until it is answered
	token   string // the progress token as the host spelled it, "" for none
	content []byte // see [Transport.keepContent]
	muted   bool   // cancelled: nothing more may be said about it

	claimed bool // it may have sent what is recorded, see [Call.Claim]
	gaveUp  bool // it must not claim any more

	answered bool // its answer is being written
}

func (f *inFlight) add(key string, call pendingCall) *lineFault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return &lineFault{code: jsonrpc.CodeInternalError, reason: "loopgrid-mcp is stopping: the request was not begun and nothing was recorded"}
	}
	if _, twice := f.byKey[key]; twice {
		return requestFault("this id belongs to a request in flight")
	}
	if f.size+call.size > f.limit {
		return &lineFault{toolError: true, reason: fmt.Sprintf("Not recorded: busy: the calls that wait for LoopGrid already hold %d MB.\n"+
			"Nothing was sent. Nothing was recorded. Call again once one of them is answered.", f.limit>>20)}
	}
	if f.byKey == nil {
		f.byKey = make(map[string]pendingCall)
	}
	f.byKey[key] = call
	f.size += call.size
	return nil
}

// hold counts a request that is not handed over yet.
func (f *inFlight) hold() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held++
}

// unhold counts it no more: it was handed over, refused or dropped.
func (f *inFlight) unhold() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held--
	f.closeIfEmpty()
}

// answer returns the request under key, which the caller answers and then removes.
func (f *inFlight) answer(key string) (pendingCall, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	call, ok := f.byKey[key]
	if ok {
		call.answered = true
		f.byKey[key] = call
	}
	return call, ok
}

func (f *inFlight) remove(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.size -= f.byKey[key].size
	delete(f.byKey, key)
	f.closeIfEmpty()
}

func (f *inFlight) closeIfEmpty() {
	if len(f.byKey) == 0 && f.held == 0 && f.empty != nil {
		close(f.empty)
		f.empty = nil
	}
}

// mute notes that a request was cancelled. It reports false if the request is not in flight or must not be cancelled.
func (f *inFlight) mute(key string) (pendingCall, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	call, ok := f.byKey[key]
	if !ok || call.method == methodInitialize {
		return call, false
	}
	call.muted = true
	f.byKey[key] = call
	return call, true
}

// silenced reports whether a progress token belongs to a cancelled request.
func (f *inFlight) silenced(token string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, call := range f.byKey {
		if call.muted && call.token == token && token != "" {
			return true
		}
	}
	return false
}

// keepContent gives the answer of a request its content, if it is in flight; see [Transport.keepContent].
func (f *inFlight) keepContent(key string, content []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	call, ok := f.byKey[key]
	if ok {
		call.content = content
		f.byKey[key] = call
	}
	return ok
}

// claim notes that a call may be recorded from now on, unless it gave up or was answered already.
func (f *inFlight) claim(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	call, ok := f.byKey[key]
	if !ok || call.gaveUp {
		return false
	}
	call.claimed = true
	f.byKey[key] = call
	return true
}

// giveUp keeps a call from claiming, and reports whether it has claimed nothing before.
func (f *inFlight) giveUp(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	call, ok := f.byKey[key]
	if ok {
		call.gaveUp = true
		f.byKey[key] = call
	}
	return !call.claimed
}

// takeCalls returns the calls that the host still waits for, and forgets them: whatever their handlers answer is dropped.
func (f *inFlight) takeCalls() []pendingCall {
	f.mu.Lock()
	defer f.mu.Unlock()
	var calls []pendingCall
	for key, call := range f.byKey {
		if call.method == methodCallTool && !call.answered {
			if !call.muted {
				calls = append(calls, call)
			}
			f.size -= call.size
			delete(f.byKey, key)
		}
	}
	f.closeIfEmpty()
	return calls
}

// close refuses all further requests.
func (f *inFlight) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
}

// answered returns a channel that is closed once nothing is in flight or held. No further request may be read by then, or all must be
// refused.
func (f *inFlight) answered() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.empty = make(chan struct{})
	done := f.empty
	f.closeIfEmpty()
	return done
}

func (f *inFlight) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.byKey) + f.held
}
