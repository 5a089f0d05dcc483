package faultproxy_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/faultproxy"
)

const (
	question = `{"n":1}`
	answer   = `{"answer":"forty-two"}`
	workTime = 100 * time.Millisecond
)

// service counts the requests that it got and the ones that it has handled.
type service struct{ begun, done atomic.Int32 }

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.begun.Add(1)
	body, err := io.ReadAll(r.Body)
	if err != nil || string(body) != question || r.URL.Path != "/base/x" || r.Header.Get("X-Name") != "value" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	time.Sleep(workTime)
	s.done.Add(1)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, answer)
}

func ask(ctx context.Context, t *testing.T, base string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/base/x?y=1", strings.NewReader(question))
	require.NoError(t, err)
	r.Header.Set("X-Name", "value")
	return r
}

// fate is one fault and what comes of it. The times are those of the client and of the service's last work.
type fate struct {
	name      string
	fault     faultproxy.Fault
	status    int    // 0: no answer
	body      string // as far as it came
	whole     bool   // the body ended by itself
	err       error  // where there is no answer
	connected bool
	handled   int32
	took      time.Duration // until the client got its reply
	ended     time.Duration // until the service was done
}

const givesUp = 10 * time.Second

func fates() []fate {
	const s = 3 * workTime
	html := faultproxy.Answer(502, "text/html", "<html>")
	late := html
	late.Reach, late.Lag = faultproxy.Lagging, s
	behind := html
	behind.Reach = faultproxy.Served
	return []fate{
		{name: "none", status: 201, body: answer, whole: true, connected: true, handled: 1, took: workTime, ended: workTime},
		{
			name: "delayed", fault: faultproxy.Fault{Delay: s}, status: 201, body: answer, whole: true, connected: true, handled: 1,
			took: s + workTime, ended: s + workTime,
		},
		{name: "refused", fault: faultproxy.Fault{Reply: faultproxy.Refused}, err: syscall.ECONNREFUSED},
		{
			name: "dropped before", fault: faultproxy.Fault{Reply: faultproxy.Dropped, Reach: faultproxy.Withheld, Delay: s}, err: io.EOF, connected: true,
			took: s, ended: s,
		},
		{name: "dropped after", fault: faultproxy.Fault{Reply: faultproxy.Dropped}, err: io.EOF, connected: true, handled: 1, took: workTime, ended: workTime},
		{
			name: "dropped while at work", fault: faultproxy.Fault{Reply: faultproxy.Dropped, Reach: faultproxy.Lagging, Lag: s}, err: io.EOF, connected: true,
			handled: 1, ended: s + workTime,
		},
		{name: "withheld", fault: faultproxy.Fault{Reach: faultproxy.Withheld}, err: io.EOF, connected: true},
		{
			name: "truncated", fault: faultproxy.Fault{Reply: faultproxy.Truncated}, status: 201, body: answer[:len(answer)/2], connected: true, handled: 1,
			took: workTime, ended: workTime,
		},
		{
			name: "silent", fault: faultproxy.Fault{Reply: faultproxy.Silent}, err: context.DeadlineExceeded, connected: true, handled: 1,
			took: givesUp, ended: givesUp,
		},
		{
			name: "silent and late", fault: faultproxy.Fault{Reply: faultproxy.Silent, Reach: faultproxy.Lagging, Lag: s}, err: context.DeadlineExceeded,
			connected: true, handled: 1, took: givesUp, ended: givesUp + s + workTime,
		},
		{name: "replaced before", fault: html, status: 502, body: "<html>", whole: true, connected: true},
		{name: "replaced after", fault: behind, status: 502, body: "<html>", whole: true, connected: true, handled: 1, took: workTime, ended: workTime},
		{name: "replaced while at work", fault: late, status: 502, body: "<html>", whole: true, connected: true, handled: 1, ended: s + workTime},
		{
			name: "too slow", fault: faultproxy.Fault{Delay: givesUp + s}, err: context.DeadlineExceeded, connected: true, took: givesUp, ended: givesUp,
		},
	}
}

func TestInMemory(t *testing.T) {
	t.Parallel()
	for _, f := range fates() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &service{}
				p := faultproxy.New(s, faultproxy.Script(f.fault))
				ctx, cancel := context.WithTimeout(t.Context(), givesUp)
				defer cancel()
				connected := false
				ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected = true }})
				began := time.Now()
				res, err := p.RoundTrip(ask(ctx, t, "http://service.example"))
				assert.Equal(t, f.took, time.Since(began))
				p.Wait()
				assert.Equal(t, f.ended, time.Since(began))
				assert.Equal(t, f.connected, connected)
				assert.Equal(t, f.handled, s.done.Load())
				if f.status == 0 {
					require.ErrorIs(t, err, f.err)
					return
				}
				require.NoError(t, err)
				requireAnswer(t, f, res)

				res, err = p.RoundTrip(ask(t.Context(), t, "http://service.example"))
				require.NoError(t, err)
				assert.Equal(t, http.StatusCreated, res.StatusCode, "the script is over")
				require.NoError(t, res.Body.Close())
			})
		})
	}
}

func requireAnswer(t *testing.T, f fate, res *http.Response) {
	t.Helper()
	assert.Equal(t, f.status, res.StatusCode)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, res.Body.Close())
	assert.Equal(t, f.body, string(body))
	if f.whole {
		require.NoError(t, err)
	} else {
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	}
}

// Over TCP the same is seen; only a refusal is a connection that ends.
func TestOverTCP(t *testing.T) {
	t.Parallel()
	for _, f := range fates() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			s := &service{}
			p := faultproxy.New(s, faultproxy.Script(f.fault))
			server := httptest.NewServer(p)
			defer server.Close()
			timeout := givesUp
			if errors.Is(f.err, context.DeadlineExceeded) {
				timeout = 5 * workTime
			}
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			res, err := server.Client().Do(ask(ctx, t, server.URL))
			if f.status != 0 {
				require.NoError(t, err)
				requireAnswer(t, f, res)
			} else {
				require.Error(t, err)
			}
			server.Close() // It waits for its requests: none is added to the work after it.
			p.Wait()
			assert.Equal(t, f.handled, s.done.Load())
		})
	}
}

func TestServiceThatAborts(t *testing.T) {
	t.Parallel()
	p := faultproxy.New(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), faultproxy.Script())
	res, err := p.RoundTrip(ask(t.Context(), t, "http://service.example")) //nolint:bodyclose // There is none.
	require.ErrorIs(t, err, io.EOF)
	require.Nil(t, res)
}

func TestClientThatGivesUpWhileTheServiceWorks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &service{}
		p := faultproxy.New(s, faultproxy.Script())
		ctx, cancel := context.WithTimeout(t.Context(), workTime/2)
		defer cancel()
		_, err := p.RoundTrip(ask(ctx, t, "http://service.example")) //nolint:bodyclose // There is none.
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, s.done.Load())
		p.Wait()
		require.EqualValues(t, 1, s.done.Load())
	})
}

func TestRandomIsRepeatable(t *testing.T) {
	t.Parallel()
	get := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	post := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody)
	draw := func(seed uint64, share float64, reads bool) (texts []string, faults int) {
		plan := faultproxy.Random(seed, share)
		for range 2000 {
			if reads {
				plan(get)
			}
			f := plan(post)
			texts = append(texts, f.String())
			if f.Reach != faultproxy.Served || f.Reply != faultproxy.Relayed || f.Delay != 0 {
				faults++
			}
		}
		return texts, faults
	}
	one, faults := draw(1, 0.25, false)
	again, _ := draw(1, 0.25, true)
	assert.Equal(t, one, again, "reads change nothing for writes")
	assert.InDelta(t, 500, faults, 100)
	other, _ := draw(2, 0.25, false)
	assert.NotEqual(t, one, other)
	_, none := draw(1, 0, false)
	assert.Zero(t, none)

	all := strings.Join(one, "\n")
	for _, kind := range []string{
		"refused", "served, dropped", "lagging", "withheld, dropped", "served, truncated", "withheld, silent", "served, silent",
		"served, relayed after", "answered 429", "served, answered 500", "withheld, answered 500", "answered 502", "answered 503",
		"answered 504", "served, answered 200", "withheld, answered 200",
	} {
		assert.Contains(t, all, kind)
	}
	for _, never := range []string{", answered 500", ", answered 200"} {
		for _, text := range one {
			if strings.HasPrefix(text, "lagging") {
				assert.NotContains(t, text, never)
			}
		}
	}
}
