package cli

import (
	"fmt"
	"io"
	"runtime"
)

// Version is the version of this program. 0.1.0 was the Python bridge of the same name.
const Version = "0.2.0"

func runVersion(out io.Writer) int {
	fmt.Fprintf(out, "loopgrid-mcp %s (%s, %s/%s)\n", Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return exitOK
}
