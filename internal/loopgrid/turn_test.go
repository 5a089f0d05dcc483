package loopgrid_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/faultproxy"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

func slow(d time.Duration) faultproxy.Fault { return faultproxy.Fault{Delay: d} }

// begun returns a write that has its turn.
func (b *bubble) begun(t *testing.T) *loopgrid.Turn {
	t.Helper()
	w := b.NewTurn()
	require.NoError(t, w.Begin(t.Context(), loopgrid.Subject{}))
	return w
}

// A call has twice the time-out for all of its requests, each of them no more than is left, and does not begin what cannot end.
func TestTimeOfOneCall(t *testing.T) {
	t.Parallel()
	const s = time.Second
	silent := faultproxy.Fault{Reply: faultproxy.Silent}
	type step struct {
		fault faultproxy.Fault
		ends  time.Duration
		err   string
	}
	for name, c := range map[string]struct {
		timeout time.Duration
		steps   []step
	}{
		"enough":                    {20 * s, []step{{slow(19 * s), 19 * s, ""}, {slow(18 * s), 37 * s, ""}, {slow(s), 38 * s, ""}}},
		"the last has what is left": {20 * s, []step{{slow(19 * s), 19 * s, ""}, {slow(19 * s), 38 * s, ""}, {silent, 40 * s, "in time"}}},
		"too little is left":        {20 * s, []step{{slow(19 * s), 19 * s, ""}, {slow(19*s + 1), 38*s + 1, ""}, {slow(0), 38*s + 1, "not sent"}}},
		"one time-out of two":       {20 * s, []step{{silent, 20 * s, "in time"}, {silent, 40 * s, "in time"}, {slow(0), 40 * s, "not sent"}}},
		"a short time-out":          {4 * s, []step{{slow(3 * s), 3 * s, ""}, {slow(4*s - 1), 7*s - 1, ""}, {slow(0), 7*s - 1, ""}}},
		"a short time-out is over":  {4 * s, []step{{slow(3 * s), 3 * s, ""}, {slow(4*s - 1), 7*s - 1, ""}, {slow(2), 7*s + 1, ""}, {slow(0), 7*s + 1, "not sent"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, c.timeout)
				w := b.begun(t)
				defer w.End()
				for i, step := range c.steps {
					b.proxy.SetPlan(faultproxy.Script(step.fault))
					sent := b.count()
					err := evaluate().send(t.Context(), w)
					assert.Equal(t, step.ends, b.now(), "step %d", i)
					if step.err == "" {
						require.NoError(t, err)
						continue
					}
					require.ErrorContains(t, err, step.err)
					assert.Equal(t, step.err == "not sent", errors.Is(err, loopgrid.ErrNoTimeLeft))
					if step.err == "not sent" {
						assert.Equal(t, sent, b.count())
						assert.Equal(t, loopgrid.NotRecorded, loopgrid.OutcomeOf(err))
					}
				}
			})
		})
	}
}

// Once something was sent, the call goes on to its end, even where nobody waits for it any more.
func TestCallGoesOnAfterCancellation(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]kindOfRequest{"append": keyed(), "review": once(), "evaluate": evaluate()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, budget, slow(5*time.Second), faultproxy.Fault{Reply: faultproxy.Dropped})
				ctx, cancel := context.WithCancel(loopgrid.WithRequestID(t.Context(), "lgm_7"))
				w := b.NewTurn()
				defer w.End()
				require.NoError(t, w.Begin(ctx, loopgrid.Subject{}))
				assert.False(t, w.Sent())
				time.AfterFunc(time.Second, cancel)
				require.NoError(t, kind.send(ctx, w))
				assert.True(t, w.Sent())
				assert.Equal(t, 5*time.Second, b.now())
				require.NoError(t, keyed().send(ctx, w), "a lost answer included")
				require.NoError(t, read().send(ctx, w))
				assert.Equal(t, 4, b.count())
				for _, try := range b.tries {
					assert.Equal(t, "lgm_7", try.header.Get("X-Request-Id"))
				}
			})
		})
	}
}

func TestCancelledBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	for _, kind := range []kindOfRequest{keyed(), once(), evaluate()} {
		b := newBubble(t, budget)
		ctx, cancel := context.WithCancelCause(t.Context())
		w := b.NewTurn()
		require.NoError(t, w.Begin(ctx, loopgrid.Subject{}))
		why := errors.New("the server is ending")
		cancel(why)
		err := kind.send(ctx, w)
		require.ErrorIs(t, err, why)
		require.ErrorContains(t, err, "cancelled before anything was sent")
		assert.Equal(t, loopgrid.NotRecorded, loopgrid.OutcomeOf(err))
		assert.False(t, w.Sent())
		assert.Zero(t, b.count())
		w.End()
	}
}

// A GET of the call before its first POST still looks at the context.
func TestReadWithinACallIsCancelledBeforeTheFirstPost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, budget, faultproxy.Fault{Reply: faultproxy.Silent})
		ctx, cancel := context.WithCancel(t.Context())
		w := b.begun(t)
		defer w.End()
		time.AfterFunc(time.Second, cancel)
		require.Error(t, read().send(ctx, w))
		assert.Equal(t, time.Second, b.now())
	})
}

func TestNothingIsSentWithoutATurn(t *testing.T) {
	t.Parallel()
	b := newBubble(t, budget)
	for _, kind := range []kindOfRequest{keyed(), once()} {
		w := b.NewTurn()
		err := kind.send(t.Context(), w)
		require.Error(t, err)
		assert.Equal(t, loopgrid.NotRecorded, loopgrid.OutcomeOf(err))
		w.End()

		w = b.begun(t)
		w.End()
		w.End()
		err = kind.send(t.Context(), w)
		require.Error(t, err)
		assert.Equal(t, loopgrid.NotRecorded, loopgrid.OutcomeOf(err))
		require.Error(t, w.Begin(t.Context(), loopgrid.Subject{}))
	}
	assert.Zero(t, b.count())
}

// Turns come in the order of NewWrite, whoever asks first.
func TestTurnsAreTakenInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, time.Hour)
		var writes []*loopgrid.Turn
		for range 5 {
			writes = append(writes, b.NewTurn())
		}
		var order []int
		for i := range writes {
			i = len(writes) - 1 - i
			go func() {
				assert.NoError(t, writes[i].Begin(t.Context(), loopgrid.Subject{}))
				order = append(order, i) // One at a time, or the race detector says so.
				time.Sleep(time.Second)
				writes[i].End()
			}()
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, []int{0, 1, 2, 3, 4}, order)
	})
}

// The wait for a turn has a time-out of its own, and a place that is given up holds up nobody.
func TestWaitForATurnEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, budget)
		first := b.begun(t)
		second, third := b.NewTurn(), b.NewTurn()
		err := second.Begin(t.Context(), loopgrid.Subject{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, budget, b.now())
		assert.Equal(t, loopgrid.NotRecorded, loopgrid.OutcomeOf(err))
		second.End()
		first.End()
		require.NoError(t, third.Begin(t.Context(), loopgrid.Subject{}))
		third.End()

		ctx, cancel := context.WithCancel(t.Context())
		first, second = b.begun(t), b.NewTurn()
		time.AfterFunc(time.Second, cancel)
		err = second.Begin(ctx, loopgrid.Subject{})
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, budget+time.Second, b.now())
		second.End()
		first.End()
		assert.Zero(t, b.count())
	})
}

// The time of a call begins before the wait for its turn: who has waited long has less time left.
func TestTimeBeginsWithTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, budget, faultproxy.Fault{Reply: faultproxy.Silent}, faultproxy.Fault{Reply: faultproxy.Silent})
		first, second := b.begun(t), b.NewTurn()
		defer second.End()
		time.AfterFunc(15*time.Second, first.End)
		require.NoError(t, second.Begin(t.Context(), loopgrid.Subject{}))
		require.Error(t, evaluate().send(t.Context(), second))
		assert.Equal(t, 35*time.Second, b.now())
		require.Error(t, evaluate().send(t.Context(), second))
		assert.Equal(t, 40*time.Second, b.now())
	})
}

// After a write without an answer nothing else is sent until it can no longer be running: 6 s after it was given up, or once the same
// POST was answered.
func TestUnsettledLedger(t *testing.T) {
	t.Parallel()
	const s = time.Second
	drop, silent := faultproxy.Fault{Reply: faultproxy.Dropped}, faultproxy.Fault{Reply: faultproxy.Silent}
	for _, c := range []struct {
		name   string
		kind   kindOfRequest
		faults []faultproxy.Fault
		// lost is the try, counted from 1, since whose end the next writer waits for 6 s; 0: it waits for nothing.
		lost int
		ends time.Duration // of that try after its beginning
	}{
		{"never answered", keyed(), again(4, drop), 4, 0},
		{"answered by gateways", keyed(), []faultproxy.Fault{html(502), html(503), html(504), html(502)}, 4, 0},
		{"cut", keyed(), again(4, faultproxy.Fault{Reply: faultproxy.Truncated}), 4, 0},
		{"timed out", keyed(), []faultproxy.Fault{silent}, 1, budget},
		{"a review is lost", once(), []faultproxy.Fault{drop}, 1, 0},
		{"a review times out", once(), []faultproxy.Fault{silent}, 1, budget},
		{"lost, then refused by the service", keyed(), []faultproxy.Fault{drop, said(409)}, 1, 0},
		{"lost, then limited", keyed(), append([]faultproxy.Fault{drop}, again(3, limited(""))...), 1, 0},
		{"lost, then 500", keyed(), []faultproxy.Fault{drop, said(500), said(500)}, 1, 0},
		{"lost late, then refused", keyed(), []faultproxy.Fault{{Delay: 2 * s, Reply: faultproxy.Dropped}, said(401)}, 1, 2 * s},
		{"lost, then a page", keyed(), []faultproxy.Fault{drop, html(200)}, 2, 0},
		{"a page", keyed(), []faultproxy.Fault{html(200)}, 1, 0},
		{"refused in front", keyed(), []faultproxy.Fault{html(403)}, 1, 0},
		{"500 in front", keyed(), again(2, html(500)), 2, 0},

		{"lost, then answered", keyed(), []faultproxy.Fault{drop}, 0, 0},
		{"lost thrice, then answered", keyed(), again(3, drop), 0, 0},
		{"500", keyed(), again(2, said(500)), 0, 0},
		{"500 to a review", once(), []faultproxy.Fault{said(500)}, 0, 0},
		{"refused by the service", keyed(), []faultproxy.Fault{said(409)}, 0, 0},
		{"limited", keyed(), again(4, limited("")), 0, 0},
		{"turned away", keyed(), []faultproxy.Fault{html(401)}, 0, 0},
		{"never connected", keyed(), again(9, faultproxy.Fault{Reply: faultproxy.Refused}), 0, 0},
		{"a policy was not answered", evaluate(), again(4, drop), 0, 0},
		{"a policy timed out", evaluate(), []faultproxy.Fault{silent}, 0, 0},
		{"a read was not answered", read(), again(4, drop), 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, budget, c.faults...)
				first, second := b.NewTurn(), b.NewTurn()
				require.NoError(t, first.Begin(t.Context(), loopgrid.Subject{}))
				_ = c.kind.send(t.Context(), first)
				ended := b.now()
				first.End()
				settled := ended
				if c.lost > 0 {
					settled = b.tries[c.lost-1].at + c.ends + 6*s
				}
				require.NoError(t, second.Begin(t.Context(), loopgrid.Subject{}))
				assert.Equal(t, settled, b.now())
				second.End()

				third := b.begun(t)
				assert.Equal(t, settled, b.now(), "once waited for it is over")
				third.End()
			})
		})
	}
}

// A call that cannot wait long enough says when to call again.
func TestUnsettledForLongerThanTheTimeOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, 2*time.Second, faultproxy.Fault{Reply: faultproxy.Silent})
		require.Error(t, b.send(t, keyed()))
		w := b.NewTurn()
		err := w.Begin(t.Context(), loopgrid.Subject{})
		require.ErrorContains(t, err, "call again in 4 s")
		assert.Equal(t, loopgrid.NotRecorded, loopgrid.OutcomeOf(err))
		assert.Equal(t, 4*time.Second, b.now())
		w.End()
		assert.Equal(t, 1, b.count())
		time.Sleep(3 * time.Second)
		w = b.begun(t)
		assert.Equal(t, 8*time.Second, b.now())
		w.End()
	})
}

// A place in the queue that is given up while its owner is in flight leaves the ledger unsettled: the server is ending.
func TestEndWhileInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, budget, slow(4*time.Second))
		first := b.begun(t)
		time.AfterFunc(time.Second, first.End)
		require.NoError(t, keyed().send(t.Context(), first))
		second := b.begun(t)
		assert.Equal(t, 7*time.Second, b.now())
		second.End()
	})
}

// Reads take no turn.
func TestReadsDoNotWaitForAWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, budget)
		w := b.begun(t)
		defer w.End()
		_, err := b.GetDecision(t.Context(), decisionID)
		require.NoError(t, err)
		assert.Zero(t, b.now())
	})
}

func TestDefaultLockDir(t *testing.T) {
	t.Parallel()
	dir, err := loopgrid.DefaultLockDir()
	require.NoError(t, err)
	assert.Contains(t, dir, "loopgrid-mcp")
}
