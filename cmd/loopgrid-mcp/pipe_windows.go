package main

import "os"

// ignoreBrokenPipe does nothing: Windows has no such signal.
func ignoreBrokenPipe() {}

// polled changes nothing on Windows, where no pipe can be polled.
func polled(stdin, _ *os.File) *os.File { return stdin }
