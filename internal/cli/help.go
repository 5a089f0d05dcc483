package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/loopgridio/loopgrid-mcp/internal/config"
)

const overview = `loopgrid-mcp connects an AI host to LoopGrid, which keeps signed evidence of
consequential decisions. It speaks MCP on stdin and stdout; a host starts it.

Usage:
  loopgrid-mcp                   serve MCP over stdio (what a host runs)
  loopgrid-mcp doctor [--json]   check settings, service, key and this machine:
                                 records nothing, says what to do
  loopgrid-mcp sandbox [flags]   run an in-memory LoopGrid to try things on
  loopgrid-mcp config HOST       print what sets up an AI host
  loopgrid-mcp version           print the version
  loopgrid-mcp help [COMMAND]    print this, or the page of a command

Exit codes: 0 all is well, 1 something failed, 2 wrong usage or configuration.

`

// page returns the help of a command.
func page(command string) string {
	switch command {
	case "serve":
		return `loopgrid-mcp [serve | stdio] [--transport stdio]

Serves MCP over stdin and stdout until stdin is closed. This is what a host
runs, usually without arguments; loopgrid-mcp config HOST prints how to set up
a host. Logs go to stderr. Settings come from the environment:
loopgrid-mcp help lists them.
`
	case "doctor":
		return `loopgrid-mcp doctor [--json]

Checks the settings, the way to LoopGrid, the service, what the key may do, the
chain, the evidence directory and what hosts on this machine start. It records
nothing, says what to do about each problem, and takes at most twice the
time-out. Run it with the environment that the host gives.

  --json   print one JSON object for programs (docs/doctor.md)

LOOPGRID_MCP_WRITE_LOCK=off is right only where LoopGrid runs on PostgreSQL,
which orders writes itself. On SQLite it is a failure here: overlapping writes
break the chain for good.

Exit codes: 0 no failure, 1 a check failed, 2 a setting cannot be used.
`
	case "sandbox":
		return sandboxPage
	case "config":
		return configPage + "\n" + strings.Join(wrap("HOST is one of "+hostNames()+".", 78), "\n") + "\n"
	case "version":
		return `loopgrid-mcp version

Prints the version, the Go toolchain and the platform. The version of
a build that is not a release ends in -dev, with its commit if Go knows it.
`
	default:
		return `loopgrid-mcp help [COMMAND]

Prints the commands and the settings, or the page of a command.
`
	}
}

const sandboxPage = `loopgrid-mcp sandbox [--addr HOST:PORT] [--auth] [--quiet]

Runs a LoopGrid in memory to try things on. It is gone when it ends, and what
it records proves nothing. It prints the address of a page that shows what is
recorded and where a person approves or rejects what waits for a review, and a
line per recorded event. It is for one machine: requests under another host
name than localhost or that of --addr, and from other web pages, are refused.

  --addr HOST:PORT   where to listen (127.0.0.1:8000)
  --auth             ask for keys, and print some
  --quiet            do not print a line per recorded event
`

const configPage = `loopgrid-mcp config HOST [--env NAME=VALUE | --env NAME]... [--name NAME]

Prints the command or the file that makes a host start this program; nothing
is written. It includes the LOOPGRID settings of your environment, except those
that open reviews and exports, which only --env sets. It never includes the key
itself: the host asks for it or fills it in.

  --env NAME=VALUE   give the server a setting (may be repeated)
  --env NAME         have the host fill it in
  --name NAME        what the host calls the server (loopgrid)
`

// runHelp prints the overview, or the page of the command that args name.
func runHelp(p Process, args []string) int {
	switch {
	case len(args) > 1:
		return usage(p, "help takes one command")
	case len(args) == 1:
		c, ok := findCommand(args[0])
		if !ok {
			return usage(p, "no help for "+quotedArgument(args[0])+didYouMean(args[0], commandNames()))
		}
		fmt.Fprint(p.Stdout, page(c.name))
		return exitOK
	}
	printOverview(p.Stdout)
	return exitOK
}

func printOverview(out io.Writer) {
	fmt.Fprint(out, overview)
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
