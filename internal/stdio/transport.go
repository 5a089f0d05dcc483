// Package stdio serves one host over a pair of streams: it cuts lines, checks envelopes, keeps the order of calls and ends the session
// without losing an answer. It knows JSON-RPC, MCP's methods and go-sdk. It must not know of LoopGrid, of tools or of settings.
package stdio

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync/atomic"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

const (
	methodInitialize = "initialize"
	methodDiscover   = "server/discover"
	methodCallTool   = "tools/call"
	methodListen     = "subscriptions/listen"
	methodPing       = "ping"
	methodCancelled  = "notifications/cancelled"
	methodProgress   = "notifications/progress"
	methodListening  = "notifications/subscriptions/acknowledged"

	// UnusableAnswer prefixes the error that replaces a client response we cannot parse.
	UnusableAnswer = "its answer is not usable"

	// ErrorLimit is the longest message of a JSON-RPC error, in characters.
	ErrorLimit = 1000
)

// Transport speaks newline-delimited JSON-RPC with one host; [Serve] runs the session.
//
// It replaces mcp.StdioTransport, which ends the session on one bad line, rounds ids and progress tokens to float64 and loses computed
// answers when the input ends. Transport answers a bad line, returns ids exactly as spelled, and hides the end of the input from go-sdk
// until the calls in flight have been answered.
//
// Every go-sdk session speaks one era of MCP for good, so there are two of them: a host may begin either way, or both ways.
type Transport struct {
	log       *slog.Logger
	limits    limits
	in        intake
	out       *lineWriter
	calls     inFlight
	handshake handshake
	frames    frames

	legacy, stateless *session

	// unstarted is the tools/call that was handed over last, until its handler has begun.
	unstarted atomic.Pointer[unstartedCall]
	// callStarted is closed once the last delivered call has started. Only the reading session uses it.
	callStarted <-chan struct{}

	drain
}

// NewTransport returns a Transport that reads messages from in and writes to out. It closes neither. No word of a message gets into
// the log.
func NewTransport(in io.Reader, out io.Writer, log *slog.Logger) *Transport {
	return newTransport(in, out, log, defaultLimits())
}

func newTransport(in io.Reader, out io.Writer, log *slog.Logger, limits limits) *Transport {
	t := &Transport{log: log, limits: limits, in: intake{lines: newLineReader(in)}, calls: inFlight{limit: limits.calls}, drain: newDrain()}
	t.legacy, t.stateless = newSession(t), newSession(t)
	t.legacy.reading = true
	t.out = &lineWriter{out: out, failed: func(err error) {
		t.log.Warn("cannot write to the host any more", "error", err)
		t.refuseAll()
		t.end(fmt.Errorf("write to the host: %w", err))
	}}
	return t
}

// next returns the next message for go-sdk, and the session that it belongs to. It answers all other lines itself. It returns nil at
// the end of the input, but only once the drain is over: go-sdk then cancels what is in flight and drops every later answer.
func (t *Transport) next() (*session, jsonrpc.Message) {
	for {
		line, ok := t.nextLine()
		if !ok {
			<-t.over
			return nil, nil
		}
		t.waitForTurn()
		to, message := t.deal(line)
		if line.wasHeld {
			t.calls.unhold()
		}
		if message != nil {
			return to, message
		}
	}
}

// deal returns the message in a line if it is for go-sdk, and deals with it otherwise.
func (t *Transport) deal(line readLine) (*session, jsonrpc.Message) {
	text := t.withoutFrames(line.text)
	switch {
	case line.tooLong:
		e := cutEnvelope(text)
		t.refuse(&e, requestFault(fmt.Sprintf("the line is longer than %d bytes", maxLine)))
		return nil, nil
	case len(text) == 0:
		return nil, nil
	}
	return t.accept(text)
}

// inputEnded begins the drain.
func (t *Transport) inputEnded(err error) {
	if errors.Is(err, io.EOF) {
		t.end(nil)
		return
	}
	t.log.Warn("cannot read from the host any more", "error", err)
	t.end(fmt.Errorf("read from the host: %w", err))
}

// waitForTurn holds back the message that was just read until the previous call has started, so that calls start in the order they came:
// go-sdk runs each in a goroutine of its own.
func (t *Transport) waitForTurn() {
	if t.callStarted == nil {
		return
	}
	select {
	case <-t.callStarted:
	case <-t.over:
	}
	t.callStarted = nil
}

// accept does the same for the text of a line.
func (t *Transport) accept(line []byte) (*session, jsonrpc.Message) {
	e, fault := readEnvelope(line)
	switch {
	case fault != nil && e.isResponse():
		// Nobody waits for a word about an unusable answer to our question, but the call that asked waits for an answer.
		return t.legacy, responseTo(&e, &jsonrpc.Error{Code: fault.code, Message: UnusableAnswer + " (" + fault.reason + ")"})
	case fault != nil && e.id == nil && stringOf(e.method) != "" && fault.code == jsonrpc.CodeInvalidParams:
		t.log.Warn("dropped a notification", "reason", fault.reason) // notifications are never answered
		return nil, nil
	case fault != nil:
		if e.inputResponses.End > 0 { // a person's answer, which no tool gets to see
			fault.reason += "; nothing was recorded"
		}
		t.refuse(&e, fault)
		return nil, nil
	case e.isResponse():
		return t.legacy, responseTo(&e, nil)
	case e.id == nil:
		return t.acceptNotification(&e)
	}
	return t.acceptRequest(&e)
}

func (t *Transport) acceptRequest(e *envelope) (*session, jsonrpc.Message) {
	params, fault := t.usableParams(e)
	if fault != nil {
		if e.inputResponses.End > 0 {
			fault.reason += "; nothing was recorded"
		}
		t.refuse(e, fault)
		return nil, nil
	}
	to := t.legacy
	if e.stateless {
		to = t.stateless
	}
	if e.name == methodInitialize && !t.isFirstInitialize(e, params) {
		return nil, nil
	}
	key := requestKey(e.id)
	id, err := jsonrpc.MakeID(key)
	if err != nil { // only for values that are neither string nor number
		t.refuse(e, &lineFault{code: jsonrpc.CodeInternalError, reason: "internal error"})
		return nil, nil
	}
	call := pendingCall{id: e.id, method: e.name, token: e.token, session: to}
	if e.name == methodCallTool {
		call.size = len(e.line)
	}
	if fault := t.calls.add(key, call); fault != nil {
		if e.name == methodInitialize {
			t.handshake.forget()
		}
		t.refuse(e, fault)
		return nil, nil
	}
	if e.name == methodCallTool {
		started := make(chan struct{})
		t.callStarted = started
		t.unstarted.Store(&unstartedCall{key: key, id: string(e.id), arguments: e.arguments.Of(e.params), started: started})
	}
	return to, &jsonrpc.Request{ID: id, Method: e.name, Params: params}
}

func (t *Transport) acceptNotification(e *envelope) (*session, jsonrpc.Message) {
	switch e.name {
	case methodCancelled:
		// An id that is not in flight may be that of a later call. MCP does not allow cancelling initialize.
		id := evidence.Find(e.params, "requestId").Of(e.params)
		if !isID(id) {
			return nil, nil
		}
		call, ok := t.calls.mute(requestKey(id))
		if !ok {
			return nil, nil
		}
		params := append(append([]byte(`{"requestId":`), evidence.Text(requestKey(id))...), '}')
		return call.session, &jsonrpc.Request{Method: e.name, Params: params}
	case methodCallTool:
		t.log.Warn("dropped a tools/call without an id")
		return nil, nil
	}
	params, fault := t.usableParams(e)
	if fault != nil {
		t.log.Warn("dropped a notification", "reason", fault.reason)
		return nil, nil
	}
	return t.legacy, &jsonrpc.Request{Method: e.name, Params: params}
}

// responseTo returns the client's answer to our question, or failure in its place. go-sdk numbers our questions with integers; an answer
// under anything else belongs to no question.
func responseTo(e *envelope, failure *jsonrpc.Error) jsonrpc.Message {
	number, err := strconv.ParseUint(string(e.id), 10, 53)
	if err != nil {
		return nil
	}
	id, err := jsonrpc.MakeID(float64(number))
	if err != nil {
		return nil
	}
	response := &jsonrpc.Response{ID: id, Result: e.outcome}
	if failure == nil && e.failure != nil {
		failure = new(jsonrpc.Error)
		if json.Unmarshal(e.failure, failure) != nil {
			failure = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the error of the client is not usable"}
		}
	}
	if failure != nil { // a nil *Error would be an error that is not nil
		response.Error = failure
	}
	return response
}

// refuse answers a line that is not handed over, under its id where that can be told.
func (t *Transport) refuse(e *envelope, fault *lineFault) {
	t.log.Warn("refused a message", "code", fault.code, "reason", fault.reason)
	id := e.id
	if !isID(id) || !utf8.Valid(id) || checkSyntax(id, lenient()...) != nil {
		id = []byte("null")
	}
	if fault.toolError {
		t.out.add(resultLine(id, toolError(fault.reason, e.stateless))...)
	} else {
		t.out.add(errorLine(id, &jsonrpc.Error{Code: fault.code, Message: fault.reason, Data: fault.data})...)
	}
	go t.out.flush() // never waits for a host that does not read
}

// write sends a message of go-sdk. It never fails: when the host no longer takes our words, the session drains as at the end of the
// input, so that what has begun is finished.
func (t *Transport) write(message jsonrpc.Message) error {
	switch message := message.(type) {
	case *jsonrpc.Response:
		t.writeResponse(message)
	case *jsonrpc.Request:
		switch message.Method {
		case methodProgress:
			if t.calls.silenced(stringOf(evidence.Find(message.Params, "progressToken").Of(message.Params))) {
				return nil
			}
			message.Params = respelled(message.Params, "progressToken")
		case methodListening:
			message.Params = respelled(message.Params, "_meta", mcp.MetaKeySubscriptionID)
		}
		line, err := jsonrpc.EncodeMessage(message)
		if err != nil {
			return fmt.Errorf("encode %s: %w", message.Method, err)
		}
		t.out.add(line)
		go t.out.flush() // a host that does not read must not hold up a call that reports progress
	}
	return nil
}

func (t *Transport) writeResponse(response *jsonrpc.Response) {
	key, _ := response.ID.Raw().(string)
	t.answeredUnstarted(key)
	call, known := t.calls.answer(key)
	switch {
	case !known && t.isRefusing(): // answered by [Transport.answerRest]
		return
	case !known:
		t.log.Error("an answer to no request was dropped")
		return
	case call.muted:
		// MCP forbids answering a cancelled request.
	case response.Error != nil:
		failure := wireError(call.method, response.Error)
		t.out.add(errorLine(call.id, failure)...)
		if call.method == methodInitialize {
			t.initializeFailed(failure)
		}
	default:
		result := []byte(response.Result)
		if call.method == methodListen {
			result = respelled(result, "_meta", mcp.MetaKeySubscriptionID)
		}
		if call.content != nil {
			result = splice(result, replacement{evidence.Find(result, "content"), call.content})
		}
		t.out.add(resultLine(call.id, result)...)
		if call.method == methodInitialize {
			t.initialized(result)
		}
	}
	// In this order the id is free again before the host can know, and the drain never sees the call gone and its answer not yet there.
	t.calls.remove(key)
	if call.method == methodCallTool {
		t.out.flush()
		return
	}
	go t.out.flush() // go-sdk starts nothing else while initialize is being answered
}
