// Package stdio serves one host over a pair of streams: it cuts lines, checks envelopes, keeps the order of calls and ends the session
// without losing an answer. It knows JSON-RPC, MCP's methods and go-sdk. It must not know of LoopGrid, of tools or of settings.
package stdio

import (
	"context"
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
	methodCancelled  = "notifications/cancelled"
	methodListen     = "subscriptions/listen"
	methodProgress   = "notifications/progress"
	methodListening  = "notifications/subscriptions/acknowledged"

	// UnusableAnswer begins the error in place of an answer that cannot be read.
	UnusableAnswer = "its answer is not usable"

	// ErrorLimit is the longest message of a JSON-RPC error, in characters.
	ErrorLimit = 1000
)

// Transport speaks newline-delimited JSON-RPC with one host. It is both the [mcp.Transport] and the
// [mcp.Connection] of the single session that [serve] runs on it.
//
// It stands in for mcp.StdioTransport, which ends the session on one bad line, rounds ids and progress
// tokens to float64 and loses what was computed when the input ends. Here a bad line is answered,
// texts come back as they were spelled, and the end of the input is kept from go-sdk until the calls in
// flight have been answered.
type Transport struct {
	log   *slog.Logger
	lines *lineReader
	out   *lineWriter
	calls inFlight

	// unstarted is the tools/call that was handed over last, until its handler has begun.
	unstarted atomic.Pointer[unstartedCall]
	// gate is the one of the call that Read handed over last; Read alone uses it.
	gate <-chan struct{}

	drain
}

// NewTransport returns a Transport that reads messages from in and writes to out. Both stay open: they
// belong to the caller. The log never gets a word of a message.
func NewTransport(in io.Reader, out io.Writer, log *slog.Logger) *Transport {
	t := &Transport{log: log, lines: newLineReader(in), drain: newDrain()}
	t.out = &lineWriter{out: out, failed: func(err error) {
		t.log.Warn("cannot write to the host any more", "error", err)
		t.end(fmt.Errorf("write to the host: %w", err))
	}}
	return t
}

var (
	_ mcp.Transport  = (*Transport)(nil)
	_ mcp.Connection = (*Transport)(nil)
)

// Connect implements [mcp.Transport].
func (t *Transport) Connect(context.Context) (mcp.Connection, error) { return t, nil }

// SessionID implements [mcp.Connection]: a stdio session has none.
func (t *Transport) SessionID() string { return "" }

// Close implements [mcp.Connection]. go-sdk calls it when the session is over.
func (t *Transport) Close() error {
	t.leave()
	return nil
}

// Read implements [mcp.Connection]. It returns the next message that is fit for go-sdk and answers all
// others itself. It reports the end of the input only once the drain is over, because go-sdk cancels
// what is in flight and drops every later answer when it hears of it.
func (t *Transport) Read(context.Context) (jsonrpc.Message, error) {
	for {
		line, tooLong, err := t.lines.next()
		t.waitForTurn()
		var message jsonrpc.Message
		switch {
		case tooLong:
			e := cutEnvelope(line)
			t.refuse(&e, &lineFault{jsonrpc.CodeInvalidRequest, fmt.Sprintf("invalid request: the line is longer than %d bytes", maxLine)})
		case len(line) > 0:
			message = t.accept(line)
		}
		if message != nil {
			return message, nil // an end of the input behind it is met again by the next Read
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF):
			t.end(nil)
		default:
			t.log.Warn("cannot read from the host any more", "error", err)
			t.end(fmt.Errorf("read from the host: %w", err))
		}
		<-t.over
		return nil, io.EOF
	}
}

// waitForTurn holds the message that was just read back until the call before it has begun, so that
// calls begin in the order they came: go-sdk starts a goroutine for each and these run in any order.
// It also waits for a host that leaves very many answers unread. Nothing else holds a message back.
func (t *Transport) waitForTurn() {
	if t.gate != nil {
		select {
		case <-t.gate:
		case <-t.over:
		}
		t.gate = nil
	}
	for {
		progress := t.out.above(outputLimit)
		if progress == nil {
			return
		}
		select {
		case <-progress:
		case <-t.over:
			return
		}
	}
}

// accept returns the message in a line if it is for go-sdk, and deals with it otherwise.
func (t *Transport) accept(line []byte) jsonrpc.Message {
	e, fault := readEnvelope(line)
	switch {
	case fault != nil && e.isResponse():
		// The answer to a question of ours cannot be read. Nobody waits for a word about it, but the
		// call that asked does.
		return responseTo(&e, &jsonrpc.Error{Code: fault.code, Message: UnusableAnswer + " (" + fault.reason + ")"})
	case fault != nil && e.id == nil && stringOf(e.method) != "" && fault.code == jsonrpc.CodeInvalidParams:
		t.log.Warn("dropped a notification", "reason", fault.reason) // notifications are never answered
		return nil
	case fault != nil:
		if evidence.Find(e.params, "inputResponses").End > 0 { // a person's answer, which no tool gets to see
			fault.reason += "; nothing was recorded"
		}
		t.refuse(&e, fault)
		return nil
	case e.isResponse():
		return responseTo(&e, nil)
	case e.id == nil:
		return t.acceptNotification(&e)
	}
	key := requestKey(e.id)
	id, err := jsonrpc.MakeID(key)
	if err != nil { // only for values that are neither string nor number
		t.refuse(&e, &lineFault{jsonrpc.CodeInternalError, "internal error"})
		return nil
	}
	request := &jsonrpc.Request{ID: id, Method: e.name, Params: e.params}
	call := pendingCall{id: e.id, method: e.name}
	if e.name == methodCallTool {
		request.Params, call.token = e.callParams()
	}
	if fault := t.calls.add(key, call); fault != nil {
		t.refuse(&e, fault)
		return nil
	}
	if e.name == methodCallTool {
		begun := make(chan struct{})
		t.gate = begun
		t.unstarted.Store(&unstartedCall{key: key, id: string(e.id), arguments: e.arguments.Of(line), begun: begun})
	}
	return request
}

func (t *Transport) acceptNotification(e *envelope) jsonrpc.Message {
	switch e.name {
	case methodCancelled:
		// An id that is not in flight may be that of a call that comes later; initialize cannot be cancelled.
		id := evidence.Find(e.params, "requestId").Of(e.params)
		if !isID(id) || !t.calls.mute(requestKey(id)) {
			return nil
		}
		params := append(append([]byte(`{"requestId":`), evidence.Text(requestKey(id))...), '}')
		return &jsonrpc.Request{Method: e.name, Params: params}
	case methodCallTool:
		t.log.Warn("dropped a tools/call without an id")
		return nil
	}
	return &jsonrpc.Request{Method: e.name, Params: e.params}
}

// responseTo returns the client's answer to a question of ours, or failure in its place. The ids of our
// questions are integers of go-sdk; any other answer belongs to no question.
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
	t.out.add(errorLine(id, &jsonrpc.Error{Code: fault.code, Message: fault.reason})...)
	go t.out.flush() // never waits for a host that does not read
}

// Write implements [mcp.Connection]. It never fails: when the host does not take our words any more, the
// session drains as at the end of the input, so that what has begun is finished.
func (t *Transport) Write(_ context.Context, message jsonrpc.Message) error {
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
		go t.out.flush() // a call that tells its progress is not held up by a host that does not read
	}
	return nil
}

func (t *Transport) writeResponse(response *jsonrpc.Response) {
	key, _ := response.ID.Raw().(string)
	t.settled(key)
	call, known := t.calls.get(key)
	switch {
	case !known:
		t.log.Error("an answer to no request was dropped")
		return
	case call.muted:
		// MCP forbids to answer a cancelled request.
	case response.Error != nil:
		t.out.add(errorLine(call.id, wireError(call.method, response.Error))...)
	default:
		result := []byte(response.Result)
		if call.method == methodListen {
			result = respelled(result, "_meta", mcp.MetaKeySubscriptionID)
		}
		if call.content != nil {
			result = splice(result, replacement{evidence.Find(result, "content"), call.content})
		}
		t.out.add([]byte(`{"jsonrpc":"2.0","id":`), call.id, []byte(`,"result":`), result, []byte(`}`))
	}
	// In this order the id is free again before the host can know, and the drain never sees the call gone
	// and its answer not yet there.
	t.calls.remove(key)
	if call.method == methodCallTool {
		t.out.flush()
		return
	}
	go t.out.flush() // go-sdk begins nothing else while initialize is being answered
}
