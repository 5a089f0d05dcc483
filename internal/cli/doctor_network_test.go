package cli_test

import (
	"bufio"
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
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
)

// unreached runs the doctor with a key, and expects that the address fails with one clear line, that the key is nowhere, and that the
// rest is told nevertheless.
func unreached(t *testing.T, text, remedy string) {
	t.Helper()
	t.Setenv("LOOPGRID_SERVICE_KEY", "lg_live_private")
	code, out := examine(t)
	assert.Equal(t, 1, code)
	assert.Equal(t, 1, strings.Count(out, "[FAIL] "), out)
	assert.Regexp(t, `(?m)^\[FAIL\] `+text+`$\n  → .*`+remedy, out)
	assert.Contains(t, out, "[INFO] service key configured: yes\n")
	assert.Contains(t, out, "[OK] evidence directory writable: yes\n")
	assert.NotContains(t, out, "lg_live_private")
}

// listen takes connections and hands each to handle.
func listen(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = listener.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			handle(conn)
		}
	}()
	return listener.Addr().String()
}

func TestDoctorNothingListens(t *testing.T) {
	address := listen(t, func(c net.Conn) { _ = c.Close() })
	free, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, free.Close())
	require.NotEqual(t, address, free.Addr().String())
	quiet(t)
	t.Setenv("LOOPGRID_BASE_URL", "http://"+free.Addr().String())
	unreached(t, `LoopGrid is not reachable: the connection was refused: nothing listens at 127\.0\.0\.1:\d+`, `Start LoopGrid, or set LOOPGRID_BASE_URL to its address\. In a container 127\.0\.0\.1 is the container itself\.`)
}

func TestDoctorNoSuchName(t *testing.T) {
	// A label of more than 63 letters cannot exist, so nobody has to be asked for it.
	name := strings.Repeat("a", 64) + ".example"
	quiet(t)
	t.Setenv("LOOPGRID_BASE_URL", "http://"+name+":8000")
	unreached(t, `LoopGrid is not reachable: its host name a+\.example cannot be resolved`, `Check the spelling`)
}

func TestDoctorHangsUp(t *testing.T) {
	reset := listen(t, func(c net.Conn) {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_, _ = c.Read(make([]byte, 1)) // the request is there
		_ = c.Close()
	})
	quiet(t)
	t.Setenv("LOOPGRID_BASE_URL", "http://"+reset)
	unreached(t, `the connection to LoopGrid ended before GET /health was answered \(127\.0\.0\.1:\d+ reset it\)`, `If the port speaks TLS, the address is https://127\.0\.0\.1:\d+\.`)

	closed := listen(t, func(c net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(c))
		_ = c.Close()
	})
	quiet(t)
	t.Setenv("LOOPGRID_BASE_URL", "http://"+closed)
	unreached(t, `the connection to LoopGrid ended before GET /health was answered \(at 127\.0\.0\.1:\d+\)`, `Something in between`)
}

func TestDoctorSilence(t *testing.T) {
	held := make(chan net.Conn, 10)
	silent := listen(t, func(c net.Conn) { held <- c })
	t.Cleanup(func() {
		for len(held) > 0 {
			_ = (<-held).Close()
		}
	})
	quiet(t)
	t.Setenv("LOOPGRID_BASE_URL", "http://"+silent)
	t.Setenv("LOOPGRID_MCP_TIMEOUT_SECONDS", "0.3")
	unreached(t, `LoopGrid did not answer GET /health in time \(0\.3 s, at 127\.0\.0\.1:\d+\)`, `LoopGrid is not responding`)
}

func TestDoctorAnotherProtocol(t *testing.T) {
	ssh := listen(t, func(c net.Conn) {
		_, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.6\r\n")
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
	})
	quiet(t)
	t.Setenv("LOOPGRID_BASE_URL", "http://"+ssh)
	unreached(t, `what listens at 127\.0\.0\.1:\d+ does not speak HTTP: another service, or https`, `Check host, port and base path`)
}

func TestDoctorAnotherService(t *testing.T) {
	page := func(status int, media, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for name, tt := range map[string]struct {
		handler      http.Handler
		text, remedy string
	}{
		"web page":        {page(200, "text/html; charset=utf-8", "<html>private"), `\S+/base answers with a web page where LoopGrid answers JSON: a login page, or another web server`, `Check host`},
		"text":            {page(200, "text/plain", "ok"), `the answer to GET /health cannot be used: the answer is text/plain where JSON was expected`, `Check host`},
		"broken JSON":     {page(200, "application/json", "{"), `the answer to GET /health cannot be used: the answer is not valid JSON`, `Check host`},
		"JSON of another": {page(200, "application/json", `{"status":"UP","service":"billing"}`), `another service answers at \S+/base: it does not call itself loopgrid`, `Check host`},
		"no such page":    {http.NotFoundHandler(), `\S+/base answers 404 to GET /health, which LoopGrid does not: another service, another base path, or something in between`, `Check host`},
		"asks to log in":  {page(401, "text/html", "private"), `something in front of LoopGrid answered 401 to GET /health`, `It requires a login of its own`},
		"asks for a key":  {page(401, "application/json", `{"detail":"No API key found"}`), `\S+/base answers 401 to GET /health, which LoopGrid does not: another service, another base path, or something in between`, `Check host`},
		"refuses":         {page(403, "application/json", `{"detail":"no"}`), `\S+/base answers 403 to GET /health, which LoopGrid does not: another service, another base path, or something in between`, `Check host`},
		"gateway":         {page(502, "text/html", "<html>private"), `something in front of LoopGrid answered 502 to GET /health`, `The gateway in front of LoopGrid cannot reach it`},
		"fails":           {page(500, "text/plain", "private"), `something in front of LoopGrid answered 500 to GET /health`, `The gateway in front of LoopGrid failed`},
		"to https": {
			http.RedirectHandler("https://user:private@loopgrid.example/base/health?private=1", http.StatusPermanentRedirect), `\S+/base redirects \(308\) from http to https, and redirects are never followed`,
			`If https://loopgrid\.example/base is your LoopGrid, set LOOPGRID_BASE_URL to it\.`,
		},
		"to another host": {
			http.RedirectHandler("http://other.example/health", http.StatusTemporaryRedirect), `\S+/base redirects \(307\), and redirects are never followed, since they could carry the key elsewhere`,
			`If http://other\.example is your LoopGrid`,
		},
		"to a login page": {http.RedirectHandler("https://login.example/?private=1", http.StatusFound), `\S+/base redirects \(302\) to another page of https://login\.example: a login page, or another web server`, `Check host`},
		"nowhere":         {page(304, "text/html", ""), `\S+/base redirects \(304\), and .*`, `Check host`},
	} {
		t.Run(name, func(t *testing.T) {
			quiet(t)
			t.Setenv("LOOPGRID_BASE_URL", serve(t, tt.handler))
			unreached(t, tt.text, tt.remedy)
			_, out := examine(t)
			assert.NotContains(t, out, "private"+"=")
			assert.NotContains(t, out, "user:")
			assert.NotContains(t, out, "<html>")
		})
	}
}

// certificate makes a certificate that nobody has reason to trust.
func certificate(t *testing.T, expires time.Time, names ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: expires.AddDate(-1, 0, 0), NotAfter: expires,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// trust puts the certificate of a server into LOOPGRID_CA_FILE.
func trust(t *testing.T, config *tls.Config) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: config.Certificates[0].Certificate[0]}
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	t.Setenv("LOOPGRID_CA_FILE", path)
}

func TestDoctorTLS(t *testing.T) {
	next := time.Now().AddDate(0, 1, 0)
	serveTLS := func(t *testing.T, config *tls.Config) string {
		t.Helper()
		server := httptest.NewUnstartedServer(sandbox.New(sandbox.Options{}))
		server.TLS = config
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		t.Cleanup(server.Close)
		return server.URL
	}
	for name, tt := range map[string]struct {
		config       *tls.Config
		text, remedy string
	}{
		"expired": {
			&tls.Config{Certificates: []tls.Certificate{certificate(t, time.Date(2024, 2, 3, 4, 5, 0, 0, time.UTC), "127.0.0.1")}},
			`its certificate has expired or is not valid yet \(valid from 2023-02-03 04:05 UTC to 2024-02-03 04:05 UTC\)`, `renewed\. If the dates are right, the clock`,
		},
		"wrong name": {
			&tls.Config{Certificates: []tls.Certificate{certificate(t, next, "a.example", "b.example", "192.0.2.1")}},
			`its certificate is for another host name than 127\.0\.0\.1`, `\(a\.example, b\.example, 192\.0\.2\.1\)`,
		},
		"unknown authority": {
			&tls.Config{Certificates: []tls.Certificate{certificate(t, next, "127.0.0.1")}},
			`its certificate is signed by an unknown authority`, `set LOOPGRID_CA_FILE to that file`,
		},
		"no common version": {&tls.Config{
			Certificates: []tls.Certificate{certificate(t, next, "127.0.0.1")},
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
				return nil, errors.New("no")
			},
		}, `it broke off the TLS handshake`, `a client certificate cannot be given`},
	} {
		t.Run(name, func(t *testing.T) {
			quiet(t)
			t.Setenv("LOOPGRID_BASE_URL", serveTLS(t, tt.config))
			if strings.Contains(name, "expired") || strings.Contains(name, "wrong") {
				trust(t, tt.config) // Windows looks at the authority first, and only then at dates and names
			}
			unreached(t, "LoopGrid is not reachable: "+tt.text, tt.remedy)
		})
	}
	t.Run("own authority", func(t *testing.T) {
		config := &tls.Config{Certificates: []tls.Certificate{certificate(t, next, "127.0.0.1")}}
		quiet(t)
		t.Setenv("LOOPGRID_BASE_URL", serveTLS(t, config))
		trust(t, config)
		code, out := examine(t)
		assert.Equal(t, 0, code)
		assert.Contains(t, out, "[OK] LoopGrid reachable: https://127.0.0.1:")
		assert.Contains(t, out, "[INFO] certificate authorities: the system's, and 1 certificate from LOOPGRID_CA_FILE\n")
	})
	t.Run("http on the port of https", func(t *testing.T) {
		url := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{certificate(t, next, "127.0.0.1")}})
		quiet(t)
		t.Setenv("LOOPGRID_BASE_URL", strings.Replace(url, "https:", "http:", 1))
		unreached(t, `http://127\.0\.0\.1:\d+ asks for https`, `Set LOOPGRID_BASE_URL to https://127\.0\.0\.1:\d+\.`)
	})
	t.Run("https on the port of http", func(t *testing.T) {
		quiet(t)
		t.Setenv("LOOPGRID_BASE_URL", strings.Replace(serve(t, sandbox.New(sandbox.Options{})), "http:", "https:", 1))
		unreached(t, `LoopGrid is not reachable: it does not speak TLS on this port \(http instead of https\?\)`, `set LOOPGRID_BASE_URL to http://127\.0\.0\.1:\d+/base\.`)
	})
}

func TestDoctorFindsTheOtherLoopbackAddress(t *testing.T) {
	two, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "[::1]:0")
	if err != nil {
		t.Skip("this machine has no IPv6")
	}
	_, port, err := net.SplitHostPort(two.Addr().String())
	require.NoError(t, err)
	started := func(listener net.Listener, handler http.Handler) {
		server := httptest.NewUnstartedServer(handler)
		require.NoError(t, server.Listener.Close())
		server.Listener = listener
		server.Start()
		t.Cleanup(server.Close)
	}
	keys := make(chan string, 10)
	s := sandbox.New(sandbox.Options{})
	started(two, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys <- r.Header.Get("X-LoopGrid-Key")
		s.ServeHTTP(w, r)
	}))
	quiet(t)
	t.Setenv("LOOPGRID_BASE_URL", "http://127.0.0.1:"+port)
	unreached(t, `LoopGrid is not reachable: the connection was refused: .*`, `LoopGrid answers at http://\[::1\]:\d+: set LOOPGRID_BASE_URL to that\.`)
	assert.Empty(t, <-keys, "a service that was not asked for does not get the key")

	other, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:"+port)
	require.NoError(t, err)
	started(other, http.NotFoundHandler())
	quiet(t)
	t.Setenv("LOOPGRID_BASE_URL", "http://127.0.0.1:"+port)
	unreached(t, `http://127\.0\.0\.1:\d+ answers 404 to GET /health, .*`, `LoopGrid answers at http://\[::1\]:\d+: set LOOPGRID_BASE_URL to that\.`)
}

// runProcess runs the program as a process of its own: proxies are read from the environment once.
func runProcess(t *testing.T, environ ...string) (code int, out string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "doctor") //nolint:gosec // this test binary
	// Windows takes HTTP_PROXY and http_proxy for one variable, whose last value counts.
	cmd.Env = append(append(os.Environ(), asProgram+"=1", "NO_PROXY=", "no_proxy=", "http_proxy=", "https_proxy="), environ...)
	output, err := cmd.Output()
	if _, ended := errors.AsType[*exec.ExitError](err); !ended {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), string(output)
}

func TestDoctorProxy(t *testing.T) {
	for _, tt := range []struct {
		name, url string
		proxy     http.HandlerFunc
		code      int
		want      []string
	}{
		{"through it", "http://loopgrid.example:8000", sandbox.New(sandbox.Options{}).ServeHTTP, 0, []string{
			"[OK] LoopGrid reachable: http://loopgrid.example:8000\n", "[INFO] proxy in between: HOST (from HTTP_PROXY or HTTPS_PROXY)\n",
		}},
		{"gone", "http://loopgrid.example:8000", nil, 1, []string{
			"[FAIL] LoopGrid is not reachable: the proxy HOST (from HTTP_PROXY) cannot be reached\n  → Add loopgrid.example to NO_PROXY",
		}},
		{"wants a password", "http://loopgrid.example:8000", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusProxyAuthRequired) }, 1, []string{
			"[FAIL] LoopGrid is not reachable: the proxy HOST asks for a user name and a password (407)\n  → Add loopgrid.example to NO_PROXY",
		}},
		{"does not get there", "http://loopgrid.example:8000", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, 1, []string{
			"[FAIL] the proxy HOST, or something behind it, answered 503 to GET /health\n  → The gateway in front of LoopGrid cannot reach it",
		}},
		{"refuses the tunnel", "https://loopgrid.example", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, 1, []string{
			"[FAIL] LoopGrid is not reachable: the proxy HOST (from HTTPS_PROXY) does not let the connection through (403)\n  → Add loopgrid.example to NO_PROXY",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			quiet(t)
			t.Setenv("LOOPGRID_BASE_URL", tt.url)
			at := "127.0.0.1:1" // where nothing listens
			if tt.proxy != nil {
				proxy := httptest.NewServer(tt.proxy)
				t.Cleanup(proxy.Close)
				at = strings.TrimPrefix(proxy.URL, "http://")
			}
			code, out := runProcess(t, "HTTP_PROXY=http://user:private@"+at, "HTTPS_PROXY=http://user:private@"+at)
			assert.Equal(t, tt.code, code, out)
			for _, want := range tt.want {
				assert.Contains(t, out, strings.ReplaceAll(want, "HOST", at))
			}
			assert.NotContains(t, out, "private")
		})
	}
}

// Go does not read ALL_PROXY, and other programs do.
func TestDoctorNamesAProxyThatIsNotRead(t *testing.T) {
	const warning = "[WARN] proxy in between: none, ALL_PROXY is set, but this program does not read it\n  → If LoopGrid is behind that proxy, set HTTP_PROXY to it.\n"
	quiet(t)
	t.Setenv("LOOPGRID_MCP_TIMEOUT_SECONDS", "1")
	t.Setenv("LOOPGRID_BASE_URL", "http://loopgrid.invalid:8000")
	_, out := runProcess(t, "ALL_PROXY=socks5://user:private@127.0.0.1:1", "HTTP_PROXY=", "HTTPS_PROXY=")
	assert.Contains(t, out, warning)
	assert.NotContains(t, out, "private")
	_, out = runProcess(t, "ALL_PROXY=http://127.0.0.1:1", "HTTP_PROXY=http://127.0.0.1:1")
	assert.NotContains(t, out, "ALL_PROXY", "another one is read")
	t.Setenv("LOOPGRID_BASE_URL", "http://127.0.0.1:1")
	_, out = runProcess(t, "ALL_PROXY=http://127.0.0.1:1", "HTTP_PROXY=")
	assert.NotContains(t, out, "ALL_PROXY", "no proxy is used for this machine")
}
