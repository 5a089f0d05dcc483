package loopgrid

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/loopgridio/loopgrid-mcp/internal/address"
)

// newTransport returns the HTTP transport that suits LoopGrid: it keeps connections for less time than the service does (5 s), so
// that no request is lost on a connection that is being closed, and never decompresses. It speaks HTTP/1.1 alone: HTTP/2 would repeat
// a write by itself when a connection ends.
func newTransport(o Options, askedForCertificate *atomic.Bool) *http.Transport {
	const (
		connections    = 64
		idleConnection = 4 * time.Second
		maxHeader      = 1 << 20
	)
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	d := dialer{budget: dialBudget(o.Timeout), lookup: net.DefaultResolver.LookupNetIP, dial: new(net.Dialer).DialContext}
	config := &tls.Config{
		RootCAs: authorities(o.CACertificates), MinVersion: tls.VersionTLS12,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			askedForCertificate.Store(true)
			return new(tls.Certificate), nil // none
		},
	}
	return &http.Transport{
		Proxy:                  proxyFromEnvironment,
		OnProxyConnectResponse: tunnelRefused,
		DialContext:            d.DialContext,
		DialTLSContext:         (&tlsDialer{dialer: d, config: config, timeout: o.Timeout}).DialTLSContext,
		TLSClientConfig:        config, // for what goes through a proxy
		TLSHandshakeTimeout:    o.Timeout,
		MaxResponseHeaderBytes: maxHeader,
		MaxIdleConns:           connections,
		MaxIdleConnsPerHost:    connections,
		IdleConnTimeout:        idleConnection,
		DisableCompression:     true, // evidence is hashed as it is sent
		Protocols:              &protocols,
	}
}

// authorities returns the system's certificate authorities and those of a PEM text; nil means the system's alone.
func authorities(pem []byte) *x509.CertPool {
	if pem == nil {
		return nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	pool.AppendCertsFromPEM(pem)
	return pool
}

// dialer connects to one address of a host after the other, so that one that swallows packets does not use up the time of all.
type dialer struct {
	budget time.Duration // of each address
	lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

// dialBudget is the part of a request's time that one address may take: a third, but two seconds at least where there are so many.
func dialBudget(timeout time.Duration) time.Duration {
	return max(timeout/3, min(timeout, 2*time.Second))
}

// DialContext connects to host:port. The error is that of the first address, unless another one refused: that says more.
func (d *dialer) DialContext(ctx context.Context, network, hostPort string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, fmt.Errorf("read the address: %w", err)
	}
	lookupCtx, cancel := context.WithTimeout(ctx, d.budget)
	found, err := d.lookup(lookupCtx, "ip", host)
	cancel()
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	var first error
	for _, ip := range found {
		dialCtx, cancel := context.WithTimeout(ctx, d.budget)
		conn, err := d.dial(dialCtx, network, net.JoinHostPort(ip.Unmap().String(), port))
		cancel()
		if err == nil {
			return conn, nil
		}
		if first == nil || isRefused(err) {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	if first == nil {
		first = &net.DNSError{Err: "no addresses", Name: host, IsNotFound: true}
	}
	return nil, fmt.Errorf("connect: %w", first)
}

// proxyError says why a request cannot be sent through the proxy that the environment names. It holds nothing of the variable's value.
type proxyError struct {
	proxy  string // host and port; empty where the variable does not tell
	status int    // of its answer to CONNECT
	reason string
}

func (e *proxyError) Error() string { return e.reason }

// proxyFromEnvironment returns the proxy of a request as [http.ProxyFromEnvironment] does, except for every spelling of loopback. A
// value that cannot be meant is an error that shows nothing of it: what looks like its host may be a part of a password.
func proxyFromEnvironment(r *http.Request) (*url.URL, error) {
	if address.IsLoopback(r.URL.Hostname()) {
		return nil, nil //nolint:nilnil // no proxy, as http.Transport expects it
	}
	proxy, err := http.ProxyFromEnvironment(r)
	switch {
	case err == nil && proxy == nil:
		return nil, nil //nolint:nilnil // as above
	case err == nil && strings.Contains(proxy.Path+proxy.RawQuery+proxy.Fragment, "@"):
		return nil, &proxyError{reason: "holds a user name or password that is not escaped (%40 for @, %23 for #, %2F for /, %3F for ?)"}
	case err != nil || strings.Trim(proxy.Path, "/")+proxy.RawQuery+proxy.Fragment != "":
		return nil, &proxyError{reason: "is not the address of a proxy"}
	}
	return proxy, nil
}

// tunnelRefused turns the answer of a proxy to CONNECT into an error that names the proxy.
func tunnelRefused(_ context.Context, proxy *url.URL, _ *http.Request, res *http.Response) error {
	if res.StatusCode == http.StatusOK {
		return nil
	}
	return &proxyError{proxy: address.HostPort(proxy), status: res.StatusCode, reason: "the proxy refused the tunnel"}
}

// Proxy returns host and port of the proxy that requests to the service take, "" where they take none.
func (c *Client) Proxy() string {
	transport, ok := c.o.Transport.(*http.Transport)
	if !ok || transport.Proxy == nil {
		return ""
	}
	proxy, err := transport.Proxy(&http.Request{URL: c.o.BaseURL})
	if err != nil || proxy == nil {
		return ""
	}
	return c.clean(address.HostPort(proxy), 120) // without its user name and password
}

// proxyVariable is the variable that names the proxy of the service.
func proxyVariable(base *url.URL) string {
	if strings.EqualFold(base.Scheme, "https") {
		return "HTTPS_PROXY"
	}
	return "HTTP_PROXY"
}

func isProxyError(err error) bool {
	var op *net.OpError
	var own *proxyError
	return errors.As(err, &own) || errors.As(err, &op) && op.Op == "proxyconnect"
}
