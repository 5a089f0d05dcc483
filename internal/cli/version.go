package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

// Version is the version of this program. 0.1.0 was the Python bridge of the same name.
const Version = "0.2.0"

// release is not empty in builds that are released: the linker sets it, with
// -ldflags "-X github.com/loopgridio/loopgrid-mcp/internal/cli.release=yes".
var release string //nolint:gochecknoglobals // for the linker

func runVersion(out io.Writer) int {
	info, _ := debug.ReadBuildInfo()
	fmt.Fprintf(out, "loopgrid-mcp %s (%s, %s/%s)\n", fullVersion(release, info), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return exitOK
}

// fullVersion is the version of this build: one that is no release says so, and names its commit where Go knows it. A program that
// go install made from a tag is a release.
func fullVersion(release string, info *debug.BuildInfo) string {
	if release != "" || info != nil && info.Main.Version == "v"+Version {
		return Version
	}
	version := Version + "-dev"
	if info == nil {
		return version
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	const short = 12
	if commit := settings["vcs.revision"]; commit != "" {
		version += "+" + commit[:min(short, len(commit))]
	}
	if settings["vcs.modified"] == "true" {
		version += ".modified"
	}
	return version
}
