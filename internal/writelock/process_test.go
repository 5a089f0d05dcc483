package writelock

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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
				if !assert.NoError(t, ticket.Lock(within(t, lockPatience), Claim{})) {
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
		served int
		done   sync.WaitGroup
	)
	for _, p := range others {
		require.NoError(t, p.say("go "+strconv.Itoa(calls)))
		done.Go(func() {
			for line := p.hear(); line != ""; line = p.hear() {
				mu.Lock()
				if line == "in" {
					inside++
					served++
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
	require.Equal(t, processes*calls, served)
}

// A process with many calls in its queue does not take the lock again and again before one that waits for it.
func TestTwoProcessesTakeTurns(t *testing.T) {
	t.Parallel()
	const calls = 8
	dir := lockFolder(t)
	watch := fileWriteLock(t, dir)
	type step struct {
		from int
		line string
	}
	steps := make(chan step)
	both := []*process{startProcess(t, dir), startProcess(t, dir)}
	for i, p := range both {
		require.NoError(t, p.say("go "+strconv.Itoa(calls)))
		go func() {
			for line := p.hear(); line != ""; line = p.hear() {
				steps <- step{i, line}
			}
		}()
	}
	var served [2]int
	last := -1
	for served[0]+served[1] < 2*calls {
		now := <-steps
		if now.line == "in" {
			if served[1-now.from] < calls {
				assert.NotEqual(t, last, now.from, "a second turn while the other one waits")
				require.Eventually(t, func() bool { return gateTaken(t, watch) }, lockPatience, time.Millisecond, "the other one comes to wait")
			}
			last = now.from
			served[last]++
		}
		require.NoError(t, both[now.from].say("on"))
	}
	for out := range steps { // of the last one
		require.NoError(t, both[out.from].say("on"))
		break
	}
	for _, p := range both {
		require.NoError(t, p.cmd.Wait())
	}
}

// A process that was stopped while it waits in the gate does not keep the others out.
func TestAStoppedWaiterKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	dir := lockFolder(t)
	locked(t, fileWriteLock(t, dir)).Leave()
	stopped, err := os.OpenFile(filepath.Join(dir, "ledger.gate"), os.O_RDWR, 0) // another descriptor is like another process
	require.NoError(t, err)
	defer stopped.Close() //nolint:errcheck // Nothing was written.
	ok, err := flock(stopped, false)
	require.NoError(t, err)
	require.True(t, ok)

	first, second := fileWriteLock(t, dir), fileWriteLock(t, dir)
	for range 3 {
		locked(t, first).Leave()
		locked(t, second).Leave()
	}
	holder := locked(t, first)
	requireShut(t, second, waitFile)
	holder.Leave()

	// It goes on: the others use the gate again.
	require.NoError(t, funlock(stopped))
	for _, l := range []*Lock{first, second} {
		require.Eventually(t, func() bool {
			l.file.gate.mu.Lock()
			defer l.file.gate.mu.Unlock()
			return !l.file.gate.coming
		}, lockPatience, time.Millisecond)
	}
	locked(t, first).Leave()
	require.False(t, gateTaken(t, second))
}

// A process that was killed in the middle of its POST leaves a note. Who finds it asks the service for a sign of life, and waits on.
func TestWriteLockOfAKilledProcess(t *testing.T) {
	t.Parallel()
	dir := lockFolder(t)
	probed := make(chan struct{}, 100)
	l := New(Options{Dir: dir, Name: "ledger", Warn: func(msg string) { t.Errorf("warning: %s", msg) }, Probe: func(ctx context.Context) error {
		probed <- struct{}{}
		<-ctx.Done() // The service hangs.
		return ctx.Err()
	}})
	closeAtEnd(t, l)
	p := startProcess(t, dir)
	require.NoError(t, p.say("post"))
	require.Equal(t, "posted", p.hear())

	// It holds the lock, dies, and this one gets the lock, and nothing is sent.
	ticket := l.Enter()
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error, 1)
	go func() { got <- ticket.Lock(ctx, Claim{}) }()
	waitsInFile(t, l)
	require.Empty(t, probed)
	p.kill(t)
	<-probed
	cancel()
	var lockErr *WaitError
	require.ErrorAs(t, <-got, &lockErr)
	require.Equal(t, waitSettled, lockErr.wait)
	ticket.Leave()

	// The next one finds the note too.
	next := fileWriteLock(t, dir)
	requireShut(t, next, waitSettled)
	require.True(t, next.doubt.exists())
}

// A process that waits and is killed leaves neither the lock nor the gate shut.
func TestWriteLockOfAKilledWaiter(t *testing.T) {
	t.Parallel()
	dir := lockFolder(t)
	l, next := fileWriteLock(t, dir), fileWriteLock(t, dir)
	holder := locked(t, l)
	p := startProcess(t, dir)
	require.NoError(t, p.say("post"))
	require.Eventually(t, func() bool { return gateTaken(t, next) }, lockPatience, time.Millisecond)
	p.kill(t)
	holder.Leave()
	locked(t, next).Leave()
}

// gateTaken reports whether somebody stands in the gate, which is where one waits for the lock.
func gateTaken(t *testing.T, l *Lock) bool {
	t.Helper()
	require.NoError(t, l.file.open())
	free, err := flock(l.file.gate.file.File, false)
	require.NoError(t, err)
	if free {
		require.NoError(t, funlock(l.file.gate.file.File))
	}
	return !free
}
