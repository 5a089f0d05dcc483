package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/loopgridio/loopgrid-mcp/internal/config"
)

// setup is the server as a host is to know it.
type setup struct {
	name    string // what the host calls the server
	program string // absolute path of this program
	windows bool
	env     []setting // in the order of the documentation
}

// setting is a variable that the host is to give to the server.
type setting struct {
	config.Variable

	value string
	refer bool // there is no value here: the host is to fill it in
}

// configArgs are the arguments of config.
type configArgs struct {
	host  string
	name  string
	given []string // of --env
}

// parseConfigArgs reads the arguments. Flags stand before or after the host.
func parseConfigArgs(args []string) (configArgs, error) {
	flags := flag.NewFlagSet("config", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	var parsed configArgs
	flags.StringVar(&parsed.name, "name", "loopgrid", "")
	flags.Func("env", "", func(text string) error {
		parsed.given = append(parsed.given, text) // looked at later: an error from here would be shown with the value
		return nil
	})
	for rest := args; ; {
		if err := flags.Parse(rest); err != nil {
			return parsed, err
		}
		if flags.NArg() == 0 {
			break
		}
		if parsed.host != "" {
			return parsed, errors.New("unknown argument " + quotedArgument(flags.Arg(0)))
		}
		parsed.host, rest = flags.Arg(0), flags.Args()[1:]
	}
	// Claude Code and Copilot CLI take only these characters, and with more of them tool names become too long for model APIs.
	if !regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,32}$`).MatchString(parsed.name) {
		return parsed, errors.New("--name takes 1 to 33 letters, digits, - and _, a letter first")
	}
	return parsed, nil
}

// runConfig prints what sets up a host to start this program. The text is on stdout, so that it can go into a file or a shell;
// what a person should know is on stderr. Nothing is written: the files of hosts hold other settings too.
func runConfig(p Process, args []string) int {
	parsed, err := parseConfigArgs(args)
	if err != nil {
		return usage(p, "config: "+err.Error())
	}
	if parsed.host == "" {
		return usage(p, "config: name a host: "+hostNames())
	}
	h, ok := findHost(parsed.host)
	if !ok {
		return usage(p, "config: unknown host "+quotedArgument(parsed.host)+didYouMean(parsed.host, everyHostName())+"; the known ones are "+hostNames())
	}
	s := setup{name: parsed.name, program: programPath(p), windows: p.system() == "windows"}
	if !utf8.ValidString(s.program) {
		fmt.Fprintln(p.Stderr, "loopgrid-mcp: config: the path of this program is not UTF-8, so that no file can hold it")
		return exitFailed
	}
	here := config.Load()
	given, notes := takeFrom(here, parsed.given)
	warnings, err := s.addSettings(given)
	if err == nil {
		s.fitTo(h)
		err = s.fits(h)
	}
	if err != nil {
		return usage(p, "config: "+err.Error())
	}
	if cache := cacheOf(s.program); cache != "" {
		warnings = append(warnings, fmt.Sprintf("This program lies in %s, which may be emptied at any time. Install it, and run config again.", cache))
	}
	if set := here.Network; len(set) > 0 && !h.inherits {
		warnings = append(warnings, fmt.Sprintf("%s: set here, but %s may not hand that on. If LoopGrid is only reachable with it, add it to the server's environment there.",
			strings.Join(set, ", "), h.title))
	}
	text, guide := h.describe(s)
	fmt.Fprint(p.Stderr, guide)
	for _, note := range notes {
		fmt.Fprint(p.Stderr, bullet(note))
	}
	for _, w := range warnings {
		fmt.Fprint(p.Stderr, bullet("Warning: "+w))
	}
	fmt.Fprintln(p.Stderr)
	fmt.Fprint(p.Stdout, text)
	return exitOK
}

// takeFrom adds the settings of this environment to those that --env gave, which count first. What opens reviews and exports is not
// taken, since that is decided for each host; a secret is taken by its name alone.
func takeFrom(here config.Settings, given []string) (all, notes []string) {
	names := map[string]bool{}
	for _, text := range given {
		name, _, _ := strings.Cut(text, "=")
		names[name] = true
	}
	all = given
	var took []string
	for _, v := range config.Variables() {
		value, usable := here.Values[v.Name]
		switch {
		case names[v.Name] || !slices.Contains(here.Set, v.Name):
		case v.Name == "LOOPGRID_SERVICE_KEY" && names["LOOPGRID_SERVICE_KEY_FILE"], v.Name == "LOOPGRID_SERVICE_KEY_FILE" && names["LOOPGRID_SERVICE_KEY"]:
		case v.Name == "LOOPGRID_MCP_ENABLE_REVIEW_TOOL", v.Name == "LOOPGRID_MCP_ALLOW_PAYLOAD_EXPORT":
			notes = append(notes, fmt.Sprintf("%s is set here but not copied; use --env %s=true to enable it.", v.Name, v.Name))
		case v.Secret:
			all = append(all, v.Name)
			took = append(took, v.Name+" (without its value)")
		case usable:
			all = append(all, v.Name+"="+value)
			took = append(took, v.Name)
		default:
			notes = append(notes, fmt.Sprintf("Warning: %s is set here and not taken, because it cannot be used; loopgrid-mcp doctor says why.", v.Name))
		}
	}
	if len(took) > 0 {
		notes = append([]string{"Taken from the environment here: " + strings.Join(took, ", ") + "."}, notes...)
	}
	return all, notes
}

// fitTo adds what the host needs besides the settings that were given.
func (s *setup) fitTo(h host) {
	const names = "LOOPGRID_MCP_TOOL_NAMES"
	if !h.underscores || slices.ContainsFunc(s.env, func(v setting) bool { return v.Name == names }) {
		return
	}
	var fitted []setting
	for _, v := range config.Variables() {
		if v.Name == names {
			fitted = append(fitted, setting{Variable: v, value: string(config.UnderscoreNames)})
		}
		for _, known := range s.env {
			if known.Name == v.Name {
				fitted = append(fitted, known)
			}
		}
	}
	s.env = fitted
}

// addSettings adds what --env gave, NAME=VALUE or NAME, and returns warnings about it. Errors hold no values: one may be a key.
func (s *setup) addSettings(given []string) (warnings []string, err error) {
	values := map[string]string{}
	var environ []string
	for _, text := range given {
		name, value, valued := strings.Cut(text, "=")
		_, twice := values[name]
		switch {
		case !slices.ContainsFunc(config.Variables(), func(v config.Variable) bool { return v.Name == name }):
			allowed := strings.Join(variableNames(), ", ")
			if !strings.HasPrefix(name, "LOOPGRID_") { // it may be a key that was given without its name
				return nil, fmt.Errorf("--env takes NAME=VALUE or NAME, and what was given does not begin with a variable of loopgrid-mcp; the allowed ones are %s", allowed)
			}
			return nil, fmt.Errorf("--env %s: not a variable of loopgrid-mcp%s; the allowed ones are %s", name, didYouMean(name, variableNames()), allowed)
		case twice:
			return nil, fmt.Errorf("--env %s: given twice", name)
		case valued && value == "":
			return nil, fmt.Errorf("--env %s= has no value; without the = the host fills it in", name)
		case !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
			return nil, fmt.Errorf("--env %s: the value is not plain text", name)
		}
		values[name] = value
		if valued {
			environ = append(environ, text)
		}
	}
	// The directory that the host will start the server in is not known here. The first of two equal names counts.
	checked := config.LoadFrom(append(environ, "LOOPGRID_EVIDENCE_DIR=."))
	for _, problem := range checked.Problems {
		if strings.HasSuffix(problem.Variable, "_FILE") { // the host may start the server where the file is
			warnings = append(warnings, problem.Message+" "+problem.Remedy)
			continue
		}
		if value, known := values[problem.Variable]; !known || value != "" {
			return nil, fmt.Errorf("%s %s", problem.Message, problem.Remedy)
		}
	}
	for _, w := range checked.Warnings {
		warnings = append(warnings, w.Message+" "+w.Remedy)
	}
	for _, v := range config.Variables() {
		value, known := values[v.Name]
		switch {
		case !known && v.Name != "LOOPGRID_BASE_URL":
			continue
		case !known:
			value = v.Default // where evidence goes should be seen
		case v.Secret && value != "":
			warnings = append(warnings, fmt.Sprintf("%s is printed here in clear, and is in clear wherever you put this. "+
				"Use --env %s without a value to avoid that.", v.Name, v.Name))
		}
		s.env = append(s.env, setting{Variable: v, value: value, refer: value == ""})
	}
	return warnings, nil
}

func variableNames() []string {
	var names []string
	for _, v := range config.Variables() {
		names = append(names, v.Name)
	}
	return names
}

// fits says what of the setup the host would not receive as it is.
func (s *setup) fits(h host) error {
	for _, v := range s.env {
		if h.expands != "" && strings.Contains(v.value, h.expands) {
			return fmt.Errorf("%s would take a part of %s for a placeholder; set it where %s is started, and give --env %s without a value",
				h.title, v.Name, h.title, v.Name)
		}
		// Windows PowerShell and PowerShell 7 pass these on in different ways.
		if s.windows && h.command != nil && (strings.Contains(v.value, `"`) || strings.HasSuffix(v.value, `\`)) {
			return fmt.Errorf(`%s: no command line is the same in all shells of Windows for a value with a " or with a \ at its end`, v.Name)
		}
	}
	return nil
}

// referring returns the setup with the host filling in what must not be seen.
func (s *setup) referring() setup {
	open := *s
	open.env = slices.Clone(s.env)
	for i, v := range open.env {
		open.env[i].refer = v.refer || v.Secret
	}
	return open
}

// settings lists the variables that the host fills in, or those that stand here.
func (s *setup) settings(refer bool) []string {
	var names []string
	for _, v := range s.env {
		if v.refer == refer {
			names = append(names, v.Name)
		}
	}
	return names
}

// programPath is the path under which this program can be started again. A link that it was started by stays when the program behind
// it moves, as those of Homebrew do with each version.
func programPath(p Process) string {
	found := p.Args[0]
	if !strings.ContainsAny(found, `/\`) {
		found, _ = exec.LookPath(found)
	}
	link, err := filepath.Abs(found)
	if err != nil {
		return p.Executable
	}
	started, err := os.Stat(link)
	if err != nil {
		return p.Executable
	}
	if running, err := os.Stat(p.Executable); err != nil || !os.SameFile(started, running) {
		return p.Executable
	}
	return link
}

// cacheOf names the cache that a program lies in; it is empty for one that was installed.
func cacheOf(program string) string {
	path := filepath.ToSlash(program)
	switch {
	case strings.Contains(path, "/_npx/"):
		return "the cache of npx"
	case regexp.MustCompile(`/uv/(cache/)?(archive|environments|builds)-v\d+/`).MatchString(path):
		return "the cache of uvx"
	case strings.Contains(path, "/go-build"):
		return "a directory of go run"
	default:
		return ""
	}
}

// system is the operating system, as [runtime.GOOS] names it.
func (p Process) system() string {
	if p.OS != "" {
		return p.OS
	}
	return runtime.GOOS
}
