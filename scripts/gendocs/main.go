// Command gendocs writes what documents take from the program's own tables: the tables of README.md, and .env.example. Run it with
// make generate.
package main

//go:generate go run . ../../README.md ../../.env.example

import (
	"fmt"
	"os"
	"strings"

	"github.com/loopgridio/loopgrid-mcp/internal/bridge"
	"github.com/loopgridio/loopgrid-mcp/internal/config"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: gendocs README.md .env.example")
		os.Exit(2)
	}
	err := rewrite(os.Args[1])
	if err == nil {
		err = os.WriteFile(os.Args[2], []byte(envExample()), 0o644) //nolint:gosec // a document for everybody, named by the developer
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gendocs:", err)
		os.Exit(1)
	}
}

// rewrite puts the tables into the file between their markers.
func rewrite(path string) error {
	text, err := os.ReadFile(path) //nolint:gosec // named by the developer
	if err != nil {
		return fmt.Errorf("read the document: %w", err)
	}
	generated, err := generate(string(text))
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(generated), 0o644); err != nil { //nolint:gosec // a document for everybody, named by the developer
		return fmt.Errorf("write the document: %w", err)
	}
	return nil
}

// generate returns the text with its tables made anew. A marker that is missing or stands twice is an error.
func generate(text string) (string, error) {
	for name, table := range map[string]string{"tools": tools(), "variables": variables()} {
		begin, end := "<!-- begin "+name+" (make generate) -->\n", "<!-- end "+name+" -->"
		head, rest, ok := strings.Cut(text, begin)
		_, tail, closed := strings.Cut(rest, end)
		if !ok || !closed || strings.Contains(tail, begin) {
			return "", fmt.Errorf("the markers of %s must stand once, and both of them", name)
		}
		text = head + begin + table + end + tail
	}
	return text, nil
}

func tools() string {
	var out strings.Builder
	out.WriteString("| tool | effect | arguments (* required) | LoopGrid route |\n| --- | --- | --- | --- |\n")
	for _, t := range bridge.Document() {
		fmt.Fprintf(&out, "| `%s` | %s | %s | `%s` |\n", t.Name, t.Effect, strings.Join(t.Arguments, ", "), strings.ReplaceAll(t.Routes, ", ", "`, `"))
	}
	return out.String()
}

func variables() string {
	var out strings.Builder
	out.WriteString("| variable | default | meaning |\n| --- | --- | --- |\n")
	for _, v := range config.Variables() {
		value := ""
		if v.Default != "" {
			value = "`" + v.Default + "`"
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s |\n", v.Name, value, v.Description)
	}
	return out.String()
}

// envExample is every setting with its default.
func envExample() string {
	var out strings.Builder
	out.WriteString("# Settings of loopgrid-mcp. No file is loaded: give them to the host that starts it, or export them.\n" +
		"# An empty value counts as not set.\n")
	for _, v := range config.Variables() {
		fmt.Fprintf(&out, "\n# %s\n%s=%s\n", v.Description, v.Name, v.Default)
	}
	return out.String()
}
