//go:build unix

package config_test

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever is at the path of a file, nothing waits for it.
func TestFiles_ThatAreNone(t *testing.T) {
	t.Parallel()

	dir, err := os.MkdirTemp("", "lg") //nolint:usetesting // The path of a socket is short.
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	fifo, socket, dangling := filepath.Join(dir, "fifo"), filepath.Join(dir, "socket"), filepath.Join(dir, "dangling")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	require.NoError(t, os.Symlink("nowhere", dangling))

	for path, kind := range map[string]string{
		fifo: "is a named pipe", socket: "is a socket", os.DevNull: "is a device", dangling: "does not exist", dir: "is a directory",
	} {
		for _, name := range []string{"LOOPGRID_SERVICE_KEY_FILE", "LOOPGRID_CA_FILE"} {
			s := load(t, name+"="+path)
			assert.Equal(t, "problem 1 "+name+": "+name+" names "+path+", which "+kind+".", lines(s)[0])
		}
	}
}
