package writelock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// gatePatience is how long a process waits at the gate before it goes to the lock without: a process that was stopped in the gate must not
// keep the others out.
const gatePatience = time.Second

// fileLock is the lock between processes: an advisory lock that the system drops when its holder dies, on a file that
// also holds a note about the POST in flight.
//
// The system gives such a lock to whoever asks first after it was dropped. So a process with many calls in its queue
// would take it again and again before one that waits for it is awake. Therefore a gate stands before it, which is a locked file as well:
// one passes by locking the lock before unlocking the gate. Whoever has just dropped the lock finds the one that waits in the gate. Two
// processes take turns exactly; of more, those before the gate come in about the order in which the system wakes them. The gate is about
// order alone, so who waits at it for too long goes past it.
//
// The descriptors stay open between calls: opening costs more than locking.
type fileLock struct {
	dir, name string

	mu   sync.Mutex
	wait *fileWait // a wait in the background; nil: there is none

	// What follows belongs to the wait in the background, else to the call that has its turn.
	ledger      *lockedFile // the lock itself; nil: not open
	gate        *gate
	gateChecked time.Time
	swept       bool
	buf         []byte
}

// gate is the file before the lock.
type gate struct {
	file *lockedFile
	inIt bool // it is locked by us

	mu     sync.Mutex
	coming bool // a goroutine waits for it that nobody waits for any more: it drops the gate as soon as it has it
	closed bool // and then closes it
}

// fileWait is a blocking wait for the lock, which nothing can interrupt. It has a goroutine and a thread of its own.
// When the call that began it gives up, the next call takes the wait over, and if there is none by the time the lock
// comes, the lock is dropped at once: so a process has one such thread, and one at the gate, however many calls give up behind a holder
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

// take passes the gate and takes the lock. If it must not block and somebody is in the way, it keeps its place
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
		if ok, err := f.gate.pass(block); !ok {
			return false, err
		}
		if ok, err := flock(f.ledger.File, block); !ok {
			return false, err
		}
		if err := f.gate.leave(); err != nil {
			return false, err
		}
		if f.current() {
			return true, nil
		}
		f.close()
	}
	return false, fmt.Errorf("lock %s: it is replaced again and again", filepath.Join(f.dir, f.name+".lock"))
}

// pass goes into the gate, or past it where that takes too long. If it must not block and somebody is in the gate, it returns false.
func (g *gate) pass(block bool) (ok bool, err error) {
	g.mu.Lock()
	pastIt := g.coming
	g.mu.Unlock()
	if pastIt || g.inIt {
		return true, nil
	}
	if g.inIt, err = flock(g.file.File, false); g.inIt || err != nil || !block {
		return g.inIt, err
	}
	came := make(chan error, 1)
	go func() {
		_, err := flock(g.file.File, true)
		came <- err
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.coming {
			g.coming = false
			g.drop()
		}
	}()
	timer := time.NewTimer(gatePatience)
	defer timer.Stop()
	select {
	case err = <-came:
	case <-timer.C:
		g.mu.Lock()
		defer g.mu.Unlock()
		select {
		case err = <-came: // at the same moment
		default:
			g.coming = true
			return true, nil
		}
	}
	g.inIt = err == nil
	return g.inIt, err
}

// drop gives up the gate that came when nobody waited for it any more.
func (g *gate) drop() {
	if g.closed || funlock(g.file.File) != nil {
		_ = g.file.Close() // Nothing is ever written to it.
		g.closed = true
	}
}

// leave goes out of the gate.
func (g *gate) leave() error {
	if !g.inIt {
		return nil
	}
	g.inIt = false
	return funlock(g.file.File)
}

// close closes the file, or leaves that to the goroutine that waits for it.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed = true; !g.coming {
		_ = g.file.Close() // Nothing is ever written to it.
	}
}

// current reports whether the paths still lead to the open files. Only a lock on the file that others will open
// excludes them, so that one is checked each time; the gate is about order alone, and once a second is enough.
func (f *fileLock) current() bool {
	if now := time.Now(); now.Sub(f.gateChecked) >= time.Second {
		if !f.gate.file.current() {
			return false
		}
		f.gateChecked = now
	}
	return f.ledger.current()
}

// open opens the files unless they are open.
func (f *fileLock) open() error {
	if f.ledger != nil {
		return nil
	}
	root, err := openLockDir(f.dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // Nothing was written through it.
	if !f.swept {
		f.swept = true
		sweep(root, f.name)
	}
	file, err := openLockFile(root, f.name+gateSuffix)
	if err != nil {
		return err
	}
	ledger, err := openLockFile(root, f.name+lockSuffix)
	if err != nil {
		_ = file.Close() // The first error is the one to report.
		return err
	}
	f.gate, f.ledger = &gate{file: file}, ledger
	return nil
}

const (
	lockSuffix = ".lock"
	gateSuffix = ".gate"
)

// close closes the files, and so drops their locks.
func (f *fileLock) close() {
	if f.ledger == nil {
		return
	}
	f.gate.close()
	_ = f.ledger.Close() // Whatever was to be written was written before.
	f.ledger, f.gate = nil, nil
}

// release drops the lock.
func (f *fileLock) release() {
	if err := funlock(f.ledger.File); err != nil {
		f.close()
	}
}

// read returns the note in the file, and errNoNote if there is something else. Call it with the lock held.
func (f *fileLock) read() (note, error) {
	f.buf = append(f.buf[:0], make([]byte, noteWidth)...)
	n, err := f.ledger.ReadAt(f.buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return note{}, fmt.Errorf("read the lock file: %w", err)
	}
	if n == 0 {
		return note{}, nil // A new file: every writer fills it before its first POST.
	}
	return parseNote(string(f.buf[:n]))
}

// write writes the note into the file, in one call and in place. It is not synced: it has to outlive this process, not the machine. Call
// it with the lock held.
func (f *fileLock) write(n note) error {
	f.buf = n.append(f.buf[:0])
	if _, err := f.ledger.WriteAt(f.buf, 0); err != nil {
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
	root, err := openTrusted(dir)
	if err != nil {
		return nil, fmt.Errorf("check the lock folder: %w", err)
	}
	return root, nil
}

// openTrusted opens a folder that checkLockDir accepts. What the path is comes first: opening a pipe would block, and nobody else can put
// one in the place of a folder of ours. Then the open folder is compared with it, because opening follows links.
func openTrusted(dir string) (*os.Root, error) {
	path, err := os.Lstat(dir)
	switch {
	case err != nil:
		return nil, err
	case path.Mode()&os.ModeSymlink != 0:
		return nil, fmt.Errorf("%s is a link", dir)
	case !path.IsDir():
		return nil, fmt.Errorf("%s is not a folder", dir)
	}
	if err := checkLockDir(path); err != nil {
		return nil, fmt.Errorf("%s %w", dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the lock folder: %w", err)
	}
	if info, err := root.Stat("."); err != nil || !os.SameFile(path, info) {
		_ = root.Close() // The first error is the one to report.
		return nil, errors.Join(fmt.Errorf("%s was replaced", dir), err)
	}
	return root, nil
}

// openLockFile opens a file of the lock folder for reading and writing, and makes it if it is not there.
func openLockFile(root *os.Root, name string) (*lockedFile, error) {
	path := filepath.Join(root.Name(), name)
	if info, err := root.Lstat(name); err == nil && !info.Mode().IsRegular() { // opening it may block
		return nil, fmt.Errorf("check the lock file: %s is not a regular file", path)
	}
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
