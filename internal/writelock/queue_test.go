package writelock

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// queued has a ticket wait for the lock; the channel gets the result.
func queued(t *testing.T, ticket *Ticket, claim Claim) <-chan error {
	t.Helper()
	t.Cleanup(ticket.Leave)
	got := make(chan error, 1)
	go func() { got <- ticket.Lock(t.Context(), claim) }()
	synctest.Wait()
	return got
}

func about(names ...string) Claim { return Claim{Names: names} }

func beside(names ...string) Claim { return Claim{Names: names, SideBySide: true} }

// A call that waits for something else lets others pass, except those that are about the same; then it is the next.
func TestStepAside(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"", lockFolder(t)} {
		synctest.Test(t, func(t *testing.T) {
			l := New(Options{})
			if dir != "" {
				l = fileWriteLock(t, dir)
			}
			first, same, other, late := l.Enter(), l.Enter(), l.Enter(), l.Enter()
			require.NoError(t, <-queued(t, first, about("key 1")))
			gotSame, gotOther, gotLate := queued(t, same, about("dec_1")), queued(t, other, about("dec_2", "key 2")), queued(t, late, about("dec_3"))
			require.Empty(t, gotOther)

			require.Equal(t, dir != "", first.inFile)
			require.True(t, first.StepAside("dec_1"))
			require.False(t, first.inFile, "other processes may pass too")
			require.ErrorIs(t, first.Posting(), errNotLocked)
			synctest.Wait()
			require.Empty(t, gotSame, "it is about the same decision")
			require.NoError(t, <-gotOther)
			require.NoError(t, other.Posting())

			back := make(chan error, 1)
			go func() { back <- first.Return(t.Context()) }()
			synctest.Wait()
			require.Empty(t, back, "the other one is not done")
			other.Answered()
			other.Leave()
			require.NoError(t, <-back)
			require.Empty(t, gotLate)
			require.NoError(t, first.Posting())
			first.Answered()
			first.Leave()
			require.NoError(t, <-gotSame)
			same.Leave()
			require.NoError(t, <-gotLate)
			late.Leave()
			require.Empty(t, l.queue)
		})
	}
}

func TestStepAsideIsNotForAnUnansweredWrite(t *testing.T) {
	t.Parallel()
	for _, claim := range []Claim{about("key"), beside("key")} {
		synctest.Test(t, func(t *testing.T) {
			l := New(Options{Probe: dead})
			ticket := l.Enter()
			defer ticket.Leave()
			require.False(t, ticket.StepAside(), "it has no turn")
			require.NoError(t, <-queued(t, ticket, claim))
			require.NoError(t, ticket.Posting())
			require.False(t, ticket.StepAside())
			ticket.GaveUp()
			require.False(t, ticket.StepAside())
			require.NoError(t, ticket.Posting())
			ticket.Ended()
			require.False(t, ticket.StepAside(), "the attempt before it is still unanswered")
			require.NoError(t, ticket.Posting())
			ticket.Answered()
			require.True(t, ticket.StepAside())
			require.NoError(t, ticket.Return(t.Context()))
		})
	}
}

// A call that steps aside and leaves, or gives up on its way back, keeps nobody waiting.
func TestStepAsideAndLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{})
		first, passing, same := l.Enter(), l.Enter(), l.Enter()
		require.NoError(t, <-queued(t, first, about("a")))
		gotPassing, gotSame := queued(t, passing, about("b")), queued(t, same, about("a"))
		require.True(t, first.StepAside())
		require.NoError(t, <-gotPassing)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, first.Return(ctx), context.DeadlineExceeded)
		passing.Leave()
		synctest.Wait()
		require.Empty(t, gotSame)
		first.Leave()
		require.NoError(t, <-gotSame)
	})
}

// Where the service orders writes itself, only calls about the same wait for each other, in the order of their arrival.
func TestSideBySide(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{})
		var tickets []*Ticket
		for range 6 {
			tickets = append(tickets, l.Enter())
		}
		require.NoError(t, <-queued(t, tickets[0], beside("dec_1", "key 1")))
		gotThird := queued(t, tickets[2], beside("dec_3"))
		require.Empty(t, gotThird, "the second has not said what it is about")
		gotSecond := queued(t, tickets[1], beside("dec_1"))
		require.NoError(t, <-gotThird)
		require.Empty(t, gotSecond)
		gotFourth, gotAlone, gotLast := queued(t, tickets[3], beside("dec_4")), queued(t, tickets[4], about("dec_5")), queued(t, tickets[5], beside("dec_6"))
		require.NoError(t, <-gotFourth)
		require.Empty(t, gotLast, "it does not pass one that wants to be alone")

		// Nobody waits for a write that got no answer, but for the one that wants to be alone.
		require.NoError(t, tickets[0].Posting())
		tickets[0].GaveUp()
		tickets[0].Leave()
		require.NoError(t, <-gotSecond)
		for _, i := range []int{1, 2, 3} {
			tickets[i].Leave()
		}
		start := time.Now()
		require.NoError(t, <-gotAlone)
		require.Equal(t, settleAfter, time.Since(start))
		require.Empty(t, gotLast)
		tickets[4].Leave()
		require.NoError(t, <-gotLast)
		tickets[5].Leave()
		require.Empty(t, l.queue)
	})
}

func TestSideBySideHasALimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{})
		var all []*Ticket
		var got []<-chan error
		served := func() (n int) {
			synctest.Wait()
			for _, result := range got {
				n += len(result)
			}
			return n
		}
		for i := range 3 * maxSideBySide {
			all = append(all, l.Enter())
			got = append(got, queued(t, all[i], beside(strconv.Itoa(i))))
		}
		require.Equal(t, maxSideBySide, served())
		all[3].Leave()
		require.Equal(t, maxSideBySide+1, served())
		require.True(t, all[4].StepAside())
		require.Equal(t, maxSideBySide+2, served())
	})
}

// Reviews go beside other writes, but not beside each other, in any process.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	dir := lockFolder(t)
	review := func(name string) Claim { return Claim{Names: []string{name}, SideBySide: true, OneAtATime: true} }
	l, other := fileWriteLock(t, dir), fileWriteLock(t, dir)
	first, second, third := l.Enter(), l.Enter(), l.Enter()
	require.NoError(t, first.Lock(within(t, lockPatience), review("dec_1")))
	require.Error(t, second.Lock(within(t, 20*time.Millisecond), review("dec_2")))
	require.NoError(t, third.Lock(within(t, lockPatience), beside("dec_3")), "this is no review")
	requireShut(t, other, waitFile)
	first.Leave()
	second.Leave()
	third.Leave()
	locked(t, other).Leave()
}
