package sandbox_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
)

// TestLocal sends what a browser sends for a page of somebody else, and what programs on this machine send.
func TestLocal(t *testing.T) {
	t.Parallel()
	const answered, refused = http.StatusOK, http.StatusForbidden
	for _, x := range []struct {
		listen, host, origin string
		want                 int
	}{
		{"127.0.0.1:8000", "127.0.0.1:8000", "", answered},
		{"127.0.0.1:8000", "localhost:8000", "", answered},
		{"127.0.0.1:8000", "LOCALHOST.:8000", "", answered},
		{"127.0.0.1:8000", "app.localhost", "", answered},
		{"127.0.0.1:8000", "127.9.9.9:1", "", answered},
		{"127.0.0.1:8000", "[::1]:8000", "", answered},
		{"127.0.0.1:8000", "[::ffff:127.0.0.1]:8000", "", answered},
		{"sandbox.lan:8000", "Sandbox.LAN:8000", "", answered},
		{"192.168.1.5:8000", "192.168.1.5:8000", "", answered},
		{"0.0.0.0:8000", "192.168.1.5:8000", "", answered},
		{"[::]:8000", "[fe80::1]:8000", "", answered},
		{":8000", "10.0.0.1", "", answered},
		{"127.0.0.1:8000", "evil.example", "", refused},
		{"127.0.0.1:8000", "evil.example:8000", "", refused},
		{"127.0.0.1:8000", "127.0.0.1.evil.example:8000", "", refused},
		{"127.0.0.1:8000", "localhost.evil.example", "", refused},
		{"127.0.0.1:8000", "evillocalhost", "", refused},
		{"127.0.0.1:8000", "192.168.1.5:8000", "", refused},
		{"127.0.0.1:8000", "0.0.0.0:8000", "", answered},
		{"127.0.0.1:8000", "", "", refused},
		{"0.0.0.0:8000", "evil.example:8000", "", refused},
		{":8000", "evil.example:8000", "", refused},
		{":8000", "", "", refused},

		{"127.0.0.1:8000", "127.0.0.1:8000", "http://127.0.0.1:8000", answered},
		{"127.0.0.1:8000", "localhost:8000", "http://localhost:8000", answered},
		{"127.0.0.1:8000", "127.0.0.1:8000", "https://evil.example", refused},
		{"127.0.0.1:8000", "127.0.0.1:8000", "http://localhost:8000", refused},
		{"127.0.0.1:8000", "127.0.0.1:8000", "http://127.0.0.1:3000", refused},
		{"127.0.0.1:8000", "127.0.0.1:8000", "null", refused},
		{"127.0.0.1:8000", "127.0.0.1:8000", " ", refused},
		{"127.0.0.1:8000", "evil.example", "http://evil.example", refused},
	} {
		s := sandbox.New(sandbox.Options{})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/workspaces/default/keys", strings.NewReader(`{"scopes":["admin"]}`))
		r.Host = x.host
		r.Header.Set("Content-Type", "application/json")
		if x.origin != "" {
			r.Header.Set("Origin", strings.TrimSpace(x.origin))
		}
		w := httptest.NewRecorder()
		s.Local(x.listen).ServeHTTP(w, r)
		assert.Equal(t, x.want, w.Code, "%+v: %s", x, w.Body)
		assert.Equal(t, "1", w.Header().Get(sandbox.Header))
		if x.want == refused {
			assert.Regexp(t, `^\{"detail":"The sandbox .+"\}$`, w.Body.String())
			assert.NotContains(t, w.Body.String(), "lg_live_")
		}
	}
}

// TestLocalByNameAndAddress listens on a name: the address behind it is as good.
func TestLocalByNameAndAddress(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]int{"box.lan:8000": 200, "192.168.1.5:8000": 200, "192.168.1.6:8000": 403, "other.lan:8000": 403} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/health", nil)
		r.Host = host
		w := httptest.NewRecorder()
		sandbox.New(sandbox.Options{}).Local("box.lan:8000", "192.168.1.5:8000").ServeHTTP(w, r)
		assert.Equal(t, want, w.Code, host)
	}
}

// slowReader is a client that reads its answer when it may.
type slowReader struct {
	*httptest.ResponseRecorder

	reading, may chan struct{}
}

func (w *slowReader) Write(p []byte) (int, error) {
	close(w.reading)
	<-w.may
	return w.ResponseRecorder.Write(p)
}

// TestAnswersAreBoundedInSum lets a client ask for more than the bound and not read it.
func TestAnswersAreBoundedInSum(t *testing.T) {
	t.Parallel()
	s := sandbox.New(sandbox.Options{Limits: sandbox.Limits{AnswersBytes: 1000}})
	r := func() *http.Request { return httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil) }
	slow := &slowReader{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(func() { s.ServeHTTP(slow, r()) })
	<-slow.reading
	quick := httptest.NewRecorder()
	s.ServeHTTP(quick, r())
	assert.Equal(t, http.StatusServiceUnavailable, quick.Code)
	close(slow.may)
	wg.Wait()
	assert.Equal(t, http.StatusOK, slow.Code, "one answer may be longer than the bound")
	quick = httptest.NewRecorder()
	s.ServeHTTP(quick, r())
	assert.Equal(t, http.StatusOK, quick.Code)
}

// TestBodiesAreBoundedInSum sends many bodies that do not end.
func TestBodiesAreBoundedInSum(t *testing.T) {
	t.Parallel()
	s := sandbox.New(sandbox.Options{Limits: sandbox.Limits{BodiesBytes: 100_000}})
	send := func(body io.Reader) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/decisions", body)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	const small = `{"decision_type":"t"}`
	var wg sync.WaitGroup
	var open []*io.PipeWriter
	for range 2 {
		body, end := io.Pipe()
		open = append(open, end)
		wg.Go(func() { assert.Equal(t, http.StatusOK, send(body).Code) })
		_, err := io.WriteString(end, `{"decision_type":"t","input":{"x":"`+strings.Repeat("a", 49_900))
		require.NoError(t, err)
	}
	for s.Held() < 99_000 { // What was written has been read, but the last of it need not have been counted yet.
		runtime.Gosched()
	}
	w := send(strings.NewReader(`{"decision_type":"t","input":{"x":"` + strings.Repeat("a", 5_000) + `"}}`))
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	assert.Equal(t, "1", w.Header().Get("Retry-After"))
	assert.Contains(t, w.Body.String(), "Try again in a second.")
	for _, end := range open {
		_, err := io.WriteString(end, `"}}`)
		require.NoError(t, err)
		require.NoError(t, end.Close())
	}
	wg.Wait()
	assert.Zero(t, s.Held())
	assert.Equal(t, http.StatusOK, send(strings.NewReader(small)).Code)
	assert.Equal(t, 3, len(s.Events(""))) //nolint:testifylint // Len would print them.
}
