package cli

import (
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// freeBytes returns how many bytes this user may still write to the volume of a directory.
func freeBytes(dir string) (uint64, error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, &os.PathError{Op: "free space", Path: dir, Err: err}
	}
	var available uint64
	if err := windows.GetDiskFreeSpaceEx(path, &available, nil, nil); err != nil {
		return 0, &os.PathError{Op: "free space", Path: dir, Err: err}
	}
	return available, nil
}

// isForeign cannot tell here: folder permissions apply.
func isForeign(fs.FileInfo) bool { return false }
