package cli_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/loopgridio/loopgrid-mcp/internal/cli"
	"github.com/loopgridio/loopgrid-mcp/internal/config"
)

const key = "lg_live_of_a_test"

// everyHost are the hosts that config knows.
func everyHost() []string {
	return []string{
		"claude-code", "claude-desktop", "cursor", "vscode", "codex", "gemini", "goose", "copilot", "opencode", "qwen", "cline",
		"kilo", "droid", "continue", "kimi", "fast-agent", "openhands", "sdk", "json",
	}
}

// configFor runs config for a program at this path on this system.
func configFor(program, system string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = cli.Run(context.Background(), cli.Process{
		Args: append([]string{"no-such-program", "config"}, args...), Executable: program, OS: system,
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
	})
	return code, out.String(), errs.String()
}

// received is what a server gets from a host.
type received struct {
	program string
	env     map[string]string
}

// receive plays the host: it takes what config printed apart, and starts the server as the host would where the key is in its
// environment.
func receive(t *testing.T, host, name, text string) received {
	t.Helper()
	dollars := regexp.MustCompile(`\$\{?(?:env:)?(LOOPGRID_\w+)\}?`)
	fill := func(r received) received {
		for k, v := range r.env {
			switch {
			case strings.HasPrefix(v, "{env:"), strings.HasPrefix(v, "${{ secrets."), strings.HasPrefix(v, "${input:"), strings.HasPrefix(v, "YOUR_"), dollars.MatchString(v) && host != "codex":
				r.env[k] = key
			}
		}
		return r
	}
	fromArgs := func(args []string, flag string) received {
		r := received{args[len(args)-1], map[string]string{}}
		for i, arg := range args {
			if arg == flag {
				k, v, _ := strings.Cut(args[i+1], "=")
				r.env[k] = v
			}
		}
		assert.Contains(t, args, name)
		return fill(r)
	}
	type server struct {
		Command any
		Args    []string
		Env     map[string]string
		// Other names of the same.
		Environment map[string]string
		EnvVars     []string `toml:"env_vars"`
		Cmd         string
		Envs        map[string]string
		EnvKeys     []string `yaml:"env_keys"`
	}
	var file struct {
		MCPServers map[string]server `json:"mcpServers" toml:"mcp_servers"`
		Servers    map[string]server
		MCP        map[string]server
		Extensions map[string]server
	}
	switch host {
	case "claude-code", "gemini", "qwen":
		return fromArgs(words(t, text), "-e")
	case "copilot", "opencode":
		return fromArgs(words(t, text), "--env")
	case "codex":
		require.NoError(t, toml.Unmarshal([]byte(text), &file))
		s := file.MCPServers[name]
		for _, v := range s.EnvVars {
			s.Env[v] = key
		}
		return received{s.Command.(string), s.Env}
	case "goose":
		require.NoError(t, yaml.Unmarshal([]byte(text), &file))
		s := file.Extensions[name]
		for _, v := range s.EnvKeys {
			s.Envs[v] = key
		}
		return received{s.Cmd, s.Envs}
	case "kilo":
		require.NoError(t, json.Unmarshal([]byte(text), &file))
		command, _ := file.MCP[name].Command.([]any)
		require.Len(t, command, 1)
		return fill(received{command[0].(string), file.MCP[name].Environment})
	case "continue":
		var list struct {
			MCPServers []struct {
				Name, Command string
				Env           map[string]string
			} `yaml:"mcpServers"`
		}
		require.NoError(t, yaml.Unmarshal([]byte(text), &list))
		require.Len(t, list.MCPServers, 1)
		assert.Equal(t, name, list.MCPServers[0].Name)
		return fill(received{list.MCPServers[0].Command, list.MCPServers[0].Env})
	case "fast-agent":
		var nested struct {
			MCP struct {
				Servers map[string]server
			}
		}
		require.NoError(t, yaml.Unmarshal([]byte(text), &nested))
		return fill(received{nested.MCP.Servers[name].Command.(string), nested.MCP.Servers[name].Env})
	case "sdk":
		return fromPython(t, text)
	case "vscode":
		require.NoError(t, json.Unmarshal([]byte(text), &file))
		return fill(received{file.Servers[name].Command.(string), file.Servers[name].Env})
	default:
		require.NoError(t, json.Unmarshal([]byte(text), &file))
		require.Len(t, file.MCPServers, 1)
		return fill(received{file.MCPServers[name].Command.(string), file.MCPServers[name].Env})
	}
}

// fromPython reads the command and the environment of the Python program. Its literals are those of JSON.
func fromPython(t *testing.T, text string) received {
	t.Helper()
	literal := func(quoted string) (value string) {
		require.NoError(t, json.Unmarshal([]byte(quoted), &value), quoted)
		return value
	}
	r := received{literal(regexp.MustCompile(`(?m)^COMMAND = (.*)$`).FindStringSubmatch(text)[1]), map[string]string{}}
	for _, line := range regexp.MustCompile(`(?m)^    ("LOOPGRID_\w+"): (.*),$`).FindAllStringSubmatch(text, -1) {
		if line[2] == "os.environ["+line[1]+"]" {
			r.env[literal(line[1])] = key
			continue
		}
		r.env[literal(line[1])] = literal(line[2])
	}
	return r
}

// words has a shell take a command apart.
func words(t *testing.T, command string) []string {
	t.Helper()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no sh here")
	}
	require.Equal(t, 1, strings.Count(command, "\n"), "one line")
	program, _, _ := strings.Cut(command, " ")
	cmd := exec.CommandContext(t.Context(), shell, "-c", program+`() { printf '%s\n' `+program+` "$@"; }; `+command) //nolint:gosec // what config printed
	out, err := cmd.Output()
	require.NoError(t, err, command)
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

func TestConfig_ArrivesAsGiven(t *testing.T) {
	t.Parallel()
	for _, host := range everyHost() {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			for program, env := range map[string]map[string]string{
				"/usr/local/bin/loopgrid-mcp":  {"LOOPGRID_BASE_URL": "http://127.0.0.1:8000"},
				"/opt/my tools/it's/größer&\"": {"LOOPGRID_BASE_URL": "https://example.com/a%20b", "LOOPGRID_WORKSPACE": `O'Neill '&' <Söhne>: 1# - yes\no`, "LOOPGRID_EVIDENCE_DIR": `/x/O'Neill "&" <Söhne>: 1# - yes\no`},
			} {
				args := []string{host, "--env", "LOOPGRID_SERVICE_KEY"}
				for k, v := range env {
					args = append(args, "--env", k+"="+v)
				}
				code, out, errs := configFor(program, "linux", args...)
				require.Equal(t, 0, code, errs)
				got := receive(t, host, "loopgrid", out)
				assert.Equal(t, program, got.program)
				want := maps.Clone(env)
				want["LOOPGRID_SERVICE_KEY"] = key
				if slices.Contains([]string{"continue", "kimi", "fast-agent", "openhands", "sdk"}, host) {
					want["LOOPGRID_MCP_TOOL_NAMES"] = "underscore"
				}
				assert.Equal(t, want, got.env)
				assert.NotContains(t, out+errs, key)
				assert.Contains(t, errs, "LOOPGRID_SERVICE_KEY", "it says where the key comes from")
				assert.NotContains(t, errs, "%!", "no broken format")
			}
		})
	}
}

func TestConfig_OnWindows(t *testing.T) {
	t.Parallel()
	const program = `C:\Program Files\loopgrid-mcp\loopgrid-mcp.exe`
	for _, host := range everyHost() {
		code, out, errs := configFor(program, "windows", host)
		require.Equal(t, 0, code, errs)
		switch host {
		case "claude-code", "copilot", "gemini", "opencode", "qwen":
			assert.True(t, strings.HasSuffix(out, ` "`+program+"\"\n"), out)
			assert.NotContains(t, errs, "cmd.exe", "the line is the same in both shells")
		default:
			got := receive(t, host, "loopgrid", out)
			assert.Equal(t, program, got.program)
			if !slices.Contains([]string{"fast-agent", "sdk", "json"}, host) {
				assert.Contains(t, errs, "  Windows  ")
			}
		}
	}
}

func TestConfig_WindowsShells(t *testing.T) {
	t.Parallel()
	const program = `C:\loopgrid-mcp.exe`
	for name, tt := range map[string]struct {
		args             []string
		powerShell, cmds string
	}{
		"the same in both": {
			[]string{"claude-code", "--env", "LOOPGRID_WORKSPACE=O'Neill & Söhne"},
			`claude mcp add loopgrid --scope user -e LOOPGRID_BASE_URL=http://127.0.0.1:8000 -e "LOOPGRID_WORKSPACE=O'Neill & Söhne" "--" C:\loopgrid-mcp.exe`, "",
		},
		"a placeholder": {
			[]string{"gemini", "--env", "LOOPGRID_SERVICE_KEY"},
			`gemini mcp add -s user -e LOOPGRID_BASE_URL=http://127.0.0.1:8000 -e 'LOOPGRID_SERVICE_KEY=$LOOPGRID_SERVICE_KEY' loopgrid C:\loopgrid-mcp.exe`,
			`gemini mcp add -s user -e LOOPGRID_BASE_URL=http://127.0.0.1:8000 -e "LOOPGRID_SERVICE_KEY=$LOOPGRID_SERVICE_KEY" loopgrid C:\loopgrid-mcp.exe`,
		},
		"quotation marks of PowerShell": {
			[]string{"claude-code", "--env", "LOOPGRID_WORKSPACE=$ it's “so”, ‘or’"},
			`claude mcp add loopgrid --scope user -e LOOPGRID_BASE_URL=http://127.0.0.1:8000 -e 'LOOPGRID_WORKSPACE=$ it''s “so”, ‘‘or’’' "--" C:\loopgrid-mcp.exe`,
			`claude mcp add loopgrid --scope user -e LOOPGRID_BASE_URL=http://127.0.0.1:8000 -e "LOOPGRID_WORKSPACE=$ it's “so”, ‘or’" "--" C:\loopgrid-mcp.exe`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errs := configFor(program, "windows", tt.args...)
			require.Equal(t, 0, code, errs)
			assert.Equal(t, tt.powerShell+"\n", out)
			if tt.cmds == "" {
				assert.NotContains(t, errs, "cmd.exe")
			} else {
				assert.Contains(t, errs, "- That is for PowerShell. In cmd.exe:\n  "+tt.cmds+"\n")
			}
		})
	}
}

func TestConfig_Links(t *testing.T) {
	t.Parallel()
	link := func(t *testing.T, host string) string {
		t.Helper()
		code, out, errs := configFor("/opt/my tools/a+b", "linux", host, "--name", "ledger", "--env", "LOOPGRID_SERVICE_KEY="+key, "--env", "LOOPGRID_WORKSPACE=a&b=c+d%")
		require.Equal(t, 0, code, errs)
		assert.Contains(t, out, key, "it was asked for")
		assert.Contains(t, strings.Join(strings.Fields(errs), " "), "Warning: LOOPGRID_SERVICE_KEY is printed here in clear")
		found := regexp.MustCompile(`(?m)^  ((?:cursor|vscode|goose):\S+)$`).FindStringSubmatch(errs)
		require.NotNil(t, found, errs)
		assert.NotContains(t, found[1], key, "links are passed on")
		return found[1]
	}
	type server struct {
		Name, Type, Command string
		Args                []string
		Env                 map[string]string
		Inputs              []map[string]any
	}
	env := func(reference string) map[string]string {
		return map[string]string{"LOOPGRID_BASE_URL": "http://127.0.0.1:8000", "LOOPGRID_WORKSPACE": "a&b=c+d%", "LOOPGRID_SERVICE_KEY": reference}
	}

	t.Run("cursor", func(t *testing.T) {
		t.Parallel()
		u, err := url.Parse(link(t, "cursor"))
		require.NoError(t, err)
		assert.Equal(t, "cursor://anysphere.cursor-deeplink/mcp/install", u.Scheme+"://"+u.Host+u.Path)
		assert.Equal(t, "ledger", u.Query().Get("name"))
		config, err := base64.StdEncoding.DecodeString(u.Query().Get("config"))
		require.NoError(t, err)
		var got server
		require.NoError(t, json.Unmarshal(config, &got))
		assert.Equal(t, server{Command: "/opt/my tools/a+b", Args: []string{}, Env: env("${env:LOOPGRID_SERVICE_KEY}")}, got)
		assert.NotContains(t, u.RawQuery, "+", "a blank for some programs, a plus for others")
	})
	t.Run("vscode", func(t *testing.T) {
		t.Parallel()
		query, ok := strings.CutPrefix(link(t, "vscode"), "vscode:mcp/install?")
		require.True(t, ok)
		assert.NotContains(t, query, "+", "it is taken apart with decodeURIComponent")
		text, err := url.QueryUnescape(query)
		require.NoError(t, err)
		var got server
		require.NoError(t, json.Unmarshal([]byte(text), &got))
		require.Len(t, got.Inputs, 1)
		assert.Equal(t, "loopgrid_service_key", got.Inputs[0]["id"])
		assert.Equal(t, true, got.Inputs[0]["password"])
		got.Inputs = nil
		assert.Equal(t, server{Name: "ledger", Type: "stdio", Command: "/opt/my tools/a+b", Args: []string{}, Env: env("${input:loopgrid_service_key}")}, got)
	})
	t.Run("goose", func(t *testing.T) {
		t.Parallel()
		u, err := url.Parse(link(t, "goose"))
		require.NoError(t, err)
		assert.Equal(t, "goose", u.Scheme)
		assert.Equal(t, "extension", u.Host)
		q := u.Query()
		assert.Equal(t, []string{"npx"}, q["cmd"])
		assert.Equal(t, []string{"-y", "loopgrid-mcp"}, q["arg"])
		assert.Equal(t, "ledger", q.Get("id"))
		require.Len(t, q["env"], 3)
		for _, v := range q["env"] {
			name, meaning, _ := strings.Cut(v, "=")
			assert.Contains(t, env(""), name)
			assert.NotEmpty(t, meaning)
			assert.NotContains(t, v, "c+d", "it asks for the values")
		}
	})
}

func TestConfig_TheKeyIsNotNeeded(t *testing.T) {
	t.Parallel()
	for _, host := range everyHost() {
		code, out, errs := configFor("/bin/x", "linux", host)
		assert.Equal(t, 0, code)
		assert.NotContains(t, out, "SERVICE_KEY", "a LoopGrid without keys should not be handed a placeholder")
		assert.Contains(t, out, "http://127.0.0.1:8000", "where evidence goes is seen")
		assert.Contains(t, strings.Join(strings.Fields(errs), " "), "If LoopGrid asks for a key, add --env LOOPGRID_SERVICE_KEY.")
		assert.NotContains(t, errs, "Warning")
	}
}

// A value that is left as config printed it is never used as one.
func TestConfig_WhatIsNotFilledInIsNoKey(t *testing.T) {
	t.Parallel()
	left := regexp.MustCompile(`LOOPGRID_SERVICE_KEY(?:=([^"'\s]+)|"?: "([^"]+)")`)
	for _, host := range everyHost() {
		_, out, _ := configFor("/bin/x", "linux", host, "--env", "LOOPGRID_SERVICE_KEY")
		found := left.FindStringSubmatch(out)
		if host == "codex" || host == "goose" || host == "sdk" {
			assert.Nil(t, found, "they name the variable and hold no placeholder")
			continue
		}
		require.NotNil(t, found, out)
		s := config.LoadFrom([]string{"LOOPGRID_SERVICE_KEY=" + found[1] + found[2]})
		assert.False(t, s.ServiceKey.IsSet(), "%s: %s", host, found[0])
		assert.NotEmpty(t, len(s.Problems)+len(s.Warnings), "the operator is told")
	}
}

func TestConfig_Aliases(t *testing.T) {
	t.Parallel()
	for alias, name := range map[string]string{
		"claude": "claude-code", "vs-code": "vscode", "code": "vscode", "codex-cli": "codex", "gemini-cli": "gemini",
		"copilot-cli": "copilot", "qwen-code": "qwen", "cline-cli": "cline", "kilo-code": "kilo", "factory": "droid", "cn": "continue",
		"kimi-cli": "kimi", "fastagent": "fast-agent", "other": "json",
	} {
		_, want, _ := configFor("/bin/x", "linux", name)
		code, got, _ := configFor("/bin/x", "linux", alias)
		assert.Equal(t, 0, code, alias)
		assert.Equal(t, want, got, alias)
	}
}

func TestConfig_FlagsStandAnywhere(t *testing.T) {
	t.Parallel()
	_, want, _ := configFor("/bin/x", "linux", "codex", "--name", "ledger", "--env", "LOOPGRID_WORKSPACE=w")
	assert.Contains(t, want, "[mcp_servers.ledger]")
	for _, args := range [][]string{
		{"--name", "ledger", "--env", "LOOPGRID_WORKSPACE=w", "codex"},
		{"--name=ledger", "codex", "-env=LOOPGRID_WORKSPACE=w"},
	} {
		code, got, errs := configFor("/bin/x", "linux", args...)
		assert.Equal(t, 0, code, errs)
		assert.Equal(t, want, got)
	}
}

func TestConfig_Refuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no host":               {nil, "config: name a host: " + strings.Join(everyHost(), ", ") + "\n"},
		"unknown host":          {[]string{"emacs"}, `config: unknown host "emacs"; the known ones are claude-code, `},
		"two hosts":             {[]string{"codex", "cursor"}, `config: unknown argument "cursor"`},
		"unknown flag":          {[]string{"codex", "--write"}, "config: flag provided but not defined: -write"},
		"mistyped host":         {[]string{"Cursor"}, `config: unknown host "Cursor"; did you mean cursor?; the known ones are claude-code, `},
		"unknown variable":      {[]string{"codex", "--env", "LOOPGRID_URL=x"}, "config: --env LOOPGRID_URL: not a variable of loopgrid-mcp"},
		"a key without a name":  {[]string{"codex", "--env", key}, "config: --env takes NAME=VALUE or NAME, and what was given does not begin with a variable of loopgrid-mcp; the allowed ones are LOOPGRID_BASE_URL, "},
		"a variable twice":      {[]string{"codex", "--env", "LOOPGRID_WORKSPACE=a", "--env", "LOOPGRID_WORKSPACE=b"}, "given twice"},
		"no value":              {[]string{"codex", "--env", "LOOPGRID_SERVICE_KEY="}, "--env LOOPGRID_SERVICE_KEY= has no value"},
		"two lines":             {[]string{"codex", "--env", "LOOPGRID_MCP_REVIEWER_ID=a\nb"}, "the value is not plain text"},
		"not UTF-8":             {[]string{"codex", "--env", "LOOPGRID_MCP_REVIEWER_ID=a\xff"}, "the value is not plain text"},
		"a bad address":         {[]string{"codex", "--env", "LOOPGRID_BASE_URL=ftp://private"}, "config: LOOPGRID_BASE_URL "},
		"a placeholder":         {[]string{"codex", "--env", "LOOPGRID_WORKSPACE=${WORKSPACE}"}, "config: LOOPGRID_WORKSPACE "},
		"reviews of nobody":     {[]string{"codex", "--env", "LOOPGRID_MCP_ENABLE_REVIEW_TOOL=true"}, "config: LOOPGRID_MCP_REVIEWER_ID is not set"},
		"a name with blanks":    {[]string{"codex", "--name", "my ledger"}, "config: --name takes"},
		"a name of 34":          {[]string{"codex", "--name", strings.Repeat("x", 34)}, "config: --name takes"},
		"a name like a flag":    {[]string{"codex", "--name", "-x"}, "config: --name takes"},
		"no name":               {[]string{"codex", "--name", ""}, "config: --name takes"},
		"what Gemini expands":   {[]string{"gemini", "--env", "LOOPGRID_MCP_REVIEWER_ID=a$b"}, "Gemini CLI would take a part of LOOPGRID_MCP_REVIEWER_ID for a placeholder"},
		"what OpenCode expands": {[]string{"opencode", "--env", "LOOPGRID_MCP_REVIEWER_ID={file:x}"}, "OpenCode would take"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errs := configFor("/bin/x", "linux", tt.args...)
			assert.Equal(t, 2, code)
			assert.Empty(t, out)
			assert.Contains(t, errs, tt.want)
			assert.NotContains(t, errs, key)
			assert.NotContains(t, errs, "private")
		})
	}
	for _, value := range []string{`a"b`, `D:\evidence\`} {
		code, _, errs := configFor(`C:\x.exe`, "windows", "claude-code", "--env", "LOOPGRID_EVIDENCE_DIR="+value)
		assert.Equal(t, 2, code)
		assert.Contains(t, errs, "LOOPGRID_EVIDENCE_DIR: no command line is the same in all shells of Windows")
		code, _, errs = configFor(`C:\x.exe`, "windows", "cursor", "--env", "LOOPGRID_EVIDENCE_DIR="+value)
		assert.Equal(t, 0, code, errs)
	}
	code, _, errs := configFor("/bin/\xff", "linux", "cursor")
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "not UTF-8")
}

func TestConfig_TakesWhatOthersFillIn(t *testing.T) {
	t.Parallel()
	code, out, errs := configFor("/bin/x", "linux", "vscode", "--env", "LOOPGRID_MCP_ENABLE_REVIEW_TOOL=true", "--env", "LOOPGRID_MCP_REVIEWER_ID", "--env", "LOOPGRID_BASE_URL")
	require.Equal(t, 0, code, errs)
	var file struct {
		Inputs []map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(out), &file))
	require.Len(t, file.Inputs, 2)
	assert.Equal(t, "http://127.0.0.1:8000", file.Inputs[0]["default"])
	assert.NotContains(t, file.Inputs[1], "password")
}

func TestConfig_WarnsOfAKeyInTheOpen(t *testing.T) {
	t.Parallel()
	code, out, errs := configFor("/bin/x", "linux", "codex", "--env", "LOOPGRID_SERVICE_KEY="+key, "--env", "LOOPGRID_BASE_URL=http://example.com")
	require.Equal(t, 0, code)
	assert.Contains(t, out, key)
	assert.NotContains(t, errs, key)
	said := strings.Join(strings.Fields(errs), " ")
	assert.Contains(t, said, "Warning: LOOPGRID_SERVICE_KEY is printed here in clear")
	assert.Contains(t, said, "the service key travels unencrypted")
}

func TestConfig_ThePathThatStays(t *testing.T) {
	t.Parallel()
	for path, warned := range map[string]string{
		"/home/you/.cache/uv/archive-v0/x1/bin/loopgrid-mcp": "the cache of uvx",
		"/home/you/.npm/_npx/0a/node_modules/x/loopgrid-mcp": "the cache of npx",
		"/tmp/go-build12/b001/exe/loopgrid-mcp":              "a directory of go run",
		"/home/you/.local/bin/loopgrid-mcp":                  "",
	} {
		_, _, errs := configFor(path, "linux", "codex")
		if warned == "" {
			assert.NotContains(t, errs, "Warning")
		} else {
			assert.Contains(t, errs, "Warning: This program lies in "+warned)
		}
	}

	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege on Windows")
	}
	dir := t.TempDir()
	program, link := filepath.Join(dir, "0.2.0"), filepath.Join(dir, "loopgrid-mcp")
	require.NoError(t, os.WriteFile(program, nil, 0o700))
	require.NoError(t, os.Symlink(program, link))
	other := filepath.Join(dir, "other")
	require.NoError(t, os.WriteFile(other, nil, 0o700))
	for started, want := range map[string]string{link: link, program: program, other: program, "/no/such": program} {
		var out bytes.Buffer
		code := cli.Run(t.Context(), cli.Process{Args: []string{started, "config", "cursor"}, Executable: program, OS: "linux", Stdout: &out, Stderr: &bytes.Buffer{}})
		assert.Equal(t, 0, code)
		assert.Contains(t, out.String(), `"command": "`+want+`"`)
	}
}

func TestConfig_FindsItselfOnThePath(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege on Windows")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "0.2.0")
	require.NoError(t, os.WriteFile(program, nil, 0o700))
	require.NoError(t, os.Symlink(program, filepath.Join(dir, "loopgrid-mcp")))
	t.Setenv("PATH", dir)
	var out bytes.Buffer
	code := cli.Run(t.Context(), cli.Process{Args: []string{"loopgrid-mcp", "config", "cursor"}, Executable: program, OS: "linux", Stdout: &out, Stderr: &bytes.Buffer{}})
	assert.Equal(t, 0, code)
	assert.Contains(t, out.String(), `"command": "`+filepath.Join(dir, "loopgrid-mcp")+`"`)
}

func TestConfig_Help(t *testing.T) {
	t.Parallel()
	code, out, errs := configFor("/bin/x", "linux", "--help")
	assert.Equal(t, 0, code)
	assert.Empty(t, errs)
	for _, host := range everyHost() {
		assert.Contains(t, out, host)
	}
}

// What is set where config runs is taken, except what opens reviews and exports; the value of the key never is.
func TestConfig_TakesWhatIsSetHere(t *testing.T) { //nolint:paralleltest // it sets the environment of the process
	clearEnvironment(t)
	dir := t.TempDir()
	for name, value := range map[string]string{
		"LOOPGRID_BASE_URL": "https://loopgrid.example.com", "LOOPGRID_WORKSPACE": `"claims"`, "LOOPGRID_SERVICE_KEY": key,
		"LOOPGRID_EVIDENCE_DIR": dir, "LOOPGRID_MCP_TIMEOUT_SECONDS": "soon",
		"LOOPGRID_MCP_ENABLE_REVIEW_TOOL": "true", "LOOPGRID_MCP_REVIEWER_ID": "ann", "LOOPGRID_MCP_ALLOW_PAYLOAD_EXPORT": "1",
	} {
		t.Setenv(name, value)
	}
	code, out, errs := configFor("/bin/x", "linux", "gemini", "--env", "LOOPGRID_WORKSPACE=other")
	require.Equal(t, 0, code, errs)
	assert.Equal(t, received{"/bin/x", map[string]string{
		"LOOPGRID_BASE_URL": "https://loopgrid.example.com", "LOOPGRID_WORKSPACE": "other", "LOOPGRID_SERVICE_KEY": key,
		"LOOPGRID_EVIDENCE_DIR": dir, "LOOPGRID_MCP_REVIEWER_ID": "ann",
	}}, receive(t, "gemini", "loopgrid", out))
	assert.NotContains(t, out+errs, key)
	said := strings.Join(strings.Fields(errs), " ")
	assert.Contains(t, said, "Taken from the environment here: LOOPGRID_BASE_URL, LOOPGRID_SERVICE_KEY (without its value), LOOPGRID_EVIDENCE_DIR, LOOPGRID_MCP_REVIEWER_ID.")
	assert.Contains(t, said, "LOOPGRID_MCP_ENABLE_REVIEW_TOOL is set here but not copied; use --env LOOPGRID_MCP_ENABLE_REVIEW_TOOL=true to enable it.")
	assert.Contains(t, said, "LOOPGRID_MCP_ALLOW_PAYLOAD_EXPORT is set here but not copied")
	assert.Contains(t, said, "Warning: LOOPGRID_MCP_TIMEOUT_SECONDS is set here and not taken")

	code, out, errs = configFor("/bin/x", "linux", "gemini", "--env", "LOOPGRID_MCP_ENABLE_REVIEW_TOOL=true")
	require.Equal(t, 0, code, errs)
	assert.Contains(t, out, "LOOPGRID_MCP_ENABLE_REVIEW_TOOL=true")
}

func TestConfig_NamesWhatHostsDoNotHandOn(t *testing.T) {
	clearEnvironment(t)
	t.Setenv("HTTPS_PROXY", "http://user:private@proxy:3128")
	t.Setenv("SSL_CERT_FILE", "/etc/ssl/corporate.pem")
	_, _, errs := configFor("/bin/x", "linux", "cursor")
	said := strings.Join(strings.Fields(errs), " ")
	assert.Contains(t, said, "Warning: HTTPS_PROXY, SSL_CERT_FILE: set here, but Cursor may not hand that on.")
	assert.NotContains(t, said, "private")
	_, _, errs = configFor("/bin/x", "linux", "claude-code")
	assert.NotContains(t, errs, "HTTPS_PROXY")
}

func TestConfig_AFileThatIsElsewhere(t *testing.T) {
	t.Parallel()
	code, out, errs := configFor("/bin/x", "linux", "cursor", "--env", "LOOPGRID_SERVICE_KEY_FILE=/run/secrets/no-such-key")
	require.Equal(t, 0, code, errs)
	assert.Contains(t, out, `"LOOPGRID_SERVICE_KEY_FILE": "/run/secrets/no-such-key"`)
	assert.Contains(t, strings.Join(strings.Fields(errs), " "), "Warning: LOOPGRID_SERVICE_KEY_FILE names /run/secrets/no-such-key, which does not exist.")
}

// What is printed for programs can be run.
func TestConfig_SDKCodeIsWellFormed(t *testing.T) {
	t.Parallel()
	_, out, _ := configFor(`C:\x y\größer.exe`, "windows", "sdk", "--env", "LOOPGRID_SERVICE_KEY", "--env", "LOOPGRID_MCP_REVIEWER_ID=O'Neill")
	blocks := map[string][]string{}
	for _, block := range regexp.MustCompile("(?s)```(\\w+)\n(.*?)```").FindAllStringSubmatch(out, -1) {
		blocks[block[1]] = append(blocks[block[1]], block[2])
	}
	require.Len(t, blocks["go"], 1)
	_, err := parser.ParseFile(token.NewFileSet(), "main.go", blocks["go"][0], parser.AllErrors)
	require.NoError(t, err)
	formatted, err := format.Source([]byte(blocks["go"][0]))
	require.NoError(t, err)
	assert.Equal(t, blocks["go"][0], string(formatted))
	assert.Len(t, blocks["python"], 2)
	assert.Len(t, blocks["typescript"], 2)
	for _, language := range []struct{ program, name string }{{"python3", "python"}, {"node", "typescript"}} {
		program, err := exec.LookPath(language.program)
		if err != nil {
			t.Logf("%s is not here", language.program)
			continue
		}
		for i, block := range blocks[language.name] {
			args := []string{"-c", "import ast, sys; ast.parse(sys.stdin.read())"}
			if language.name == "typescript" {
				args = []string{"--input-type=module", "--check", "-"}
			}
			cmd := exec.CommandContext(t.Context(), program, args...) //nolint:gosec // it parses what config printed
			cmd.Stdin = strings.NewReader(block)
			said, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s %d: %s", language.name, i, said)
		}
	}
}
