//go:build !windows

package main

import "os"

// showsColors says whether a file is a terminal.
func showsColors(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
