package loopgrid

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// tlsDialer connects to the service over TLS. Through a proxy net/http does that by itself.
type tlsDialer struct {
	dialer  dialer
	config  *tls.Config
	timeout time.Duration // of the handshake
}

// DialTLSContext connects to host:port, and shakes hands.
func (d *tlsDialer) DialTLSContext(ctx context.Context, network, hostPort string) (net.Conn, error) {
	plain, err := d.dialer.DialContext(ctx, network, hostPort)
	if err != nil {
		return nil, err
	}
	config := d.config.Clone()
	config.ServerName, _, _ = net.SplitHostPort(hostPort) // dialed above, so it can be split
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	conn := tls.Client(plain, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = plain.Close()
		return nil, fmt.Errorf("shake hands: %w", err)
	}
	return &alertConn{Conn: conn, ended: make(chan struct{})}, nil
}

// alertConn is a TLS connection whose writes fail with the alert by which the service ended it. With TLS 1.3 a service refuses a client
// only after the client's handshake is over, so the alert meets a request on its way out. net/http then closes the connection, the write
// fails because of that, and the alert, which proves that nothing of the request was read, would be lost.
type alertConn struct {
	*tls.Conn

	once  sync.Once
	ended chan struct{} // closed when reading has failed, or the connection was closed
	alert error         // set before that
}

// alertWait is how long a failed write waits for what the reader has yet to read of the connection.
const alertWait = time.Second

func (c *alertConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.end(err)
	}
	return n, err
}

func (c *alertConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err == nil {
		return n, nil
	}
	select {
	case <-c.ended:
		if c.alert != nil {
			err = c.alert
		}
	case <-time.After(alertWait): // nobody reads
	}
	return n, err
}

// Close closes the connection.
func (c *alertConn) Close() error {
	defer c.end(nil)
	return c.Conn.Close()
}

func (c *alertConn) end(err error) {
	c.once.Do(func() {
		if err != nil && isAlert(err) {
			c.alert = err
		}
		close(c.ended)
	})
}

// isAlert knows an alert of the service by its text: crypto/tls has no type for it.
func isAlert(err error) bool { return strings.Contains(err.Error(), "remote error: tls:") }
