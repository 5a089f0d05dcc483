package launch_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/writelock"
	"github.com/loopgridio/loopgrid-mcp/scripts/launch"
)

// TestMain is also a program whose sandbox does not come up.
func TestMain(m *testing.M) {
	switch os.Getenv("LAUNCH_TEST") {
	case "fails":
		fmt.Fprintln(os.Stderr, "no room")
		os.Exit(1)
	case "hangs":
		time.Sleep(time.Minute)
	}
	os.Exit(m.Run())
}

func TestSandbox(t *testing.T) {
	t.Parallel()
	program, err := launch.Build(t.Context(), t.TempDir(), launch.Program)
	require.NoError(t, err)
	s, err := launch.StartSandbox(t.Context(), program)
	require.NoError(t, err)
	address, err := url.Parse(s.URL)
	require.NoError(t, err)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address.Host)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	dir, err := writelock.DefaultDir()
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	lock := filepath.Join(dir, writelock.Name(address)+".lock")
	require.NoError(t, os.WriteFile(lock, nil, 0o600))
	s.Stop()
	s.Stop()
	assert.NoFileExists(t, lock, "a bridge left it for this sandbox")
	_, err = new(net.Dialer).DialContext(t.Context(), "tcp", address.Host)
	require.Error(t, err, "it still listens")
}

func TestSandboxThatDoesNotStart(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	t.Setenv("LAUNCH_TEST", "fails")
	_, err = launch.StartSandbox(t.Context(), self)
	require.ErrorContains(t, err, "it ended before it listened: no room")

	t.Setenv("LAUNCH_TEST", "hangs")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = launch.StartSandbox(ctx, self)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestBuildSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := launch.Build(t.Context(), t.TempDir(), "github.com/loopgridio/loopgrid-mcp/cmd/nothing")
	require.ErrorContains(t, err, "build nothing: ")
}

func TestEnvironment(t *testing.T) {
	t.Setenv("LOOPGRID_SERVICE_KEY", "of the user")
	t.Setenv("LAUNCH_TEST", "kept")
	environ := launch.Environment("LOOPGRID_BASE_URL=x")
	assert.Contains(t, environ, "LAUNCH_TEST=kept")
	assert.Contains(t, environ, "LOOPGRID_BASE_URL=x")
	assert.NotContains(t, environ, "LOOPGRID_SERVICE_KEY=of the user")
}
