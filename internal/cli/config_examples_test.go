package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/golden"
)

const examplesDir = "../../examples"

// exampleSetup is what the examples show: a program in its usual place, and a key that the host fills in.
func exampleSetup(t *testing.T, program, system string, given ...string) setup {
	t.Helper()
	s := setup{name: "loopgrid", program: program, windows: system == "windows"}
	warnings, err := s.addSettings(given)
	require.NoError(t, err)
	require.Empty(t, warnings)
	return s
}

// examples returns the files below examples that are generated, by name.
func examples(t *testing.T) map[string]string {
	t.Helper()
	const key = "LOOPGRID_SERVICE_KEY"
	unix := exampleSetup(t, "/usr/local/bin/loopgrid-mcp", "linux", key)
	windows := exampleSetup(t, `C:\Program Files\loopgrid-mcp\loopgrid-mcp.exe`, "windows", key)
	files := map[string]string{}
	var doc strings.Builder
	doc.WriteString("<!-- Written by make update. -->\n# Host configurations\n\n" +
		"`loopgrid-mcp config HOST` prints these for the path of your program and with your settings; here it is `/usr/local/bin/loopgrid-mcp`, " +
		"with `--env LOOPGRID_SERVICE_KEY`. Leave the key out if your LoopGrid asks for none. A command and the file beside it do the same. Hosts that need tool names with underscores have LOOPGRID_MCP_TOOL_NAMES set.\n")
	given := unix
	for _, h := range hosts() {
		unix := given
		unix.fitTo(h)
		file := h.name + "." + h.format
		files[file] = h.file(unix, h)
		fmt.Fprintf(&doc, "\n## %s\n\n", h.title)
		switch {
		case h.places.linux == "":
			fmt.Fprintf(&doc, "[%s](%s) goes into %s.\n", file, file, h.places.project)
		case h.command != nil:
			fmt.Fprintf(&doc, "```sh\n%s\n```\n\nIt adds the content of [%s](%s) to\n\n", unix.shell(h.command(unix, h)), file, file)
		default:
			fmt.Fprintf(&doc, "[%s](%s) goes into\n\n", file, file)
		}
		for line := range strings.Lines(h.places.lines()) {
			if h.places.linux == "" {
				break
			}
			where, path, _ := strings.Cut(strings.TrimSpace(line), "  ")
			fmt.Fprintf(&doc, "| %s | `%s` |\n", where, strings.TrimSpace(path))
			if strings.HasPrefix(where, "Linux") {
				doc.WriteString("| --- | --- |\n") // the first line is the head of the table
			}
		}
		doc.WriteString("\n")
		for _, remark := range h.remarks(unix) {
			fmt.Fprintf(&doc, "* %s\n", remark)
		}
		if h.link != nil {
			fmt.Fprintf(&doc, "\nThis link does the same:\n\n```text\n%s\n```\n", h.link(unix, h))
		}
	}
	fmt.Fprintf(&doc, "\n## MCP Inspector\n\nOne command, in the browser, and without one:\n\n```sh\n"+
		"npx -y @modelcontextprotocol/inspector -e LOOPGRID_BASE_URL=http://127.0.0.1:8000 %s\n"+
		"npx -y @modelcontextprotocol/inspector --cli %s -e LOOPGRID_BASE_URL=http://127.0.0.1:8000 --method tools/list\n```\n", unix.program, unix.program)
	h, _ := findHost("json")
	files["mcp-client-config.windows.json"] = h.file(windows, h)
	files["mcp-client-config.cross-platform.json"] = h.file(exampleSetup(t, "loopgrid-mcp", "linux", key), h)
	doc.WriteString("\n## By name\n\n[mcp-client-config.cross-platform.json](mcp-client-config.cross-platform.json) is the same on every system, " +
		"for hosts that find loopgrid-mcp on their PATH. Hosts that are started from the desktop often have another PATH than a terminal.\n")
	doc.WriteString("\n## Windows\n\n[mcp-client-config.windows.json](mcp-client-config.windows.json) is for Claude Desktop and every other host that reads `mcpServers`. " +
		"The backslashes of a path are doubled in JSON, TOML and YAML. In PowerShell:\n\n```powershell\n")
	for _, h := range hosts() {
		if h.command != nil {
			fmt.Fprintln(&doc, windows.shell(h.command(windows, h)))
		}
	}
	doc.WriteString("```\n")
	files["README.md"] = doc.String()
	return files
}

func TestExamples(t *testing.T) {
	t.Parallel()
	want := examples(t)
	for name, text := range want {
		golden.Equal(t, filepath.Join(examplesDir, name), text)
	}
	entries, err := os.ReadDir(examplesDir)
	require.NoError(t, err)
	for _, e := range entries {
		if !e.IsDir() {
			assert.Contains(t, want, e.Name(), "nothing generates it")
		}
	}
}

func TestExamplesInTheREADME(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	s := exampleSetup(t, "/usr/local/bin/loopgrid-mcp", "linux")
	for name, format := range map[string]string{"claude-code": "sh", "claude-desktop": "json", "codex": "toml"} {
		h, ok := findHost(name)
		require.True(t, ok)
		text, _ := h.describe(s)
		assert.Contains(t, string(readme), "```"+format+"\n"+text+"```\n", name)
	}
	contents, err := os.ReadFile(filepath.Join(examplesDir, "README.md"))
	require.NoError(t, err)
	for _, h := range hosts() {
		anchor := strings.ReplaceAll(strings.ToLower(h.title), " ", "-")
		assert.Contains(t, string(contents), "\n## "+h.title+"\n")
		if name := h.name; name != "claude-code" && name != "claude-desktop" && name != "codex" {
			assert.Contains(t, string(readme), "["+h.title+"](examples/README.md#"+anchor+")")
		}
	}
}
