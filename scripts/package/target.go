package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// target is a platform that the program is built for.
type target struct {
	OS, Arch string // as Go spells them; the Arch "all" is a macOS binary for both

	// NodeOS and NodeCPU are process.platform and process.arch of Node.
	NodeOS, NodeCPU string

	// wheelTags are the platform tags of a wheel. The program is static: with Linux it needs no C library of a certain kind. macOS 12
	// is the oldest that Go supports.
	wheelTags []string
}

// platforms are the targets that a binary is built for.
func platforms() []target {
	return []target{
		{"linux", "amd64", "linux", "x64", []string{"manylinux_2_17_x86_64", "manylinux2014_x86_64", "musllinux_1_1_x86_64"}},
		{"linux", "arm64", "linux", "arm64", []string{"manylinux_2_17_aarch64", "manylinux2014_aarch64", "musllinux_1_1_aarch64"}},
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

// directory is where a binary that is built here lies. GoReleaser adds the level of the processor: _v1, _v8.0.
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

// The flags of a release; .goreleaser.yaml and the Makefile have the same ones.
const (
	buildTags    = "nethttpomithttp2"
	buildLDFlags = "-s -w"
)

// build compiles the program for each platform and joins the two binaries for macOS.
func (r *release) build(ctx context.Context) error {
	for _, t := range platforms() {
		output, err := filepath.Abs(filepath.Join(r.dist, t.directory(), t.program()))
		if err != nil {
			return fmt.Errorf("build for %s/%s: %w", t.OS, t.Arch, err)
		}
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-tags", buildTags, "-ldflags", buildLDFlags, "-o", output, "./cmd/"+name)
		cmd.Dir = r.root
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+t.OS, "GOARCH="+t.Arch)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build for %s/%s: %w\n%s", t.OS, t.Arch, err, bytes.TrimSpace(out))
		}
	}

	var slices [][]byte
	all := target{OS: "darwin", Arch: "all"}
	for _, t := range platforms() {
		if t.OS == all.OS {
			slice, err := r.binary(t)
			if err != nil {
				return err
			}
			slices = append(slices, slice)
		}
	}
	universal, err := joinMachO(slices)
	if err != nil {
		return err
	}
	return r.write(filepath.Join(all.directory(), all.program()), universal, 0o755)
}

// joinMachO makes the universal binary of macOS programs: a table of what processor each is for and where it begins, then the
// programs. (Apple: mach-o/fat.h.)
func joinMachO(programs [][]byte) ([]byte, error) {
	const (
		fatMagic    = 0xcafebabe // of the table, which is big-endian
		machO64     = 0xfeedfacf // of a program, which is little-endian here
		headerSize  = 8
		entrySize   = 20
		pageBits    = 14 // programs begin at pages of 16 KiB
		pageSize    = 1 << pageBits
		processorAt = 4 // in a program: its type and its subtype
		processorTo = 12
	)
	table := binary.BigEndian.AppendUint32(nil, fatMagic)
	table = binary.BigEndian.AppendUint32(table, uint32(len(programs))) //nolint:gosec // Two.
	content := make([]byte, headerSize+entrySize*len(programs))
	for i, p := range programs {
		if len(p) < processorTo || binary.LittleEndian.Uint32(p) != machO64 {
			return nil, fmt.Errorf("join the macOS binaries: number %d is not a 64-bit Mach-O binary", i+1)
		}
		content = append(content, make([]byte, -len(content)&(pageSize-1))...)
		for at := processorAt; at < processorTo; at += 4 {
			table = binary.BigEndian.AppendUint32(table, binary.LittleEndian.Uint32(p[at:]))
		}
		for _, n := range []int{len(content), len(p), pageBits} {
			table = binary.BigEndian.AppendUint32(table, uint32(n)) //nolint:gosec // A few megabytes.
		}
		content = append(content, p...)
	}
	copy(content, table)
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
