package cli

import (
	"fmt"
	"slices"
	"strings"
)

// host is an MCP host, and how a server is set up in it. What this file says of Claude Code, Codex, Gemini CLI, Copilot CLI, OpenCode,
// Qwen Code and Cline was tried in them; the rest is what their makers document.
type host struct {
	name, title string
	aliases     []string

	// command is what its own program takes to add the server; nil where there is no such thing, or where it cannot do all.
	command func(setup, host) []string
	// file is the text that goes into its configuration, in this format.
	file   func(setup, host) string
	format string
	places places
	// holder is the member of a JSON or YAML file that holds the servers: what is there already stays.
	holder string
	// link installs the server when it is opened; nil where the host knows no such links.
	link func(setup, host) string

	// refer is a variable that the host is to fill in, as its configuration writes it.
	refer func(name string) string
	// expands is what a value must not contain, since the host would read it as a placeholder.
	expands string
	// filled says where the value of a reference comes from. %s is the reference.
	filled string
	// underscores says that it passes tool names on to model APIs, which refuse dots, under a name that other clients have too: auto
	// cannot recognize it.
	underscores bool
	// inherits says that the server gets the host's environment, and that a host in a terminal has that of the shell.
	inherits bool
	// notes are what else a person should know. %s is the name of the server.
	notes []string
}

// places are the paths of a host's configuration.
type places struct{ linux, macos, windows, project string }

// atHome returns the places of a file that is below the home directory everywhere.
func atHome(path string) places {
	return places{"~/" + path, "~/" + path, `%USERPROFILE%\` + strings.ReplaceAll(path, "/", `\`), ""}
}

// inProject adds the place of a file that counts for one project.
func inProject(path string, p places) places {
	p.project = path
	return p
}

// The ways in which hosts refer to variables.
func dollarBraces(name string) string { return "${" + name + "}" }
func dollar(name string) string       { return "$" + name }
func typeHere(name string) string     { return "YOUR_" + name } // the server says so when it is left as it is

func hosts() []host {
	return []host{
		{
			name: "claude-code", aliases: []string{"claude"}, title: "Claude Code", inherits: true,
			command: func(s setup, h host) []string {
				return slices.Concat([]string{"claude", "mcp", "add", s.name, "--scope", "user"}, s.assignments(h, "-e"), []string{"--", s.program})
			},
			file: mcpServers("stdio"), format: "json", places: inProject(".mcp.json", atHome(".claude.json")),
			refer: dollarBraces, expands: "${",
			filled: "Claude Code replaces %s with the value from its own environment when it starts the server.",
			notes: []string{
				"With --scope project instead of --scope user the server is set up for one project, for everybody who works on it.",
				"Without a person (claude -p) the tools need --allowedTools mcp__%s.",
				"claude mcp list shows whether the server starts.",
			},
		},
		{
			name: "claude-desktop", title: "Claude Desktop",
			file: mcpServers(""), format: "json", holder: "mcpServers",
			places: places{
				"~/.config/Claude/claude_desktop_config.json",
				"~/Library/Application Support/Claude/claude_desktop_config.json",
				`%APPDATA%\Claude\claude_desktop_config.json`, "",
			},
			refer:  typeHere,
			filled: "Claude Desktop fills in nothing: replace %s with the value. This file then holds it in clear.",
			notes: []string{
				"Settings, Developer, Edit Config opens the file. Quit Claude Desktop and start it again afterwards.",
				"Claude Desktop takes no dots in tool names, so it sees loopgrid_record_decision and so on.",
			},
		},
		{
			name: "cursor", title: "Cursor",
			file: mcpServers(""), format: "json", holder: "mcpServers",
			places: inProject(".cursor/mcp.json", atHome(".cursor/mcp.json")),
			link:   cursorLink,
			refer:  func(name string) string { return "${env:" + name + "}" }, expands: "${",
			filled: "Cursor replaces %s with the value from its own environment. Started from the desktop, it does not have the variables of your shell.",
			notes:  []string{"Cursor takes no dots in tool names, so it sees loopgrid_record_decision and so on."},
		},
		{
			name: "vscode", aliases: []string{"vs-code", "code"}, title: "VS Code",
			file: vscodeFile, format: "json", holder: "servers",
			places: places{
				"~/.config/Code/User/mcp.json", "~/Library/Application Support/Code/User/mcp.json",
				`%APPDATA%\Code\User\mcp.json`, ".vscode/mcp.json",
			},
			link:  vscodeLink,
			refer: func(name string) string { return "${input:" + inputID(name) + "}" }, expands: "${",
			filled: "VS Code asks for the value of %s when it first starts the server, and keeps it encrypted.",
			notes:  []string{"The command MCP: Open User Configuration opens the file."},
		},
		{
			name: "codex", aliases: []string{"codex-cli"}, title: "Codex",
			file: codexFile, format: "toml", places: atHome(".codex/config.toml"),
			refer:  func(name string) string { return name },
			filled: "Codex passes %s on from its own environment, because env_vars names it.",
			notes: []string{
				"Add the text at the end of the file. If CODEX_HOME is set, it replaces ~/.codex.",
				"Codex passes on little more of its environment than HOME, PATH and the language. Name whatever else the program needs, such as HTTPS_PROXY, in env_vars.",
				"codex exec, where no person is asked, runs every tool but loopgrid.record_review.",
			},
		},
		{
			name: "gemini", aliases: []string{"gemini-cli"}, title: "Gemini CLI", inherits: true,
			command: func(s setup, h host) []string {
				return slices.Concat([]string{"gemini", "mcp", "add", "-s", "user"}, s.assignments(h, "-e"), []string{s.name, s.program})
			},
			file: mcpServers(""), format: "json", places: atHome(".gemini/settings.json"),
			refer: dollar, expands: "$",
			filled: "Gemini CLI replaces %s with the value from its own environment. Variables that look like secrets reach the server only in this way.",
			notes: []string{
				"Gemini CLI starts servers only in trusted folders.",
				`Without a person (gemini -p) it offers the tools only with --yolo, or if the server has "trust": true.`,
				"gemini mcp list shows whether the server starts.",
			},
		},
		{
			name: "goose", title: "Goose",
			file: gooseFile, format: "yaml", holder: "extensions",
			places: places{"~/.config/goose/config.yaml", "~/.config/goose/config.yaml", `%APPDATA%\Block\goose\config\config.yaml`, ""},
			link:   gooseLink,
			refer:  func(name string) string { return name },
			filled: "Goose takes %s from its own environment or from its keyring, because env_keys names it.",
			notes: []string{
				"The link starts the program with npx, because Goose takes no links to other programs, and asks for the values.",
				"The model APIs behind Goose take no dots in tool names: it sees loopgrid_record_decision and so on.",
			},
		},
		{
			name: "copilot", aliases: []string{"copilot-cli"}, title: "Copilot CLI", inherits: true,
			command: func(s setup, h host) []string {
				return slices.Concat([]string{"copilot", "mcp", "add", s.name}, s.assignments(h, "--env"), []string{"--", s.program})
			},
			file: copilotFile, format: "json", places: atHome(".copilot/mcp-config.json"),
			refer: dollarBraces, expands: "$",
			filled: "Copilot CLI replaces %s with the value from its own environment when it starts the server.",
			notes:  []string{"Without a person (copilot -p) the tools need --allow-tool %s."},
		},
		{
			name: "opencode", title: "OpenCode", inherits: true,
			command: func(s setup, h host) []string {
				return slices.Concat([]string{"opencode", "mcp", "add", s.name}, s.assignments(h, "--env"), []string{"--", s.program})
			},
			file: opencodeFile, format: "json", places: atHome(".config/opencode/opencode.jsonc"),
			refer: func(name string) string { return "{env:" + name + "}" }, expands: "{",
			filled: "OpenCode replaces %s with the value from its own environment.",
			notes:  []string{"opencode mcp list shows whether the server starts."},
		},
		{
			name: "qwen", aliases: []string{"qwen-code"}, title: "Qwen Code", inherits: true,
			command: func(s setup, h host) []string {
				return slices.Concat([]string{"qwen", "mcp", "add", "-s", "user"}, s.assignments(h, "-e"), []string{s.name, s.program})
			},
			file: mcpServers(""), format: "json", places: atHome(".qwen/settings.json"),
			refer: dollar, expands: "$",
			filled: "Qwen Code replaces %s with the value from its own environment.",
			notes: []string{
				"Without a person (qwen -p) the tools need --yolo.",
				"qwen mcp list shows whether the server starts.",
			},
		},
		{
			name: "cline", aliases: []string{"cline-cli"}, title: "Cline",
			file: mcpServers("stdio"), format: "json", places: atHome(".cline/data/settings/cline_mcp_settings.json"), holder: "mcpServers",
			refer:  typeHere,
			filled: "Cline fills in nothing: replace %s with the value. This file then holds it in clear.",
			notes: []string{
				"That is the file of the command line. In VS Code open it in Cline's panel: MCP Servers, Configure.",
				"Cline passes on nothing else of its environment. Put whatever else the program needs, such as HTTPS_PROXY, into env.",
			},
		},
		{
			name: "kilo", aliases: []string{"kilo-code", "kilocode"}, title: "Kilo", inherits: true,
			file: kiloFile, format: "json", holder: "mcp",
			places: inProject(".kilo/kilo.jsonc", atHome(".config/kilo/kilo.jsonc")),
			refer:  func(name string) string { return "{env:" + name + "}" }, expands: "{",
			filled: "Kilo replaces %s with the value from its own environment.",
			notes:  []string{"The command line and the VS Code extension read the same file. Versions before 7 had another one, with mcpServers."},
		},
		{
			name: "droid", aliases: []string{"factory"}, title: "Droid",
			file: mcpServers("stdio"), format: "json", holder: "mcpServers",
			places: inProject(".factory/mcp.json", atHome(".factory/mcp.json")),
			refer:  typeHere,
			filled: "Replace %s with the value. This file then holds it in clear.",
			notes:  []string{"Without a person (droid exec) the tools need --add-tools MCP:%s.", "/mcp shows whether the server starts."},
		},
		{
			name: "continue", aliases: []string{"cn", "continue-cli"}, title: "Continue", underscores: true,
			file: continueFile, format: "yaml", holder: "mcpServers",
			places: atHome(".continue/config.yaml"),
			refer:  func(name string) string { return "${{ secrets." + name + " }}" }, expands: "${{",
			filled: "Continue replaces %s with the value from ~/.continue/.env, or from .env in the workspace.",
			notes:  []string{"MCP tools are offered in agent mode only."},
		},
		{
			name: "kimi", aliases: []string{"kimi-cli"}, title: "Kimi CLI", underscores: true,
			file: mcpServers(""), format: "json", holder: "mcpServers",
			places: atHome(".kimi/mcp.json"),
			refer:  typeHere,
			filled: "Kimi CLI fills in nothing: replace %s with the value. This file then holds it in clear.",
			notes:  []string{"kimi mcp test %s shows whether the server starts."},
		},
		{
			name: "fast-agent", aliases: []string{"fastagent"}, title: "fast-agent", underscores: true,
			file: fastAgentFile, format: "yaml",
			places: places{project: "fastagent.config.yaml"},
			refer:  dollarBraces, expands: "${",
			filled: "fast-agent replaces %s with the value from its own environment.",
			notes:  []string{"Agents use the server by its name: servers=[\"%s\"], or --servers %s on the command line."},
		},
		{
			name: "openhands", title: "OpenHands", underscores: true,
			file: mcpServers(""), format: "json", holder: "mcpServers",
			places: atHome(".openhands/mcp.json"),
			refer:  typeHere,
			filled: "Replace %s with the value. This file then holds it in clear.",
			notes:  []string{"openhands mcp list shows the server; /mcp in a conversation shows whether it starts."},
		},
		{
			name: "sdk", title: "SDKs and frameworks", underscores: true,
			file: sdkFile, format: "md",
			places: places{project: "your program"},
			refer:  func(name string) string { return name },
			filled: "The code takes %s from the environment of your program.",
			notes: []string{
				"Clients of the Python SDK all call themselves mcp, so LOOPGRID_MCP_TOOL_NAMES=underscore has to say that the model takes no dots.",
				"SDKs hand on little of their environment: whatever else the program needs, such as HTTPS_PROXY, belongs in env.",
			},
		},
		{
			name: "json", aliases: []string{"other"}, title: "Any other host",
			file: mcpServers(""), format: "json", holder: "mcpServers",
			places: places{project: "the host's configuration"},
			refer:  typeHere,
			filled: "Replace %s with the value, or with the host's own way to refer to it.",
			notes: []string{
				"If the model's API refuses the tools (400) or the host lists none, add --env LOOPGRID_MCP_TOOL_NAMES=underscore: many model APIs take no dots in tool names.",
			},
		},
	}
}

func findHost(name string) (host, bool) {
	for _, h := range hosts() {
		if h.name == name || slices.Contains(h.aliases, name) {
			return h, true
		}
	}
	return host{}, false
}

// everyHostName returns the names of hosts and their other spellings.
func everyHostName() []string {
	var names []string
	for _, h := range hosts() {
		names = append(append(names, h.name), h.aliases...)
	}
	return names
}

func hostNames() string {
	var names []string
	for _, h := range hosts() {
		names = append(names, h.name)
	}
	return strings.Join(names, ", ")
}

// describe returns the text for the host, and what a person should know who hands it over.
func (h host) describe(s setup) (text, guide string) {
	var out strings.Builder
	if h.command != nil {
		text = s.shell(h.command(s, h)) + "\n"
		fmt.Fprintf(&out, "%s: run the command below once. It adds the server to\n%s", h.title, h.places.lines())
	} else {
		text = h.file(s, h)
		fmt.Fprintf(&out, "%s: the text below goes into\n%s", h.title, h.places.lines())
		if h.holder != "" {
			fmt.Fprintf(&out, "If that file has %s already, merge this entry into it.\n", h.holder)
		}
	}
	for _, remark := range h.remarks(s) {
		out.WriteString(bullet(remark))
	}
	if h.link != nil {
		out.WriteString(bullet("Or open this link:\n" + h.link(s.referring(), h)))
	}
	return text, out.String()
}

// remarks are what a person should know of the setup.
func (h host) remarks(s setup) []string {
	var remarks []string
	if names := s.settings(true); len(names) > 0 {
		for i, name := range names {
			names[i] = h.refer(name)
		}
		remarks = append(remarks, fmt.Sprintf(h.filled, strings.Join(names, " and ")))
	}
	if !slices.ContainsFunc(s.env, func(v setting) bool { return v.Secret || v.Name == "LOOPGRID_SERVICE_KEY_FILE" }) {
		remarks = append(remarks, "If LoopGrid asks for a key, add --env LOOPGRID_SERVICE_KEY. "+fmt.Sprintf(h.filled, h.refer("LOOPGRID_SERVICE_KEY")))
	}
	if h.command != nil && s.windows {
		if other := s.cmdLine(h.command(s, h)); other != s.shell(h.command(s, h)) {
			remarks = append(remarks, "That is for PowerShell. In cmd.exe:\n"+other)
		}
	}
	for _, note := range h.notes {
		remarks = append(remarks, strings.ReplaceAll(note, "%s", s.name))
	}
	return remarks
}

// lines lists the places, one in a line.
func (p places) lines() string {
	if p.linux == "" { // only the person knows where
		return "  " + p.project + "\n"
	}
	var out strings.Builder
	for _, place := range []struct{ where, path string }{
		{"Linux", p.linux}, {"macOS", p.macos}, {"Windows", p.windows}, {"one project", p.project},
	} {
		switch {
		case place.path == "" || place.where == "Linux" && p.linux == p.macos:
			continue
		case place.where == "macOS" && p.linux == p.macos:
			place.where = "Linux, macOS"
		}
		fmt.Fprintf(&out, "  %-14s%s\n", place.where, place.path)
	}
	return out.String()
}

// bullet is a remark as one item of a list. What follows a line break is to be copied: it stays in one line.
func bullet(text string) string {
	text, copied, _ := strings.Cut(text, "\n")
	lines := wrap(text, 78)
	if copied != "" {
		lines = append(lines, copied)
	}
	return "- " + strings.Join(lines, "\n  ") + "\n"
}
