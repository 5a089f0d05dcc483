package bridge_test

import (
	"os"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestModelLong is the long mode of TestModel: it runs programs until LOOPGRID_MODEL_TIME is over, and checks that memory, goroutines and
// descriptors do not grow. make soak starts it.
func TestModelLong(t *testing.T) { //nolint:paralleltest // what it measures is the whole process
	text := os.Getenv("LOOPGRID_MODEL_TIME")
	if text == "" {
		t.Skip("LOOPGRID_MODEL_TIME, such as 10m, says how long to run")
	}
	duration, err := time.ParseDuration(text)
	require.NoError(t, err)
	var taken usage
	seed := fromEnvironment(t, "LOOPGRID_MODEL_SEED", uint64(time.Now().UnixNano()))
	began, next := time.Now(), time.Now()
	for ; time.Since(began) < duration && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) { runProgram(t, seed) })
		if time.Now().After(next) {
			taken.sample()
			next = next.Add(duration / 200)
		}
	}
	for name, values := range map[string][]float64{"memory": taken.memory, "goroutines": taken.goroutines, "descriptors": taken.descriptors} {
		before, after, grows := grown(values)
		t.Logf("%s: %.0f in the second quarter, %.0f in the last", name, before, after)
		assert.False(t, grows, "%s: %.0f in the second quarter, %.0f in the last", name, before, after)
	}
}

// usage is what this process used over time.
type usage struct{ memory, goroutines, descriptors []float64 }

func (u *usage) sample() {
	var stats runtime.MemStats
	runtime.GC() // What remains is in use.
	runtime.ReadMemStats(&stats)
	u.memory = append(u.memory, float64(stats.HeapAlloc))
	u.goroutines = append(u.goroutines, float64(runtime.NumGoroutine()))
	if open, err := os.ReadDir("/proc/self/fd"); err == nil { // Linux only
		u.descriptors = append(u.descriptors, float64(len(open)))
	}
}

// grown compares the medians of the second and the last quarter; the first is the warm-up. An increase of a tenth plus a little slack is
// not growth.
func grown(values []float64) (before, after float64, grows bool) {
	n := len(values) / 4
	if n == 0 {
		return 0, 0, false
	}
	median := func(of []float64) float64 { return slices.Sorted(slices.Values(of))[len(of)/2] }
	before, after = median(values[n:2*n]), median(values[len(values)-n:])
	slack := 5.0
	if before > 1e5 {
		slack = 1e6 // bytes
	}
	return before, after, after > 1.1*before+slack
}

func TestGrown(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		values []float64
		grows  bool
	}{
		"nothing":       {nil, false},
		"flat":          {[]float64{50, 90, 10, 10, 11, 10, 12, 10}, false},
		"a leak":        {[]float64{10, 10, 20, 20, 40, 50, 60, 70}, true},
		"memory":        {[]float64{1e6, 9e6, 8e6, 8e6, 9e6, 8e6, 9.5e6, 9.5e6}, false},
		"a leak of it":  {[]float64{1e6, 8e6, 8e6, 8e6, 9e6, 9e6, 11e6, 12e6}, true},
		"a warm-up":     {[]float64{1, 5, 30, 30, 30, 30, 30, 30}, false},
		"one goroutine": {[]float64{8, 8, 8, 8, 9, 9, 9, 9}, false},
	} {
		_, _, grows := grown(tt.values)
		assert.Equal(t, tt.grows, grows, name)
	}
}
