package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

const dirRemedy = "Let this user write there, or set LOOPGRID_EVIDENCE_DIR to a directory that it can write to."

// checkEvidenceDir finds out whether evidence can be saved. It leaves nothing behind, and does not make the directory: the first
// download does.
func (d *doctor) checkEvidenceDir() {
	dir := d.settings.EvidenceDir
	if dir.Path == "" {
		d.info(idDir, "evidence directory: not checked, fix the settings above first")
		return
	}
	d.info(idDir, fmt.Sprintf("evidence directory: %s (%s)", dir.Path, dir.Why))
	info, err := os.Stat(dir.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && isLink(dir.Path):
		d.fail(idDirWritable, "evidence directory writable: no, it is a link to something that does not exist",
			"Create the directory that the link points to, or set LOOPGRID_EVIDENCE_DIR to a directory.")
		return
	case errors.Is(err, fs.ErrNotExist):
		d.checkMissingDir(dir.Path)
		return
	case err != nil:
		d.fail(idDirWritable, "evidence directory writable: no, "+reason(err), dirRemedy)
		return
	case !info.IsDir():
		d.fail(idDirWritable, "evidence directory writable: no, it is "+kindOf(info.Mode()), "Move it away, or set LOOPGRID_EVIDENCE_DIR to a directory.")
		return
	}
	if err := tryFile(dir.Path); err != nil {
		d.fail(idDirWritable, "evidence directory writable: no, "+reason(err), dirRemedy)
	} else {
		d.ok(idDirWritable, "evidence directory writable: yes")
	}
	d.checkSpace(dir.Path)
	mode := info.Mode().Perm()
	says := fmt.Sprintf("evidence directory mode: %#o", mode)
	const othersWrite = 0o022
	switch {
	case runtime.GOOS == "windows":
		d.info(idDirMode, "evidence directory mode: not applicable on Windows (folder permissions apply)")
	case isForeign(info):
		d.warn(idDirMode, says+", and it belongs to another user, who can read, replace and remove files", "Set LOOPGRID_EVIDENCE_DIR to a directory of this user.")
	case mode&othersWrite != 0:
		d.warn(idDirMode, says+", so other users can add and replace files", fmt.Sprintf("chmod 700 %q", dir.Path))
	default:
		d.ok(idDirMode, says+" (files are written with 0600)")
	}
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// kindOf says what is at a path instead of a directory.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "a file"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	default:
		return "no directory"
	}
}

// checkMissingDir checks whether a directory can be made where there is none yet.
func (d *doctor) checkMissingDir(dir string) {
	above := filepath.Dir(dir)
	for {
		_, err := os.Stat(above)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || filepath.Dir(above) == above {
			break
		}
		above = filepath.Dir(above)
	}
	if err := tryDir(above); err != nil {
		d.fail(idDirWritable, fmt.Sprintf("evidence directory writable: no, it cannot be created in %s: %s", above, reason(err)), dirRemedy)
		return
	}
	d.ok(idDirWritable, "evidence directory writable: yes, it will be created on first use")
	d.checkSpace(above)
}

func (d *doctor) checkSpace(dir string) {
	free, err := freeBytes(dir)
	text := "evidence directory free space: " + bytesText(free)
	limit := max(0, d.settings.MaxEvidenceBytes)
	switch {
	case err != nil:
		d.info(idDirSpace, "evidence directory free space: not checked, "+reason(err))
	case free < uint64(limit):
		d.warn(idDirSpace, fmt.Sprintf("%s, less than one evidence file may have (%s)", text, bytesText(uint64(limit))),
			"Free some space, or set LOOPGRID_EVIDENCE_DIR to another disk.")
	default:
		d.ok(idDirSpace, text)
	}
}

// tryFile writes a file into a directory and removes it again: rights alone do not tell of a read-only or full disk.
func tryFile(dir string) error {
	f, err := os.CreateTemp(dir, ".loopgrid-mcp-doctor-*")
	if err != nil {
		return err
	}
	_, err = f.WriteString("doctor")
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// tryDir makes a directory in a directory and removes it again.
func tryDir(dir string) error {
	made, err := os.MkdirTemp(dir, ".loopgrid-mcp-doctor-*")
	if err != nil {
		return err
	}
	return os.Remove(made)
}

// reason is the cause of an error of the file system, without the name of the file that was tried.
func reason(err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err.Error()
	}
	return err.Error()
}

// bytesText shows a size as people read it.
func bytesText(n uint64) string {
	const unit = 1024
	size, units := float64(n), []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	for len(units) > 1 && size >= unit {
		size /= unit
		units = units[1:]
	}
	if units[0] == "bytes" {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f %s", size, units[0])
}
