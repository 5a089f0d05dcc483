package sandbox_test

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
)

// TestPostgreSQL overlaps writes where the service locks the workspace's row for each append.
func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	const appending = 50 * time.Millisecond
	postgres := func(t *testing.T) *client {
		t.Helper()
		return newClient(t, sandbox.Options{PostgreSQL: true, Faults: sandbox.Faults{ForkChain: true, WriteTime: appending}})
	}
	t.Run("names itself", func(t *testing.T) {
		t.Parallel()
		_, info := postgres(t).get("/api/v1/system/info")
		assert.Contains(t, info, `"database":{"provider":"postgresql"}`)
	})
	t.Run("never forks, and locks one workspace alone", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			c := postgres(t)
			start := time.Now()
			assert.Equal(t, 4, together(c, `{"decision_type":"a"}`, `{"decision_type":"b"}`, `{"decision_type":"c"}`, `{"decision_type":"d","workspace_id":"other"}`))
			assert.Equal(t, 3*appending, time.Since(start))
			assert.True(t, c.server.Verify("default"))
			assert.Equal(t, 2, c.server.Stats().Overlaps)
		})
	})
	t.Run("takes two reviews at once", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			c := postgres(t)
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
			assert.True(t, c.server.Verify("default"))
			status, _ := c.post("/api/v1/decisions/"+id+"/review", `{"action":"approve","reviewer":"a"}`)
			assert.Equal(t, http.StatusConflict, status)
		})
	})
	t.Run("answers one of two creates with a phantom", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			c := postgres(t)
			const body = `{"decision_type":"t","idempotency_key":"k"}`
			assert.Equal(t, 2, together(c, body, body))
			require.Len(t, c.server.Events("default"), 1)
		})
	})
	t.Run("answers an event's key once", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			c := postgres(t)
			id := c.create(`{"decision_type":"t"}`)
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					status, answer := c.post("/api/v1/decisions/"+id+"/events", `{"event_type":"model_completed","idempotency_key":"k"}`)
					assert.Equal(t, http.StatusOK, status, answer)
				})
			}
			wg.Wait()
			assert.Len(t, c.server.Events("default"), 2)
		})
	})
}

// TestSuspended stops the service while it is about to append, as SIGSTOP does: nothing is answered, and what was read and what arrived run at once
// when it goes on.
func TestSuspended(t *testing.T) {
	t.Parallel()
	for _, postgres := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var c *client
			c = newClient(t, sandbox.Options{PostgreSQL: postgres, Faults: sandbox.Faults{
				ForkChain: true, WriteTime: 7 * time.Millisecond,
				BeforeAppend: func(w sandbox.Write) {
					if w.Number == 1 {
						c.server.Suspend()
					}
				},
			}})
			var wg sync.WaitGroup
			answered := make(chan string, 3)
			send := func(name, method, path, body string) {
				wg.Go(func() {
					status, answer, _, err := c.send(method, path, body)
					if assert.NoError(t, err) {
						assert.Less(t, status, 500, answer)
					}
					answered <- name
				})
			}
			send("stalled", http.MethodPost, "/api/v1/decisions", `{"decision_type":"a"}`)
			synctest.Wait()
			send("later", http.MethodPost, "/api/v1/decisions", `{"decision_type":"b"}`)
			send("probe", http.MethodGet, "/api/v1/decisions/dec_000000000000000000000000", "")
			time.Sleep(time.Hour)
			assert.Empty(t, answered)
			assert.Empty(t, c.server.Events(""))

			c.server.Resume()
			wg.Wait()
			assert.Equal(t, "probe", <-answered)
			assert.Len(t, c.server.Events(""), 2)
			assert.Equal(t, postgres, c.server.Verify("default"), "on SQLite both take the same predecessor")
		})
	}
}

// TestBeforeAppend holds one write back for as long as the test wants; others pass it.
func TestBeforeAppend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		c := newClient(t, sandbox.Options{Faults: sandbox.Faults{ForkChain: true, BeforeAppend: func(w sandbox.Write) {
			if w.Number == 1 {
				<-gate
			}
		}}})
		var wg sync.WaitGroup
		wg.Go(func() { c.create(`{"decision_type":"held back"}`) })
		synctest.Wait()
		c.create(`{"decision_type":"quick"}`)
		assert.Len(t, c.server.Events(""), 1)
		close(gate)
		wg.Wait()
		assert.Len(t, c.server.Events(""), 2)
		assert.False(t, c.server.Verify("default"))
	})
}

// TestDecisionOfAnotherWorkspace writes to, reviews and exports what belongs to another workspace: LoopGrid minds only where a key is sent.
func TestDecisionOfAnotherWorkspace(t *testing.T) {
	t.Parallel()
	c := newClient(t, sandbox.Options{})
	id := c.create(`{"decision_type":"t","workspace_id":"theirs"}`)
	path := "/api/v1/decisions/" + id
	requests := [][3]string{
		{http.MethodPost, "/events", `{"event_type":"policy_evaluated","payload":{"decision":"human_approval_required"}}`},
		{http.MethodPost, "/review", `{"action":"approve","reviewer":"a"}`},
		{http.MethodGet, "/evidence?include_payloads=true", ""},
		{http.MethodGet, "/verify", ""},
	}
	for _, request := range requests {
		status, answer, _, err := c.send(request[0], path+request[1], request[2])
		require.NoError(t, err)
		assert.Equal(t, http.StatusOK, status, answer)
	}
	for _, e := range c.server.Events("") {
		assert.Equal(t, "theirs", e.WorkspaceID)
	}
	c.key = c.server.CreateKey("ours", "ingest", "read", "review")
	for _, request := range requests {
		status, answer, _, err := c.send(request[0], path+request[1], request[2])
		require.NoError(t, err)
		assert.Equal(t, http.StatusForbidden, status)
		assert.JSONEq(t, `{"detail":"API key does not belong to this workspace"}`, answer)
	}
}

// TestUnknownDecisionIsToldToAnybody asks for a decision that cannot exist: LoopGrid looks it up before it looks at the key.
func TestUnknownDecisionIsToldToAnybody(t *testing.T) {
	t.Parallel()
	c := newClient(t, sandbox.Options{Auth: true})
	for _, key := range []string{"", "lg_live_wrong", c.server.CreateKey("default", "read")} {
		c.key = key
		status, answer := c.get("/api/v1/decisions/dec_000000000000000000000000")
		assert.Equal(t, http.StatusNotFound, status)
		assert.JSONEq(t, `{"detail":"Decision not found"}`, answer)
	}
}
