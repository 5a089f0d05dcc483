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
	"github.com/loopgridio/loopgrid-mcp/examples/story"
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
	env    []string   // the same
	setup  [][]string // the same: arguments of its commands before the conversation
	args   []string   // the same
	// digits says that it hands on the digits that its model wrote. Hosts in JavaScript do not: 9007199254740993 is no number there.
	digits bool
	// try is what to do instead of all this.
	try func(context.Context, *trial) (string, error)
}

// plan is what the model does: the five calls that need no person.
func plan() []planned {
	return []planned{
		{"record_decision", `{"decision_type":"host_test","proposed_action":` + action + `}`},
		{"record_action", `{"decision_id":"{id}","tool":"synthetic.refund","external_reference":"synthetic-1"}`},
		{"record_outcome", `{"decision_id":"{id}","status":"synthetic","verified_against":"nothing"}`},
		{"verify_evidence", `{"decision_id":"{id}"}`},
		{"get_evidence", `{"decision_id":"{id}"}`},
	}
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
		{
			name: "opencode", npmPackage: npmPackage{"opencode-ai", "1.18.33"}, program: "opencode",
			before: map[string]string{".config/opencode/opencode.jsonc": `{
  "provider": {"loopback": {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": "%s/v1", "apiKey": "none"}, "models": {"` + modelName + `": {}}}},
  "model": "loopback/` + modelName + `"
}`},
			env:  []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1"},
			args: []string{"run", prompt},
		},
		{
			name: "qwen", npmPackage: npmPackage{"@qwen-code/qwen-code", "0.24.4"}, program: "qwen",
			env:  []string{"OPENAI_API_KEY=none", "OPENAI_BASE_URL=%s/v1", "OPENAI_MODEL=" + modelName},
			args: []string{"--auth-type", "openai", "-p", prompt, "--yolo"},
		},
		{
			name: "cline", npmPackage: npmPackage{"cline", "3.0.65"}, program: "cline", file: ".cline/data/settings/cline_mcp_settings.json",
			setup: [][]string{{"auth", "openai-compatible", "-k", "none", "-m", modelName, "-b", "%s/v1"}},
			args:  []string{prompt, "-P", "openai-compatible", "-m", modelName, "-k", "none"},
		},
		{
			name: "kilo", npmPackage: npmPackage{"@kilocode/cli", "7.7.7"}, program: "kilo", file: ".config/kilo/kilo.jsonc",
			before: map[string]string{"work/.kilo/kilo.jsonc": `{
  "provider": {"loopback": {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": "%s/v1", "apiKey": "none"}, "models": {"` + modelName + `": {}}}},
  "model": "loopback/` + modelName + `"
}`},
			args: []string{"run", "--auto", prompt},
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
	round round

	tapped string // the path of the program that the host is told
	model  *model
	url    string // of the model
	ledger *sandbox.Server
	key    string // of the ledger
	ledgerURL,
	home string
	seen    int    // events of the ledger that were looked at
	spelled string // a tool as the program listed it
}

// round is one way of using the program. The home of a host is new in each.
type round struct {
	name     string
	settings []string // for loopgrid-mcp config --env
	again    bool     // the tap repeats initialize, as some hosts do
	down     bool     // nothing listens where the service should be
}

// tryHost goes through the rounds: what config prints by itself, the other spelling of the names, and a service that is down.
func tryHost(ctx context.Context, r *report, h host, p *places) error {
	if h.try != nil {
		_, err := tryRound(ctx, r, h, p, round{name: "tools"})
		return err
	}
	spelled, err := tryRound(ctx, r, h, p, round{name: "as configured", again: true})
	if err != nil {
		return err
	}
	other := "underscore"
	if strings.HasPrefix(spelled, "loopgrid_") {
		other = "dotted"
	}
	if _, err := tryRound(ctx, r, h, p, round{name: other, settings: []string{"--env", "LOOPGRID_MCP_TOOL_NAMES=" + other}}); err != nil {
		return err
	}
	_, err = tryRound(ctx, r, h, p, round{name: "service down", down: true})
	return err
}

// tryRound tries one round, prints its line, and returns a name of a tool as the program spelled it.
func tryRound(ctx context.Context, r *report, h host, p *places, rd round) (spelled string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	scratch := filepath.Join(p.scratch, strings.ReplaceAll(rd.name, " ", "-"))
	t := &trial{host: h, places: p, round: rd, home: filepath.Join(scratch, "home"), ledger: sandbox.New(sandbox.Options{Auth: true})}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", rd.name, err)
		}
	}()
	if err := os.MkdirAll(filepath.Join(t.home, "work"), 0o700); err != nil {
		return "", fmt.Errorf("make a home: %w", err)
	}
	defer endStrays(t.home)
	t.key = t.ledger.CreateKey("default", "ingest", "read")
	t.model = &model{plan: plan()}
	for handler, url := range map[http.Handler]*string{t.ledger: &t.ledgerURL, t.model: &t.url} {
		end, err := serve(ctx, handler, url)
		if err != nil {
			return "", err
		}
		defer end()
	}
	if rd.down {
		t.ledgerURL, t.model.plan = "http://127.0.0.1:1", t.model.plan[:1]
	}
	if t.tapped, err = makeTap(filepath.Join(scratch, "tap"), t.binary, rd.again); err != nil {
		return "", err
	}
	do := h.try
	if do == nil {
		do = chat
	}
	began := time.Now()
	said, err := do(ctx, t)
	if err != nil {
		return "", err
	}
	r.line("PASS", "%s %s: %s: %s (%.0f s)", h.name, h.version, rd.name, said, time.Since(began).Seconds())
	return t.spelled, nil
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
		if err := os.WriteFile(path, []byte(t.fill(text)), 0o600); err != nil {
			return "", fmt.Errorf("make a home: %w", err)
		}
	}
	if err := t.addServer(ctx); err != nil {
		return "", err
	}
	var out []byte
	for _, given := range append(slices.Clone(t.setup), t.args) {
		args := slices.Clone(given)
		for i, arg := range args {
			args[i] = t.fill(arg)
		}
		var err error
		if out, err = runGroup(t.command(ctx, filepath.Join(t.bin(), t.program), args...)); err != nil {
			return "", fmt.Errorf("%w\n%s; it printed\n%.4000s", err, t.model.story(), bytes.TrimSpace(out))
		}
	}
	said, err := t.check()
	if told := len(t.model.results); err == nil && told != len(t.model.plan) {
		err = fmt.Errorf("the host told its model what became of %d of %d calls", told, len(t.model.plan))
	}
	if err == nil && t.round.down && !strings.Contains(t.model.results[0], "Not recorded: ") {
		err = errors.New("the host did not tell its model that nothing was recorded")
	}
	if err != nil {
		return "", fmt.Errorf("%w; %s; it printed\n%.4000s", err, t.model.story(), bytes.TrimSpace(out))
	}
	offered := "by one that calls others"
	if at := slices.IndexFunc(t.model.offered, func(name string) bool { return strings.Contains(name, t.model.plan[0].tool) }); at >= 0 {
		offered = "as " + t.model.offered[at]
	}
	return said + ", offered " + offered, nil
}

// fill puts the address of the model into a text.
func (t *trial) fill(text string) string { return strings.ReplaceAll(text, "%s", t.url) }

// bin is where the host's program is.
func (p *places) bin() string { return filepath.Join(p.installed, "node_modules", ".bin") }

// addServer does what loopgrid-mcp config says, with the tap in place of the program.
func (t *trial) addServer(ctx context.Context) error {
	args := append([]string{"config", t.name, "--env", "LOOPGRID_BASE_URL=" + t.ledgerURL, "--env", "LOOPGRID_SERVICE_KEY"}, t.round.settings...)
	cmd := t.command(ctx, t.binary, args...)
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
	// Where a host fills nothing in, the person writes the key.
	told = strings.NewReplacer(spelled(t.binary), spelled(t.tapped), "YOUR_LOOPGRID_SERVICE_KEY", t.key).Replace(told)
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
		cmd.Env = append(cmd.Env, t.fill(variable))
	}
	return cmd
}

// check looks at what was said on the wire and at what the ledger holds.
func (t *trial) check() (string, error) {
	all, err := sessions(filepath.Dir(t.tapped))
	if err != nil {
		return "", err
	}
	var s session // the last one with calls, and the calls of all
	var calls []call
	for _, one := range all {
		if len(one.calls) > 0 {
			s = one
			calls = append(calls, one.calls...)
		}
	}
	switch {
	case len(calls) == 0:
		return "", fmt.Errorf("no tool was called in %d sessions", len(all))
	case s.begun == "":
		return "", errors.New("there was a call without a session")
	case story.CheckTools(dotted(s.tools)) != nil:
		return "", fmt.Errorf("the six tools were not listed: %q", s.tools)
	case t.round.again && s.begun == "initialize" && !s.again:
		return "", errors.New("a second initialize was not answered like the first one")
	case len(calls) != len(t.model.plan):
		return "", fmt.Errorf("%d calls were meant: %q", len(t.model.plan), calls)
	}
	t.spelled = s.tools[0]
	for i, step := range t.model.plan {
		if !strings.HasSuffix(calls[i].tool, step.tool) {
			return "", fmt.Errorf("call %d was to be %s: %q", i+1, step.tool, calls)
		}
		if failed := bytes.Contains(calls[i].answer, []byte(`"isError":true`)); failed != t.round.down {
			return "", fmt.Errorf("%s was answered with %.2000s", step.tool, calls[i].answer)
		}
	}
	twice := ""
	if s.again {
		twice = ", twice"
	}
	began := fmt.Sprintf("%s, %s %s%s; six tools", s.client, s.begun, s.spoken, twice)
	if t.round.down {
		return began + "; not recorded, and the model knows why", nil
	}
	digits, err := t.checkLedger(calls[0])
	return began + "; five calls, recorded with " + digits, err
}

// dotted spells names with a dot.
func dotted(names []string) []string {
	var all []string
	for _, name := range names {
		all = append(all, strings.Replace(name, "loopgrid_", "loopgrid.", 1))
	}
	return all
}

// checkLedger compares what the ledger holds with what the host sent and its model wrote.
func (t *trial) checkLedger(decision call) (digits string, err error) {
	var types []string
	events := t.ledger.Events("default")[t.seen:]
	for i := range events {
		types = append(types, events[i].EventType)
	}
	t.seen += len(events)
	if !slices.Equal(types, []string{"decision_created", "tool_executed", "outcome_observed"}) {
		return "", fmt.Errorf("a decision, an action and an outcome were to be recorded, not %q; the host was answered %.2000s", types, decision.answer)
	}
	sent, recorded := evidence.Get(jsontext.Value(decision.arguments), "proposed_action"), evidence.Get(events[0].Payload, "proposed_action")
	if err := exact.Same(recorded, sent); err != nil {
		return "", fmt.Errorf("the ledger does not hold what the host sent: %w", err)
	}
	if !bytes.Contains(decision.answer, []byte(`"commitment_verified":true`)) {
		return "", fmt.Errorf("the commitment was not verified: %.2000s", decision.answer)
	}
	if exact.Same(sent, jsontext.Value(action)) == nil {
		return "every digit as the model wrote it", nil
	}
	if err := exact.Same(sent, inJavaScript(action)); err != nil || t.digits {
		return "", fmt.Errorf("the host did not send what its model wrote: %s", sent)
	}
	return "every digit that the host sent (" + numbers(sent) + " for " + numbers(jsontext.Value(action)) + ", as JavaScript reads numbers)", nil
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
	return string(evidence.Get(action, "order")) + " and " + string(evidence.Get(action, "amount"))
}
