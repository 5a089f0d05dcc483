package bundle

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"
)

// folder is the open evidence directory. Everything in it is reached through the handle: a directory that is moved or replaced during
// a download takes nothing with it and gets nothing.
type folder struct {
	path string
	root *os.Root
}

// openFolder opens the directory and makes it where it is missing.
func openFolder(path string) (*folder, error) {
	if !utf8.ValidString(path) {
		return nil, fmt.Errorf("%w: its name is not valid UTF-8, so the result could not name the file: %.200q", ErrDir, path)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, dirError(err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, dirError(err)
	}
	return &folder{path: path, root: root}, nil
}

func (d *folder) close() { _ = d.root.Close() } // nothing was written through it

// isCurrent reports whether the path still leads to the open directory.
func (d *folder) isCurrent() bool {
	now, err := os.Stat(d.path)
	if err != nil {
		return false
	}
	opened, err := d.root.Stat(".")
	return err == nil && os.SameFile(now, opened)
}

// dirError says that the directory cannot be made or opened; err names the path.
func dirError(err error) error {
	if isNoRoom(err) {
		return fmt.Errorf("%w: %w", ErrNoRoom, err)
	}
	return fmt.Errorf("%w: %w", ErrDir, err)
}

// writeError says that an operation in the directory failed. The name of the temporary file says nothing to anyone and is left out.
func (d *folder) writeError(operation string, err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		err = path.Err
	case errors.As(err, &link):
		err = link.Err
	}
	kind := ErrDir
	if isNoRoom(err) {
		kind = ErrNoRoom
	}
	return fmt.Errorf("%w: %s in %s: %w", kind, operation, d.path, err)
}

// checkTarget refuses to replace anything but a regular file, and leaves it alone.
func (d *folder) checkTarget(name string) error {
	info, err := d.root.Lstat(name)
	path := filepath.Join(d.path, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return d.writeError("look up "+name, err)
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%w: %s is a symbolic link", ErrTarget, path)
	case info.IsDir():
		return fmt.Errorf("%w: %s is a directory", ErrTarget, path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: %s is not a regular file", ErrTarget, path)
	}
	return nil
}

func newTemporaryName() string {
	var random [tempRandom]byte
	_, _ = rand.Read(random[:]) // never fails
	return tempPrefix + hex.EncodeToString(random[:]) + tempSuffix
}

func isTemporaryName(name string) bool {
	random, ok := strings.CutPrefix(name, tempPrefix)
	if !ok {
		return false
	}
	random, ok = strings.CutSuffix(random, tempSuffix)
	return ok && len(random) == 2*tempRandom && strings.Trim(random, "0123456789abcdef") == ""
}

// createTemporary makes a file that was not there; whatever has the name already, a link too, is an error.
func (d *folder) createTemporary() (file *os.File, name string, err error) {
	name = newTemporaryName()
	file, err = d.create(name)
	return file, name, err
}

func (d *folder) create(name string) (*os.File, error) {
	file, err := d.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, d.writeError("create a file", err)
	}
	return file, nil
}

// remove removes a file of ours. Where the system cannot do so through the handle of the directory (Wine), the path has to do.
func (d *folder) remove(name string) {
	if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) && d.isCurrent() {
		_ = os.Remove(filepath.Join(d.path, name))
	}
}

// removeOldTemporaries removes the temporary files that killed processes left behind. It takes regular files with exactly such
// a name only, looks at a bounded number of names, and leaves for the next save what it cannot remove now.
func (d *folder) removeOldTemporaries(now time.Time) {
	dir, err := d.root.Open(".")
	if err != nil {
		return
	}
	names, _ := dir.Readdirnames(tempScan) // with an error too, the names that could be read
	_ = dir.Close()
	for _, name := range names {
		if !isTemporaryName(name) {
			continue
		}
		info, err := d.root.Lstat(name)
		if err == nil && info.Mode().IsRegular() && now.Sub(info.ModTime()) > tempAge {
			d.remove(name)
		}
	}
}

// receive copies src into file and returns the length and the SHA-256 of what came.
func (d *folder) receive(ctx context.Context, file *os.File, src io.Reader) (int64, string, error) {
	sum := sha256.New()
	var size int64
	buf := make([]byte, 64<<10)
	for {
		if err := ctx.Err(); err != nil {
			return 0, "", fmt.Errorf("receive the evidence bundle: %w", err)
		}
		n, readErr := src.Read(buf)
		if _, err := file.Write(buf[:n]); err != nil {
			return 0, "", d.writeError("write", err)
		}
		sum.Write(buf[:n])
		size += int64(n)
		if readErr == io.EOF {
			return size, hex.EncodeToString(sum.Sum(nil)), nil
		}
		if readErr != nil {
			return 0, "", fmt.Errorf("receive the evidence bundle: %w", readErr)
		}
	}
}

// place gives the temporary file its name, unless something that is not a regular file has taken the name meanwhile or the directory is
// not where it was.
func (d *folder) place(ctx context.Context, tempName, name string) error {
	moved := fmt.Errorf("%w: %s was moved or replaced during the download", ErrDir, d.path)
	if !d.isCurrent() {
		return moved
	}
	if err := d.checkTarget(name); err != nil {
		return err
	}
	err := renamePatiently(ctx, func() error { return d.root.Rename(tempName, name) }, isHeldByOther)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return fmt.Errorf("name the evidence file: %w", ctx.Err())
	case isHeldByOther(err):
		return fmt.Errorf("%w: %s is read-only or held by another program", ErrTarget, filepath.Join(d.path, name))
	default:
		return d.writeError("rename", err)
	}
	if !d.isCurrent() {
		d.remove(name)
		return moved
	}
	d.sync()
	return nil
}

// renamePatiently calls rename until it succeeds, fails for good, or ctx or the patience ends. It returns the last error.
func renamePatiently(ctx context.Context, rename func() error, held func(error) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	patience := time.NewTimer(renamePatience)
	defer patience.Stop()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 250*time.Millisecond) {
		err := rename()
		if err == nil || !held(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-patience.C:
			return err
		case <-time.After(wait):
		}
	}
}
