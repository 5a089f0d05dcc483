package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
	"github.com/loopgridio/loopgrid-mcp/scripts/exact"
)

const (
	// modelName is of a model that all hosts take.
	modelName = "gpt-4.1"
	prompt    = "Record the decision."

	// action is evidence with what is lost on the way where numbers are read as float64 or texts are re-coded.
	action = `{"tool":"synthetic.refund","order":9007199254740993,"amount":720.0,"text":"9007199254740993 and 720.0, größer, 更多, <&>"}`
)

// host is a program to try, and how it is pointed at the model.
type host struct {
	npmPackage

	name    string
	program string // what the package calls it
	// file is where in the home the text of loopgrid-mcp config belongs; empty where that is a command.
	file string
	// before is what has to be in its home, by path; %s is the address of the model.
	before map[string]string
	env    []string // the same
	args   []string // the same
	// digits says that it hands on the digits that its model wrote. Hosts in JavaScript do not: 9007199254740993 is no number there.
	digits bool
	// try is what to do in place of all this.
	try func(context.Context, *trial) (string, error)
}

func hosts() []host {
	return []host{
		{
			name: "claude-code", npmPackage: npmPackage{"@anthropic-ai/claude-code", "2.1.332"}, program: "claude",
			env: []string{
				"ANTHROPIC_BASE_URL=%s", "ANTHROPIC_API_KEY=none", "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
			},
			args: []string{"-p", prompt, "--allowedTools", "mcp__loopgrid", "--output-format", "json"},
		},
		{
			name: "codex", npmPackage: npmPackage{"@openai/codex", "0.171.0"}, program: "codex", file: ".codex/config.toml", digits: true,
			before: map[string]string{".codex/config.toml": `model = "` + modelName + `"
model_provider = "loopback"

[model_providers.loopback]
name = "loopback"
base_url = "%s/v1"
env_key = "LOOPBACK_KEY"
wire_api = "responses"

`},
			env:  []string{"LOOPBACK_KEY=none"},
			args: []string{"exec", "--skip-git-repo-check", prompt},
		},
		{
			name: "gemini", npmPackage: npmPackage{"@google/gemini-cli", "0.61.0"}, program: "gemini",
			before: map[string]string{".gemini/settings.json": `{"security": {"auth": {"selectedType": "gemini-api-key"}}}`},
			env:    []string{"GOOGLE_GEMINI_BASE_URL=%s", "GEMINI_API_KEY=none", "GEMINI_CLI_TRUST_WORKSPACE=true"},
			args:   []string{"-p", prompt, "-m", "gemini-2.5-pro", "--yolo"},
		},
		{
			name: "copilot", npmPackage: npmPackage{"@github/copilot", "1.0.102"}, program: "copilot", digits: true,
			env:  []string{"COPILOT_OFFLINE=true", "COPILOT_PROVIDER_BASE_URL=%s/v1", "COPILOT_MODEL=" + modelName},
			args: []string{"-p", prompt, "--allow-tool", "loopgrid"},
		},
		{name: "inspector", npmPackage: npmPackage{"@modelcontextprotocol/inspector", "2.12.0"}, program: "mcp-inspector", try: inspect},
	}
}

// places are the directories of a trial.
type places struct {
	scratch   string // of this trial alone
	binary    string // loopgrid-mcp itself
	node      string // directory of Node
	installed string // where the host is
}

// trial is one host with a home, a ledger and a model of its own.
type trial struct {
	host
	*places

	tapped string // the path of the program that the host is told
	model  *model
	url    string // of the model
	ledger *sandbox.Server
	key    string // of the ledger
	ledgerURL,
	home string
	seen int // events of the ledger that were looked at
}

func tryHost(ctx context.Context, r *report, h host, p *places) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	t := &trial{host: h, places: p, home: filepath.Join(p.scratch, "home"), ledger: sandbox.New(sandbox.Options{Auth: true})}
	if err := os.MkdirAll(filepath.Join(t.home, "work"), 0o700); err != nil {
		return fmt.Errorf("make a home: %w", err)
	}
	t.key = t.ledger.CreateKey("default", "ingest", "read")
	t.model = &model{tool: "record_decision", arguments: json.RawMessage(`{"decision_type":"host_test","proposed_action":` + action + `}`)}
	for handler, url := range map[http.Handler]*string{t.ledger: &t.ledgerURL, t.model: &t.url} {
		end, err := serve(ctx, handler, url)
		if err != nil {
			return err
		}
		defer end()
	}
	if t.tapped, err = makeTap(filepath.Join(t.scratch, "tap"), t.binary); err != nil {
		return err
	}
	do := h.try
	if do == nil {
		do = chat
	}
	began := time.Now()
	said, err := do(ctx, t)
	if err != nil {
		return err
	}
	r.line("PASS", "%s %s: %s (%.0f s)", h.name, h.version, said, time.Since(began).Seconds())
	return nil
}

// serve serves on the loopback until end is called.
func serve(ctx context.Context, handler http.Handler, url *string) (end func(), err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	*url = "http://" + listener.Addr().String()
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go server.Serve(listener) //nolint:errcheck // it ends by being closed
	return func() { _ = server.Close() }, nil
}

// chat tells the host about the program as config says, and has it talk to the model.
func chat(ctx context.Context, t *trial) (string, error) {
	for path, text := range t.before {
		path = filepath.Join(t.home, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return "", fmt.Errorf("make a home: %w", err)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "%s", t.url)), 0o600); err != nil {
			return "", fmt.Errorf("make a home: %w", err)
		}
	}
	if err := t.addServer(ctx); err != nil {
		return "", err
	}
	args := slices.Clone(t.args)
	for i, arg := range args {
		args[i] = strings.ReplaceAll(arg, "%s", t.url)
	}
	out, err := runGroup(t.command(ctx, filepath.Join(t.bin(), t.program), args...))
	if err != nil {
		return "", fmt.Errorf("%w\n%s; it printed\n%.4000s", err, t.model.story(), bytes.TrimSpace(out))
	}
	said, err := t.check()
	if err == nil && len(t.model.results) == 0 {
		err = errors.New("the host did not tell its model what became of the call")
	}
	if err != nil {
		return "", fmt.Errorf("%w; %s; it printed\n%.4000s", err, t.model.story(), bytes.TrimSpace(out))
	}
	at := slices.IndexFunc(t.model.offered, func(name string) bool { return strings.HasSuffix(name, t.model.tool) })
	return said + ", offered as " + t.model.offered[at], nil // it was called, so it was offered
}

// bin is where the host's program is.
func (p *places) bin() string { return filepath.Join(p.installed, "node_modules", ".bin") }

// addServer does what loopgrid-mcp config says, with the tap in place of the program.
func (t *trial) addServer(ctx context.Context) error {
	cmd := t.command(ctx, t.binary, "config", t.name, "--env", "LOOPGRID_BASE_URL="+t.ledgerURL, "--env", "LOOPGRID_SERVICE_KEY")
	text, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("ask loopgrid-mcp config: %w", err)
	}
	spelled := func(path string) string { return strings.ReplaceAll(path, `\`, `\\`) }
	told := string(text)
	if t.file == "" {
		spelled = func(path string) string { return path }
	}
	if !strings.Contains(told, spelled(t.binary)) {
		return fmt.Errorf("loopgrid-mcp config does not name the program: %s", told)
	}
	told = strings.ReplaceAll(told, spelled(t.binary), spelled(t.tapped))
	if t.file != "" {
		path := filepath.Join(t.home, filepath.FromSlash(t.file))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("make a home: %w", err)
		}
		file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("add to the host's file: %w", err)
		}
		_, err = file.WriteString(told)
		return errors.Join(err, file.Close())
	}
	shell := []string{"sh", "-c", told}
	if runtime.GOOS == "windows" {
		shell = []string{"powershell", "-NoProfile", "-Command", told}
	}
	if out, err := runGroup(t.command(ctx, shell[0], shell[1:]...)); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.TrimSpace(told), err, bytes.TrimSpace(out))
	}
	return nil
}

// command returns a command that runs as in a new account: a home with nothing in it, and no way to the network.
func (t *trial) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = filepath.Join(t.home, "work")
	path := strings.Join([]string{t.bin(), t.node, os.Getenv("PATH")}, string(os.PathListSeparator))
	cmd.Env = []string{
		"PATH=" + path, "HOME=" + t.home, "USERPROFILE=" + t.home, "LANG=C.UTF-8", "TERM=dumb",
		"HTTP_PROXY=http://127.0.0.1:1", "HTTPS_PROXY=http://127.0.0.1:1", "NO_PROXY=127.0.0.1",
		"LOOPGRID_SERVICE_KEY=" + t.key,
	}
	for _, name := range []string{"SystemRoot", "SystemDrive", "ComSpec", "PATHEXT", "TEMP", "TMP"} {
		if value, known := os.LookupEnv(name); known {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	for _, variable := range t.env {
		cmd.Env = append(cmd.Env, strings.ReplaceAll(variable, "%s", t.url))
	}
	return cmd
}

// check looks at what was said on the wire and at what the ledger holds.
func (t *trial) check() (string, error) {
	all, err := sessions(filepath.Dir(t.tapped))
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(all, func(s session) bool { return len(s.calls) > 0 })
	if at < 0 {
		return "", fmt.Errorf("no tool was called in %d sessions", len(all))
	}
	s := all[at]
	switch {
	case s.begun == "":
		return "", errors.New("there was a call without a session")
	case !s.listsAll():
		return "", fmt.Errorf("the six tools were not listed: %q", s.tools)
	case len(s.calls) != 1 || !strings.HasSuffix(s.calls[0].tool, "record_decision"):
		return "", fmt.Errorf("one call of record_decision was meant: %q", s.calls)
	}
	var sent struct {
		ProposedAction json.RawMessage `json:"proposed_action"`
	}
	if err := json.Unmarshal(s.calls[0].arguments, &sent); err != nil {
		return "", fmt.Errorf("read the call: %w", err)
	}
	events := t.ledger.Events("default")[t.seen:]
	t.seen += len(events)
	if len(events) != 1 || events[0].EventType != "decision_created" {
		return "", fmt.Errorf("one decision was to be recorded, not %d events; the host was answered %.2000s", len(events), s.calls[0].answer)
	}
	var recorded struct {
		ProposedAction json.RawMessage `json:"proposed_action"`
	}
	if err := json.Unmarshal(events[0].Payload, &recorded); err != nil {
		return "", fmt.Errorf("read the ledger: %w", err)
	}
	if err := exact.Same(jsontext.Value(recorded.ProposedAction), jsontext.Value(sent.ProposedAction)); err != nil {
		return "", fmt.Errorf("the ledger does not hold what the host sent: %w", err)
	}
	if !bytes.Contains(s.calls[0].answer, []byte(`"commitment_verified":true`)) {
		return "", fmt.Errorf("the commitment was not verified: %.2000s", s.calls[0].answer)
	}
	digits := "every digit as the model wrote it"
	if exact.Same(jsontext.Value(sent.ProposedAction), jsontext.Value(action)) != nil {
		if err := exact.Same(jsontext.Value(sent.ProposedAction), inJavaScript(action)); err != nil || t.digits {
			return "", fmt.Errorf("the host did not send what its model wrote: %s", sent.ProposedAction)
		}
		digits = "every digit that the host sent (" + numbers(jsontext.Value(sent.ProposedAction)) + " for " + numbers(jsontext.Value(action)) + ", as JavaScript reads numbers)"
	}
	return fmt.Sprintf("%s, %s %s; six tools; recorded with %s", s.client, s.begun, s.spoken, digits), nil
}

// inJavaScript is what a program in JavaScript makes of a JSON value.
func inJavaScript(text string) jsontext.Value {
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		panic(err) // a constant of this program
	}
	encoded, err := json.Marshal(value) // numbers are float64, in the spelling of JavaScript
	if err != nil {
		panic(err)
	}
	return encoded
}

// numbers shows the numbers of an action.
func numbers(action jsontext.Value) string {
	found := map[string]string{}
	for name, value := range evidence.Members(action) {
		found[name] = string(value)
	}
	return found["order"] + " and " + found["amount"]
}
