package main

import "os"

// ignoreBrokenPipe does nothing: Windows has no such signal.
func ignoreBrokenPipe() {}

// polled changes nothing on Windows, where no pipe can be polled.
func polled(stdin, stdout *os.File) (in, out *os.File) { return stdin, stdout }
