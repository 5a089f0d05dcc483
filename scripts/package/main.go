// Command package packs the programs that GoReleaser has built into dist for those who install with something else than an archive:
// a wheel for PyPI and an npm package for each platform, the npm package that chooses between those, a source distribution that tells
// other platforms what to do, and an MCP bundle (MCPB) for each system. make dist runs it after GoReleaser.
//
// It needs no network and no Python or Node. The same programs give the same bytes. What it makes lies in dist, beside checksums.txt
// with the sums of all that is published, and server.json with the sums of the bundles, which the registry asks for.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"

	"github.com/loopgridio/loopgrid-mcp/internal/cli"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stderr))
}

// run is the program. It returns 2 for wrong usage.
func run(args []string, out io.Writer) int {
	flags := flag.NewFlagSet("package", flag.ContinueOnError)
	flags.SetOutput(out)
	root := flags.String("root", ".", "the `directory` of the source tree")
	dist := flags.String("dist", "dist", "the `directory` of binaries and packages")
	notices := flags.String("notices", "bin/"+noticesName, "the `file` with the licences of what is built in; make dist writes it")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintln(out, "package: there are no arguments besides the flags")
		return 2
	}
	r, err := newRelease(*root, *dist, *notices, cli.Version)
	if err == nil {
		err = r.pack()
	}
	if err != nil {
		fmt.Fprintln(out, "package:", err)
		return 1
	}
	return 0
}

// What the packages say of the program.
const (
	name         = "loopgrid-mcp"
	registryName = "io.github.loopgridio/loopgrid-mcp"
	repository   = "https://github.com/loopgridio/loopgrid-mcp"
	description  = "Record what AI agents decide and do, and who approved it, as signed evidence in LoopGrid."
)

// Files in every package that holds the program: the licences of what is built into it, and its bill of materials.
const (
	noticesName = "THIRD-PARTY-NOTICES.txt"
	billName    = "loopgrid-mcp.cdx.json"
)

// release is a version of the program, and where its files lie.
type release struct {
	root, dist string
	notices    string // a path
	version    string
}

// newRelease refuses versions that PyPI and npm do not spell alike.
func newRelease(root, dist, notices, version string) (*release, error) {
	if !regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(version) {
		return nil, fmt.Errorf("version %s: PyPI and npm agree on versions of three numbers alone", version)
	}
	return &release{root: root, dist: dist, notices: notices, version: version}, nil
}

// pack makes all packages, from the programs that are in dist.
func (r *release) pack() error {
	if err := r.packNPM(); err != nil {
		return err
	}
	for _, t := range platforms() {
		if err := r.packWheel(t); err != nil {
			return err
		}
	}
	if err := r.packSource(); err != nil {
		return err
	}
	sums := map[string]string{}
	for _, t := range systems() {
		sum, err := r.packBundle(t)
		if err != nil {
			return err
		}
		sums[r.bundleName(t)] = sum
	}
	if err := r.writeServer(filepath.Join(r.dist, "server.json"), sums); err != nil {
		return err
	}
	return r.writeChecksums()
}
