//go:build unix && !aix

package writelock

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestLockDirIsOnePlacePerUser(t *testing.T) {
	t.Parallel()
	dir, err := DefaultDir()
	require.NoError(t, err)
	require.Equal(t, "/tmp/loopgrid-mcp-"+strconv.Itoa(os.Geteuid()), dir)
}

func TestLockFilesAreForTheUserAlone(t *testing.T) {
	t.Parallel()
	dir := lockFolder(t)
	locked(t, fileWriteLock(t, dir)).Leave()
	info, err := os.Lstat(dir)
	require.NoError(t, err)
	require.Equal(t, os.ModeDir|0o700, info.Mode())
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 2)
	for _, file := range files {
		info, err := file.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode(), file.Name())
	}
}

func TestWriteLockInAHostileFolder(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T, dir string){
		"a link to a good folder": func(t *testing.T, dir string) {
			t.Helper()
			target := filepath.Join(t.TempDir(), "target")
			require.NoError(t, os.Mkdir(target, 0o700))
			require.NoError(t, os.Symlink(target, dir))
			t.Cleanup(func() { requireEmptyDir(t, target) })
		},
		"a link to nothing": func(t *testing.T, dir string) {
			t.Helper()
			target := filepath.Join(t.TempDir(), "target")
			require.NoError(t, os.Symlink(target, dir))
			t.Cleanup(func() { require.NoDirExists(t, target) })
		},
		"open to the group":  folderOfMode(0o770),
		"readable by others": folderOfMode(0o755),
		"enterable":          folderOfMode(0o701),
		"read-only":          folderOfMode(0o500),
		"the lock file is a link": func(t *testing.T, dir string) {
			t.Helper()
			folderOfMode(0o700)(t, dir)
			target := filepath.Join(t.TempDir(), "precious")
			require.NoError(t, os.WriteFile(target, []byte("precious"), 0o600))
			require.NoError(t, os.Symlink(target, filepath.Join(dir, "ledger.lock")))
			t.Cleanup(func() {
				data, err := os.ReadFile(target)
				require.NoError(t, err)
				require.Equal(t, "precious", string(data))
			})
		},
		"the lock file is a link within the folder": func(t *testing.T, dir string) {
			t.Helper()
			folderOfMode(0o700)(t, dir)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "other"), nil, 0o600))
			require.NoError(t, os.Symlink("other", filepath.Join(dir, "ledger.lock")))
		},
		"the gate is a link": func(t *testing.T, dir string) {
			t.Helper()
			folderOfMode(0o700)(t, dir)
			require.NoError(t, os.Symlink(filepath.Join(t.TempDir(), "away"), filepath.Join(dir, "ledger.gate")))
		},
		"the lock file is a folder": func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.MkdirAll(filepath.Join(dir, "ledger.lock"), 0o700))
		},
		"the lock file is a pipe": func(t *testing.T, dir string) {
			t.Helper()
			folderOfMode(0o700)(t, dir)
			require.NoError(t, unix.Mkfifo(filepath.Join(dir, "ledger.lock"), 0o600))
		},
		"the gate is a pipe": func(t *testing.T, dir string) {
			t.Helper()
			folderOfMode(0o700)(t, dir)
			require.NoError(t, unix.Mkfifo(filepath.Join(dir, "ledger.gate"), 0o600))
		},
		"the gate is a socket": func(t *testing.T, dir string) {
			t.Helper()
			folderOfMode(0o700)(t, dir)
			socketAt(t, filepath.Join(dir, "ledger.gate"))
		},
		"a pipe":              func(t *testing.T, dir string) { t.Helper(); require.NoError(t, unix.Mkfifo(dir, 0o700)) },
		"a pipe for everyone": func(t *testing.T, dir string) { t.Helper(); require.NoError(t, unix.Mkfifo(dir, 0o666)) },
		"a socket":            socketAt,
		"a link to a device":  func(t *testing.T, dir string) { t.Helper(); require.NoError(t, os.Symlink("/dev/tty", dir)) },
	}
	for name, arrange := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := lockFolder(t)
			arrange(t, dir)
			requireProcessLockOnly(t, dir)
		})
	}
}

// A file system that takes no file: not even root may make one in /proc, or on another system without it.
func TestWriteLockOnAReadOnlyFileSystem(t *testing.T) {
	t.Parallel()
	requireProcessLockOnly(t, "/proc/self/loopgrid-mcp")
}

// socketAt leaves a socket at the path. A test's own path is too long for one: it is made elsewhere and moved.
func socketAt(t *testing.T, path string) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	short, err := os.MkdirTemp("/tmp", "lg") //nolint:usetesting // see above
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: filepath.Join(short, "s")}))
	require.NoError(t, os.Rename(filepath.Join(short, "s"), path))
}

func folderOfMode(mode os.FileMode) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.Chmod(dir, mode)) // Not subject to the umask.
	}
}

func requireEmptyDir(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// anotherUsers is a file as another user would own it. Making a real one takes root.
type anotherUsers struct{ os.FileInfo }

func (anotherUsers) Sys() any { return &syscall.Stat_t{Uid: uint32(os.Geteuid()) + 1} } //nolint:gosec // A user id fits.

func TestLockFilesOfAnotherUserAreRefused(t *testing.T) {
	t.Parallel()
	dir := lockFolder(t)
	require.NoError(t, os.Mkdir(dir, 0o700))
	info, err := os.Lstat(dir)
	require.NoError(t, err)
	require.NoError(t, checkLockDir(info))
	require.NoError(t, checkOwner(info))
	require.EqualError(t, checkLockDir(anotherUsers{info}), "belongs to another user")
	require.EqualError(t, checkOwner(anotherUsers{info}), "belongs to another user")
}

// Somebody cleans up /tmp between two calls: what stays locked is the file that others will open.
func TestWriteLockFollowsAReplacedFile(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T, dir string){
		"file deleted": func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.Remove(filepath.Join(dir, "ledger.lock")))
		},
		"file replaced": func(t *testing.T, dir string) {
			t.Helper()
			path := filepath.Join(dir, "ledger.lock")
			require.NoError(t, os.WriteFile(path+".new", nil, 0o600))
			require.NoError(t, os.Rename(path+".new", path))
		},
		"folder deleted": func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.RemoveAll(dir))
		},
		"folder moved": func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.Rename(dir, dir+"-old"))
		},
	}
	for name, replace := range tests {
		t.Run(name+" between calls", func(t *testing.T) {
			t.Parallel()
			dir := lockFolder(t)
			l := fileWriteLock(t, dir)
			locked(t, l).Leave()
			replace(t, dir)
			ticket := locked(t, l)
			requireShut(t, fileWriteLock(t, dir), waitFile)
			ticket.Leave()
			locked(t, fileWriteLock(t, dir)).Leave()
		})
		t.Run(name+" while waiting", func(t *testing.T) {
			t.Parallel()
			dir := lockFolder(t)
			other, l := fileWriteLock(t, dir), fileWriteLock(t, dir)
			holder := locked(t, other)
			ticket := l.Enter()
			got := make(chan error, 1)
			go func() { got <- ticket.Lock(within(t, lockPatience), Claim{}) }()
			waitsInFile(t, l)
			replace(t, dir)
			holder.Leave()
			require.NoError(t, <-got)
			requireShut(t, fileWriteLock(t, dir), waitFile)
			requireShut(t, other, waitFile)
			ticket.Leave()
		})
	}
}

// The gate may be cleaned up alone: it is never written to, so it looks old.
func TestWriteLockFollowsAReplacedGate(t *testing.T) {
	t.Parallel()
	dir := lockFolder(t)
	l := fileWriteLock(t, dir)
	locked(t, l).Leave()
	path := l.file.gate.file.path
	require.NoError(t, os.Remove(path))
	l.file.gateChecked = time.Time{} // As it is a second later.
	locked(t, l).Leave()
	require.FileExists(t, path)
	require.True(t, l.file.gate.file.current())
}

func TestCheckLockDir(t *testing.T) {
	t.Parallel()
	dir := lockFolder(t)
	require.NoError(t, CheckDir(dir))
	require.NoDirExists(t, dir, "nothing is made")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, CheckDir(dir))
	require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // what is refused
	require.EqualError(t, CheckDir(dir), dir+" has mode -rwxr-xr-x instead of 0700")
	require.NoError(t, os.Chmod(dir, 0o700)) //nolint:gosec // a directory

	link := dir + "-link"
	require.NoError(t, os.Symlink(dir, link))
	require.EqualError(t, CheckDir(link), link+" is a link")
	dangling := dir + "-dangling"
	require.NoError(t, os.Symlink(dir+"-missing", dangling))
	require.EqualError(t, CheckDir(dangling), dangling+" is a link")
	file := dir + "-file"
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.EqualError(t, CheckDir(file), file+" is not a folder")
	pipe := dir + "-pipe"
	require.NoError(t, unix.Mkfifo(pipe, 0o700))
	require.EqualError(t, CheckDir(pipe), pipe+" is not a folder")
}
