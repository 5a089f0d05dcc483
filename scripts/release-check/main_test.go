package main

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// clean returns a tree without a fault.
func clean() map[string]string {
	return map[string]string{
		".gitignore":              "# Built.\n/bin/\n*.test\n.env\nnode_modules/\n",
		"README.md":               "<!-- mcp-name: io.example/server -->\n\n> Until 1.2.3 is published, build it.\n\n```json\n{\"a\": 1}\n```\n\n```json title=x\n[]\n```\n",
		"CHANGELOG.md":            "# Changes\n\n## 1.2.3 (unreleased)\n\n- It works.\n\n## 1.2.2\n",
		"server.json":             `{"name": "io.example/server", "version": "1.2.3", "packages": [{"identifier": "server", "version": "1.2.3"}, {"identifier": "ghcr.io/example/server:1.2.3"}]}`,
		"go.mod":                  "module example\n\ngo 1.26\n",
		"internal/cli/version.go": "package cli\n\n// Version is the version.\nconst Version = \"1.2.3\"\n",
		"examples/a/main.go":      "package main\n\nfunc main() {}\n",
		"examples/host.json":      `{"command": "/home/you/bin/server", "other": "C:\\Users\\you\\server.exe", "env": {"KEY": "lg_live_your_key"}}`,
		"examples/README.md":      "/Users/me/server, ~/server, $HOME/server, https://example.com/home/page\n\n1. x\n\n   ```yaml\n   a:\n     b: 1\n   ```\n\n```toml\na = 1\n```\n",
		"examples/host.toml":      "[a.b]\nc = \"C:\\\\x\"\n",
		"examples/host.yaml":      "a:\n  b: [c]\n",
		"testdata/x.log":          "put there by hand",
	}
}

// write makes a directory of the files.
func write(t *testing.T, files map[string]string) string {
	t.Helper()

	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}

	return dir
}

func TestRun_ACleanTree(t *testing.T) {
	t.Parallel()

	files := clean()
	files["bin/server"] = "built, and ignored"
	files["internal/x.test"] = "built, and ignored"
	var out bytes.Buffer

	require.NoError(t, run(write(t, files), "", &out))

	assert.Equal(t, "release-check: 12 files, no findings\n", out.String())
}

// Secrets and paths are put together here, so that the check of this repository
// does not find them.
func TestRun_FindsEachFault(t *testing.T) {
	t.Parallel()

	x := func(n int) string { return strings.Repeat("aB3", n)[:n] }
	const (
		revoke  = ": revoke it, then remove it\n"
		machine = "this is a path of somebody's machine"
		home    = machine + "; in an example the user is called you\n"
		noJSON  = "does not parse: this is not one JSON value\n"
	)
	tests := []struct {
		name, path, content string // content "" removes the file
		want                string
	}{
		{"LoopGrid key", "a.txt", "\n\nkey=lg_" + "live_" + x(38) + "\n", "a.txt:3: this looks like a LoopGrid service key" + revoke},
		{"private key", "a.txt", "-----BEGIN " + "PRIVATE KEY-----", "a.txt:1: this looks like a private key" + revoke},
		{"SSH key", "a.txt", "-----BEGIN OPENSSH " + "PRIVATE KEY-----", "a.txt:1: this looks like a private key" + revoke},
		{"GitHub token", "a.txt", "ghp_" + x(36), "a.txt:1: this looks like a GitHub token" + revoke},
		{"fine-grained GitHub token", "a.txt", "github_pat_" + x(82), "a.txt:1: this looks like a GitHub token" + revoke},
		{"GitLab token", "a.txt", "glpat-" + x(20), "a.txt:1: this looks like a GitLab token" + revoke},
		{"npm token", "a.txt", "npm_" + x(36), "a.txt:1: this looks like an npm token" + revoke},
		{"PyPI token", "a.txt", "pypi-" + x(60), "a.txt:1: this looks like a PyPI token" + revoke},
		{"Docker token", "a.txt", "dckr_pat_" + x(27), "a.txt:1: this looks like a Docker token" + revoke},
		{"AWS key", "a.txt", "id: AKIA" + strings.ToUpper(x(16)), "a.txt:1: this looks like an AWS access key" + revoke},
		{"Google key", "a.txt", "AIza" + x(35), "a.txt:1: this looks like a Google API key" + revoke},
		{"Anthropic key", "a.txt", "sk-" + "ant-" + x(32), "a.txt:1: this looks like an Anthropic key" + revoke},
		{"OpenAI key", "a.txt", "sk-" + "proj-" + x(40), "a.txt:1: this looks like an OpenAI key" + revoke},
		{"Slack token", "a.txt", "xoxb-" + x(24), "a.txt:1: this looks like a Slack token" + revoke},
		{"Stripe key", "a.txt", "sk_" + "live_" + x(24), "a.txt:1: this looks like a Stripe key" + revoke},
		{"web token", "a.txt", "eyJ" + x(20) + ".eyJ" + x(20) + "." + x(20), "a.txt:1: this looks like a JSON web token" + revoke},
		{"secret in test data", "testdata/x.log", "ghp_" + x(36), "testdata/x.log:1: this looks like a GitHub token" + revoke},

		{"Linux path", "a.txt", "x\nsee /home" + "/maria/src\n", "a.txt:2: " + home},
		{"macOS path", "a.txt", `"/Users` + `/maria"`, "a.txt:1: " + home},
		{"Windows path", "a.txt", `C:\Users` + `\maria\x`, "a.txt:1: " + home},
		{"Windows path in JSON", "a.txt", `"d:\\users` + `\\maria.k"`, "a.txt:1: " + home},
		{"Windows path with slashes", "a.txt", `(C:/Users` + `/maria)`, "a.txt:1: " + home},
		{"WSL path", "a.txt", `/mnt/c/Users` + `/maria`, "a.txt:1: " + home},
		{"file URL", "a.txt", `file:///C:/Users` + `/maria`, "a.txt:1: " + home},
		{"root's path", "a.txt", "\n=/root" + "/go/pkg", "a.txt:2: " + machine + "\n"},

		{"settings", "x/.env.local", "A=b", "x/.env.local: this looks like settings with secrets: .gitignore should cover .env.local\n"},
		{"evidence", "dec_1-evidence.zip", "PK", "dec_1-evidence.zip: this looks like downloaded evidence: .gitignore should cover *-evidence.zip\n"},
		{"desktop", "docs/.DS_Store", "x", "docs/.DS_Store: this looks like a file of the desktop: .gitignore should cover .DS_Store\n"},
		{"tool", "x/__pycache__/a.txt", "x", "x/__pycache__/a.txt: this was made by a tool: .gitignore should cover __pycache__/\n"},

		{"version of the changelog", "CHANGELOG.md", "## 1.2.4\n\n## 1.2.3\n", "CHANGELOG.md: the newest version here is 1.2.4, but the code says 1.2.3\n"},
		{"no version in the changelog", "CHANGELOG.md", "# Changes\n", "CHANGELOG.md: there is no heading that reads: ## VERSION\n"},
		{"no changelog", "CHANGELOG.md", "", "CHANGELOG.md: the file is missing\n"},
		{"version for the registry", "server.json", `{"name": "io.example/server", "version": "1.2.2"}`, "server.json: the version here is 1.2.2, but the code says 1.2.3\n"},
		{
			"version of a package", "server.json",
			`{"name": "io.example/server", "version": "1.2.3", "packages": [{"identifier": "server", "version": "1.2.2"}]}`,
			"server.json: the package server is not of version 1.2.3\n",
		},
		{
			"version of an image", "server.json",
			`{"name": "io.example/server", "version": "1.2.3", "packages": [{"identifier": "ghcr.io/example/server:1.2.2"}]}`,
			"server.json: the package ghcr.io/example/server:1.2.2 is not of version 1.2.3\n",
		},
		{"no server.json", "server.json", "", "server.json: the file is missing\n"},
		{"server.json is not JSON", "server.json", "{", "server.json: this is not what the registry reads: unexpected end of JSON input\n"},
		{"no version in the code", "internal/cli/version.go", "package cli\n", "internal/cli/version.go: there is no line that reads: const Version = \"...\"\n"},
		{"no file with the version", "internal/cli/version.go", "", "internal/cli/version.go: the file is missing\n"},
		{"no marker", "README.md", "# Server\n\n> Until 1.2.3 is published, build it.\n", "README.md: the marker of the registry is missing: <!-- mcp-name: io.example/server -->\n"},
		{"another marker", "README.md", "<!-- mcp-name: io.example/other -->\n> Until 1.2.3 is published, build it.\n", "README.md: the marker of the registry is missing: <!-- mcp-name: io.example/server -->\n"},
		{"no README", "README.md", "", "README.md: the marker of the registry is missing: <!-- mcp-name: io.example/server -->\n"},

		{"example JSON", "examples/host.json", `{"a": 1,}`, "examples/host.json: " + noJSON},
		{"example JSON with a name twice", "examples/host.json", `{"a": 1, "a": 2}`, "examples/host.json: " + noJSON},
		{"example TOML", "examples/host.toml", "a = 'b\n", "examples/host.toml: does not parse: toml: line 1 (last key \"a\"): strings cannot contain newlines\n"},
		{"example TOML with a name twice", "examples/host.toml", "a = 1\na = 2\n", "examples/host.toml: does not parse: toml: line 2 (last key \"a\"): Key 'a' has already been defined.\n"},
		{"example YAML", "examples/host.yaml", "a: b: c\n", "examples/host.yaml: does not parse: yaml: mapping values are not allowed in this context\n"},
		{"example YAML with a name twice", "examples/host.yaml", "a: 1\na: 2\n", "examples/host.yaml: does not parse: yaml: unmarshal errors:\n  line 2: mapping key \"a\" already defined at line 1\n"},
		{"TOML block", "examples/README.md", "```toml\na = b\n```\n", "examples/README.md:2: does not parse: toml: line 1 (last key \"a\"): expected value but found \"b\" instead\n"},
		{"YAML block", "examples/README.md", "- x\n  ```yaml\n  - a\n  ```\n", "examples/README.md:3: does not parse: yaml: unmarshal errors:\n  line 1: cannot unmarshal !!seq into map[string]interface {}\n"},
		{"example Go", "examples/a/main.go", "package main\n\nfunc {\n", "examples/a/main.go: does not parse: 3:6: expected 'IDENT', found '{'\n"},
		{"JSON block", "examples/README.md", "x\n\n  ```json\n  {\"a\": …}\n  ```\n", "examples/README.md:4: " + noJSON},
		{
			"JSON block in the README", "README.md", "<!-- mcp-name: io.example/server -->\n```json\n{}\n```\n```json\n{'a': 1}\n```\n\n> Until 1.2.3 is published, build it.\n",
			"README.md:6: " + noJSON,
		},
		{
			"an example that nothing parses", "examples/host.ini", "a = 1\n",
			"examples/host.ini: no parser for this kind of file is in scripts/release-check: add one, so that the example is known to parse\n",
		},

		{"replaced module", "go.mod", "module example\n\ngo 1.26\n\nreplace example.com/a => ../a\n", "go.mod:5: replace keeps go install from working\n"},
		{"replaced modules", "go.mod", "module example\n\nreplace (\n\texample.com/a => ../a\n)\n", "go.mod:3: replace keeps go install from working\n"},
		{"no go.mod", "go.mod", "", "go.mod: the file is missing\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()

			files := clean()
			files[tt.path] = tt.content
			if tt.content == "" {
				delete(files, tt.path)
			}
			var out bytes.Buffer
			err := run(write(t, files), "", &out)

			require.ErrorIs(t, err, errFindings)
			assert.Equal(t, tt.want, out.String())
		})
	}
}

func TestRun_LooksAlikeAndIsNothing(t *testing.T) {
	t.Parallel()

	files := clean()
	files["a.txt"] = strings.Join([]string{
		"lg_live_<38 url-safe characters>", "lg_" + "live_" + strings.Repeat("x", 37),
		"-----BEGIN PUBLIC KEY-----", "task-" + strings.Repeat("a", 60), "GET /api/users/42", "/home/", "/home/$USER/x",
		"https://example.com/home/maria/", "/Users/<you>/x", "the /root of all", `C:\Windows\System32`, "/usr/local/home/maria",
	}, "\n")
	files["examples/notes.txt"] = "free text"
	files["internal/broken.json"] = "{ for a test"
	var out bytes.Buffer

	require.NoError(t, run(write(t, files), "", &out), out.String())
}

func TestRun_ReportsAllAtOnce(t *testing.T) {
	t.Parallel()

	var out bytes.Buffer
	err := run(write(t, map[string]string{".gitignore": "", "z/.env": "A=b", "a.bak": "x"}), "", &out)

	require.ErrorIs(t, err, errFindings)
	assert.Equal(t, []string{
		"a.bak: this looks like a back-up: .gitignore should cover *.bak",
		"z/.env: this looks like settings with secrets: .gitignore should cover .env",
		"internal/cli/version.go: the file is missing",
		"CHANGELOG.md: the file is missing",
		"server.json: the file is missing",
		"go.mod: the file is missing",
	}, strings.Split(strings.TrimSpace(out.String()), "\n"))
}

func TestRun_InAGitCheckout(t *testing.T) {
	t.Parallel()

	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	files := clean()
	files["bin/server"] = "ignored"
	files["bin/forced"] = "ignored, and added all the same"
	files["gone.bak"] = "added, and deleted"
	dir := write(t, files)
	git := func(args ...string) {
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	git("init", "--quiet")
	git("add", "--all")
	require.NoError(t, os.Remove(filepath.Join(dir, "gone.bak")))

	var out bytes.Buffer
	require.NoError(t, run(dir, "", &out), out.String())

	git("add", "--force", "bin/forced")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "new.bak"), []byte("not added yet"), 0o600))
	out.Reset()
	require.ErrorIs(t, run(dir, "", &out), errFindings)
	assert.Equal(t, "bin/forced: .gitignore covers this file, but it is in the tree: remove it\n"+
		"new.bak: this looks like a back-up: .gitignore should cover *.bak\n", out.String())
}

func TestRun_CannotLook(t *testing.T) {
	t.Parallel()

	var out bytes.Buffer
	require.ErrorContains(t, run(filepath.Join(t.TempDir(), "missing"), "", &out), "open the tree")
	require.ErrorContains(t, run(t.TempDir(), "", &out), "read .gitignore")

	for _, pattern := range []string{"a/b", "!a", "**/a", `a\*`, "[a"} {
		files := maps.Clone(clean())
		files[".gitignore"] = pattern + "\n"
		require.ErrorContains(t, run(write(t, files), "", &out), "read .gitignore", pattern)
	}
	assert.Empty(t, out.String())
}

// The README must not promise packages before they are there, and must not warn of it afterwards.
func TestRun_BeforeAndAfterARelease(t *testing.T) {
	t.Parallel()

	const (
		remove = "README.md: 1.2.3 has a date in the changelog: remove the paragraph that begins: > Until 1.2.3 is published\n"
		add    = "README.md: 1.2.3 is unreleased: say above the ways to install it what works by now, in a paragraph that begins: > Until 1.2.3 is published\n"
		date   = "CHANGELOG.md: the heading of 1.2.3 needs the date of the release: ## 1.2.3 (YYYY-MM-DD)\n"
		other  = "internal/cli/version.go: the version here is 1.2.3, but the tag is v1.2.4\n"
	)
	for name, c := range map[string]struct {
		dated, noticed bool
		tag, want      string
	}{
		"unreleased, the README says so":        {false, true, "", ""},
		"unreleased, the README does not":       {false, false, "", add},
		"released, the README still says so":    {true, true, "", remove},
		"released":                              {true, false, "", ""},
		"tagged":                                {true, false, "v1.2.3", ""},
		"tagged with another version":           {true, false, "v1.2.4", other},
		"tagged before the changelog is dated":  {false, true, "v1.2.3", date},
		"tagged, and the README still warns":    {true, true, "v1.2.3", remove},
		"tagged too early, with another number": {false, true, "v1.2.4", other + date},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := clean()
			if c.dated {
				files["CHANGELOG.md"] = "# Changes\n\n## 1.2.3 (2026-01-02)\n\n- It works.\n\n## 1.2.2 (unreleased)\n"
			}
			if !c.noticed {
				files["README.md"] = strings.Replace(files["README.md"], "> Until", "Since", 1)
			}
			var out bytes.Buffer
			err := run(write(t, files), c.tag, &out)
			if c.want == "" {
				require.NoError(t, err, out.String())
				return
			}
			require.ErrorIs(t, err, errFindings)
			assert.Equal(t, c.want, out.String())
		})
	}
}
