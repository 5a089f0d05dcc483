package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// target is a platform that the program is built for.
type target struct {
	OS, Arch string // as Go spells them; the Arch "all" is a macOS binary for both

	// NodeOS and NodeCPU are process.platform and process.arch of Node.
	NodeOS, NodeCPU string

	// wheelTags are the platform tags of a wheel, sorted. The program is static: on Linux it needs no C library of a certain kind.
	// macOS 12 is the oldest that Go supports.
	wheelTags []string
}

// platforms are the targets that a binary is built for.
func platforms() []target {
	return []target{
		{"linux", "amd64", "linux", "x64", []string{"manylinux2014_x86_64", "manylinux_2_17_x86_64", "musllinux_1_1_x86_64"}},
		{"linux", "arm64", "linux", "arm64", []string{"manylinux2014_aarch64", "manylinux_2_17_aarch64", "musllinux_1_1_aarch64"}},
		{"darwin", "amd64", "darwin", "x64", []string{"macosx_12_0_x86_64"}},
		{"darwin", "arm64", "darwin", "arm64", []string{"macosx_12_0_arm64"}},
		{"windows", "amd64", "win32", "x64", []string{"win_amd64"}},
		{"windows", "arm64", "win32", "arm64", []string{"win_arm64"}},
	}
}

// systems are the targets that a person chooses from: on macOS, one binary is for both processors.
func systems() []target {
	all := []target{{OS: "darwin", Arch: "all", NodeOS: "darwin"}}
	for _, t := range platforms() {
		if t.OS != "darwin" {
			all = append(all, t)
		}
	}
	return all
}

// NPMName is the name of the npm package that carries the binary.
func (t target) NPMName() string { return "@loopgridio/mcp-" + t.NodeOS + "-" + t.NodeCPU }

// program is the name of the binary's file.
func (t target) program() string {
	if t.OS == "windows" {
		return name + ".exe"
	}
	return name
}

// label tells the files of a release apart.
func (r *release) label(t target) string { return name + "_" + r.version + "_" + t.OS + "_" + t.Arch }

// directory is where GoReleaser puts a binary, but for the level of the processor: _v1, _v8.0.
func (t target) directory() string { return name + "_" + t.OS + "_" + t.Arch }

// binary returns the content of the binary.
func (r *release) binary(t target) ([]byte, error) {
	found, err := filepath.Glob(filepath.Join(r.dist, t.directory()+"*", t.program()))
	if err != nil {
		return nil, fmt.Errorf("find the binary for %s/%s: %w", t.OS, t.Arch, err)
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("find the binary for %s/%s: there are %d in %s, one was expected", t.OS, t.Arch, len(found), r.dist)
	}
	content, err := os.ReadFile(found[0])
	if err != nil {
		return nil, fmt.Errorf("read the binary for %s/%s: %w", t.OS, t.Arch, err)
	}
	return content, nil
}

// doctorName is the file that starts the doctor under the name of 0.1.0's second program.
func (t target) doctorName() string {
	if t.OS == "windows" {
		return name + "-doctor.cmd"
	}
	return name + "-doctor"
}

// programs are the binary and the doctor's starter, in a directory of a package ("" or one that ends with a slash).
func (r *release) programs(t target, directory string) ([]file, error) {
	binary, err := r.binary(t)
	if err != nil {
		return nil, err
	}
	doctor, err := r.source("packaging/doctor/" + t.doctorName())
	if err != nil {
		return nil, err
	}
	return []file{{directory + t.program(), 0o755, binary}, {directory + t.doctorName(), 0o755, doctor}}, nil
}
