package loopgrid

import (
	"context"
	"errors"
	"net/http"
)

const (
	// maxReads is how many reads are at the service at once; maxWrites the same for writes and the reads in between, which the write lock
	// holds at one where LoopGrid runs on SQLite.
	maxReads  = 16
	maxWrites = 16
	// maxLarge is how many answers of more than [largeAnswer] bytes are in memory at once.
	maxLarge    = 2
	largeAnswer = maxJSONAnswer

	// reservedDescriptors are those that are not for connections: streams, lock files, an evidence file, and the connections of a probe.
	reservedDescriptors = 24
)

// lanes bound how many requests are at the service at once. Reads and writes have lanes of their own, so that reads never starve a call
// that holds the write lock. Probes are sent outside: they are few, and everything else waits for them.
type lanes struct{ reads, writes, large chan struct{} }

func newLanes(descriptors int) lanes {
	each := max(1, (descriptors-reservedDescriptors)/2)
	return lanes{
		reads: make(chan struct{}, min(maxReads, each)), writes: make(chan struct{}, min(maxWrites, each)), large: make(chan struct{}, maxLarge),
	}
}

// writeLane is the context key of the reads that belong to a call which holds the write lock.
type writeLane struct{}

// ErrBusy means that a request was not sent: others kept all connections to the service busy until its time was over.
var ErrBusy = errors.New("not sent: too many other calls are waiting for LoopGrid")

// enter waits for a place in the lane of r and returns what gives it back. The error says that ctx ended first: nothing was sent.
func (c *Client) enter(ctx context.Context, r *request) (leave func(), err error) {
	lane := c.lanes.reads
	switch {
	case r.kind == probe:
		return func() {}, nil
	case r.method == http.MethodPost || ctx.Value(writeLane{}) != nil:
		lane = c.lanes.writes
	}
	if err := take(ctx, lane); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, ErrBusy
		}
		return nil, c.transportError(ctx, r, err, false)
	}
	return func() { <-lane }, nil
}

// giveBack gives back the place of r, if it has one.
func (r *request) giveBack() {
	if r.leave != nil {
		r.leave()
		r.leave = nil
	}
}

// enterLarge waits until an answer of the length of res, -1 for an unknown one, may be read into memory.
func (c *Client) enterLarge(ctx context.Context, r *request, res *http.Response) (leave func(), err error) {
	if r.limit <= largeAnswer || res.ContentLength >= 0 && res.ContentLength <= largeAnswer {
		return func() {}, nil
	}
	if err := take(ctx, c.lanes.large); err != nil {
		return nil, c.transportError(ctx, r, err, true)
	}
	return func() { <-c.lanes.large }, nil
}

func take(ctx context.Context, lane chan struct{}) error {
	select {
	case lane <- struct{}{}:
		return nil
	default:
	}
	select {
	case lane <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
