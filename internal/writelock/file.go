package writelock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// lockTime is the layout of the lock file: one time in UTC, of the same width always, or blanks. In plain text, for
// the person who wonders what the file is.
const lockTime = "2006-01-02T15:04:05.000000000Z\n"

// noLockTime is what stands in the lock file when no POST is in flight: blanks of the same width.
const noLockTime = "                              \n"

var errNoTime = errors.New("not a time")

// turnstiles is how many turnstiles stand before the lock, see [fileLock].
const turnstiles = 3

// fileLock is the lock between processes: an advisory lock that the system drops when its holder dies, on a file that
// also holds the time of the POST in flight.
//
// The system gives such a lock to whoever asks first after it was dropped. So a process with many calls in its queue
// would take it again and again before one that waits for it is awake. Therefore turnstiles stand before it, one
// behind the other, which are locked files as well: one passes by locking the next before unlocking the last, so at
// each but the first only one process waits, and nobody can overtake it. Whoever has just dropped the lock begins at
// the first again. One process more than there are turnstiles takes turns exactly; of still more, those before the
// first turnstile come in about the order in which the system wakes them.
//
// The descriptors stay open between calls: opening costs more than locking.
type fileLock struct {
	dir, name string

	mu   sync.Mutex
	wait *fileWait // a wait in the background; nil: there is none

	// What follows belongs to the wait in the background, else to the head of the queue.
	files             []*lockedFile // the turnstiles and the lock itself; nil: not open
	passed            int           // how many of files were locked on the way; the last of them still is
	turnstilesChecked time.Time
	buf               []byte
}

// fileWait is a blocking wait for the lock, which nothing can interrupt. It has a goroutine and a thread of its own.
// When the call that began it gives up, the next call takes the wait over, and if there is none by the time the lock
// comes, the lock is dropped at once: so a process has one such thread, however many calls give up behind a holder
// that hangs.
type fileWait struct {
	wanted bool // guarded by fileLock.mu
	done   chan struct{}
	err    error // after done
}

// lockedFile is an open lock file.
type lockedFile struct {
	*os.File
	path string
	info os.FileInfo
}

// current reports whether the path still leads to the open file: somebody may have cleaned up the folder.
func (f *lockedFile) current() bool {
	info, err := os.Lstat(f.path)
	return err == nil && os.SameFile(info, f.info)
}

// acquire waits for the lock until ctx ends.
func (f *fileLock) acquire(ctx context.Context) error {
	w, err := f.takeOrWait()
	if w == nil {
		return err
	}
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wait == w {
		w.wanted = false
		return context.Cause(ctx)
	}
	return w.err // The lock came at the same moment.
}

// takeOrWait takes the lock if nobody is in the way. Else it returns the wait for it.
func (f *fileLock) takeOrWait() (*fileWait, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wait == nil {
		if ok, err := f.take(false); ok || err != nil {
			return nil, err
		}
		f.wait = &fileWait{done: make(chan struct{})}
		go f.takeInBackground(f.wait)
	}
	f.wait.wanted = true
	return f.wait, nil
}

func (f *fileLock) takeInBackground(w *fileWait) {
	_, err := f.take(true)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil && !w.wanted {
		f.release()
	}
	f.wait, w.err = nil, err
	close(w.done)
}

// take passes the turnstiles and takes the lock. If it must not block and somebody is in the way, it keeps its place
// and returns false: call it again to go on from there. After an error it has nothing.
func (f *fileLock) take(block bool) (ok bool, err error) {
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	for range 10 {
		if err := f.open(); err != nil {
			return false, err
		}
		for ; f.passed < len(f.files); f.passed++ {
			if ok, err := flock(f.files[f.passed].File, block); !ok {
				return false, err
			}
			if f.passed > 0 {
				if err := funlock(f.files[f.passed-1].File); err != nil {
					return false, err
				}
			}
		}
		f.passed = 0
		if f.current() {
			return true, nil
		}
		f.close()
	}
	return false, fmt.Errorf("lock %s: it is replaced again and again", filepath.Join(f.dir, f.name+".lock"))
}

// ledger is the file of the lock itself. Call it while the files are open.
func (f *fileLock) ledger() *lockedFile { return f.files[turnstiles] }

// current reports whether the paths still lead to the open files. Only a lock on the file that others will open
// excludes them, so that one is checked each time; the turnstiles are about order alone, and once a second is enough.
func (f *fileLock) current() bool {
	if now := time.Now(); now.Sub(f.turnstilesChecked) >= time.Second {
		for _, file := range f.files[:turnstiles] {
			if !file.current() {
				return false
			}
		}
		f.turnstilesChecked = now
	}
	return f.ledger().current()
}

// open opens the files unless they are open.
func (f *fileLock) open() error {
	if f.files != nil {
		return nil
	}
	root, err := openLockDir(f.dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // Nothing was written through it.
	for i := range turnstiles + 1 {
		name := f.name + ".turn" + strconv.Itoa(i+1)
		if i == turnstiles {
			name = f.name + ".lock"
		}
		file, err := openLockFile(root, name)
		if err != nil {
			return err
		}
		f.files = append(f.files, file)
	}
	return nil
}

// close closes the files, and so drops their locks.
func (f *fileLock) close() {
	for _, file := range f.files {
		_ = file.Close() // Whatever was to be written was written before.
	}
	f.files, f.passed = nil, 0
}

// release drops the lock.
func (f *fileLock) release() {
	if err := funlock(f.ledger().File); err != nil {
		f.close()
	}
}

// read returns the time in the file, the zero time if there is none, and errNoTime if there is something else. Call
// it with the lock held.
func (f *fileLock) read() (time.Time, error) {
	f.buf = append(f.buf[:0], lockTime...)
	n, err := f.ledger().ReadAt(f.buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return time.Time{}, fmt.Errorf("read the lock file: %w", err)
	}
	if n == 0 || string(f.buf[:n]) == noLockTime {
		return time.Time{}, nil
	}
	at, err := time.Parse(lockTime, string(f.buf[:n]))
	if err != nil {
		return time.Time{}, errNoTime
	}
	return at, nil
}

// write writes the time into the file, blanks for the zero time, in one call and in place. It is not synced: it has
// to outlive this process, not the machine. Call it with the lock held.
func (f *fileLock) write(at time.Time) error {
	f.buf = append(f.buf[:0], noLockTime...)
	if !at.IsZero() {
		f.buf = at.UTC().AppendFormat(f.buf[:0], lockTime)
	}
	if _, err := f.ledger().WriteAt(f.buf, 0); err != nil {
		return fmt.Errorf("write the lock file: %w", err)
	}
	return nil
}

// openLockDir opens the folder of the lock files, and makes it if it is not there. Everything in it is opened through
// the handle returned: what was checked is what is used. The folder must be a folder and no link, and on Unix ours
// and open to nobody else, or somebody else could lead us to files of theirs, or hold the lock.
func openLockDir(dir string) (*os.Root, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("make the lock folder: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the lock folder: %w", err)
	}
	if err := checkLockRoot(root); err != nil {
		_ = root.Close() // The first error is the one to report.
		return nil, fmt.Errorf("check the lock folder: %w", err)
	}
	return root, nil
}

// checkLockRoot compares the open folder with what the path is by itself: opening follows links.
func checkLockRoot(root *os.Root) error {
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	link, err := os.Lstat(root.Name())
	if err != nil {
		return err
	}
	if !link.IsDir() || !os.SameFile(link, info) {
		return fmt.Errorf("%s is a link", root.Name())
	}
	if err := checkLockDir(info); err != nil {
		return fmt.Errorf("%s %w", root.Name(), err)
	}
	return nil
}

// openLockFile opens a file of the lock folder for reading and writing, and makes it if it is not there.
func openLockFile(root *os.Root, name string) (*lockedFile, error) {
	path := filepath.Join(root.Name(), name)
	file, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock file %s: %w", path, err)
	}
	info, err := checkLockFile(root, file, name)
	if err != nil {
		_ = file.Close() // The first error is the one to report.
		return nil, fmt.Errorf("check the lock file: %s %w", path, err)
	}
	return &lockedFile{File: file, path: path, info: info}, nil
}

// checkLockFile refuses what is not an ordinary file of ours or was reached through a link.
func checkLockFile(root *os.Root, file *os.File, name string) (os.FileInfo, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	// A file that is gone again or another one by now is no fault: take finds out that it is not current.
	if link, err := root.Lstat(name); err == nil && !link.Mode().IsRegular() {
		return nil, errors.New("is not a regular file")
	}
	return info, checkOwner(info)
}
