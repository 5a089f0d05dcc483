package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/faultproxy"
	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
	"github.com/loopgridio/loopgrid-mcp/scripts/launch"
)

// losing is a plan that loses the answers of two writes, one served and one not, and cuts that of a third.
func losing() faultproxy.Plan {
	var writes int
	return func(r *http.Request) faultproxy.Fault {
		if r.Method != http.MethodPost {
			return faultproxy.Fault{}
		}
		switch writes++; writes {
		case 50:
			return faultproxy.Fault{Reply: faultproxy.Dropped}
		case 100:
			return faultproxy.Fault{Reply: faultproxy.Dropped, Reach: faultproxy.Withheld}
		case 150:
			return faultproxy.Fault{Reply: faultproxy.Truncated}
		}
		return faultproxy.Fault{}
	}
}

func TestSoak(t *testing.T) {
	t.Parallel()
	binary, err := launch.Build(t.Context(), t.TempDir(), launch.Program)
	require.NoError(t, err)
	var progress []string
	s := newSoak(binary, 2500*time.Millisecond, t.TempDir(), losing(), func(what string) { progress = append(progress, what) })
	require.NoError(t, s.run(t.Context()))
	assert.NotEmpty(t, progress)
	assert.Positive(t, s.wrong.Load())
	for _, tool := range []string{"record_decision", "record_review", "record_action", "record_outcome", "get_evidence", "verify_evidence"} {
		assert.Positive(t, s.calls[tool], tool)
	}
	assert.Greater(t, s.events, 40)
	text := s.text()
	assert.Contains(t, text, "record_review")
	assert.Equal(t, runtime.GOOS == "linux", strings.Contains(text, "process 2"), text)
}

// TestSoakFindsWhatNobodyAskedFor: an event that appears on its own is found out.
func TestSoakFindsWhatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	binary, err := launch.Build(t.Context(), t.TempDir(), launch.Program)
	require.NoError(t, err)
	var s *soak
	writes := 0
	s = newSoak(binary, 300*time.Millisecond, t.TempDir(), func(r *http.Request) faultproxy.Fault {
		if r.Method == http.MethodPost {
			if writes++; writes == 20 {
				create := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/decisions", strings.NewReader(`{"decision_type":"t","proposed_action":{}}`))
				create.Header.Set("Content-Type", "application/json")
				s.service.Load().ServeHTTP(httptest.NewRecorder(), create)
			}
		}
		return faultproxy.Fault{}
	}, func(string) {})
	require.ErrorContains(t, s.run(t.Context()), ", which nobody knows: recorded: decision_created")
}

func TestCompare(t *testing.T) {
	t.Parallel()
	event := func(id, eventType string) sandbox.Event { return sandbox.Event{DecisionID: id, EventType: eventType} }
	for name, c := range map[string]struct {
		told   map[string][]string
		events []sandbox.Event
		wrong  string
	}{
		"as it was told": {map[string][]string{"a": {"y", "x"}}, []sandbox.Event{event("a", "x"), event("a", "y")}, ""},
		"lost":           {map[string][]string{"a": {"x", "y"}}, []sandbox.Event{event("a", "x")}, "decision a: said to be recorded: x, y; recorded: x"},
		"twice":          {map[string][]string{"a": {"x"}}, []sandbox.Event{event("a", "x"), event("a", "x")}, "decision a: said to be recorded: x; recorded: x, x"},
		"unknown":        {nil, []sandbox.Event{event("a", "x")}, "decision a, which nobody knows: recorded: x"},
	} {
		err := compare(c.told, c.events)
		if c.wrong == "" {
			assert.NoError(t, err, name)
		} else {
			assert.EqualError(t, err, c.wrong, name)
		}
	}
}

func TestFlat(t *testing.T) {
	t.Parallel()
	of := func(values ...float64) []samples { return []samples{{"memory": values}} }
	warm := []float64{1e6, 1e6, 10e6, 10e6, 11e6, 12e6}
	for name, c := range map[string]struct {
		samples []samples
		wrong   string
	}{
		"nothing":  {make([]samples, 1), ""},
		"too few":  {of(1e6, 2e6, 100e6), ""},
		"it warms": {of(append(warm, 14e6, 14e6)...), ""},
		"it grows": {of(append(warm, 15e6, 15e6)...), "memory of process 1 grew from 10.0 MB to 15.0 MB"},
	} {
		s := &soak{samples: c.samples}
		if err := s.flat(); c.wrong == "" {
			assert.NoError(t, err, name)
		} else {
			assert.EqualError(t, err, c.wrong, name)
		}
	}
}

func TestTaken(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	now, ok := taken(os.Getpid())
	require.True(t, ok)
	assert.Greater(t, now["memory"], 1e6)
	assert.Positive(t, now["threads"])
	assert.Positive(t, now["descriptors"])
	_, ok = taken(0)
	assert.False(t, ok)
}
