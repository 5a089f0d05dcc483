package config

import "syscall"

// canCreateIn says whether dir is a directory in which this process may create
// files. It opens the directory for adding a file, which asks for the right, and
// adds none.
func canCreateIn(dir string) bool {
	const (
		addFile       = 0x2 // FILE_ADD_FILE
		directoryFlag = 0x10
		shareDelete   = 0x4 // FILE_SHARE_DELETE
	)

	path, err := syscall.UTF16PtrFromString(dir)
	if err != nil {
		return false
	}
	attributes, err := syscall.GetFileAttributes(path)
	if err != nil || attributes&directoryFlag == 0 {
		return false
	}
	handle, err := syscall.CreateFile(path, addFile,
		syscall.FILE_SHARE_READ|syscall.FILE_SHARE_WRITE|shareDelete, nil,
		syscall.OPEN_EXISTING, syscall.FILE_FLAG_BACKUP_SEMANTICS, 0)
	if err != nil {
		return false
	}
	_ = syscall.CloseHandle(handle) // Nothing was written through it.

	return true
}
