package stdio

import (
	"context"
	"io"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// session is one go-sdk session on a Transport. The sessions take turns at reading: whoever is handed a message reads the next one, so
// that a host of one era costs no more than a single session would.
type session struct {
	transport *Transport
	inbox     chan jsonrpc.Message // from the session that reads; the turn comes with the message
	reading   bool                 // only Read uses it
}

func newSession(t *Transport) *session {
	return &session{transport: t, inbox: make(chan jsonrpc.Message, 1)}
}

var (
	_ mcp.Transport  = (*session)(nil)
	_ mcp.Connection = (*session)(nil)
)

// Connect implements [mcp.Transport].
func (s *session) Connect(context.Context) (mcp.Connection, error) { return s, nil }

// SessionID implements [mcp.Connection]: a session over stdio has none.
func (s *session) SessionID() string { return "" }

// Close implements [mcp.Connection]. go-sdk calls it when the session is over.
func (s *session) Close() error {
	s.transport.leave()
	return nil
}

// Read implements [mcp.Connection].
func (s *session) Read(context.Context) (jsonrpc.Message, error) {
	if s.reading {
		to, message := s.transport.next()
		switch to {
		case nil:
			return nil, io.EOF
		case s:
			return message, nil
		}
		s.reading = false
		to.inbox <- message // it is empty: only the reading session fills it
	}
	select {
	case message := <-s.inbox:
		s.reading = true
		return message, nil
	case <-s.transport.over:
		return nil, io.EOF
	}
}

// Write implements [mcp.Connection].
func (s *session) Write(_ context.Context, message jsonrpc.Message) error {
	return s.transport.write(message)
}
