package main

import "os"

// ignoreBrokenPipe does nothing: Windows has no such signal.
func ignoreBrokenPipe() {}

// shared returns f itself: on Windows no other process changes how it reads and writes.
func shared(f *os.File) *os.File { return f }

// hostInput is stdin. No pipe can be polled on Windows, so nothing is changed.
type hostInput struct{ *os.File }

func newHostInput(stdin, _ *os.File) hostInput { return hostInput{stdin} }

func (hostInput) restore() {}
