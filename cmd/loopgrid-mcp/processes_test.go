package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/faultproxy"
	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
)

// ask is a call of record_decision by an agent, under a key.
func ask(id int, agent, key string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"loopgrid.record_decision","arguments":`+
		`{"decision_type":"t","proposed_action":{"n":%d},"agent_id":%q,"idempotency_key":%q}}}`, id, id, agent, key)
}

// startPatiently starts a process whose calls wait two minutes for their turn: the machine may be busy.
func startPatiently(t *testing.T, url string) *process {
	t.Helper()
	p := startWith(t, []string{"LOOPGRID_BASE_URL=" + url, "LOOPGRID_MCP_TIMEOUT_SECONDS=120"})
	p.initialize()
	return p
}

// Four bridges at once on one workspace, as agent frameworks start them: LoopGrid's chain would break for good with the first two writes
// that overlap. Now and then a connection is lost while the service is still at work.
func TestFourProcessesWriteOneAtATime(t *testing.T) {
	t.Parallel()
	const processes, each = 4, 16
	s := sandbox.New(sandbox.Options{Faults: sandbox.Faults{ForkChain: true, WriteTime: 2 * time.Millisecond}})
	requests := 0
	proxy := faultproxy.New(s, func(*http.Request) faultproxy.Fault {
		if requests++; requests%20 == 7 {
			return faultproxy.Fault{Reply: faultproxy.Dropped, Reach: faultproxy.Lagging, Lag: 300 * time.Millisecond}
		}
		return faultproxy.Fault{}
	})
	everybodyIsThere := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-everybodyIsThere
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)

	var all []*process
	for range processes {
		all = append(all, startPatiently(t, server.URL))
	}
	for i, p := range all {
		for n := range each {
			p.send(ask(n+1, fmt.Sprintf("agent-%d", i), fmt.Sprintf("key-%d-%d", i, n)))
		}
	}
	close(everybodyIsThere)
	var reading sync.WaitGroup
	for _, p := range all {
		reading.Go(func() {
			for range each {
				assert.Contains(t, p.receive(), `\"captured\":true`)
			}
		})
	}
	reading.Wait()
	proxy.Wait()

	events := s.Events("default")
	assert.Len(t, events, processes*each)
	assert.Zero(t, s.Stats().Overlaps)
	assert.True(t, s.Verify("default"))
	keys := map[string]bool{}
	firstHalf := map[string]int{}
	for i, e := range events {
		keys[e.IdempotencyKey] = true
		if i < len(events)/2 {
			firstHalf[e.ActorID]++
		}
	}
	assert.Len(t, keys, processes*each, "each of them once")
	for i := range processes {
		assert.GreaterOrEqual(t, firstHalf[fmt.Sprintf("agent-%d", i)], each/4, "no process waits for all the others: %v", firstHalf)
	}
}

// A bridge that is killed in the middle of a POST leaves a write behind that is still running in the service. The others wait for it, and
// the caller finds out what became of it by calling again with the key.
func TestOthersWaitForTheWriteOfAKilledProcess(t *testing.T) {
	t.Parallel()
	begun, goOn := make(chan struct{}), make(chan struct{})
	var first sync.Once
	s := sandbox.New(sandbox.Options{Faults: sandbox.Faults{ForkChain: true, DropAnswer: func(sandbox.Write) bool {
		first.Do(func() { // It drops nothing: the first write is in progress until it may go on.
			close(begun)
			<-goOn
		})
		return false
	}}})
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	victim := startPatiently(t, server.URL)
	var others []*process
	for range 3 {
		others = append(others, startPatiently(t, server.URL))
	}
	victim.send(ask(1, "victim", "key-victim"))
	<-begun
	for i, p := range others {
		p.send(ask(1, "other", fmt.Sprintf("key-%d", i)))
	}
	require.NoError(t, victim.Process.Kill())
	_ = victim.Wait() // It was killed.
	time.AfterFunc(2*time.Second, func() { close(goOn) })

	for _, p := range others {
		assert.Contains(t, p.receive(), `\"captured\":true`)
	}
	others[0].send(ask(1, "victim", "key-victim"))
	assert.Contains(t, others[0].receive(), `\"idempotent_replay\":true`)

	assert.Len(t, s.Events("default"), 4)
	assert.Zero(t, s.Stats().Overlaps)
	assert.True(t, s.Verify("default"))
}
