package main

import (
	"encoding/json"
	"regexp"
	"strings"
)

const (
	versionFile   = "internal/cli/version.go"
	serverFile    = "server.json"
	changelogFile = "CHANGELOG.md"
	readmeFile    = "README.md"
	moduleFile    = "go.mod"
)

// checkVersions holds the version in the code against those in server.json and in
// the newest part of the changelog, and the name in server.json against the marker
// by which the registry knows that the package is ours.
func checkVersions(t *tree) []finding {
	code, found := t.submatch(versionFile, `(?m)^\s*(?:const\s+)?Version\s*=\s*"([^"]+)"`, `a line that reads: const Version = "..."`)

	newest, missing := t.submatch(changelogFile, `(?m)^## \[?v?([0-9][^\s\])]*)`, "a heading that reads: ## VERSION")
	found = append(found, missing...)
	if newest != "" && code != "" && newest != code {
		found = append(found, finding{path: changelogFile, text: "the newest version here is " + newest + ", but the code says " + code})
	}

	content, err := t.read(serverFile)
	if err != nil {
		return append(found, finding{path: serverFile, text: "the file is missing"})
	}
	var server struct {
		Name     string `json:"name"`
		Version  string `json:"version"`
		Packages []struct {
			Identifier string `json:"identifier"`
			Version    string `json:"version"`
		} `json:"packages"`
	}
	if err := json.Unmarshal(content, &server); err != nil {
		return append(found, finding{path: serverFile, text: "this is not what the registry reads: " + err.Error()})
	}
	if code != "" && server.Version != code {
		found = append(found, finding{path: serverFile, text: "the version here is " + server.Version + ", but the code says " + code})
	}
	for _, p := range server.Packages {
		// An image or a file of a release has its version in its name.
		if p.Version != code && !strings.Contains(p.Identifier, code) {
			found = append(found, finding{path: serverFile, text: "the package " + p.Identifier + " is not of version " + code})
		}
	}

	marker := "<!-- mcp-name: " + server.Name + " -->"
	if readme, err := t.read(readmeFile); err != nil || !strings.Contains(string(readme), marker) {
		found = append(found, finding{path: readmeFile, text: "the marker of the registry is missing: " + marker})
	}

	return found
}

// checkModule finds what keeps others from installing the program with Go.
func checkModule(t *tree) []finding {
	content, err := t.read(moduleFile)
	if err != nil {
		return []finding{{path: moduleFile, text: "the file is missing"}}
	}

	var found []finding
	for i, line := range strings.Split(string(content), "\n") {
		if first, _, _ := strings.Cut(strings.TrimSpace(line), " "); first == "replace" || first == "replace(" {
			found = append(found, finding{moduleFile, i + 1, "replace keeps go install from working"})
		}
	}

	return found
}

// submatch returns what the group of the pattern holds in the file, or a finding
// that says what is missing.
func (t *tree) submatch(path, pattern, expected string) (string, []finding) {
	content, err := t.read(path)
	if err != nil {
		return "", []finding{{path: path, text: "the file is missing"}}
	}
	match := regexp.MustCompile(pattern).FindSubmatch(content)
	if match == nil {
		return "", []finding{{path: path, text: "there is no " + strings.TrimPrefix(expected, "a ")}}
	}

	return string(match[1]), nil
}
