package sandbox_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
)

// together sends some creates at once and returns how many were answered 200.
func together(c *client, bodies ...string) (ok int) {
	var wg sync.WaitGroup
	statuses := make([]int, len(bodies))
	for i, body := range bodies {
		wg.Go(func() { statuses[i], _, _, _ = c.send(http.MethodPost, "/api/v1/decisions", body) })
	}
	wg.Wait()
	for _, status := range statuses {
		if status == http.StatusOK {
			ok++
		}
	}
	return ok
}

func TestForkChain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, sandbox.Options{Faults: sandbox.Faults{ForkChain: true, WriteTime: 50 * time.Millisecond}})
		first := c.create(`{"decision_type":"first"}`)
		assert.True(t, c.server.Verify("default"))

		assert.Equal(t, 2, together(c, `{"decision_type":"a"}`, `{"decision_type":"b"}`), "both are answered 200")
		events := c.server.Events("default")
		require.Len(t, events, 3)
		assert.Equal(t, events[0].ChainHash, events[1].PreviousChainHash)
		assert.Equal(t, events[0].ChainHash, events[2].PreviousChainHash)
		_, body := c.get("/api/v1/decisions/" + first + "/verify")
		assert.Contains(t, body, `"failures":[{"seq":3,"event_id":"`+events[2].EventID+`","decision_id":"`+events[2].DecisionID+
			`","reasons":["previous_chain_hash_mismatch","chain_hash_mismatch"]}]`)
		assert.Equal(t, sandbox.Stats{Writes: 3, Overlaps: 1, Scans: 1}, c.server.Stats())

		// For good: later evidence does not mend it.
		c.create(`{"decision_type":"c"}`)
		assert.False(t, c.server.Verify("default"))
	})
}

func TestForkChainNeedsAnOverlapInOneWorkspace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, sandbox.Options{Faults: sandbox.Faults{ForkChain: true, WriteTime: 50 * time.Millisecond}})
		c.create(`{"decision_type":"a"}`)
		c.create(`{"decision_type":"b"}`)
		assert.Equal(t, 2, together(c, `{"decision_type":"c"}`, `{"decision_type":"d","workspace_id":"other"}`))
		assert.Zero(t, c.server.Stats().Overlaps)
		assert.True(t, c.server.Verify("default"))
		assert.True(t, c.server.Verify("other"))
	})
}

// TestForkChainOnReviews lets two people review at once: LoopGrid takes both.
func TestForkChainOnReviews(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, sandbox.Options{Faults: sandbox.Faults{ForkChain: true, WriteTime: 50 * time.Millisecond}})
		id := c.create(`{"decision_type":"t"}`)
		_, _ = c.post("/api/v1/decisions/"+id+"/events", `{"event_type":"policy_evaluated","payload":{"decision":"human_approval_required"}}`)
		var wg sync.WaitGroup
		for _, action := range []string{"approve", "reject"} {
			wg.Go(func() {
				status, _ := c.post("/api/v1/decisions/"+id+"/review", `{"action":"`+action+`","reviewer":"a"}`)
				assert.Equal(t, http.StatusOK, status)
			})
		}
		wg.Wait()
		assert.False(t, c.server.Verify("default"))
	})
}

func TestWritesTakeTurnsWithoutForkChain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, sandbox.Options{Faults: sandbox.Faults{WriteTime: 50 * time.Millisecond}})
		start := time.Now()
		assert.Equal(t, 4, together(c, `{"decision_type":"a"}`, `{"decision_type":"b"}`, `{"decision_type":"c"}`, `{"decision_type":"d"}`))
		assert.Equal(t, 200*time.Millisecond, time.Since(start), "one after the other")
		assert.Equal(t, 3, c.server.Stats().Overlaps, "the client should not have sent them at once")
		assert.True(t, c.server.Verify("default"))
	})
}

// TestSameKeyAtOnce creates with one key twice at once. With turns the second is a replay; without, the database refuses it.
func TestSameKeyAtOnce(t *testing.T) {
	t.Parallel()
	const body = `{"decision_type":"t","idempotency_key":"k"}`
	for name, x := range map[string]struct {
		faults sandbox.Faults
		ok     int
	}{
		"turns":              {sandbox.Faults{}, 2},
		"overlap":            {sandbox.Faults{ForkChain: true}, 1},
		"overlap, a phantom": {sandbox.Faults{ForkChain: true, PhantomIDs: true}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				x.faults.WriteTime = 50 * time.Millisecond
				c := newClient(t, sandbox.Options{Faults: x.faults})
				assert.Equal(t, x.ok, together(c, body, body))
				assert.Len(t, c.server.Events("default"), 1)
				assert.True(t, c.server.Verify("default"))
			})
		})
	}
}

func TestPhantomIDs(t *testing.T) {
	t.Parallel()
	c := newClient(t, sandbox.Options{Faults: sandbox.Faults{PhantomIDs: true}})
	id := c.create(`{"decision_type":"t","idempotency_key":"k"}`)
	_, body := c.post("/api/v1/decisions", `{"decision_type":"t","idempotency_key":"k"}`)
	phantom := decisionID(t, body)
	assert.NotEqual(t, id, phantom)
	assert.Contains(t, body, `"event":{"event_id":"`+c.server.Events("default")[0].EventID+`","decision_id":"`+id+`"`)
	assert.Contains(t, body, `"idempotent_replay":null}`)
	status, _ := c.get("/api/v1/decisions/" + phantom)
	assert.Equal(t, http.StatusNotFound, status)
	status, _ = c.get("/api/v1/decisions/" + id)
	assert.Equal(t, http.StatusOK, status)
}

func TestScanTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, sandbox.Options{Faults: sandbox.Faults{ScanTime: time.Millisecond}})
		id := c.create(`{"decision_type":"t"}`)
		for range 9 {
			c.create(`{"decision_type":"t"}`)
		}
		c.create(`{"decision_type":"t","workspace_id":"other"}`)
		for i, path := range []string{"", "/verify", "/evidence?include_payloads=false"} {
			start := time.Now()
			status, _ := c.get("/api/v1/decisions/" + id + path)
			assert.Equal(t, http.StatusOK, status)
			assert.Equal(t, 10*time.Millisecond, time.Since(start), path)
			assert.Equal(t, i+1, c.server.Stats().Scans, path)
		}
		start := time.Now()
		for _, path := range []string{"/api/v1/decisions", "/api/v1/reviews", "/health", "/ready"} {
			_, _ = c.get(path)
		}
		assert.Zero(t, time.Since(start), "nothing else scans")
	})
}

func TestDropAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dropped []sandbox.Write
		c := newClient(t, sandbox.Options{Faults: sandbox.Faults{ForkChain: true, DropAnswer: func(w sandbox.Write) bool {
			if w.Number != 2 {
				return false
			}
			dropped = append(dropped, w)
			return true
		}}})
		id := c.create(`{"decision_type":"t"}`)
		start := time.Now()
		const body = `{"event_type":"model_completed","idempotency_key":"k"}`
		_, _, _, err := c.send(http.MethodPost, "/api/v1/decisions/"+id+"/events", body)
		require.ErrorIs(t, err, io.EOF)
		assert.Zero(t, time.Since(start), "the connection is closed at once")
		assert.Equal(t, []sandbox.Write{{
			Number: 2, Method: http.MethodPost, Path: "/api/v1/decisions/" + id + "/events", DecisionID: id, EventType: "model_completed",
			IdempotencyKey: "k",
		}}, dropped)

		time.Sleep(199 * time.Millisecond)
		assert.Len(t, c.server.Events("default"), 1, "the write goes on")
		c.create(`{"decision_type":"too early"}`)
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		assert.Len(t, c.server.Events("default"), 3)
		assert.Equal(t, 1, c.server.Stats().Overlaps)
		assert.False(t, c.server.Verify("default"), "a write during an unanswered one breaks the chain")

		status, _ := c.post("/api/v1/decisions/"+id+"/events", body)
		assert.Equal(t, http.StatusOK, status)
		assert.Len(t, c.server.Events("default"), 3, "the repeat is answered with the event of the lost one")
	})
}

// TestDropAnswerOverTCP shows a real client's view of a dropped answer.
func TestDropAnswerOverTCP(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(sandbox.New(sandbox.Options{Faults: sandbox.Faults{DropAnswer: func(sandbox.Write) bool { return true }}}))
	server.Config.ErrorLog = nil
	server.Start()
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/api/v1/decisions", strings.NewReader(`{"decision_type":"t"}`))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	response, err := server.Client().Do(r)
	if response != nil {
		_ = response.Body.Close()
	}
	require.ErrorIs(t, err, io.EOF)
}

func TestFailAfterAppend(t *testing.T) {
	t.Parallel()
	c := newClient(t, sandbox.Options{Faults: sandbox.Faults{FailAfterAppend: func(w sandbox.Write) bool { return w.EventType == "decision_created" }}})
	const body = `{"decision_type":"t","idempotency_key":"k"}`
	status, answer, header, err := c.send(http.MethodPost, "/api/v1/decisions", body)
	require.NoError(t, err)
	assert.Equal(t, http.StatusInternalServerError, status)
	assert.Equal(t, "Internal Server Error", answer)
	assert.Empty(t, header.Get("X-Request-ID"))
	assert.Equal(t, "1", header.Get(sandbox.Header))
	require.Len(t, c.server.Events("default"), 1)
	assert.Equal(t, c.server.Events("default")[0].DecisionID, c.create(body), "the repeat appends nothing and is answered")
	status, _ = c.post("/api/v1/decisions/"+c.create(body)+"/events", `{"event_type":"model_completed"}`)
	assert.Equal(t, http.StatusOK, status)
}

// TestWriteGoesOnWithoutClient gives up on a slow write: it lands all the same.
func TestWriteGoesOnWithoutClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, sandbox.Options{Faults: sandbox.Faults{WriteTime: time.Second}})
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sandbox.example/api/v1/decisions", strings.NewReader(`{"decision_type":"t"}`))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		response, err := c.http.Do(r)
		if response != nil {
			_ = response.Body.Close()
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Empty(t, c.server.Events("default"))
		time.Sleep(701 * time.Millisecond)
		synctest.Wait()
		assert.Len(t, c.server.Events("default"), 1)
	})
}
