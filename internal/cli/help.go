package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/loopgridio/loopgrid-mcp/internal/config"
)

func runHelp(out io.Writer) int {
	fmt.Fprint(out, `loopgrid-mcp connects an AI host to LoopGrid, which keeps signed evidence of
consequential decisions. It speaks MCP on stdin and stdout; a host starts it.

Usage:
  loopgrid-mcp                   serve MCP over stdio (what a host runs)
  loopgrid-mcp doctor [--json]   check settings, service, key and this machine:
                                 records nothing, says what to do
  loopgrid-mcp sandbox [flags]   run an in-memory LoopGrid to try things on
      --addr HOST:PORT             where to listen (127.0.0.1:8000)
      --auth                       ask for keys, and print some
      --quiet                      do not print a line per recorded event
  loopgrid-mcp config HOST       print how an AI host is told about it
      --env NAME=VALUE             give the server a setting (may be repeated)
      --env NAME                   have the host fill it in, as for the key
      --name NAME                  what the host calls the server (loopgrid)
  loopgrid-mcp version           print the version
  loopgrid-mcp help              print this

Exit codes: 0 all is well, 1 something failed, 2 wrong usage or configuration.

`)
	for i, part := range wrap("Hosts: "+hostNames()+".", 74) {
		fmt.Fprintf(out, "%*s%s\n", min(i, 1)*2, "", part)
	}
	fmt.Fprint(out, "\nEnvironment:\n")
	for _, v := range config.Variables() {
		line := v.Description
		if v.Default != "" {
			line += " Default: " + v.Default + "."
		}
		fmt.Fprintf(out, "  %s\n", v.Name)
		for _, part := range wrap(line, 72) {
			fmt.Fprintf(out, "      %s\n", part)
		}
	}
	return exitOK
}

// wrap breaks a text into lines of at most width characters where its words allow.
func wrap(text string, width int) []string {
	var lines []string
	var line string
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}
