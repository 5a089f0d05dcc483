//go:build !windows

package bundle

import (
	"errors"

	"golang.org/x/sys/unix"
)

// isNoRoom says whether a write failed because the disk, the quota or the file size limit of the process is full.
func isNoRoom(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG)
}

// isHeldByOther says whether a rename failed because another program has the file open. That does not stop one here.
func isHeldByOther(error) bool { return false }

// sync makes a rename last over a power cut. The file is whole either way, and some file systems cannot do it, so a failure is none of
// the save.
func (d *folder) sync() {
	if dir, err := d.root.Open("."); err == nil {
		_ = dir.Sync()
		_ = dir.Close()
	}
}
