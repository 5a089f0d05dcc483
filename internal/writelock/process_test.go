package writelock

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWriteLockProcess is no test but the other process of the tests below: they start the test binary with
// arguments. It does what they tell it over a connection, a word a line.
//
//	go N    enter N calls at once; with the lock each says "in", waits for a line, says "out", waits, and leaves
//	post    take the lock, announce a POST, say "posted", and never come back
func TestWriteLockProcess(t *testing.T) {
	t.Parallel()
	if flag.NArg() == 0 {
		return // An ordinary test run.
	}
	address, dir := flag.Arg(0), flag.Arg(1)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	defer conn.Close() //nolint:errcheck // The process ends.
	lines := bufio.NewScanner(conn)
	say := func(word string) {
		_, err := io.WriteString(conn, word+"\n")
		assert.NoError(t, err)
	}
	l := fileWriteLock(t, dir)
	say("ready")
	require.True(t, lines.Scan())
	switch word, arg, _ := strings.Cut(lines.Text(), " "); word {
	case "go":
		n, err := strconv.Atoi(arg)
		require.NoError(t, err)
		var calls sync.WaitGroup
		for range n {
			ticket := l.Enter()
			calls.Go(func() {
				defer ticket.Leave()
				if !assert.NoError(t, ticket.Lock(within(t, lockPatience))) {
					return
				}
				assert.NoError(t, ticket.Posting())
				say("in")
				assert.True(t, lines.Scan())
				say("out")
				assert.True(t, lines.Scan())
				ticket.Answered()
			})
		}
		calls.Wait()
	case "post":
		require.NoError(t, locked(t, l).Posting())
		say("posted")
		assert.False(t, lines.Scan(), "this process is to be killed here")
	}
}

// process is a running TestWriteLockProcess.
type process struct {
	cmd   *exec.Cmd
	conn  net.Conn
	lines *bufio.Scanner
}

// startProcess starts another process that locks in dir, and returns when it is ready.
func startProcess(t *testing.T, dir string) *process {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close() //nolint:errcheck // It has done its work.

	output := &strings.Builder{}
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestWriteLockProcess$", "--", listener.Addr().String(), dir) //nolint:gosec // This very program.
	cmd.Stdout, cmd.Stderr = output, output
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // It may have ended.
		_ = cmd.Wait()         // What it says is of interest only where the test has failed.
		if t.Failed() {
			t.Logf("output of the other process:\n%s", output)
		}
	})

	require.NoError(t, listener.(*net.TCPListener).SetDeadline(time.Now().Add(lockPatience)))
	conn, err := listener.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() }) // The other end may have closed it.
	require.NoError(t, conn.SetDeadline(time.Now().Add(2*lockPatience)))
	p := &process{cmd: cmd, conn: conn, lines: bufio.NewScanner(conn)}
	require.Equal(t, "ready", p.hear())
	return p
}

// say sends the process a line.
func (p *process) say(line string) error {
	_, err := fmt.Fprintln(p.conn, line)
	return err
}

// hear returns the next line of the process, empty when there will be none.
func (p *process) hear() string {
	p.lines.Scan()
	return p.lines.Text()
}

// kill ends the process as SIGKILL does, without a chance to tidy up.
func (p *process) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Kill())
	require.Error(t, p.cmd.Wait(), "it was killed")
}

func TestWriteLockExcludesProcesses(t *testing.T) {
	t.Parallel()
	const processes, calls = 4, 16
	dir := lockFolder(t)
	others := make([]*process, processes)
	for i := range others {
		others[i] = startProcess(t, dir)
	}
	var (
		mu     sync.Mutex
		inside int
		order  []int
		done   sync.WaitGroup
	)
	for i, p := range others {
		require.NoError(t, p.say("go "+strconv.Itoa(calls)))
		done.Go(func() {
			for line := p.hear(); line != ""; line = p.hear() {
				mu.Lock()
				if line == "in" {
					inside++
					order = append(order, i)
					assert.Equal(t, 1, inside, "two processes write at once")
				} else {
					inside--
				}
				mu.Unlock()
				if line == "in" {
					<-time.After(2 * time.Millisecond) // The service takes its time.
				}
				assert.NoError(t, p.say("on"))
			}
		})
	}
	done.Wait()
	for _, p := range others {
		require.NoError(t, p.cmd.Wait())
	}
	require.Len(t, order, processes*calls)

	// A fair share is every fourth turn. Where the lock goes to whoever asks first, some wait for 20 turns.
	last := make([]int, processes)
	served := make([]int, processes)
	longest := 0
	for turn, p := range order {
		if served[p] > 0 { // Before the first turn they may not have been awake.
			longest = max(longest, turn-last[p]-1)
		}
		last[p] = turn
		served[p]++
	}
	t.Logf("order %v, longest wait %d turns", order, longest)
	require.LessOrEqual(t, longest, 2*(processes-1))
}

func TestWriteLockOfAKilledProcess(t *testing.T) {
	t.Parallel()
	const settle = 400 * time.Millisecond // In place of 6 s: this takes real time.
	dir := lockFolder(t)
	l := New(Options{Dir: dir, Name: "ledger", Settle: settle, Warn: func(msg string) { t.Errorf("warning: %s", msg) }})
	closeAtEnd(t, l)
	p := startProcess(t, dir)
	before := time.Now()
	require.NoError(t, p.say("post"))
	require.Equal(t, "posted", p.hear())
	after := time.Now()

	// It holds the lock, dies in the middle of its POST, and this one gets the lock only when that must be over.
	ticket := l.Enter()
	got := make(chan error, 1)
	go func() { got <- ticket.Lock(within(t, lockPatience)) }()
	waitsInFile(t, l)
	p.kill(t)
	require.NoError(t, <-got)
	require.GreaterOrEqual(t, time.Since(before), settle)
	at, err := l.file.read()
	require.NoError(t, err)
	require.Zero(t, at, "nobody has to wait for it again")
	require.NoError(t, ticket.Posting())
	ticket.Answered()
	ticket.Leave()

	// The same again, with somebody who is in a hurry.
	p = startProcess(t, dir)
	require.NoError(t, p.say("post"))
	require.Equal(t, "posted", p.hear())
	p.kill(t)
	requireShut(t, l, waitSettled)
	require.WithinRange(t, l.lastGivenUp(), after, time.Now())
	ticket = locked(t, l)
	require.Zero(t, ticket.UnsettledFor())
	ticket.Leave()
}

// A process that waits and is killed leaves neither the lock nor a turnstile shut.
func TestWriteLockOfAKilledWaiter(t *testing.T) {
	t.Parallel()
	dir := lockFolder(t)
	l, next := fileWriteLock(t, dir), fileWriteLock(t, dir)
	holder := locked(t, l)
	p := startProcess(t, dir)
	require.NoError(t, p.say("post"))
	require.Eventually(t, func() bool { return turnstileTaken(t, next) }, lockPatience, time.Millisecond)
	p.kill(t)
	holder.Leave()
	locked(t, next).Leave()
}

// turnstileTaken reports whether somebody stands in the last turnstile, which is where one waits for the lock.
func turnstileTaken(t *testing.T, l *Lock) bool {
	t.Helper()
	require.NoError(t, l.file.open())
	last := l.file.files[turnstiles-1].File
	free, err := flock(last, false)
	require.NoError(t, err)
	if free {
		require.NoError(t, funlock(last))
	}
	return !free
}
