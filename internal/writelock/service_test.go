package writelock

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// dead is the probe of a service that refuses connections.
func dead(context.Context) error { return errors.New("refused") }

// service is a service that hangs and goes on when it is told to.
type service struct {
	probes atomic.Int32
	alive  chan struct{}
}

func (s *service) probe(ctx context.Context) error {
	s.probes.Add(1)
	select {
	case <-s.alive:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Nothing is sent before the service has answered something that was sent after the write was given up, however long that takes.
func TestNothingIsSentToAStalledService(t *testing.T) {
	t.Parallel()
	for _, stalled := range []time.Duration{0, 3 * time.Second, 37 * time.Second, 10 * time.Minute} {
		t.Run(stalled.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &service{alive: make(chan struct{})}
				l := New(Options{Probe: s.probe})
				first := locked(t, l)
				require.NoError(t, first.Posting())
				first.GaveUp()
				first.Leave()
				start := time.Now()
				time.AfterFunc(stalled, func() { close(s.alive) })

				// A call with less patience says why it was not served, and does not make the next one wait longer.
				if stalled > 10*time.Second {
					hasty := l.Enter()
					err := hasty.Lock(within(t, 4*time.Second), Claim{})
					require.EqualError(t, err, "nothing was sent in time: an earlier write got no answer and may still be running in LoopGrid, "+
						"which has not answered anything since. Nothing is sent before it does: the operator should check that LoopGrid is running")
					hasty.Leave()
				}
				second := l.Enter()
				defer second.Leave()
				require.NoError(t, second.Lock(within(t, time.Hour), Claim{}))
				assert.WithinRange(t, time.Now(), start.Add(stalled+settleAfter), start.Add(stalled+settleAfter+probePause))
			})
		})
	}
}

// The same POST may be repeated a second after the sign of life.
func TestRepeatWaitsForTheService(t *testing.T) {
	t.Parallel()
	for _, claim := range []Claim{{}, {SideBySide: true}} {
		synctest.Test(t, func(t *testing.T) {
			s := &service{alive: make(chan struct{})}
			l := New(Options{Probe: s.probe})
			ticket := l.Enter()
			defer ticket.Leave()
			require.NoError(t, ticket.Lock(t.Context(), claim))
			require.NoError(t, ticket.Repeat(t.Context()), "nothing is unanswered")
			require.Zero(t, s.probes.Load())
			require.NoError(t, ticket.Posting())
			ticket.GaveUp()
			start := time.Now()
			require.Error(t, ticket.Repeat(within(t, 15*time.Second)))
			close(s.alive)
			require.NoError(t, ticket.Repeat(t.Context()))
			require.Equal(t, 16*time.Second, time.Since(start))

			// Given up again: the earlier sign of life says nothing of that.
			s.alive = make(chan struct{})
			require.NoError(t, ticket.Posting())
			ticket.GaveUp()
			require.Error(t, ticket.Repeat(within(t, 15*time.Second)))
			close(s.alive)
			require.NoError(t, ticket.Repeat(t.Context()))
			require.NoError(t, ticket.Posting())
			ticket.Answered()
			require.False(t, ticket.own.exists() || l.doubt.exists())
		})
	}
}

// A sign of life counts only if it was asked for after the last attempt was given up.
func TestProbeThatWasSentTooEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan error)
		l := New(Options{Probe: func(context.Context) error { return <-answer }})
		ticket := locked(t, l)
		require.NoError(t, ticket.Posting())
		ticket.GaveUp()
		synctest.Wait()
		require.NoError(t, ticket.Posting())
		ticket.GaveUp()
		answer <- nil // to one of the two that were sent
		answer <- nil
		synctest.Wait()
		require.False(t, l.doubt.answered.IsZero())

		require.NoError(t, ticket.Posting())
		ticket.GaveUp()
		synctest.Wait()
		require.NoError(t, ticket.Posting())
		ticket.GaveUp()
		close(answer)
		_, silent := l.doubt.left()
		require.True(t, silent)
		ticket.Leave()
	})
}

// What counts is for how long the service has answered without a break. If it stops between two answers, all begins anew.
func TestServiceThatStopsAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ stops, goesOn, settled time.Duration }{
		"right after its answer":  {100 * time.Millisecond, 40 * time.Second, 46 * time.Second},
		"shortly before the end":  {5900 * time.Millisecond, 40 * time.Second, 46 * time.Second},
		"for less than a second":  {100 * time.Millisecond, time.Second, 6 * time.Second},
		"for a second and a half": {600 * time.Millisecond, 2200 * time.Millisecond, 6700 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				l := New(Options{Probe: func(ctx context.Context) error {
					if now := time.Since(start); now >= c.stops && now < c.goesOn {
						select {
						case <-time.After(c.goesOn - now):
						case <-ctx.Done():
							return ctx.Err()
						}
					}
					return nil
				}})
				ticket := locked(t, l)
				require.NoError(t, ticket.Posting())
				ticket.GaveUp()
				ticket.Leave()
				locked(t, New(Options{})).Leave()
				next := l.Enter()
				defer next.Leave()
				require.NoError(t, next.Lock(within(t, time.Hour), Claim{}))
				assert.WithinRange(t, time.Now(), start.Add(c.settled), start.Add(c.settled+probePause))
			})
		})
	}
}

// A service that is down is asked again and again; one that answers errors of its own is alive, which is for the probe to tell.
func TestProbeIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		l := New(Options{Probe: func(context.Context) error {
			if tries++; tries < 5 {
				return errors.New("refused")
			}
			return nil
		}})
		ticket := locked(t, l)
		ticket.GaveUp()
		start := time.Now()
		require.NoError(t, ticket.Lock(t.Context(), Claim{}))
		require.Equal(t, 4*probePause+settleAfter, time.Since(start))
	})
}

// The next process finds the note, and asks for itself. The first learns that it is over.
func TestAnotherProcessAsksForItself(t *testing.T) {
	t.Parallel()
	dir := lockFolder(t)
	synctest.Test(t, func(t *testing.T) {
		first := New(Options{Dir: dir, Name: "ledger", Probe: dead})
		closeAtEnd(t, first)
		ticket := locked(t, first)
		require.NoError(t, ticket.Posting())
		ticket.GaveUp()
		ticket.Leave()
		<-time.After(time.Hour)
		second := fileWriteLock(t, dir)
		start := time.Now()
		locked(t, second).Leave()
		require.Equal(t, settleAfter, time.Since(start))
		locked(t, first).Leave()
		require.Equal(t, settleAfter, time.Since(start))
	})
}
