package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

const description = "Signed evidence for what AI agents decide"

// text is what the host gets for a variable: its value, or how the host refers to it.
func (v setting) text(h host) string {
	if v.refer {
		return h.refer(v.Name)
	}
	return v.value
}

// environment is the variables as a JSON object of the host.
func (s *setup) environment(h host) map[string]string {
	env := map[string]string{}
	for _, v := range s.env {
		env[v.Name] = v.text(h)
	}
	return env
}

// assignments is the variables as arguments of the host's program, each after the flag.
func (s *setup) assignments(h host, flag string) []string {
	var args []string
	for _, v := range s.env {
		args = append(args, flag, v.Name+"="+v.text(h))
	}
	return args
}

// stdioServer is a server as most hosts describe it. The order of the members is that in the file.
type stdioServer struct {
	Type    string            `json:"type,omitempty"`
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
	Tools   []string          `json:"tools,omitempty"`
}

func (s *setup) stdioServer(h host, kind string) stdioServer {
	return stdioServer{Type: kind, Command: s.program, Args: []string{}, Env: s.environment(h)}
}

// mcpServers returns the file that most hosts agree upon, with the type that some want to see named.
func mcpServers(kind string) func(setup, host) string {
	return func(s setup, h host) string {
		return indented(map[string]any{"mcpServers": map[string]any{s.name: s.stdioServer(h, kind)}})
	}
}

func copilotFile(s setup, h host) string {
	server := s.stdioServer(h, "local")
	server.Tools = []string{"*"}
	return indented(map[string]any{"mcpServers": map[string]any{s.name: server}})
}

func opencodeFile(s setup, h host) string {
	type server struct {
		Type        string            `json:"type"`
		Command     []string          `json:"command"`
		Enabled     bool              `json:"enabled"`
		Environment map[string]string `json:"environment"`
	}
	return indented(struct {
		Schema string            `json:"$schema"`
		MCP    map[string]server `json:"mcp"`
	}{"https://opencode.ai/config.json", map[string]server{s.name: {"local", []string{s.program}, true, s.environment(h)}}})
}

func kiloFile(s setup, h host) string {
	type server struct {
		Type        string            `json:"type"`
		Command     []string          `json:"command"`
		Enabled     bool              `json:"enabled"`
		Environment map[string]string `json:"environment"`
	}
	return indented(map[string]any{"mcp": map[string]server{s.name: {"local", []string{s.program}, true, s.environment(h)}}})
}

func continueFile(s setup, h host) string {
	var out strings.Builder
	fmt.Fprintf(&out, "mcpServers:\n  - name: %s\n    type: stdio\n    command: %s\n    args: []\n    env:\n", quoted(s.name), quoted(s.program))
	for _, v := range s.env {
		fmt.Fprintf(&out, "      %s: %s\n", v.Name, quoted(v.text(h)))
	}
	return out.String()
}

func fastAgentFile(s setup, h host) string {
	var out strings.Builder
	fmt.Fprintf(&out, "mcp:\n  servers:\n    %s:\n      transport: stdio\n      command: %s\n      args: []\n      env:\n", quoted(s.name), quoted(s.program))
	for _, v := range s.env {
		fmt.Fprintf(&out, "        %s: %s\n", v.Name, quoted(v.text(h)))
	}
	return out.String()
}

// vscodeInput is a value that VS Code asks for.
type vscodeInput struct {
	Type        string `json:"type"`
	ID          string `json:"id"`
	Description string `json:"description"`
	Default     string `json:"default,omitempty"`
	Password    bool   `json:"password,omitempty"`
}

func inputID(variable string) string { return strings.ToLower(variable) }

func (s *setup) vscodeInputs() []vscodeInput {
	var inputs []vscodeInput
	for _, v := range s.env {
		if v.refer {
			inputs = append(inputs, vscodeInput{"promptString", inputID(v.Name), v.Description, v.Default, v.Secret})
		}
	}
	return inputs
}

func vscodeFile(s setup, h host) string {
	return indented(struct {
		Inputs  []vscodeInput          `json:"inputs,omitempty"`
		Servers map[string]stdioServer `json:"servers"`
	}{s.vscodeInputs(), map[string]stdioServer{s.name: s.stdioServer(h, "stdio")}})
}

// codexFile names what Codex hands on in env_vars: it fills in nothing below env.
func codexFile(s setup, _ host) string {
	var out strings.Builder
	fmt.Fprintf(&out, "[mcp_servers.%s]\ncommand = %s\n", s.name, quoted(s.program))
	if names := s.settings(true); len(names) > 0 {
		fmt.Fprintf(&out, "env_vars = [\"%s\"]\n", strings.Join(names, `", "`))
	}
	if names := s.settings(false); len(names) > 0 {
		fmt.Fprintf(&out, "\n[mcp_servers.%s.env]\n", s.name)
		for _, v := range s.env {
			if !v.refer {
				fmt.Fprintf(&out, "%s = %s\n", v.Name, quoted(v.value))
			}
		}
	}
	return out.String()
}

func gooseFile(s setup, _ host) string {
	var out strings.Builder
	fmt.Fprintf(&out, "extensions:\n  %s:\n    type: stdio\n    name: %s\n    description: %s\n    enabled: true\n    timeout: 300\n    cmd: %s\n    args: []\n",
		quoted(s.name), quoted(s.name), description, quoted(s.program))
	if names := s.settings(true); len(names) > 0 {
		fmt.Fprintf(&out, "    env_keys: [%s]\n", strings.Join(names, ", "))
	}
	if names := s.settings(false); len(names) == 0 {
		out.WriteString("    envs: {}\n")
	} else {
		out.WriteString("    envs:\n")
		for _, v := range s.env {
			if !v.refer {
				fmt.Fprintf(&out, "      %s: %s\n", v.Name, quoted(v.value))
			}
		}
	}
	return out.String()
}

func cursorLink(s setup, h host) string {
	config := base64.StdEncoding.EncodeToString([]byte(compact(s.stdioServer(h, ""))))
	return "cursor://anysphere.cursor-deeplink/mcp/install?name=" + component(s.name) + "&config=" + component(config)
}

func vscodeLink(s setup, h host) string {
	type named struct {
		Name string `json:"name"`
		stdioServer
		Inputs []vscodeInput `json:"inputs,omitempty"`
	}
	return "vscode:mcp/install?" + component(compact(named{s.name, s.stdioServer(h, "stdio"), s.vscodeInputs()}))
}

// gooseLink starts the program by npx: Goose opens no links to programs that it does not know. It asks for the values of the
// variables, so that the link holds what they mean and not what they are.
func gooseLink(s setup, _ host) string {
	parts := []string{
		"goose://extension?cmd=npx", "arg=-y", "arg=loopgrid-mcp", "id=" + component(s.name), "name=" + component(s.name),
		"description=" + component(description),
	}
	for _, v := range s.env {
		parts = append(parts, "env="+component(v.Name+"="+v.Description))
	}
	return strings.Join(parts, "&")
}

// component escapes a text as JavaScript's encodeURIComponent does, for programs that take it apart with decodeURIComponent: there
// a + is a plus.
func component(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

func indented(v any) string { return encode(v, "  ") }

func compact(v any) string { return strings.TrimSuffix(encode(v, ""), "\n") }

// encode writes JSON with < and & as they are.
func encode(v any, indent string) string {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		panic(err) // strings, lists and maps of them always encode
	}
	return out.String()
}

// quoted is a string of JSON, which is one of YAML and a basic string of TOML too.
func quoted(text string) string { return strings.ReplaceAll(compact(text), "\x7f", `\u007f`) }

// shell is a command line: for PowerShell on Windows, for every shell elsewhere.
func (s *setup) shell(args []string) string {
	if s.windows {
		return joinWords(args, powerShellWord)
	}
	return joinWords(args, posixWord)
}

// cmdLine is a command line for cmd.exe.
func (s *setup) cmdLine(args []string) string { return joinWords(args, cmdWord) }

func joinWords(args []string, word func(string) string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = word(arg)
	}
	return strings.Join(words, " ")
}

func posixWord(arg string) string {
	if isPlainWord(arg, "_-./:=@%+,") {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

// cmdWord quotes -- too, so that the line is the same as in PowerShell wherever it can be.
func cmdWord(arg string) string {
	if arg != "--" && isPlainWord(arg, `_-./:=\`) {
		return arg
	}
	return `"` + arg + `"`
}

// powerShellWord quotes -- because PowerShell would keep it to itself where the host's program is a script, as those of npm are.
func powerShellWord(arg string) string {
	if !strings.ContainsAny(arg, "$`%\"“”„") {
		return cmdWord(arg)
	}
	// Typographic quotation marks end a string as straight ones do.
	return "'" + strings.NewReplacer("'", "''", "‘", "‘‘", "’", "’’", "‚", "‚‚", "‛", "‛‛").Replace(arg) + "'"
}

// isPlainWord says whether a word needs no quotation marks: it is made of letters and digits of ASCII and of these marks.
func isPlainWord(arg, marks string) bool {
	return arg != "" && strings.TrimFunc(arg, func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(marks, r)
	}) == ""
}
