package loopgrid_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

// refused returns the error of a GET that is answered so. It is never repeated for these statuses.
func refused(t *testing.T, status int, contentType, body string, header ...string) *loopgrid.APIError {
	t.Helper()
	m := mount(t, func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		answerTyped(status, contentType, body)(w, r)
	})
	_, err := m.Ready(t.Context())
	var api *loopgrid.APIError
	require.ErrorAs(t, err, &api)
	assert.Equal(t, status, api.Status)
	assert.Equal(t, http.MethodGet, api.Method)
	assert.Equal(t, "/ready", api.Route)
	return api
}

func TestErrorDetails(t *testing.T) {
	t.Parallel()
	const json, html = "application/json", "text/html"
	big := strings.Repeat("x", 1_900_000)
	for _, c := range []struct{ name, contentType, body, code, detail string }{
		{"sentence", json, `{"detail":"Decision not found"}`, "", "Decision not found"},
		{"code", json, `{"detail":{"code":"action_blocked","message":"No."}}`, "action_blocked", "No."},
		{"code alone", json, `{"detail":{"code":"c"}}`, "c", ""},
		{"code of another type", json, `{"detail":{"code":{"a":1},"message":["m"]}}`, "", ""},
		{"list", json, `{"detail":[{"loc":["body","a"],"msg":"m1","input":"private"},{"loc":["query","b",0],"msg":"m2"}]}`, "", "a: m1; b.0: m2"},
		{"list without place", json, `{"detail":[{"msg":"m"},{"loc":["body"],"msg":"whole"},{"loc":["body",1],"msg":"at 1"}]}`, "", ": m; body: whole; 1: at 1"},
		{"list of odd things", json, `{"detail":[1,null,"x",{"loc":"body","msg":7}]}`, "", ": ; : ; : ; :"},
		{
			"long list", json, `{"detail":[` + strings.Repeat(`{"loc":["body","f"],"msg":"m"},`, 9) + `{"loc":[],"msg":"last"}]}`, "",
			"f: m; f: m; f: m; f: m; f: m; …",
		},
		{"a list that repeats a large body", json, `{"detail":[{"loc":["body","decision_type"],"msg":"Field required","input":"` + big + `"}]}`, "", "decision_type: Field required"},
		{"long sentence", json, `{"detail":"` + strings.Repeat("é", 400) + `"}`, "", strings.Repeat("é", 300) + "…"},
		{"long message", json, `{"detail":[{"loc":["body","` + strings.Repeat("n", 50) + `"],"msg":"` + strings.Repeat("m", 200) + `"}]}`, "", strings.Repeat("n", 40) + "…: " + strings.Repeat("m", 120) + "…"},
		{"number", json, `{"detail":7}`, "", ""},
		{"no detail", json, `{"error":"private words"}`, "", ""},
		{"text", "text/plain", `Internal Server Error`, "", ""},
		{"page", html, `<html><body>secret proxy page</body></html>`, "", ""},
		{"cut JSON", json, `{"detail":"Decisi`, "", ""},
		{"empty", json, ``, "", ""},
		{"not an object", json, `["detail"]`, "", ""},
		{"JSON without its type", "text/plain", `{"detail":"d"}`, "", ""},
		{
			"control and bidirectional characters", json,
			`{"detail":{"code":"a\u0000b\u001b[31mc","message":"line one\nline\ttwo\u0085\u2028\u202e evil \u200f\ufeff\ue000 \u0007 end"}}`, "a b [31mc", "line one line two evil end",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			api := refused(t, 418, c.contentType, c.body)
			assert.Equal(t, c.code, api.Code)
			assert.Equal(t, c.detail, api.Detail)
			own := c.contentType == json && strings.HasPrefix(c.body, `{"detail":`) && strings.HasSuffix(c.body, "}")
			assert.Equal(t, own, !api.InFront)
			want := "something in front of LoopGrid answered 418 to GET /ready"
			if own {
				want = "LoopGrid answered 418 to GET /ready"
			}
			if c.code != "" {
				want += ": " + c.code
			}
			if c.detail != "" {
				want += ": " + c.detail
			}
			assert.Equal(t, want, api.Error())
		})
	}
}

// A service or proxy that repeats the key in an error does not bring it into a message, whole or in part.
func TestKeyIsTakenOutOfErrors(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"detail":"bad key ` + serviceKey + `!"}`,
		`{"detail":{"code":"` + serviceKey + `","message":"x ` + serviceKey + `"}}`,
		`{"detail":[{"loc":["header","` + serviceKey + `"],"msg":"m"}]}`,
		`{"detail":[{"loc":["body","a"],"msg":"` + strings.Repeat("m", 100) + serviceKey + `"}]}`,
		`{"detail":"` + strings.Repeat("m", 290) + serviceKey + `"}`,
		`{"detail":"\u006cg ` + strings.Replace(serviceKey, "l", `\u006c`, 1) + `"}`,
	} {
		api := refused(t, 418, "application/json", body)
		assert.NotContains(t, api.Error(), serviceKey[:12], body)
		assert.Contains(t, api.Error(), "[service", body)
	}
	for _, location := range []string{"http://elsewhere.example/?key=" + serviceKey} {
		assert.NotContains(t, refused(t, 307, "text/plain", "", "Location", location).Error(), serviceKey[:12])
	}
}

func TestRetryAfterIsRead(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{
		"0": 0, "1": time.Second, " 59 ": 59 * time.Second, "86400": 24 * time.Hour, "999999999": 24 * time.Hour,
		"-5": 0, "1.5": 0, "soon": 0, "": 0, "Mon, 02 Jan 2006 15:04:05 GMT": 0,
	} {
		assert.Equal(t, want, refused(t, 429, "application/json", `{}`, "Retry-After", header).RetryAfter, header)
	}
	synctest.Test(t, func(t *testing.T) {
		o := options(t, "http://service.example")
		o.Transport = transport(func(r *http.Request) (*http.Response, error) {
			res := jsonResponse(r, `{}`)
			res.StatusCode = http.StatusTooManyRequests
			res.Header.Set("Retry-After", time.Now().Add(90*time.Second).UTC().Format(http.TimeFormat))
			return res, nil
		})
		_, err := loopgrid.New(o).Ready(t.Context())
		var api *loopgrid.APIError
		require.ErrorAs(t, err, &api)
		assert.Equal(t, 90*time.Second, api.RetryAfter)
	})
	// The clock that a date is of is that of the answer.
	there := time.Now().Add(-5 * time.Hour).UTC()
	for after, want := range map[time.Duration]time.Duration{30 * time.Second: 30 * time.Second, -time.Minute: 0, 48 * time.Hour: 24 * time.Hour} {
		api := refused(t, 503, "text/html", "", "Date", there.Format(http.TimeFormat), "Retry-After", there.Add(after).Format(http.TimeFormat))
		assert.Equal(t, want, api.RetryAfter)
	}
}

// What a person reads where there is no answer: host and port that were tried, and nothing of the rest of the address.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	address := func(err error) error {
		return &url.Error{Op: "Get", URL: "http://private.example/?q=" + serviceKey, Err: err}
	}
	dial := func(err error) error { return address(&net.OpError{Op: "dial", Net: "tcp", Err: err}) }
	for name, c := range map[string]struct {
		err  error
		text string
	}{
		"refused":             {dial(syscall.ECONNREFUSED), "LoopGrid is not reachable: the connection was refused: nothing listens at host.example:80"},
		"refused on Windows":  {dial(syscall.Errno(10061)), "LoopGrid is not reachable: the connection was refused: nothing listens at host.example:80"},
		"no such name":        {dial(&net.DNSError{Err: "no such host", Name: "host.example", IsNotFound: true}), "its host name host.example cannot be resolved"},
		"no route":            {dial(syscall.EHOSTUNREACH), "there is no route to host.example:80"},
		"dial timed out":      {dial(timeoutError{}), "the connection timed out: nothing answers at host.example:80"},
		"unknown authority":   {address(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), "its certificate is signed by an unknown authority"},
		"wrong host name":     {address(x509.HostnameError{Certificate: &x509.Certificate{}, Host: "host.example"}), "its certificate is for another host name"},
		"expired":             {address(x509.CertificateInvalidError{Reason: x509.Expired}), "its certificate has expired or is not valid yet"},
		"invalid certificate": {address(x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign}), "its certificate is not valid"},
		"no TLS":              {address(tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}), "it does not speak TLS on this port (http instead of https?)"},
		"http to https":       {errors.New("http: server gave HTTP response to HTTPS client"), "it does not speak TLS on this port (http instead of https?)"},
		"proxy":               {address(&net.OpError{Op: "proxyconnect", Net: "tcp", Err: syscall.EHOSTUNREACH}), "the proxy in between cannot be reached"},
		"something else":      {errors.New("private words " + serviceKey), "the connection to host.example:80 could not be made"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t, "http://host.example/private")
			o.Transport = transport(func(*http.Request) (*http.Response, error) { return nil, c.err })
			_, err := loopgrid.New(o).Health(t.Context())
			var lost *loopgrid.TransportError
			require.ErrorAs(t, err, &lost)
			assert.False(t, lost.Sent())
			require.ErrorIs(t, err, c.err)
			assert.Contains(t, err.Error(), c.text)
			assert.Contains(t, err.Error(), "LoopGrid is not reachable: ")
			assert.NotContains(t, err.Error(), "private")
			assert.NotContains(t, err.Error(), serviceKey)
		})
	}
}

type timeoutError struct{}

func (timeoutError) Error() string   { return "i/o timeout" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

// The same with real sockets.
func TestUnreachableOnTheWire(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // The handshakes are meant to fail.
	secure.StartTLS()
	t.Cleanup(secure.Close)
	for address, text := range map[string]string{
		closed.URL: "the connection was refused",
		strings.Replace(plain.URL, "http:", "https:", 1): "it does not speak TLS on this port",
		secure.URL: "its certificate is signed by an unknown authority",
	} {
		_, err := loopgrid.New(options(t, address)).Health(t.Context())
		var lost *loopgrid.TransportError
		require.ErrorAs(t, err, &lost)
		require.ErrorContains(t, err, text)
		assert.False(t, lost.Sent())
	}
	// A plain request to a TLS port is answered 400 by the server itself.
	_, err := loopgrid.New(options(t, strings.Replace(secure.URL, "https:", "http:", 1))).Health(t.Context())
	var api *loopgrid.APIError
	require.ErrorAs(t, err, &api)
	assert.Equal(t, http.StatusBadRequest, api.Status)
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "not recorded", loopgrid.NotRecorded.String())
	assert.Equal(t, "outcome unknown", loopgrid.Unknown.String())
	cause := errors.New("cause")
	unknown := &loopgrid.WriteError{Outcome: loopgrid.Unknown, Err: cause}
	assert.Equal(t, loopgrid.Unknown, loopgrid.OutcomeOf(fmt.Errorf("record: %w", unknown)))
	require.ErrorIs(t, unknown, cause)
	assert.Equal(t, "cause", unknown.Error())
	assert.Equal(t, loopgrid.NotRecorded, loopgrid.OutcomeOf(cause))
	assert.Equal(t, loopgrid.NotRecorded, loopgrid.OutcomeOf(context.Canceled))
}
