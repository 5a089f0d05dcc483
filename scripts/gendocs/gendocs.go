// Package gendocs makes what documents take from the program's own tables: the tables of README.md, .env.example
// and docs/warnings.md. Its tests hold the documents to it, and make update writes them anew.
package gendocs

import (
	"fmt"
	"strings"

	"github.com/loopgridio/loopgrid-mcp/internal/bridge"
	"github.com/loopgridio/loopgrid-mcp/internal/config"
)

// Tables returns the text of README.md with its tables made anew. A marker that is missing or there twice is an error.
func Tables(text string) (string, error) {
	for name, table := range map[string]string{"tools": tools(), "variables": variables()} {
		begin, end := "<!-- begin "+name+" (make update) -->\n", "<!-- end "+name+" -->"
		head, rest, ok := strings.Cut(text, begin)
		_, tail, closed := strings.Cut(rest, end)
		if !ok || !closed || strings.Contains(tail, begin) {
			return "", fmt.Errorf("the markers of %s must be there once, and both of them", name)
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

// EnvExample returns .env.example: every setting with its default.
func EnvExample() string {
	var out strings.Builder
	out.WriteString("# Settings of loopgrid-mcp. No file is loaded: give them to the host that starts it, or export them.\n" +
		"# An empty value counts as not set.\n")
	for _, v := range config.Variables() {
		fmt.Fprintf(&out, "\n# %s\n%s=%s\n", v.Description, v.Name, v.Default)
	}
	return out.String()
}

// Warnings returns docs/warnings.md: every code that a result can warn with.
func Warnings() string {
	var out strings.Builder
	out.WriteString("<!-- Written by make update. -->\n# Warnings in results\n\n" +
		"A result has `warnings`, a list of `{code, message}`, when something is recorded that may cause trouble later. It is absent when there is nothing to say. " +
		"A warning never means that nothing was recorded: that is an error. Codes do not change; messages may.\n\n" +
		"| code | meaning |\n| --- | --- |\n")
	for _, w := range bridge.WarningCodes() {
		fmt.Fprintf(&out, "| `%s` | %s |\n", w.Code, w.Meaning)
	}
	return out.String()
}
