package loopgrid_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

func TestTransport(t *testing.T) {
	t.Parallel()
	o := loopgrid.TransportOf(options(t, "http://service.example"))
	assert.Equal(t, 64, o.MaxIdleConnsPerHost)
	assert.Less(t, o.IdleConnTimeout, 5*time.Second, "the service closes idle connections after 5 s")
	assert.Positive(t, o.IdleConnTimeout)
	assert.True(t, o.DisableCompression)
	assert.False(t, o.DisableKeepAlives)
}

// HTTP/2 would repeat a write by itself.
func TestHTTP1Alone(t *testing.T) {
	t.Parallel()
	protocols := make(chan string, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocols <- r.Proto
		answerJSON(`{"service":"loopgrid"}`)(w, r)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	o := options(t, server.URL)
	o.CACertificates = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	_, err := loopgrid.New(o).Health(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "HTTP/1.1", <-protocols)
}

// One address that swallows packets takes a part of the time, and the next one is tried.
func TestDialTriesEachAddress(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	silent := func(ctx context.Context) (net.Conn, error) { //nolint:unparam // as a dialer has it
		<-ctx.Done()
		return nil, &net.OpError{Op: "dial", Err: ctx.Err()}
	}
	for name, c := range map[string]struct {
		timeout   time.Duration
		addresses string // s: silent, r: refuses, o: open
		took      time.Duration
		tried     int
		err       error
	}{
		"open":                     {20 * time.Second, "o", 0, 1, nil},
		"the first of two":         {20 * time.Second, "os", 0, 1, nil},
		"silent, then open":        {21 * time.Second, "so", 7 * time.Second, 2, nil},
		"refused, then open":       {20 * time.Second, "ro", 0, 2, nil},
		"silent with little time":  {3 * time.Second, "so", 2 * time.Second, 2, nil},
		"silent with less":         {time.Second, "s", time.Second, 1, context.DeadlineExceeded},
		"all silent":               {21 * time.Second, "ss", 14 * time.Second, 2, context.DeadlineExceeded},
		"silent, then refused":     {21 * time.Second, "sr", 7 * time.Second, 2, syscall.ECONNREFUSED},
		"a name without addresses": {21 * time.Second, "", 0, 0, &net.DNSError{Err: "no addresses", Name: "service.example", IsNotFound: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := options(t, "http://service.example")
				o.Timeout = c.timeout
				var tried []string
				here, there := net.Pipe()
				t.Cleanup(func() { _, _ = here.Close(), there.Close() })
				began := time.Now()
				conn, err := loopgrid.Dial(t.Context(), o, "service.example:8000", func(_ context.Context, _, host string) (found []netip.Addr, _ error) {
					assert.Equal(t, "service.example", host)
					for i := range c.addresses {
						found = append(found, netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})) //nolint:gosec // a few
					}
					return found, nil
				}, func(ctx context.Context, _, address string) (net.Conn, error) {
					tried = append(tried, address)
					switch c.addresses[len(tried)-1] {
					case 's':
						return silent(ctx)
					case 'r':
						return nil, refused
					}
					return here, nil
				})
				assert.Equal(t, c.took, time.Since(began))
				assert.Len(t, tried, c.tried)
				for _, address := range tried {
					assert.Regexp(t, `^192\.0\.2\.\d:8000$`, address)
				}
				if c.err == nil {
					require.NoError(t, err)
					assert.Equal(t, here, conn)
				} else {
					require.ErrorContains(t, err, c.err.Error())
				}
			})
		})
	}
}

// certificate is a certificate that signs itself.
func certificate(t *testing.T, commonName string, names ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: commonName}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: names, IsCA: true, BasicConstraintsValid: true,
	}
	if len(names) > 0 {
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// overTLS is a client of a service with this set-up, which trusts its certificate.
func overTLS(t *testing.T, config *tls.Config) (c *loopgrid.Client, requests *int, o loopgrid.Options) {
	t.Helper()
	requests = new(int)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*requests++
		answerJSON(eventText)(w, r)
	}))
	server.TLS = config
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // the handshakes are meant to fail
	server.StartTLS()
	t.Cleanup(server.Close)
	o = options(t, server.URL)
	o.CACertificates = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: config.Certificates[0].Certificate[0]})
	return loopgrid.New(o), requests, o
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	append := writers(decisionID)["append"]
	t.Run("of an own authority", func(t *testing.T) {
		t.Parallel()
		c, _, _ := overTLS(t, &tls.Config{Certificates: []tls.Certificate{certificate(t, "", "localhost")}})
		_, err := c.Ready(t.Context())
		require.NoError(t, err)
	})
	t.Run("with a common name alone", func(t *testing.T) {
		t.Parallel()
		c, _, _ := overTLS(t, &tls.Config{Certificates: []tls.Certificate{certificate(t, "127.0.0.1")}})
		_, err := c.Ready(t.Context())
		require.EqualError(t, err, "LoopGrid is not reachable: its certificate names the host only in the common name, which is no longer checked")
	})
	for name, version := range map[string]uint16{"TLS 1.2": tls.VersionTLS12, "TLS 1.3": tls.VersionTLS13} {
		t.Run("one of the client is required, "+name, func(t *testing.T) {
			t.Parallel()
			c, requests, _ := overTLS(t, &tls.Config{
				Certificates: []tls.Certificate{certificate(t, "", "localhost")}, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: version, MaxVersion: version,
			})
			for range 20 {
				err := writing(t.Context(), c, func(turn *loopgrid.Turn) error { return append(t.Context(), turn) })
				require.EqualError(t, err, "LoopGrid is not reachable: it asks for a client certificate, and this program has none to give")
				assert.Equal(t, loopgrid.NotRecorded, loopgrid.OutcomeOf(err))
				assert.Zero(t, *requests)
			}
		})
	}
}

// With TLS 1.3 the alert arrives while the request is sent. Whoever reads it closes the connection, and the write that this breaks off has
// to tell of the alert too: net/http reports either of the two.
func TestTheAlertIsNotLostToTheClosedConnection(t *testing.T) {
	t.Parallel()
	_, _, o := overTLS(t, &tls.Config{
		Certificates: []tls.Certificate{certificate(t, "", "localhost")}, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
	})
	conn, err := loopgrid.TransportOf(o).DialTLSContext(t.Context(), "tcp", o.BaseURL.Host)
	require.NoError(t, err)
	const alert = "remote error: tls: certificate required"
	_, err = conn.Read(make([]byte, 1))
	require.EqualError(t, err, alert)
	require.NoError(t, conn.Close())
	_, err = conn.Write([]byte("POST"))
	require.EqualError(t, err, alert)
}

// A connection that this side closed says so.
func TestAClosedConnectionHasNoAlert(t *testing.T) {
	t.Parallel()
	_, _, o := overTLS(t, &tls.Config{Certificates: []tls.Certificate{certificate(t, "", "localhost")}})
	conn, err := loopgrid.TransportOf(o).DialTLSContext(t.Context(), "tcp", o.BaseURL.Host)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	_, err = conn.Write([]byte("POST"))
	require.ErrorIs(t, err, net.ErrClosed)
}

// An answer that is no answer, such as the switch to another protocol, is told at once.
func TestAnswersBelow200EndAtOnce(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = conn.Read(make([]byte, 4096))
				_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
				_, _ = io.Copy(io.Discard, conn) // until the client closes it
				_ = conn.Close()
			}()
		}
	}()
	c := loopgrid.New(options(t, "http://"+listener.Addr().String()))
	for name, call := range readers(decisionID) {
		var api *loopgrid.APIError
		require.ErrorAs(t, call(t.Context(), c), &api, name)
		assert.Equal(t, http.StatusSwitchingProtocols, api.Status, name)
	}
	_, err = c.Inspect(t.Context())
	require.NoError(t, err)
	err = writing(t.Context(), c, func(turn *loopgrid.Turn) error { return writers(decisionID)["append"](t.Context(), turn) })
	assert.Equal(t, loopgrid.Unknown, loopgrid.OutcomeOf(err))
}

// The environment's proxy is read once per process, so each of these runs in its own.
func TestProxies(t *testing.T) {
	if base := os.Getenv("LOOPGRID_TEST_BASE"); base != "" {
		address, err := url.Parse(base)
		require.NoError(t, err)
		c := loopgrid.New(loopgrid.Options{BaseURL: address, Workspace: "w", ServiceKey: serviceKey, Timeout: 20 * time.Second})
		err = writing(t.Context(), c, func(turn *loopgrid.Turn) error { return writers(decisionID)["append"](t.Context(), turn) })
		var transport *loopgrid.TransportError
		var api *loopgrid.APIError
		switch {
		case errors.As(err, &transport):
			t.Logf("ANSWER %s: %s\n%s", loopgrid.OutcomeOf(err), err, transport.Remedy())
		case errors.As(err, &api):
			t.Logf("ANSWER %s: %s\n%s", loopgrid.OutcomeOf(err), err, api.Remedy())
		default:
			t.Logf("ANSWER %v", err)
		}
		return
	}
	t.Parallel()
	answering := func(status int) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(server.Close)
		return strings.TrimPrefix(server.URL, "http://")
	}
	const nobody = "127.0.0.1:1"
	locked, closed := answering(http.StatusProxyAuthRequired), answering(http.StatusForbidden)
	for _, c := range []struct{ base, proxy, want, remedy string }{
		{"http://loopgrid.example:8000", "http://" + nobody, "not recorded: LoopGrid is not reachable: the proxy " + nobody + " (from HTTP_PROXY) cannot be reached", "Add loopgrid.example to NO_PROXY"},
		{"https://loopgrid.example", "http://" + nobody, "not recorded: LoopGrid is not reachable: the proxy " + nobody + " (from HTTPS_PROXY) cannot be reached", "correct HTTPS_PROXY"},
		{"http://loopgrid.example", "http://" + locked, "not recorded: LoopGrid is not reachable: the proxy " + locked + " asks for a user name and a password (407)", "into HTTP_PROXY (http://user:password@proxy:port)"},
		{"https://loopgrid.example", "http://" + locked, "not recorded: LoopGrid is not reachable: the proxy " + locked + " (from HTTPS_PROXY) asks for a user name and a password (407)", "into HTTPS_PROXY"},
		{"https://loopgrid.example", "http://" + closed, "not recorded: LoopGrid is not reachable: the proxy " + closed + " (from HTTPS_PROXY) does not let the connection through (403)", "NO_PROXY"},
		{"http://loopgrid.example", "http://" + closed, "outcome unknown: the proxy " + closed + ", or something behind it, answered 403 to POST", "A firewall or gateway rejected this"},
		{"http://loopgrid.example", "http://us#er:pri@vate@" + nobody, "not recorded: LoopGrid is not reachable: HTTP_PROXY holds a user name or password that is not escaped", "Correct HTTP_PROXY"},
		{"http://loopgrid.example", "http://user:123#private@" + nobody, "not recorded: LoopGrid is not reachable: HTTP_PROXY holds a user name or password that is not escaped", "Correct HTTP_PROXY"},
		{"https://loopgrid.example", "http://user:123/private@" + nobody, "not recorded: LoopGrid is not reachable: HTTPS_PROXY holds a user name or password that is not escaped", "Correct HTTPS_PROXY"},
		{"http://loopgrid.example", "http://user:private#1@" + nobody, "not recorded: LoopGrid is not reachable: HTTP_PROXY holds a user name or password that is not escaped", "Correct HTTP_PROXY"},
		{"http://loopgrid.example", "http://user:priv@te@" + nobody, "not recorded: LoopGrid is not reachable: the proxy " + nobody + " (from HTTP_PROXY) cannot be reached", ""},
		{"http://loopgrid.example", "http://user:private", "not recorded: LoopGrid is not reachable: HTTP_PROXY is not the address of a proxy", "Correct HTTP_PROXY"},
		{"http://0.0.0.0:1", "http://" + locked, "not recorded: LoopGrid is not reachable: the connection was refused: nothing listens at 0.0.0.0:1", "Start LoopGrid"},
		{"http://[::]:1", "http://" + locked, "not recorded: LoopGrid is not reachable: ", ""},
	} {
		t.Run(c.base+" by "+c.proxy, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProxies$", "-test.v") //nolint:gosec // the test itself
			cmd.Env = append(os.Environ(), "LOOPGRID_TEST_BASE="+c.base, "HTTP_PROXY="+c.proxy, "HTTPS_PROXY="+c.proxy, "http_proxy=", "https_proxy=", "NO_PROXY=", "no_proxy=")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			assert.Contains(t, string(out), "ANSWER "+c.want)
			assert.Contains(t, string(out), c.remedy)
			for _, private := range []string{"private", "pri@", "vate", "123", "priv"} {
				assert.NotContains(t, string(out), private)
			}
		})
	}
}
