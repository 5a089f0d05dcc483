package cli

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
)

// pipes is a listener for connections in memory, which live in a testing/synctest bubble.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, open := <-p; open {
		return conn, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// Whoever begins a request and does not end it is answered and let go, and the sandbox holds nothing of it.
func TestSandboxWaitsForNoBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		listener := make(pipes)
		s := sandbox.New(sandbox.Options{})
		server := sandboxServer(s.Local("127.0.0.1:8000"))
		go func() { _ = server.Serve(listener) }()
		defer func() { assert.NoError(t, server.Close()) }()
		for begun, want := range map[string]string{
			"POST /api/v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{": "408 Request Timeout",
			"POST /api/v1/decisions HTTP/1.1\r\nHost: loc":                                  "",
			"POST /api/v1/nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n": "404 Not Found",
		} {
			client, there := net.Pipe()
			listener <- there
			start := time.Now()
			_, err := io.WriteString(client, begun)
			require.NoError(t, err)
			answer, _ := bufio.NewReader(client).ReadString('\n')
			assert.Equal(t, want, strings.TrimSpace(strings.TrimPrefix(answer, "HTTP/1.1 ")), begun)
			assert.LessOrEqual(t, time.Since(start), sandboxReads)
			require.NoError(t, client.Close())
		}
		assert.Empty(t, s.Events(""))
	})
}
