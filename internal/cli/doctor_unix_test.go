//go:build unix

package cli_test

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever is where evidence should go, the doctor names it and does not wait for it.
func TestDoctorOnWhatIsNoDirectory(t *testing.T) { //nolint:paralleltest // it sets the environment of the process
	dir, err := os.MkdirTemp("", "lg") //nolint:usetesting // the path of a socket is short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	fifo, socket, dangling := filepath.Join(dir, "fifo"), filepath.Join(dir, "socket"), filepath.Join(dir, "dangling")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	require.NoError(t, os.Symlink("nowhere", dangling))
	for path, kind := range map[string]string{
		fifo: "a named pipe", socket: "a socket", os.DevNull: "a device", dangling: "a link to something that does not exist",
	} {
		quiet(t)
		t.Setenv("LOOPGRID_EVIDENCE_DIR", path)
		assert.Contains(t, local(t, ""), "[FAIL] evidence directory writable: no, it is "+kind+"\n")
	}
}

// A program on PATH may be anything.
func TestDoctorOnAPipeOnPath(t *testing.T) {
	quiet(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "loopgrid-mcp")
	require.NoError(t, syscall.Mkfifo(path, 0o755))
	require.NoError(t, os.Chmod(path, 0o755)) //nolint:gosec // hosts look for what may be run
	t.Setenv("PATH", dir)
	assert.Contains(t, local(t, ""), "[WARN] loopgrid-mcp on PATH: another one, "+path+" (it cannot be read)\n")
}

func TestDoctorOnADirectoryOfSomebodyElse(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory away")
	}
	quiet(t)
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700)) //nolint:gosec // a directory
	require.NoError(t, os.Chown(dir, 12345, -1))
	t.Setenv("LOOPGRID_EVIDENCE_DIR", dir)
	assert.Contains(t, local(t, ""), "[WARN] evidence directory mode: 0700, and it belongs to another user, who can read, replace and remove files\n")
}

func TestDoctorOnALinkAsEvidenceDirectory(t *testing.T) {
	quiet(t)
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(dir, link))
	t.Setenv("LOOPGRID_EVIDENCE_DIR", link)
	assert.Contains(t, local(t, ""), "[OK] evidence directory writable: yes\n")
}
