//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// blockingPipe is a pipe as a shell makes it: Go's own is non-blocking.
func blockingPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	var ends [2]int
	require.NoError(t, unix.Pipe(ends[:]))
	unix.CloseOnExec(ends[0])
	unix.CloseOnExec(ends[1])
	return os.NewFile(uintptr(ends[0]), "r"), os.NewFile(uintptr(ends[1]), "w")
}

// asServer is this test binary as the program.
func asServer(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0]) //nolint:gosec // this test binary
	cmd.Env = append(os.Environ(), asProgram+"=1", "LOOPGRID_BASE_URL=http://127.0.0.1:1", "LOOPGRID_EVIDENCE_DIR="+t.TempDir())
	return cmd
}

const initializeLine = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}` + "\n"

// TestAnOutputThatSomebodyMadeNonBlocking: Node does that to the pipes that it has, and whoever shares one gets EAGAIN.
func TestAnOutputThatSomebodyMadeNonBlocking(t *testing.T) {
	t.Parallel()
	out, childOut := blockingPipe(t)
	errs, childErrs := blockingPipe(t)
	cmd := asServer(t)
	cmd.Stdout, cmd.Stderr = childOut, childErrs
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	reader := bufio.NewReader(out)
	_, err = io.WriteString(in, initializeLine)
	require.NoError(t, err)
	_, err = reader.ReadString('\n')
	require.NoError(t, err)

	require.NoError(t, unix.SetNonblock(int(childOut.Fd()), true)) // after it looked at its streams
	require.NoError(t, unix.SetNonblock(int(childErrs.Fd()), true))
	const calls = 3000 // their answers are more than a pipe takes
	for i := range calls {
		_, err = fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"loopgrid.verify_evidence","arguments":{}}}`+"\n", i)
		require.NoError(t, err)
	}
	require.NoError(t, in.Close())
	require.NoError(t, childOut.Close())
	require.NoError(t, childErrs.Close())
	logged := make(chan int)
	go func() {
		all, _ := io.ReadAll(errs)
		logged <- strings.Count(string(all), "tool call")
	}()
	answered := map[string]bool{}
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			break
		}
		if strings.Contains(line, "required but missing") {
			answered[line] = true
		}
	}
	assert.Len(t, answered, calls)
	require.NoError(t, cmd.Wait())
	assert.Positive(t, <-logged)
}

// TestTheShellsInputIsLeftAsItWas: what one process does to the mode of a pipe is done to all that share it.
func TestTheShellsInputIsLeftAsItWas(t *testing.T) {
	t.Parallel()
	t.Run("a loop that reads its lines there", func(t *testing.T) {
		t.Parallel()
		in, feed := blockingPipe(t)
		cmd := asServer(t)
		cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `while read line; do "$0" version; echo "read $line"; done`, os.Args[0]}
		cmd.Stdin = in
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		reader := bufio.NewReader(out)
		for _, line := range []string{"one", "two", "three"} { // the next line comes when the loop waits for it
			_, err := feed.WriteString(line + "\n")
			require.NoError(t, err)
			for {
				got, err := reader.ReadString('\n')
				require.NoError(t, err)
				if got == "read "+line+"\n" {
					break
				}
			}
			require.False(t, nonblocking(in), "the shell would be told that there is no line")
		}
		require.NoError(t, feed.Close())
		require.NoError(t, cmd.Wait())
		require.NoError(t, in.Close())
	})
	t.Run("a server", func(t *testing.T) {
		t.Parallel()
		in, feed := blockingPipe(t)
		cmd := asServer(t)
		cmd.Stdin = in
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = feed.WriteString(initializeLine)
		require.NoError(t, err)
		_, err = bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		require.NoError(t, cmd.Process.Signal(unix.SIGTERM))
		require.NoError(t, cmd.Wait())
		assert.False(t, nonblocking(in))
		require.NoError(t, feed.Close())
		require.NoError(t, in.Close())
	})
	t.Run("that somebody makes non-blocking while it is read", func(t *testing.T) {
		t.Parallel()
		input, host := socketPair(t)
		cmd := asServer(t)
		cmd.Stdin, cmd.Stdout = input, input // both one: the program leaves the mode alone
		require.NoError(t, cmd.Start())
		_, err := host.WriteString(initializeLine)
		require.NoError(t, err)
		reader := bufio.NewReader(host)
		for range 3 {
			_, err = reader.ReadString('\n')
			require.NoError(t, err)
			require.NoError(t, unix.SetNonblock(int(input.Fd()), true))
			_, err = host.WriteString(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n")
			require.NoError(t, err)
		}
		require.NoError(t, unix.Shutdown(int(host.Fd()), unix.SHUT_WR))
		require.NoError(t, cmd.Wait())
		require.NoError(t, input.Close())
		require.NoError(t, host.Close())
	})
}

func socketPair(t *testing.T) (*os.File, *os.File) {
	t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	unix.CloseOnExec(ends[0]) // or the child would hold the host's end too
	unix.CloseOnExec(ends[1])
	return os.NewFile(uintptr(ends[0]), "a"), os.NewFile(uintptr(ends[1]), "b")
}
