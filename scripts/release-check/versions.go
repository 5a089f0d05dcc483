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

	versionLine = `(?m)^\s*(?:const\s+)?Version\s*=\s*"([^"]+)"`
)

// checkVersions holds the version in the code against those in server.json and in
// the newest part of the changelog, and the name in server.json against the marker
// by which the registry knows that the package is ours.
func checkVersions(t *tree) []finding {
	code, found := t.submatch(versionFile, versionLine, `a line that reads: const Version = "..."`)

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

// checkPublished holds the README against the state of the newest version: until it is released, nobody gets it from npm, PyPI and
// the others, and the README says so. With a tag, the version must be that of the tag, and released.
func checkPublished(t *tree, tag string) []finding {
	version, missing := t.submatch(versionFile, versionLine, "")
	readme, err := t.read(readmeFile)
	if err != nil || missing != nil {
		return nil // checkVersions says so.
	}
	date, _ := t.submatch(changelogFile, `(?m)^## \S+ \((\d{4}-\d{2}-\d{2})\)$`, "")
	newest, _ := t.submatch(changelogFile, `(?m)^## \S+ \(([^)]*)\)$`, "")
	released := date != "" && newest == date

	var found []finding
	notice := "> Until " + version + " is published"
	switch noticed := strings.Contains(string(readme), "\n"+notice); {
	case released && noticed:
		found = append(found, finding{path: readmeFile, text: version + " has a date in the changelog: remove the paragraph that begins: " + notice})
	case !released && !noticed:
		found = append(found, finding{path: readmeFile, text: version + " is unreleased: say above the ways to install it what works by now, in a paragraph that begins: " + notice})
	}
	if tag != "" && tag != "v"+version {
		found = append(found, finding{path: versionFile, text: "the version here is " + version + ", but the tag is " + tag})
	}
	if tag != "" && !released {
		found = append(found, finding{path: changelogFile, text: "the heading of " + version + " needs the date of the release: ## " + version + " (YYYY-MM-DD)"})
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
