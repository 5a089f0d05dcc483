package sandbox

import (
	"sync"
	"time"
)

// rateLimiter is a sliding window of one minute for each client and bucket.
type rateLimiter struct {
	mu   sync.Mutex
	hits map[string][]time.Time
}

const (
	window = time.Minute
	// maxClients is how many clients the limiter remembers before it forgets those whose minute is over, or all if there are none.
	maxClients = 1024
)

// take counts a request and returns 0, or returns how many seconds the client should wait. As in LoopGrid the
// seconds are rounded down, and at least 1, so a client that obeys comes back up to a second early.
func (l *rateLimiter) take(client string, limit int, now time.Time) (wait int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	cut := now.Add(-window)
	recent := l.hits[client]
	for len(recent) > 0 && recent[0].Before(cut) {
		recent = recent[1:]
	}
	if len(recent) >= limit {
		l.hits[client] = recent
		return max(1, int((window - now.Sub(recent[0])).Seconds()))
	}
	if len(recent) == 0 && len(l.hits) >= maxClients {
		for other, hits := range l.hits {
			if hits[len(hits)-1].Before(cut) {
				delete(l.hits, other)
			}
		}
		if len(l.hits) >= maxClients {
			clear(l.hits)
		}
	}
	l.hits[client] = append(recent, now)
	return 0
}
