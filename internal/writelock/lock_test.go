package writelock

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lockPatience bounds every wait of these tests that is expected to end by itself.
const lockPatience = 30 * time.Second

// lockFolder returns the path of a lock folder that does not exist yet.
func lockFolder(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "locks")
}

// fileWriteLock returns a lock on the ledger named "ledger", which is what another process would have: a descriptor
// of its own.
func fileWriteLock(t *testing.T, dir string) *Lock {
	t.Helper()
	l := New(Options{Dir: dir, Name: "ledger", Warn: func(msg string) { t.Errorf("warning: %s", msg) }})
	closeAtEnd(t, l)
	return l
}

// closeAtEnd closes the files of l when the test ends: Windows does not delete open files, and an abandoned wait
// would make the folder anew while it is deleted.
func closeAtEnd(t *testing.T, l *Lock) {
	t.Helper()
	t.Cleanup(func() {
		select {
		case <-l.file.waiting():
			l.file.close()
		case <-time.After(lockPatience):
			t.Error("still waiting for the file lock")
		}
	})
}

// waiting returns the end of the wait in the background, closed if there is none.
func (f *fileLock) waiting() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wait == nil {
		done := make(chan struct{})
		close(done)
		return done
	}
	return f.wait.done
}

// locked returns a Ticket that holds the lock, until the test ends at the latest.
func locked(t *testing.T, l *Lock) *Ticket {
	t.Helper()
	ticket := l.Enter()
	t.Cleanup(ticket.Leave)
	require.NoError(t, ticket.Lock(within(t, lockPatience), Claim{}))
	return ticket
}

// within returns a context that ends after d.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// requireShut asserts that l cannot be locked now, and for which reason.
func requireShut(t *testing.T, l *Lock, wait wait) {
	t.Helper()
	ticket := l.Enter()
	defer ticket.Leave()
	for {
		var lockErr *WaitError
		require.ErrorAs(t, ticket.Lock(within(t, 20*time.Millisecond), Claim{}), &lockErr)
		if lockErr.wait == waitNone && wait != waitNone {
			continue // a busy machine: the time was over before the wait began
		}
		require.Equal(t, wait, lockErr.wait)
		return
	}
}

// waitsInFile waits until l waits for another process.
func waitsInFile(t *testing.T, l *Lock) {
	t.Helper()
	require.Eventually(t, func() bool {
		l.file.mu.Lock()
		defer l.file.mu.Unlock()
		return l.file.wait != nil && l.file.wait.wanted
	}, lockPatience, time.Millisecond)
}

func TestLockName(t *testing.T) {
	t.Parallel()
	name := func(base string) string {
		u, err := url.Parse(base)
		require.NoError(t, err)
		return Name(u)
	}
	t.Run("one service", func(t *testing.T) {
		t.Parallel()
		for _, group := range [][]string{
			{
				"http://127.0.0.1:8000", "http://127.0.0.1:8000/", "http://localhost:8000", "http://LocalHost:8000", "http://localhost.:8000",
				"http://127.8.9.10:8000", "http://[::1]:8000", "http://[0:0:0:0:0:0:0:1]:8000", "http://[::ffff:127.0.0.1]:8000",
				"http://loopgrid.localhost:8000", "http://0.0.0.0:8000", "http://[::]:8000", "https://localhost:8000", "http://localhost:08000",
				"http://127.0.0.1:0008000", "http://\uff11\uff12\uff17.0.0.1:8000", "http://127\u30020.0.1:8000",
			},
			{"http://localhost", "http://localhost/", "http://127.0.0.1:80", "HTTP://LOCALHOST:80/", "http://localhost:"},
			{"https://ledger.example", "https://ledger.example:443", "https://LEDGER.example.", "HTTPS://ledger.example.:443/"},
			{"https://ledger.example/lg", "https://ledger.example/lg/", "https://ledger.example:443/l%67"},
			{"http://[2001:db8::1]", "http://[2001:DB8:0::1]:80"},
			{"http://10.0.0.1", "http://[::ffff:10.0.0.1]", "http://\uff11\uff10.0.0.1:080"},
		} {
			for _, base := range group[1:] {
				assert.Equal(t, name(group[0]), name(base), "%s and %s", group[0], base)
			}
		}
	})
	t.Run("different services", func(t *testing.T) {
		t.Parallel()
		seen := map[string]string{}
		for _, service := range []string{
			"http://127.0.0.1:8000", "http://127.0.0.1:8001", "http://127.0.0.1", "https://127.0.0.1", "http://127.0.0.1:8000/a",
			"http://127.0.0.1:8000/A", "http://127.0.0.1:8000/a/b", "http://10.0.0.1:8000", "http://ledger.example:8000",
			"http://localhost.example:8000", "http://notlocalhost:8000",
		} {
			got := name(service)
			assert.Empty(t, seen[got], "%v has the name of another service", service)
			seen[got] = service
		}
	})
}

// TestLockFilesNeverChange holds the names and the content of the lock files to what they were in the first release: a process of an older
// version may run beside one of this version, and would not see another name or read another text.
func TestLockFilesNeverChange(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{
		"http://127.0.0.1:8000":               "36de258be6e50043e5b16b158915caba9e5fe93b3d791c1330dbac7a515ffe8f",
		"https://ledger.example/base":         "68d17e7fc802bf0cb82171cf0a4654a62b4c6bf34af87cd954d83ab1bb85ee3e",
		"http://\uff11\uff10.0.0.1:035337/x/": "5a44f63b3d69080772de5dfcda897f4ed4a244dd427db04bce764fb875e6797b",
	} {
		u, err := url.Parse(base)
		require.NoError(t, err)
		assert.Equal(t, want, Name(u), base)
	}
	at := time.Date(2026, 11, 30, 21, 45, 7, 1_500_000, time.UTC)
	for want, n := range map[string]note{
		"settled                                \n": {},
		"posted   2026-11-30T21:45:07.001500000Z\n": {state: postedState, at: at},
		"given up 2026-11-30T21:45:07.001500000Z\n": {state: givenUpState, at: at},
	} {
		assert.Equal(t, want, string(n.append(nil)))
		read, err := parseNote(want)
		require.NoError(t, err)
		assert.True(t, n.equal(read), want)
	}
	dir := lockFolder(t)
	locked(t, fileWriteLock(t, dir)).Leave()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	assert.Equal(t, []string{filepath.Join(dir, "ledger.gate"), filepath.Join(dir, "ledger.lock")}, files)
}

func TestLockDirIgnoresTheEnvironment(t *testing.T) { //nolint:paralleltest // It changes the environment.
	before, err := DefaultDir()
	require.NoError(t, err)
	require.True(t, filepath.IsAbs(before))
	for _, name := range []string{"HOME", "TMPDIR", "TMP", "TEMP", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA", "USERPROFILE"} {
		t.Setenv(name, t.TempDir())
	}
	after, err := DefaultDir()
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func TestWriteLockTouchesNoFileBeforeTheFirstLock(t *testing.T) {
	t.Parallel()
	dir := lockFolder(t)
	l := fileWriteLock(t, dir)
	l.Enter().Leave()
	require.NoDirExists(t, dir)
	locked(t, l).Leave()
	require.DirExists(t, dir)
}

func TestWriteLockServesInTheOrderOfArrival(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"", lockFolder(t)} {
		t.Run("file="+strconv.FormatBool(dir != ""), func(t *testing.T) {
			t.Parallel()
			l := New(Options{})
			if dir != "" {
				l = fileWriteLock(t, dir)
			}
			const n = 100
			tickets := make([]*Ticket, n)
			for i := range tickets {
				tickets[i] = l.Enter()
			}
			var (
				served []int // guarded by l
				want   []int
				calls  sync.WaitGroup
			)
			for _, i := range rand.Perm(n) { //nolint:gosec // No secret.
				calls.Go(func() {
					defer tickets[i].Leave()
					if i%7 == 0 {
						return // Gives up its place without a word.
					}
					if assert.NoError(t, tickets[i].Lock(within(t, lockPatience), Claim{})) {
						served = append(served, i)
					}
				})
			}
			calls.Wait()
			for i := range n {
				if i%7 != 0 {
					want = append(want, i)
				}
			}
			require.Equal(t, want, served)
			require.Empty(t, l.queue)
		})
	}
}

func TestTicketLeave(t *testing.T) {
	t.Parallel()
	// Each case brings the first of two tickets into a state and leaves. The second must get the lock, and not before
	// that.
	for name, leave := range map[string]func(t *testing.T, first *Ticket){
		"never locked": func(_ *testing.T, first *Ticket) { first.Leave() },
		"held": func(t *testing.T, first *Ticket) {
			t.Helper()
			require.NoError(t, first.Lock(t.Context(), Claim{}))
			synctest.Wait()
			first.Leave()
		},
		"twice": func(_ *testing.T, first *Ticket) {
			first.Leave()
			first.Leave()
		},
		"after a failed lock": func(t *testing.T, first *Ticket) {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.ErrorIs(t, first.Lock(ctx, Claim{}), context.Canceled)
			first.Leave()
		},
		"locked twice": func(t *testing.T, first *Ticket) {
			t.Helper()
			require.NoError(t, first.Lock(t.Context(), Claim{}))
			require.NoError(t, first.Lock(t.Context(), Claim{}))
			first.Leave()
		},
		"waiting for the ledger to settle": func(t *testing.T, first *Ticket) {
			t.Helper()
			first.l.doubt.raise()
			result := make(chan error, 1)
			go func() { result <- first.Lock(t.Context(), Claim{}) }()
			synctest.Wait()
			first.Leave()
			require.ErrorIs(t, <-result, errLeft)
		},
		"waiting again with an attempt in flight": func(t *testing.T, first *Ticket) {
			t.Helper()
			require.NoError(t, first.Lock(t.Context(), Claim{}))
			first.GaveUp()
			require.NoError(t, first.Posting())
			result := make(chan error, 1)
			go func() { result <- first.Lock(t.Context(), Claim{}) }()
			synctest.Wait()
			first.Leave()
			require.ErrorIs(t, <-result, errLeft)
			require.True(t, first.l.doubt.exists())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := New(Options{})
				first, second := l.Enter(), l.Enter()
				got := make(chan error, 1)
				go func() { got <- second.Lock(t.Context(), Claim{}) }()
				synctest.Wait()
				require.Empty(t, got)

				leave(t, first)

				require.NoError(t, <-got)
				require.ErrorIs(t, first.Lock(t.Context(), Claim{}), errLeft, "a ticket is for one call")
				require.ErrorIs(t, first.Posting(), errNotLocked)
				first.GaveUp()
				require.False(t, second.l.doubt.exists(), "who has left has no say")
				second.GaveUp()
				first.Answered()
				first.Ended()
				require.True(t, second.l.doubt.exists(), "who has left has no say")
				second.Leave()
				require.Empty(t, l.queue)
			})
		})
	}

	t.Run("waiting in the queue", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			l := New(Options{})
			first, second, third := l.Enter(), l.Enter(), l.Enter()
			result, got := make(chan error, 1), make(chan error, 1)
			go func() { result <- second.Lock(t.Context(), Claim{}) }()
			go func() { got <- third.Lock(t.Context(), Claim{}) }()
			synctest.Wait()
			second.Leave()
			require.ErrorIs(t, <-result, errLeft)
			synctest.Wait()
			require.Empty(t, got)
			first.Leave()
			require.NoError(t, <-got)
			third.Leave()
		})
	})

	t.Run("waiting for another process", func(t *testing.T) {
		t.Parallel()
		dir := lockFolder(t)
		other, l := fileWriteLock(t, dir), fileWriteLock(t, dir)
		holder := locked(t, other)
		first, second := l.Enter(), l.Enter()
		result, got := make(chan error, 1), make(chan error, 1)
		go func() { result <- first.Lock(within(t, lockPatience), Claim{}) }()
		waitsInFile(t, l)
		go func() { got <- second.Lock(within(t, lockPatience), Claim{}) }()
		first.Leave()
		require.ErrorIs(t, <-result, errLeft)
		holder.Leave()
		require.NoError(t, <-got)
		second.Leave()
	})
}

func TestTicketLockStopsWithItsContext(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		arrange func(t *testing.T, l *Lock)
		wait    wait
		text    string
	}{
		"in the queue": {
			func(t *testing.T, l *Lock) { t.Helper(); locked(t, l) },
			waitQueue, "nothing was sent in time: earlier writes of this process are not finished; call again later",
		},
		"in the queue of an unsettled ledger": {
			func(t *testing.T, l *Lock) {
				t.Helper()
				holder := locked(t, l)
				require.NoError(t, holder.Posting())
				holder.GaveUp()
			},
			waitQueue, "nothing was sent in time: earlier writes of this process are not finished; call again in 4 s",
		},
		"unsettled": {
			func(t *testing.T, l *Lock) {
				t.Helper()
				holder := locked(t, l)
				require.NoError(t, holder.Posting())
				holder.GaveUp()
				holder.Leave()
			},
			waitSettled, "nothing was sent in time: an earlier write got no answer and may still be running in LoopGrid; call again in 4 s",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := New(Options{})
				test.arrange(t, l)
				ticket := l.Enter()
				err := ticket.Lock(within(t, 2500*time.Millisecond), Claim{})
				var lockErr *WaitError
				require.ErrorAs(t, err, &lockErr)
				require.Equal(t, test.wait, lockErr.wait)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.EqualError(t, err, test.text)
				require.ErrorIs(t, ticket.Posting(), errNotLocked)
			})
		})
	}

	t.Run("ended before", func(t *testing.T) {
		t.Parallel()
		l := New(Options{})
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("the server ends"))
		ticket := l.Enter()
		require.EqualError(t, ticket.Lock(ctx, Claim{}), "cancelled before anything was sent (the server ends)")
		require.NoError(t, ticket.Lock(t.Context(), Claim{}), "the ticket keeps its place")
	})
}

func TestTicketLockGivesUpWaitingForAnotherProcess(t *testing.T) {
	t.Parallel()
	dir := lockFolder(t)
	other, l, third := fileWriteLock(t, dir), fileWriteLock(t, dir), fileWriteLock(t, dir)
	holder := locked(t, other)

	ticket := l.Enter()
	err := ticket.Lock(within(t, 20*time.Millisecond), Claim{})
	require.EqualError(t, err, "nothing was sent in time: another process is writing to this LoopGrid; call again later")
	ticket.Leave()
	abandoned := l.file.waiting()
	require.Empty(t, abandoned, "nothing interrupts a wait for a file lock")

	// Further calls take the same wait over: no thread and no descriptor more.
	for range 3 {
		requireShut(t, l, waitFile)
		require.Equal(t, abandoned, l.file.waiting())
	}

	// Nobody wants it any more when the lock comes: it must not stay locked.
	holder.Leave()
	<-abandoned
	locked(t, third).Leave()

	// Somebody wants it again.
	holder = locked(t, third)
	requireShut(t, l, waitFile)
	ticket = l.Enter()
	got := make(chan error, 1)
	go func() { got <- ticket.Lock(within(t, lockPatience), Claim{}) }()
	waitsInFile(t, l)
	holder.Leave()
	require.NoError(t, <-got)
	requireShut(t, third, waitFile)
	ticket.Leave()
	<-third.file.waiting()
	locked(t, third).Leave()
	locked(t, l).Leave()
}

func TestWriteLockKeepsWorkspacesApart(t *testing.T) {
	t.Parallel()
	dir := lockFolder(t)
	first := fileWriteLock(t, dir)
	second := New(Options{Dir: dir, Name: "another"})
	closeAtEnd(t, second)
	a := locked(t, first)
	b := locked(t, second)
	a.GaveUp()
	require.False(t, b.l.doubt.exists())
	a.Leave()
	b.Leave()
	locked(t, second).Leave()
}

// TestWriteLockUnsettled has a first call do something and measures how long the second has to wait after it. With
// and without a file, and where the second call is made by another process.
func TestWriteLockUnsettled(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		call func(t *testing.T, first *Ticket)
		want time.Duration // for a call of the same process, to which the service has answered at once
		// unanswered says that the lock file shows no answer of the service.
		unanswered bool
	}{
		"nothing posted":  {func(*testing.T, *Ticket) {}, 0, false},
		"answered":        {func(_ *testing.T, first *Ticket) { first.Answered() }, 0, false},
		"refused":         {func(_ *testing.T, first *Ticket) { first.Ended() }, 0, false},
		"given up":        {func(_ *testing.T, first *Ticket) { first.GaveUp() }, 6 * time.Second, true},
		"left in flight":  {func(*testing.T, *Ticket) {}, 6 * time.Second, true},
		"given up, later": {func(_ *testing.T, first *Ticket) { first.GaveUp(); <-time.After(4 * time.Second) }, 2 * time.Second, true},
		"given up, much later": {
			func(_ *testing.T, first *Ticket) { first.GaveUp(); <-time.After(7 * time.Second) }, 0, true,
		},
		"repeated and answered": {
			func(t *testing.T, first *Ticket) {
				t.Helper()
				first.GaveUp()
				require.True(t, first.l.doubt.exists())
				<-time.After(time.Second)
				require.NoError(t, first.Posting())
				first.Answered()
				require.False(t, first.l.doubt.exists())
			}, 0, false,
		},
		"repeated and given up": {
			func(t *testing.T, first *Ticket) {
				t.Helper()
				first.GaveUp()
				<-time.After(time.Second)
				require.NoError(t, first.Posting())
				<-time.After(time.Second)
				first.GaveUp()
			}, 6 * time.Second, true,
		},
		"repeated and refused": {
			func(t *testing.T, first *Ticket) {
				t.Helper()
				first.GaveUp()
				<-time.After(time.Second)
				require.NoError(t, first.Posting())
				<-time.After(time.Second)
				first.Ended()
			}, 4 * time.Second, true,
		},
		"another write of the same call": {
			func(t *testing.T, first *Ticket) {
				t.Helper()
				first.GaveUp()
				start := time.Now()
				require.NoError(t, first.Lock(t.Context(), Claim{}))
				require.Equal(t, 6*time.Second, time.Since(start))
				require.NoError(t, first.Posting())
				first.Answered()
			}, 0, false,
		},
		"another write of the same call, stopped": {
			func(t *testing.T, first *Ticket) {
				t.Helper()
				first.GaveUp()
				require.Error(t, first.Lock(within(t, time.Second), Claim{}))
				require.ErrorIs(t, first.Posting(), errNotLocked)
			}, 5 * time.Second, true,
		},
	}
	for name, test := range tests {
		for _, where := range []string{"without a file", "with a file", "another process"} {
			t.Run(name+"/"+where, func(t *testing.T) {
				t.Parallel()
				dir := lockFolder(t)
				synctest.Test(t, func(t *testing.T) {
					l := New(Options{})
					if where != "without a file" {
						l = fileWriteLock(t, dir)
					}
					first := locked(t, l)
					if name != "nothing posted" {
						require.NoError(t, first.Posting())
					}
					test.call(t, first)
					first.Leave()
					if where == "another process" {
						l = fileWriteLock(t, dir)
					}
					synctest.Wait() // until the service has answered
					want := test.want
					if where == "another process" && test.unanswered {
						want = settleAfter // It asks for itself.
					}
					start := time.Now()
					second := locked(t, l)
					require.Equal(t, want, time.Since(start))
					require.False(t, second.l.doubt.exists())
					second.Leave()
				})
			})
		}
	}
}

func TestLockFileShowsThePostInFlight(t *testing.T) {
	t.Parallel()
	dir := lockFolder(t)
	path := filepath.Join(dir, "ledger.lock")
	synctest.Test(t, func(t *testing.T) {
		content := func() string {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			return string(data)
		}
		l := fileWriteLock(t, dir)
		ticket := locked(t, l)
		require.Empty(t, content(), "evaluating a policy posts nothing that has to be remembered")
		require.NoError(t, ticket.Posting())
		require.Equal(t, "posted   2000-01-01T00:00:00.000000000Z\n", content())
		<-time.After(1500 * time.Millisecond)
		ticket.GaveUp()
		require.Equal(t, "given up 2000-01-01T00:00:01.500000000Z\n", content())
		require.NoError(t, ticket.Repeat(t.Context()))
		require.NoError(t, ticket.Posting())
		require.Equal(t, "posted   2000-01-01T00:00:02.500000000Z\n", content())
		ticket.Ended()
		require.Equal(t, "given up 2000-01-01T00:00:01.500000000Z\n", content())
		require.NoError(t, ticket.Posting())
		ticket.Answered()
		settled := "settled  " + strings.Repeat(" ", 30) + "\n"
		require.Equal(t, settled, content())
		ticket.Leave()
		require.Equal(t, settled, content())
	})
}

// TestLockFileContent has a process find a file in some state, as a killed or a foreign one may have left it. The service is alive.
func TestLockFileContent(t *testing.T) {
	t.Parallel()
	const s = time.Second
	settled := string(note{}.append(nil))
	tests := map[string]struct {
		content string
		want    time.Duration
	}{
		"new":                   {"", 0},
		"settled":               {settled, 0},
		"posted now":            {"posted   2000-01-01T00:00:00.000000000Z\n", 6 * s},
		"posted long ago":       {"posted   1999-01-01T00:00:00.000000000Z\n", 6 * s},
		"posted in the future":  {"posted   2000-01-01T00:00:00.000000001Z\n", 6 * s},
		"given up 2 s ago":      {"given up 1999-12-31T23:59:58.000000000Z\n", 6 * s},
		"given up long ago":     {"given up 1999-01-01T00:00:00.000000000Z\n", 6 * s},
		"cut off":               {settled[:12], 6 * s},
		"cut off by one":        {settled[:len(settled)-1], 6 * s},
		"one blank":             {" ", 6 * s},
		"zeros":                 {strings.Repeat("\x00", noteWidth), 6 * s},
		"another word":          {"what     2000-01-01T00:00:00.000000000Z\n", 6 * s},
		"no time":               {"posted   2000-13-01T00:00:00.000000000Z\n", 6 * s},
		"garbage":               {"posted some time ago, who knows when it was\n", 6 * s},
		"something behind it":   {"given up 1999-12-31T23:59:58.000000000Z\nand more\n", 6 * s},
		"something behind none": {settled + "and more\n", 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := lockFolder(t)
			require.NoError(t, os.Mkdir(dir, 0o700))
			path := filepath.Join(dir, "ledger.lock")
			require.NoError(t, os.WriteFile(path, []byte(test.content), 0o600))
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				// A call gives up after 2 s, the next one of its process must not begin to wait anew.
				l := fileWriteLock(t, dir)
				if test.want > 2*time.Second {
					hasty := l.Enter()
					var lockErr *WaitError
					require.ErrorAs(t, hasty.Lock(within(t, 2*time.Second), Claim{}), &lockErr)
					require.Equal(t, waitSettled, lockErr.wait)
					require.Equal(t, 4, lockErr.CallAgainIn())
					hasty.Leave()
				}
				ticket := locked(t, l)
				require.Equal(t, test.want, time.Since(start))
				found, err := l.file.read()
				require.NoError(t, err)
				require.Equal(t, note{}, found, "cleared when the wait is over")
				ticket.Leave()
			})
		})
	}
}

func TestLockErrorRoundsTheSecondsUp(t *testing.T) {
	t.Parallel()
	for left, want := range map[time.Duration]int{0: 0, 1: 1, time.Second: 1, time.Second + 1: 2, 6 * time.Second: 6} {
		require.Equal(t, want, (&WaitError{unsettled: left}).CallAgainIn(), left)
	}
}

// TestWriteLockWithoutAFolder covers what is the same on every system; lock_unix_test.go has the rest.
func TestWriteLockWithoutAFolder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, dir := range map[string]string{
		"no parent":       filepath.Join(t.TempDir(), "no", "parent"),
		"a file":          file,
		"parent's a file": filepath.Join(file, "locks"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireProcessLockOnly(t, dir)
		})
	}
}

// requireProcessLockOnly asserts that a lock in dir orders the writers of its process and no more, and says so once.
func requireProcessLockOnly(t *testing.T, dir string) {
	t.Helper()
	var warnings []string
	l := New(Options{Dir: dir, Name: "ledger", Warn: func(msg string) { warnings = append(warnings, msg) }})
	closeAtEnd(t, l)
	other := New(Options{Dir: dir, Name: "ledger"})
	closeAtEnd(t, other)
	for range 3 {
		ticket := locked(t, l)
		requireShut(t, l, waitQueue)
		locked(t, other).Leave()
		require.NoError(t, ticket.Posting())
		ticket.Answered()
		ticket.Leave()
	}
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "write lock: only the writes of this process are ordered, other processes of this user are not kept out: ")
	require.Contains(t, warnings[0], dir, "the warning names what is in the way")
}

func TestWriteLockComesBackWithItsFolder(t *testing.T) {
	t.Parallel()
	dir := lockFolder(t)
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	warned := 0
	l := New(Options{Dir: dir, Name: "ledger", Warn: func(string) { warned++ }})
	closeAtEnd(t, l)
	locked(t, l).Leave()
	require.Equal(t, 1, warned)
	require.NoError(t, os.Remove(dir))
	holder := locked(t, l)
	requireShut(t, fileWriteLock(t, dir), waitFile)
	holder.Leave()
}

// A lock that was waited for and not got, or got too late, is not kept from other processes.
func TestTicketLockLetsGoOfTheFile(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(t *testing.T, ticket *Ticket){
		"context ends": func(t *testing.T, ticket *Ticket) {
			t.Helper()
			require.ErrorIs(t, ticket.Lock(within(t, time.Second), Claim{}), context.DeadlineExceeded)
		},
		"left while waiting": func(t *testing.T, ticket *Ticket) {
			t.Helper()
			got := make(chan error, 1)
			go func() { got <- ticket.Lock(t.Context(), Claim{}) }()
			synctest.Wait()
			ticket.Leave()
			require.ErrorIs(t, <-got, errLeft)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := lockFolder(t)
			synctest.Test(t, func(t *testing.T) {
				l := fileWriteLock(t, dir)
				first := locked(t, l)
				first.GaveUp()
				first.Leave()
				ticket := l.Enter()
				stop(t, ticket)
				requireShut(t, fileWriteLock(t, dir), waitSettled) // And not waitFile.
			})
		})
	}
}

// The warning comes between the waits: that is where leave arrives here, so late that no wait sees it.
func TestTicketLeftAtTheLastMoment(t *testing.T) {
	t.Parallel()
	var ticket *Ticket
	l := New(Options{Dir: filepath.Join(t.TempDir(), "no", "parent"), Name: "ledger", Warn: func(string) { ticket.Leave() }})
	closeAtEnd(t, l)
	ticket = l.Enter()
	require.ErrorIs(t, ticket.Lock(t.Context(), Claim{}), errLeft)
	require.ErrorIs(t, ticket.Posting(), errNotLocked)
	locked(t, l).Leave()
}

// A full or failing disk under the lock file is no reason to refuse evidence.
func TestLockFileThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	var warnings []string
	dir := lockFolder(t)
	l := New(Options{Dir: dir, Name: "ledger", Warn: func(msg string) { warnings = append(warnings, msg) }, Probe: dead})
	closeAtEnd(t, l)
	ticket := locked(t, l)
	written := l.file.ledger.File
	readOnly, err := os.Open(l.file.ledger.path)
	require.NoError(t, err)
	defer readOnly.Close() //nolint:errcheck // Only read.
	l.file.ledger.File = readOnly
	require.NoError(t, ticket.Posting())
	ticket.GaveUp()
	l.file.ledger.File = written
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "write lock: unanswered writes are not shown to other processes: write the lock file: ")
	requireShut(t, fileWriteLock(t, dir), waitFile)
	ticket.Leave()

	// This process still knows, and does not believe the older note in the file.
	requireShut(t, l, waitSettled)
}

func TestLockFileThatCannotBeRead(t *testing.T) {
	t.Parallel()
	l := fileWriteLock(t, lockFolder(t))
	ticket := locked(t, l)
	written := l.file.ledger.File
	writeOnly, err := os.OpenFile(l.file.ledger.path, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer writeOnly.Close() //nolint:errcheck // Not written.
	l.file.ledger.File = writeOnly
	_, err = l.file.read()
	l.file.ledger.File = written
	require.ErrorContains(t, err, "read the lock file: ")
	require.NotErrorIs(t, err, errNoNote)
	require.NotErrorIs(t, err, io.EOF)
	ticket.Leave()
}

// TestWriteLockUnderStress lets calls of several "processes" come, wait, lose patience and leave, and looks for two
// at once.
func TestWriteLockUnderStress(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64() //nolint:gosec // No secret.
	t.Logf("seed %d", seed)
	dir := lockFolder(t)
	var (
		inside atomic.Int32
		served atomic.Int32
		calls  sync.WaitGroup
	)
	locks := make([]*Lock, 4)
	for p := range locks {
		locks[p] = fileWriteLock(t, dir)
	}
	for p, l := range locks {
		for i := range 50 {
			random := rand.New(rand.NewPCG(seed, uint64(p*1000+i))) //nolint:gosec // No secret.
			calls.Go(func() {
				ticket := l.Enter()
				patience := lockPatience
				if random.IntN(4) == 0 {
					patience = time.Duration(random.IntN(2000)) * time.Microsecond
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if random.IntN(8) == 0 {
					calls.Go(ticket.Leave)
					_ = ticket.Lock(ctx, Claim{}) // Either way: it cannot rely on the lock.
				} else if ticket.Lock(ctx, Claim{}) == nil {
					assert.Equal(t, int32(1), inside.Add(1))
					if ticket.Posting() == nil {
						served.Add(1)
						ticket.Answered()
					}
					inside.Add(-1)
				}
				ticket.Leave()
			})
		}
	}
	calls.Wait()
	require.GreaterOrEqual(t, served.Load(), int32(100))
	for _, l := range locks {
		<-l.file.waiting()
		require.Empty(t, l.queue)
	}
	locked(t, fileWriteLock(t, dir)).Leave()
}

func BenchmarkWriteLock(b *testing.B) {
	for _, dir := range []string{"", filepath.Join(b.TempDir(), "locks")} {
		b.Run("file="+strconv.FormatBool(dir != ""), func(b *testing.B) {
			l := New(Options{Dir: dir, Name: "ledger", Warn: func(msg string) { b.Error(msg) }})
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				ticket := l.Enter()
				if err := ticket.Lock(ctx, Claim{}); err != nil {
					b.Fatal(err)
				}
				if err := ticket.Posting(); err != nil {
					b.Fatal(err)
				}
				ticket.Answered()
				ticket.Leave()
			}
		})
	}
}
