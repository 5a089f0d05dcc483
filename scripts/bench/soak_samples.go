package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// What must not grow: the median of the last quarter of a run may be the second quarter's times flatFactor, and the slack of the
// resource more. The first quarter is the time to warm up.
const flatFactor = 1.25

// resource is something that a process takes, and has to give back.
type resource struct {
	name  string
	slack float64
	print func(float64) string
}

func resources() []resource {
	return []resource{
		{"memory", 2e6, inBytes.print},
		{"threads", 3, thousands},
		{"descriptors", 5, thousands},
	}
}

// samples are what a process took over the time, by resource.
type samples map[string][]float64

// quarters returns the medians of the second and of the last quarter; ok is false where too little was measured.
func (s samples) quarters(name string) (second, last float64, ok bool) {
	all := s[name]
	n := len(all) / 4
	if n < 2 {
		return 0, 0, false
	}
	return median(all[n : 2*n]), median(all[len(all)-n:]), true
}

// flat returns what grew.
func (s *soak) flat() error {
	var problems []error
	for i := range s.samples {
		for _, r := range resources() {
			if before, after, ok := s.samples[i].quarters(r.name); ok && after > before*flatFactor+r.slack {
				problems = append(problems, fmt.Errorf("%s of process %d grew from %s to %s", r.name, i+1, r.print(before), r.print(after)))
			}
		}
	}
	return errors.Join(problems...)
}

// sample looks at the processes every now and then, until the time of the soak is over or stop is called.
func (s *soak) sample(hosts []*host) (stop func()) {
	every := min(max(s.duration/soakSamples, 50*time.Millisecond), 5*time.Second)
	ended, over := make(chan struct{}), time.After(s.duration)
	var done sync.WaitGroup
	done.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ended:
				return
			case <-over:
				return
			case <-ticker.C:
			}
			for i, h := range hosts {
				if now, ok := taken(h.process.PID()); ok {
					s.samples[i] = s.samples[i].with(now)
				}
			}
		}
	})
	return sync.OnceFunc(func() {
		close(ended)
		done.Wait()
	})
}

func (s samples) with(now map[string]float64) samples {
	if s == nil {
		s = samples{}
	}
	for name, v := range now {
		s[name] = append(s[name], v)
	}
	return s
}

// taken returns what a process takes now, as Linux tells.
func taken(pid int) (map[string]float64, bool) {
	dir := "/proc/" + strconv.Itoa(pid)
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return nil, false
	}
	descriptors, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return nil, false
	}
	now := map[string]float64{"descriptors": float64(len(descriptors))}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "VmRSS":
			if kilobytes, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64); err == nil {
				now["memory"] = kilobytes * 1024
			}
		case "Threads":
			if n, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil {
				now["threads"] = n
			}
		}
	}
	return now, len(now) == 3
}
