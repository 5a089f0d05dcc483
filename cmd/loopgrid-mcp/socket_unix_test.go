//go:build unix

package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestOneSocketForBoth: Node and socat hand a child one socket as stdin and stdout. What is done to the one end is done to the other.
func TestOneSocketForBoth(t *testing.T) {
	t.Parallel()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	unix.CloseOnExec(ends[0]) // or the child would hold the host's end too
	unix.CloseOnExec(ends[1])
	host, child := os.NewFile(uintptr(ends[0]), "host"), os.NewFile(uintptr(ends[1]), "child")
	cmd := exec.CommandContext(t.Context(), os.Args[0]) //nolint:gosec // this test binary
	cmd.Env = append(os.Environ(), asProgram+"=1", "LOOPGRID_BASE_URL=http://127.0.0.1:1")
	var stderr strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = child, child, &stderr
	require.NoError(t, cmd.Start())
	require.NoError(t, child.Close())
	// More than a socket takes at once, so that writing has to wait for the reader.
	const calls = 3000
	go func() {
		lines := `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}` + "\n"
		_, _ = io.WriteString(host, lines+strings.Repeat(`{"jsonrpc":"2.0","id":"l","method":"ping"}`+"\n"+`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n", 1))
		for i := range calls {
			_, _ = io.WriteString(host, `{"jsonrpc":"2.0","id":`+strconv.Itoa(i)+`,"method":"tools/call","params":{"name":"loopgrid.verify_evidence","arguments":{}}}`+"\n")
		}
		_ = unix.Shutdown(ends[0], unix.SHUT_WR)
	}()
	answered := 0
	out := bufio.NewScanner(host)
	for out.Scan() {
		if strings.Contains(out.Text(), "required but missing") {
			answered++
		}
	}
	require.NoError(t, cmd.Wait(), "%s", &stderr)
	assert.Equal(t, calls, answered)
	require.NoError(t, host.Close())
}
