package bundle

import (
	"errors"

	"golang.org/x/sys/windows"
)

// isNoRoom says whether a write failed because the disk or the quota is full.
func isNoRoom(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) ||
		errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED)
}

// isHeldByOther says whether a rename failed because another program has one of the files open: the new one gives a sharing or
// lock violation, the one to replace "access denied".
func isHeldByOther(err error) bool {
	return errors.Is(err, windows.ERROR_SHARING_VIOLATION) || errors.Is(err, windows.ERROR_LOCK_VIOLATION) ||
		errors.Is(err, windows.ERROR_ACCESS_DENIED)
}

// sync does nothing: Windows has no such call for a directory.
func (d *folder) sync() {}
