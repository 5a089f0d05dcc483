package loopgrid

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// crowd is a service that counts how many requests it has at once, and answers each after a second.
type crowd struct {
	mu        sync.Mutex
	now, most int
	posts     int
	answer    string
}

func (s *crowd) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.now++
	s.most = max(s.most, s.now)
	if req.Method == http.MethodPost {
		s.posts++
	}
	s.mu.Unlock()
	select {
	case <-time.After(time.Second):
	case <-req.Context().Done():
	}
	s.mu.Lock()
	s.now--
	s.mu.Unlock()
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {jsonType}}, Body: io.NopCloser(strings.NewReader(s.answer)),
		ContentLength: int64(len(s.answer)), Request: req,
	}, nil
}

func crowded(s *crowd) *Client {
	return New(Options{BaseURL: &url.URL{Scheme: "http", Host: "loopgrid.example"}, Workspace: "default", Timeout: 20 * time.Second, Transport: s, WriteLock: LockOn})
}

func TestReadsAtTheServiceAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &crowd{answer: `{"valid":true}`}
		c := crowded(s)
		var all sync.WaitGroup
		var ok, busy int
		var mu sync.Mutex
		for range 700 { // 16 a second: the last of those that are answered waited for a time-out
			all.Go(func() {
				_, err := c.Verify(t.Context(), "dec_1")
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					ok++
				} else if assert.ErrorIs(t, err, ErrBusy) {
					busy++
				}
			})
		}
		began := time.Now()
		all.Wait()
		assert.Equal(t, maxReads, s.most)
		assert.Equal(t, 700, ok+busy)
		assert.InDelta(t, 16*20, ok, 16, "whoever had a place within the time-out is answered")
		assert.LessOrEqual(t, time.Since(began), 2*c.o.Timeout)
	})
}

// Reads that fill their lane do not keep a call from writing.
func TestReadsDoNotStarveWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &crowd{answer: `{"valid":true}`}
		c := crowded(s)
		var reads sync.WaitGroup
		for range 200 {
			reads.Go(func() { _, _ = c.Verify(t.Context(), "dec_1") })
		}
		synctest.Wait()
		began := time.Now()
		turn := c.NewTurn()
		require.NoError(t, turn.Begin(t.Context(), Subject{}))
		_, err := turn.GetDecision(t.Context(), "dec_1")
		_ = err // the answer is not a decision
		assert.Equal(t, time.Second, time.Since(began), "the read of a call that holds the lock")
		began = time.Now()
		_, _ = turn.EvaluatePolicy(t.Context(), "p", nil, nil, nil)
		assert.Equal(t, 1, s.posts)
		assert.Equal(t, time.Second, time.Since(began))
		turn.End()
		reads.Wait()
	})
}

func TestACallThatIsCancelledLeavesTheQueueForAPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := crowded(&crowd{answer: `{"valid":true}`})
		for range maxReads {
			go func() { _, _ = c.Verify(t.Context(), "dec_1") }()
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := c.Verify(ctx, "dec_1")
		var e *TransportError
		require.ErrorAs(t, err, &e)
		assert.False(t, e.Sent())
		time.Sleep(2 * time.Second)
		_, err = c.Verify(t.Context(), "dec_1")
		require.NoError(t, err, "every place was given back")
	})
}

// Each lane gets half of the descriptors that are not reserved.
func TestLanesFitTheDescriptors(t *testing.T) {
	t.Parallel()
	for limit, each := range map[int]int{0: 1, 20: 1, 30: 3, 56: 16, 1 << 20: 16} {
		l := newLanes(limit)
		assert.Equal(t, each, cap(l.reads), limit)
		assert.Equal(t, each, cap(l.writes), limit)
	}
}

func TestAVerificationIsCutWhileItIsRead(t *testing.T) {
	t.Parallel()
	var failures []string
	for i := range 1000 {
		failures = append(failures, fmt.Sprintf(`{"event_id": "evt_%d", "reasons": ["content_hash_mismatch"]}`, i))
	}
	s := &crowd{answer: ` { "valid" : false, "total_ledger_events": 1e3, "failures": [` + strings.Join(failures, ",") + `], "key_id": "caf\u00e9" } `}
	c := New(Options{BaseURL: &url.URL{Scheme: "http", Host: "loopgrid.example"}, Workspace: "default", Timeout: 20 * time.Second, Transport: s})
	v, err := c.Verify(t.Context(), "dec_1")
	require.NoError(t, err)
	assert.Equal(t, `{"valid":false,"total_ledger_events":1e3,"failures":[`+strings.Join(failures[:20], ",")+`],"key_id":"caf\u00e9"}`, string(v.Raw))
	assert.Equal(t, 980, v.FailuresOmitted)
	_, all := v.FirstFailure()
	assert.Equal(t, 1000, all)
}

// Whatever keeps a request from being sent, its place is for others again: sixteen lost places would stop all writes for good.
func TestAPlaceIsGivenBackWhateverHappens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, run := range map[string]func(*Client) error{
			"not allowed": func(c *Client) error {
				r := post("/r", "/r", keyed)
				r.beforeTry = func(context.Context) error { return context.DeadlineExceeded }
				return c.doJSON(t.Context(), r, func(answer) string { return "" })
			},
			"unusable": func(c *Client) error {
				return c.doJSON(t.Context(), post("/r", "/r", once), func(answer) string { return "of something else" })
			},
			"a panic": func(c *Client) (err error) {
				defer func() { err, _ = recover().(error) }()
				return c.doJSON(t.Context(), post("/r", "/r", once), func(answer) string { panic(io.ErrUnexpectedEOF) })
			},
		} {
			c := crowded(&crowd{answer: `{}`})
			require.Error(t, run(c), name)
			assert.Empty(t, c.lanes.writes, name)
		}
	})
}

// refusal answers 401 as LoopGrid does.
type refusal struct{}

func (refusal) RoundTrip(req *http.Request) (*http.Response, error) {
	const body = `{"detail":"Invalid, revoked, or insufficient LoopGrid API key (ingest scope required)"}`
	return &http.Response{
		StatusCode: http.StatusUnauthorized, Header: http.Header{"Content-Type": {jsonType}}, Body: io.NopCloser(strings.NewReader(body)), Request: req,
	}, nil
}

// A request that would be repeated with a new key and gets no place ends as what it was answered.
func TestNoPlaceForTheRequestWithANewKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c *Client
		c = New(Options{
			BaseURL: &url.URL{Scheme: "http", Host: "loopgrid.example"}, Workspace: "default", Timeout: 20 * time.Second, Transport: refusal{}, ServiceKey: "old",
			RereadKey: func() (string, error) {
				for len(c.lanes.writes) < cap(c.lanes.writes) {
					c.lanes.writes <- struct{}{} // other calls
				}
				return "new", nil
			},
		})
		err := c.doJSON(t.Context(), post("/r", "/r", keyed), func(answer) string { return "" })
		var refused *APIError
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, http.StatusUnauthorized, refused.Status)
		assert.Equal(t, NotRecorded, OutcomeOf(err))
	})
}
