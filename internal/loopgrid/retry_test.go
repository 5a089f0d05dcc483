package loopgrid_test

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/faultproxy"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

// bubble is a client in a synctest bubble, whose service answers every route well and whose network does what it is told to.
type bubble struct {
	*loopgrid.Client

	proxy *faultproxy.Proxy
	began time.Time

	mu     sync.Mutex
	tries  []try // without those for a sign of life
	probes []try
	life   faultproxy.Plan // of those; nil: the service answers at once
}

// alive answers a request for a sign of life.
func (b *bubble) alive(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	b.probes = append(b.probes, try{time.Since(b.began), r.Method, strings.TrimPrefix(r.URL.Path, "/base/api/v1"), r.Header.Clone()})
	b.mu.Unlock()
	return faultproxy.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Request-Id", r.Header.Get("X-Request-Id"))
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"detail":"Decision not found"}`))
	}), b.life).RoundTrip(r)
}

// try is a request as it left the client.
type try struct {
	at     time.Duration // since the bubble began
	method string
	path   string
	header http.Header
}

const budget = 20 * time.Second

func newBubble(t *testing.T, timeout time.Duration, faults ...faultproxy.Fault) *bubble {
	t.Helper()
	b := &bubble{began: time.Now(), life: faultproxy.Script()}
	b.proxy = faultproxy.New(http.HandlerFunc(wellBehaved), faultproxy.Script(faults...))
	o := options(t, "http://service.example/base")
	o.Timeout = timeout
	o.Transport = transport(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/dec_000000000000000000000000") && r.Method == http.MethodGet {
			return b.alive(r)
		}
		b.mu.Lock()
		b.tries = append(b.tries, try{time.Since(b.began), r.Method, strings.TrimPrefix(r.URL.Path, "/base/api/v1"), r.Header.Clone()})
		b.mu.Unlock()
		return b.proxy.RoundTrip(r)
	})
	b.Client = loopgrid.New(o)
	return b
}

// wellBehaved answers each route.
func wellBehaved(w http.ResponseWriter, r *http.Request) {
	answer := createdText
	switch {
	case strings.HasSuffix(r.URL.Path, "/events"):
		answer = eventText
	case strings.HasSuffix(r.URL.Path, "/review"):
		answer = reviewedText
	case strings.HasSuffix(r.URL.Path, "/evaluate"):
		answer = evaluationText
	case r.Method == http.MethodGet:
		answer = recordText
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(answer))
}

// gaps are the times between the tries.
func (b *bubble) gaps() []time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	var gaps []time.Duration
	for i := 1; i < len(b.tries); i++ {
		gaps = append(gaps, b.tries[i].at-b.tries[i-1].at)
	}
	return gaps
}

func (b *bubble) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.tries)
}

// now is the time since the bubble began.
func (b *bubble) now() time.Duration { return time.Since(b.began) }

// kindOfRequest is a column of the table of repeats.
type kindOfRequest struct {
	name    string
	appends bool
	send    func(ctx context.Context, w *loopgrid.Turn) error
}

func read() kindOfRequest {
	return kindOfRequest{"read", false, func(ctx context.Context, w *loopgrid.Turn) error {
		_, err := w.GetDecision(ctx, decisionID)
		return err
	}}
}

func evaluate() kindOfRequest {
	return kindOfRequest{"evaluate", false, func(ctx context.Context, w *loopgrid.Turn) error {
		_, err := w.EvaluatePolicy(ctx, "refund-policy", nil, nil, nil)
		return err
	}}
}

func keyed() kindOfRequest {
	return kindOfRequest{"keyed", true, func(ctx context.Context, w *loopgrid.Turn) error {
		_, _, err := w.AppendEvent(ctx, decisionID, &loopgrid.NewEvent{EventType: "t", IdempotencyKey: "k"})
		return err
	}}
}

func once() kindOfRequest {
	return kindOfRequest{"once", true, func(ctx context.Context, w *loopgrid.Turn) error {
		_, err := w.Review(ctx, decisionID, &loopgrid.Review{Action: "approve"})
		return err
	}}
}

func kinds() []kindOfRequest { return []kindOfRequest{read(), evaluate(), keyed(), once()} }

// send runs a write call of this one request.
func (b *bubble) send(t *testing.T, k kindOfRequest) error {
	t.Helper()
	return writing(t.Context(), b.Client, func(w *loopgrid.Turn) error { return k.send(t.Context(), w) })
}

func html(status int) faultproxy.Fault {
	return faultproxy.Answer(status, "text/html", "<html>No.</html>")
}

// said is an error of LoopGrid's own.
func said(status int) faultproxy.Fault {
	if status == http.StatusInternalServerError {
		return faultproxy.Answer(status, "text/plain; charset=utf-8", "Internal Server Error")
	}
	return faultproxy.Answer(status, "application/json", `{"detail":"no"}`)
}

// gateway is a 503 of something in front that says when to come back.
func gateway(retryAfter string) faultproxy.Fault {
	f := html(http.StatusServiceUnavailable)
	f.Header.Set("Retry-After", retryAfter)
	return f
}

func redirect(status int, location string) faultproxy.Fault {
	f := html(status)
	f.Header.Set("Location", location)
	return f
}

func limited(retryAfter string) faultproxy.Fault {
	f := faultproxy.Answer(http.StatusTooManyRequests, "application/json", `{"detail": "Rate limit exceeded"}`)
	if retryAfter != "" {
		f.Header.Set("Retry-After", retryAfter)
	}
	return f
}

// again repeats a fault.
func again(n int, f faultproxy.Fault) []faultproxy.Fault {
	var all []faultproxy.Fault
	for range n {
		all = append(all, f)
	}
	return all
}

type span struct{ from, to time.Duration }

// backOffs are the spans of the first waits: 0.2 s, doubling, 50 % more or less.
func backOffs() []span {
	const ms = time.Millisecond
	return []span{{100 * ms, 300 * ms}, {200 * ms, 600 * ms}, {400 * ms, 1200 * ms}, {800 * ms, 2400 * ms}, {1600 * ms, 4800 * ms}}
}

// unanswered are those of a write that may still be running.
func unanswered() []span {
	const ms = time.Millisecond
	return []span{{1000 * ms, 1000 * ms}, {1000 * ms, 1000 * ms}, {1000 * ms, 1200 * ms}}
}

func threeTimes(d time.Duration) []span { return []span{{d, d}, {d, d}, {d, d}} }

// equally is three waits of the same length, for every kind of request.
func equally(d time.Duration) map[string][]span {
	three := threeTimes(d)
	return map[string][]span{"read": three, "evaluate": three, "keyed": three, "once": three}
}

// The table of repeats, cell by cell: what is always answered alike is tried so often, with waits in these spans, and leaves this
// outcome of a write that appends.
func TestRepeats(t *testing.T) {
	t.Parallel()
	lost := map[string]faultproxy.Fault{
		"lost before":   {Reply: faultproxy.Dropped, Reach: faultproxy.Withheld},
		"lost after":    {Reply: faultproxy.Dropped},
		"lost within":   {Reply: faultproxy.Truncated},
		"502":           html(502),
		"503":           html(503),
		"504":           html(504),
		"503 with JSON": faultproxy.Answer(503, "application/json", `{"detail":"Not ready: OperationalError"}`),
	}
	lost["408"], lost["499"], lost["520"], lost["599"] = html(408), html(499), html(520), html(599)
	failed := map[string]faultproxy.Fault{"500": said(500)}
	failedInFront := map[string]faultproxy.Fault{"500 page": html(500), "501": html(501), "507": html(507)}
	final := map[string]faultproxy.Fault{"307": redirect(307, "https://other.example/"), "302": redirect(302, "?https")}
	for _, status := range []int{400, 401, 403, 404, 405, 409, 413, 422} {
		final[strconv.Itoa(status)] = said(status)
	}
	for _, status := range []int{400, 401, 404, 405, 407, 411, 413, 414, 425, 431} {
		final[strconv.Itoa(status)+" page"] = html(status)
	}
	unclear := map[string]faultproxy.Fault{"a login": redirect(302, "https://other.example/login"), "303": redirect(303, "/done"), "304": html(304)}
	for _, status := range []int{101, 402, 403, 406, 409, 410, 418, 422, 451} {
		unclear[strconv.Itoa(status)+" page"] = html(status)
	}
	unusable := map[string]faultproxy.Fault{"a page": html(200), "garbage": faultproxy.Answer(200, "application/json", `{"a":`)}

	type cell struct {
		waits   map[string][]span // by kind; the tries are one more
		outcome loopgrid.Outcome
	}
	for _, row := range []struct {
		faults map[string]faultproxy.Fault
		cell   cell
	}{
		{lost, cell{map[string][]span{"read": backOffs()[:3], "evaluate": backOffs()[:3], "keyed": unanswered(), "once": nil}, loopgrid.Unknown}},
		{failed, cell{map[string][]span{"read": backOffs()[:1], "evaluate": nil, "keyed": backOffs()[:1], "once": nil}, loopgrid.Unknown}},
		{failedInFront, cell{map[string][]span{"read": backOffs()[:1], "evaluate": nil, "keyed": unanswered()[:1], "once": nil}, loopgrid.Unknown}},
		{unclear, cell{nil, loopgrid.Unknown}},
		{final, cell{nil, loopgrid.NotRecorded}},
		{unusable, cell{nil, loopgrid.Unknown}},
		{
			map[string]faultproxy.Fault{"429": limited(""), "429 at once": limited("0"), "429 soon": limited("soon")},
			cell{equally(time.Second), loopgrid.NotRecorded},
		},
		{
			map[string]faultproxy.Fault{"503 in 3 s": gateway("3")},
			cell{map[string][]span{"read": threeTimes(3 * time.Second), "evaluate": threeTimes(3 * time.Second), "keyed": threeTimes(3 * time.Second)}, loopgrid.Unknown},
		},
		{map[string]faultproxy.Fault{"503 in a minute": gateway("60")}, cell{nil, loopgrid.Unknown}},
		{map[string]faultproxy.Fault{"429 in 3 s": limited("3")}, cell{equally(4 * time.Second), loopgrid.NotRecorded}},
	} {
		for name, fault := range row.faults {
			for _, kind := range kinds() {
				t.Run(name+" "+kind.name, func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						b := newBubble(t, budget, again(10, fault)...)
						err := b.send(t, kind)
						require.Error(t, err)
						requireSpans(t, row.cell.waits[kind.name], b.gaps())
						requireOutcome(t, kind, row.cell.outcome, err)
					})
				})
			}
		}
	}
}

func requireSpans(t *testing.T, want []span, got []time.Duration) {
	t.Helper()
	require.Len(t, got, len(want), "waits between the tries: %v", got)
	for i, s := range want {
		assert.GreaterOrEqual(t, got[i], s.from, "wait %d", i+1)
		assert.LessOrEqual(t, got[i], s.to, "wait %d", i+1)
	}
}

// requireOutcome checks the outcome of a request that appends; one that appends nothing has recorded nothing.
func requireOutcome(t *testing.T, k kindOfRequest, want loopgrid.Outcome, err error) {
	t.Helper()
	var w *loopgrid.WriteError
	assert.Equal(t, k.name != "read", errors.As(err, &w), "every error of a write has an outcome, and none of a read")
	if !k.appends {
		want = loopgrid.NotRecorded
	}
	assert.Equal(t, want, loopgrid.OutcomeOf(err))
}

// A service that restarts refuses connections for a while.
func TestRefusedIsTriedForThreeSeconds(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds() {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				for range 20 { // The waits are random.
					b := newBubble(t, budget, again(20, faultproxy.Fault{Reply: faultproxy.Refused})...)
					err := b.send(t, kind)
					requireOutcome(t, kind, loopgrid.NotRecorded, err)
					require.ErrorContains(t, err, "the connection was refused")
					var lost *loopgrid.TransportError
					require.ErrorAs(t, err, &lost)
					assert.False(t, lost.Sent())
					assert.LessOrEqual(t, b.now(), 3*time.Second)
					assert.GreaterOrEqual(t, b.count(), 4)
					requireSpans(t, backOffs()[:b.count()-1], b.gaps())
				}
				b := newBubble(t, budget, again(3, faultproxy.Fault{Reply: faultproxy.Refused})...)
				require.NoError(t, b.send(t, kind))
				assert.Equal(t, 4, b.count())
			})
		})
	}
}

// What no repeat mends: names, routes, certificates.
func TestUnreachedIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{
		"name": &net.DNSError{Err: "no such host"}, "certificate": x509.UnknownAuthorityError{}, "route": &net.OpError{Op: "dial", Err: errors.New("no route")},
	} {
		for _, kind := range kinds() {
			t.Run(name+" "+kind.name, func(t *testing.T) {
				t.Parallel()
				tries := 0
				o := options(t, "http://service.example")
				o.Transport = transport(func(*http.Request) (*http.Response, error) { tries++; return nil, cause })
				err := writing(t.Context(), loopgrid.New(o), func(w *loopgrid.Turn) error { return kind.send(t.Context(), w) })
				require.ErrorIs(t, err, cause)
				requireOutcome(t, kind, loopgrid.NotRecorded, err)
				assert.Equal(t, 1, tries)
			})
		}
	}
}

// What several tries come to together. The last answer alone does not decide: a try that was lost may have been recorded.
func TestMixedTries(t *testing.T) {
	t.Parallel()
	const recorded = loopgrid.Outcome(-1)
	drop := faultproxy.Fault{Reply: faultproxy.Dropped, Reach: faultproxy.Withheld}
	refuse := faultproxy.Fault{Reply: faultproxy.Refused}
	server, conflict, silent := said(500), said(409), faultproxy.Fault{Reply: faultproxy.Silent}
	for _, c := range []struct {
		name    string
		faults  []faultproxy.Fault
		tries   int
		outcome loopgrid.Outcome
	}{
		{"lost, then recorded", []faultproxy.Fault{drop}, 2, recorded},
		{"lost thrice, then recorded", again(3, drop), 4, recorded},
		{"lost, then 409", []faultproxy.Fault{drop, conflict}, 2, loopgrid.Unknown},
		{"lost, then 401", []faultproxy.Fault{drop, said(401)}, 2, loopgrid.Unknown},
		{"502, then 404", []faultproxy.Fault{html(502), said(404)}, 2, loopgrid.Unknown},
		{"500, then 409", []faultproxy.Fault{server, conflict}, 2, loopgrid.Unknown},
		{"500, then recorded", []faultproxy.Fault{server}, 2, recorded},
		{"500, lost, then 500", []faultproxy.Fault{server, drop, server}, 3, loopgrid.Unknown},
		{"lost, 500, then recorded", []faultproxy.Fault{drop, server}, 3, recorded},
		{"lost, 500, then 500", []faultproxy.Fault{drop, server, server}, 3, loopgrid.Unknown},
		{"429, then 409", []faultproxy.Fault{limited("1"), conflict}, 2, loopgrid.NotRecorded},
		{"429, lost, then recorded", []faultproxy.Fault{limited("1"), drop}, 3, recorded},
		{"lost, 429, 429, 429", []faultproxy.Fault{drop, limited(""), limited(""), limited("")}, 4, loopgrid.Unknown},
		{"refused, then 422", []faultproxy.Fault{refuse, said(422)}, 2, loopgrid.NotRecorded},
		{"refused, then recorded", []faultproxy.Fault{refuse, refuse}, 3, recorded},
		{"lost, refused, then recorded", []faultproxy.Fault{drop, refuse}, 3, recorded},
		{"lost late by a service that restarts", []faultproxy.Fault{{Delay: 9 * time.Second, Reply: faultproxy.Dropped}, refuse, refuse}, 4, recorded},
		{"lost, then silence", []faultproxy.Fault{drop, silent}, 2, loopgrid.Unknown},
		{"429, then silence", []faultproxy.Fault{limited(""), silent}, 2, loopgrid.Unknown},
		{"503, then a page", []faultproxy.Fault{html(503), html(200)}, 2, loopgrid.Unknown},
		{"silence", []faultproxy.Fault{silent}, 1, loopgrid.Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, budget, c.faults...)
				err := b.send(t, keyed())
				assert.Equal(t, c.tries, b.count())
				if c.outcome == recorded {
					require.NoError(t, err)
				} else {
					require.Error(t, err)
					assert.Equal(t, c.outcome, loopgrid.OutcomeOf(err))
				}
			})
		})
	}
}

// A request with its repeats takes no longer than the time-out, and a repeat that no longer fits is not waited for.
func TestTimeOfOneRequest(t *testing.T) {
	t.Parallel()
	const s = time.Second
	delayed := func(f faultproxy.Fault, d time.Duration) faultproxy.Fault { f.Delay = d; return f }
	drop := faultproxy.Fault{Reply: faultproxy.Dropped}
	for _, c := range []struct {
		name   string
		faults []faultproxy.Fault
		tries  int
		ends   time.Duration
		text   string
	}{
		{"silence", []faultproxy.Fault{{Reply: faultproxy.Silent}}, 1, 20 * s, "did not answer POST /api/v1/decisions/{id}/events in time"},
		{"too slow", []faultproxy.Fault{{Delay: 21 * s}}, 1, 20 * s, "in time"},
		{"slow enough", []faultproxy.Fault{{Delay: 19 * s}}, 1, 19 * s, ""},
		{"lost late", []faultproxy.Fault{delayed(drop, 19*s+1)}, 1, 19*s + 1, "the connection to LoopGrid ended"},
		{"lost just in time", []faultproxy.Fault{delayed(drop, 19*s-1)}, 2, 20*s - 1, ""},
		{"lost, then slow", []faultproxy.Fault{drop, {Delay: 30 * s}}, 2, 20 * s, "in time"},
		{"429 that fits", []faultproxy.Fault{limited("18")}, 2, 19 * s, ""},
		{"429 that does not fit", []faultproxy.Fault{limited("19")}, 1, 0, "429"},
		{"429 for long", []faultproxy.Fault{limited("60")}, 1, 0, "429"},
		{"429 that fits once", []faultproxy.Fault{limited("15"), limited("15")}, 2, 16 * s, "429"},
		{"429 until a date", []faultproxy.Fault{limited(time.Date(2000, 1, 1, 0, 0, 5, 0, time.UTC).Format(http.TimeFormat))}, 2, 6 * s, ""},
		{"429 until a date too late", []faultproxy.Fault{limited(time.Date(2000, 1, 1, 0, 1, 0, 0, time.UTC).Format(http.TimeFormat))}, 1, 0, "429"},
		{"refused with little time", []faultproxy.Fault{{Delay: 19*s + 950*time.Millisecond, Reply: faultproxy.Refused}}, 1, 19*s + 950*time.Millisecond, "refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // A bubble begins at midnight UTC 2000-01-01.
				b := newBubble(t, budget, c.faults...)
				err := b.send(t, keyed())
				assert.Equal(t, c.ends, b.now())
				assert.Equal(t, c.tries, b.count())
				if c.text == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, c.text)
				}
				b.proxy.Wait()
			})
		})
	}
}

// Every try of a request carries the same id, key and body; only the service's answers differ.
func TestRepeatsAreEqual(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, budget, again(3, faultproxy.Fault{Reply: faultproxy.Dropped})...)
		ctx := loopgrid.WithRequestID(t.Context(), "lgm_7")
		require.NoError(t, writing(ctx, b.Client, func(w *loopgrid.Turn) error { return keyed().send(ctx, w) }))
		require.Len(t, b.tries, 4)
		for _, try := range b.tries {
			assert.Equal(t, b.tries[0].header, try.header)
			assert.Equal(t, "lgm_7", try.header.Get("X-Request-Id"))
		}
	})
}

// A read ends as soon as nobody waits for it, in flight or between two tries.
func TestReadsAreCancelled(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]faultproxy.Fault{"in flight": {Reply: faultproxy.Silent}, "between tries": limited("10")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, budget, fault)
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(3*time.Second, cancel)
				_, err := b.GetDecision(ctx, decisionID)
				require.Error(t, err)
				assert.Equal(t, 3*time.Second, b.now())
				assert.Equal(t, 1, b.count())
			})
		})
	}
}

// Probes of the service are sent once: who asks whether it runs wants to know about now.
func TestProbesAreSentOnce(t *testing.T) {
	t.Parallel()
	for _, fault := range []faultproxy.Fault{html(503), said(500), limited("1"), {Reply: faultproxy.Refused}, {Reply: faultproxy.Dropped}, {Reply: faultproxy.Silent}} {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t, budget, again(5, fault)...)
			_, err := b.Health(t.Context())
			require.Error(t, err)
			_, err = b.Ready(t.Context())
			require.Error(t, err)
			assert.Equal(t, 2, b.count())
			assert.LessOrEqual(t, b.now(), 2*budget)
		})
	}
}
