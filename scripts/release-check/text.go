package main

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// rule is a pattern that no published file may hold.
type rule struct {
	kind    string
	pattern *regexp.Regexp
}

// secretRules know the shapes of credentials. They ask for the full length, so
// that a name, an example or a pattern of such a key is not one.
func secretRules() []rule {
	return []rule{
		{"a LoopGrid service key", regexp.MustCompile(`\blg_live_[A-Za-z0-9_-]{38}`)},
		{"a private key", regexp.MustCompile(`-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----`)},
		{"a GitHub token", regexp.MustCompile(`\b(?:gh[opsur]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{82})`)},
		{"a GitLab token", regexp.MustCompile(`\bglpat-[A-Za-z0-9_-]{20}`)},
		{"an npm token", regexp.MustCompile(`\bnpm_[A-Za-z0-9]{36}`)},
		{"a PyPI token", regexp.MustCompile(`\bpypi-[A-Za-z0-9_-]{50}`)},
		{"a Docker token", regexp.MustCompile(`\bdckr_pat_[A-Za-z0-9_-]{27}`)},
		{"an AWS access key", regexp.MustCompile(`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`)},
		{"a Google API key", regexp.MustCompile(`\bAIza[A-Za-z0-9_-]{35}`)},
		{"an Anthropic key", regexp.MustCompile(`\bsk-ant-[A-Za-z0-9_-]{32}`)},
		{"an OpenAI key", regexp.MustCompile(`\bsk-(?:proj-|svcacct-)?[A-Za-z0-9_-]{40}`)},
		{"a Slack token", regexp.MustCompile(`\bxox[abeprs]-[A-Za-z0-9-]{24}`)},
		{"a Stripe key", regexp.MustCompile(`\b[rs]k_live_[A-Za-z0-9]{24}`)},
		{"a JSON web token", regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{17,}\.eyJ[A-Za-z0-9_-]{17,}\.[A-Za-z0-9_-]{20,}`)},
	}
}

// boundary is what stands before a path.
const boundary = "(?:^|[\\s\"'`=(,:;<>\\[{|]|file://)"

// homes finds the home of a user on Linux, macOS and Windows, in the spellings of
// shells, WSL, JSON strings and file URLs too. The group is the name of the user.
func homes() *regexp.Regexp {
	return regexp.MustCompile(boundary +
		`(?:(?:/var)?/home/|(?:/mnt)?(?:/[a-z])?/Users/|/?[a-zA-Z]:[\\/]{1,4}(?i:users)[\\/]{1,4})` +
		`([A-Za-z0-9_][A-Za-z0-9._-]*)`)
}

// rootHome finds a file in the home of root.
func rootHome() *regexp.Regexp { return regexp.MustCompile(boundary + `/root/[A-Za-z0-9._]`) }

// nobody lists the users that examples and container images talk about.
func nobody() []string {
	return []string{
		"me", "you", "your-name", "yourname", "your_name", "name", "user", "username", "someone", "example",
		"ann", "alice", "bob", "jane", "nonroot", "public", "shared", "default", "runner", "runneradmin",
	}
}

// checkText finds secrets and paths of somebody's machine.
func checkText(path string, content []byte) []finding {
	var found []finding
	for _, r := range secretRules() {
		for _, at := range r.pattern.FindAllIndex(content, -1) {
			found = append(found, finding{path, lineOf(content, at[0]), "this looks like " + r.kind + ": revoke it, then remove it"})
		}
	}
	for _, at := range homes().FindAllSubmatchIndex(content, -1) {
		if user := string(content[at[2]:at[3]]); !slices.Contains(nobody(), strings.ToLower(user)) {
			found = append(found, finding{path, lineOf(content, at[2]), "this is a path of somebody's machine; in an example the user is called you"})
		}
	}
	for _, at := range rootHome().FindAllIndex(content, -1) {
		found = append(found, finding{path, lineOf(content, at[1]-1), "this is a path of somebody's machine"})
	}

	return found
}

// lineOf returns the number of the line that holds the byte at the offset.
func lineOf(content []byte, offset int) int {
	return 1 + bytes.Count(content[:offset], []byte("\n"))
}
