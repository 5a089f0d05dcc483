package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/loopgridio/loopgrid-mcp/scripts/launch"
	"github.com/loopgridio/loopgrid-mcp/scripts/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The test binary is the tap as well, and a host.
func TestMain(m *testing.M) {
	name := strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	switch {
	case isTap(os.Args[0]):
		os.Exit(tap(os.Args[0], os.Args[1:]))
	case name == "a-host":
		if err := beHost(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, "a-host:", err)
			os.Exit(1)
		}
		os.Exit(0)
	default:
		os.Exit(m.Run())
	}
}

// beHost is a host with one turn. It reads the configuration of Cursor and asks its model by Chat Completions.
func beHost(model string) error {
	home := os.Getenv("HOME")
	text, err := os.ReadFile(filepath.Join(home, ".cursor", "mcp.json")) //nolint:gosec // a home of a test
	if err != nil {
		return err
	}
	var config struct {
		MCPServers map[string]struct {
			Command string            `json:"command"`
			Env     map[string]string `json:"env"`
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return err
	}
	server := config.MCPServers["loopgrid"]
	cmd := exec.CommandContext(context.Background(), server.Command)
	for name, value := range server.Env {
		value = regexp.MustCompile(`\$\{env:(\w+)\}`).ReplaceAllStringFunc(value, func(v string) string { return os.Getenv(v[6 : len(v)-1]) })
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	kind := os.Getenv("KIND")
	if kind == "no key" {
		cmd.Env = append(cmd.Env, "LOOPGRID_SERVICE_KEY=")
	}
	p, err := wire.Start(cmd)
	if err != nil {
		return err
	}
	if err := p.Initialize("2025-11-25"); err != nil {
		return err
	}
	if kind != "lists nothing" {
		if _, err := p.Call("tools/list", "{}"); err != nil {
			return err
		}
	}
	prefix := "loopgrid_"
	if kind == "dots" {
		prefix = "loopgrid."
	}
	var offered []string
	for _, step := range plan() {
		offered = append(offered, `{"type":"function","function":{"name":"`+prefix+step.tool+`"}}`)
	}
	var messages []string
	for {
		answer, err := ask(model, `{"tools":[`+strings.Join(offered, ",")+`],"messages":[`+strings.Join(messages, ",")+`]}`)
		if err != nil {
			return err
		}
		calls := answer.Choices[0].Message.ToolCalls
		if len(calls) == 0 || kind == "calls nothing" {
			break
		}
		arguments := calls[0].Function.Arguments
		switch kind {
		case "JavaScript":
			arguments = string(inJavaScript(arguments))
		case "mangles":
			arguments = strings.ReplaceAll(arguments, "ö", "oe")
		}
		result, err := p.Call("tools/call", `{"name":"`+calls[0].Function.Name+`","arguments":`+arguments+`}`)
		if err != nil {
			return err
		}
		if kind == "keeps it to itself" {
			break
		}
		quoted, err := json.Marshal(string(result))
		if err != nil {
			return err
		}
		messages = append(messages, `{"role":"tool","content":`+string(quoted)+`}`)
		if kind == "calls twice" {
			_, err = p.Call("tools/call", `{"name":"`+calls[0].Function.Name+`","arguments":`+arguments+`}`)
			if err != nil {
				return err
			}
		}
	}
	_, err = p.Close()
	return err
}

type completion struct {
	Choices []struct {
		Message struct {
			Content   *string `json:"content"`
			ToolCalls []struct {
				Function struct {
					Name      string `json:"name"`
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"message"`
	} `json:"choices"`
}

func ask(model, request string) (answer completion, err error) {
	res, err := http.Post(model+"/v1/chat/completions", "application/json", strings.NewReader(request)) //nolint:gosec,noctx // a host of a test
	if err != nil {
		return answer, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(string(text))
	}
	if err != nil {
		return answer, err
	}
	return answer, json.Unmarshal(text, &answer)
}

// link makes the test binary run under that name.
func link(t *testing.T, path string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	text, err := os.ReadFile(self)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, text, 0o700)) //nolint:gosec // it is run
}

func TestTryHost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program, err := launch.Build(t.Context(), dir, launch.Program)
	require.NoError(t, err)
	link(t, filepath.Join(dir, "installed", "node_modules", ".bin", "a-host"+filepath.Ext(program)))
	for kind, tt := range map[string]struct {
		digits bool
		want   string
	}{
		"exact":              {true, "[PASS] cursor 1: as configured: loopgrid-wire 1, initialize 2025-11-25; six tools; five calls, recorded with every digit as the model wrote it, offered as loopgrid_record_decision "},
		"JavaScript":         {false, "recorded with every digit that the host sent (9007199254740992 and 720 for 9007199254740993 and 720.0, as JavaScript reads numbers)"},
		"mangles":            {false, "the host did not send what its model wrote"},
		"lists nothing":      {true, "the six tools were not listed"},
		"calls nothing":      {true, "no tool was called in 1 sessions"},
		"calls twice":        {true, "5 calls were meant"},
		"keeps it to itself": {true, "5 calls were meant"},
		"no key":             {true, "record_decision was answered with"},
		"dots":               {true, `refused: the tool name "loopgrid.record_decision" does not match`},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			h := host{
				name: "cursor", npmPackage: npmPackage{"a-host", "1"}, program: "a-host" + filepath.Ext(program), file: ".cursor/mcp.json",
				env: []string{"KIND=" + kind}, digits: tt.digits, args: []string{"%s"},
			}
			p := &places{scratch: filepath.Join(t.TempDir(), "x y"), binary: program, node: dir, installed: filepath.Join(dir, "installed")}
			spelled, err := tryRound(t.Context(), &report{out: &out}, h, p, round{name: "as configured"})
			if strings.HasPrefix(tt.want, "[PASS]") || kind == "JavaScript" {
				require.NoError(t, err)
				assert.Contains(t, out.String(), tt.want)
				assert.Equal(t, "loopgrid.record_decision", spelled)
			} else {
				require.ErrorContains(t, err, tt.want)
				assert.Empty(t, out.String())
			}
			if kind == "JavaScript" {
				h.digits = true
				p.scratch = t.TempDir()
				_, err := tryRound(t.Context(), &report{out: &out}, h, p, round{})
				assert.ErrorContains(t, err, "the host did not send what its model wrote")
			}
		})
	}
}

func TestTryHost_EveryRound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program, err := launch.Build(t.Context(), dir, launch.Program)
	require.NoError(t, err)
	link(t, filepath.Join(dir, "installed", "node_modules", ".bin", "a-host"+filepath.Ext(program)))
	h := host{name: "cursor", npmPackage: npmPackage{"a-host", "1"}, program: "a-host" + filepath.Ext(program), file: ".cursor/mcp.json", digits: true, args: []string{"%s"}}
	p := &places{scratch: t.TempDir(), binary: program, node: dir, installed: filepath.Join(dir, "installed")}
	var out bytes.Buffer
	require.NoError(t, tryHost(t.Context(), &report{out: &out}, h, p))
	for _, line := range []string{
		"as configured: loopgrid-wire 1, initialize 2025-11-25, twice; six tools; five calls, ", "underscore: ", "service down: ", "; not recorded, and the model knows why",
	} {
		assert.Contains(t, out.String(), line)
	}
}

func TestRunGroup_LeavesNothing(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no sh here")
	}
	// What it starts holds its output open, and would for a minute.
	out, err := runGroup(exec.CommandContext(t.Context(), "sh", "-c", "sleep 60 & echo started; exit 3"))
	require.Error(t, err)
	assert.Equal(t, "started\n", string(out))
}

func TestHead(t *testing.T) {
	t.Parallel()
	h := &head{}
	for range 3 {
		n, err := h.Write(bytes.Repeat([]byte("x"), maxOutput/2+1))
		require.NoError(t, err)
		assert.Equal(t, maxOutput/2+1, n)
	}
	assert.Len(t, h.bytes(), maxOutput)
}

func TestRun_Usage(t *testing.T) {
	t.Parallel()
	for code, args := range map[int][]string{0: {"--help"}, 2: {"emacs"}} {
		var out bytes.Buffer
		assert.Equal(t, code, run(t.Context(), args, &out), out.String())
		assert.NotEmpty(t, out.String())
	}
	assert.Equal(t, 2, run(t.Context(), []string{"--frob"}, io.Discard))
}

// asked is what each API is asked with: a tool is offered, and then a result is told.
func TestModel_InEachAPI(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ path, offer, tell, called, done string }{
		"Anthropic": {
			"/v1/messages", `{"tools":[{"name":"mcp__loopgrid__record_decision"}],"messages":[{"role":"user","content":"hello"}]}`,
			`{"tools":[{"name":"mcp__loopgrid__record_decision"}],"messages":[{"content":[{"type":"text"},{"type":"tool_result","content":"recorded"}]}]}`,
			`"stop_reason":"tool_use"`, `"stop_reason":"end_turn"`,
		},
		"Chat Completions": {
			"/v1/chat/completions", `{"tools":[{"function":{"name":"loopgrid-record_decision"}}],"messages":[]}`,
			`{"tools":[{"function":{"name":"loopgrid-record_decision"}}],"messages":[{"role":"user","content":"x"},{"role":"tool","content":"recorded"}]}`,
			`"finish_reason":"tool_calls"`, `"finish_reason":"stop"`,
		},
		"Responses": {
			"/v1/responses", `{"tools":[{"type":"namespace","name":"mcp__loopgrid","tools":[{"name":"record_decision"}]}],"input":"x"}`,
			`{"tools":[{"name":"loopgrid_record_decision"}],"input":[{"type":"message"},{"type":"function_call_output","output":"recorded"}]}`,
			`"namespace":"mcp__loopgrid"`, `"type":"output_text"`,
		},
		"Gemini": {
			"/v1beta/models/x:generateContent", `{"tools":[{"functionDeclarations":[{"name":"mcp_loopgrid.record_decision"}]}],"contents":[{"parts":[{"text":"x"}]}]}`,
			`{"tools":[],"contents":[{"parts":[{"functionResponse":{"response":{"output":"recorded"}}}]}]}`,
			`"functionCall"`, `"text":"done"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, streamed := range []bool{false, true} {
				m := &model{plan: []planned{{"record_decision", `{"n":720.0}`}}}
				path, offer, tell := tt.path, tt.offer, tt.tell
				if streamed {
					path = strings.Replace(path, ":generate", ":streamGenerate", 1)
					offer, tell = strings.Replace(offer, "{", `{"stream":true,`, 1), strings.Replace(tell, "{", `{"stream":true,`, 1)
				}
				code, answer := post(t, m, path, offer)
				assert.Equal(t, http.StatusOK, code)
				assert.Contains(t, answer, tt.called)
				assert.Contains(t, answer, "720.0")
				assert.Equal(t, streamed, strings.HasPrefix(answer, "event: ") || strings.HasPrefix(answer, "data: "))
				for line := range strings.Lines(answer) {
					if data, ok := strings.CutPrefix(line, "data: "); ok && data != "[DONE]\n" {
						assert.True(t, json.Valid([]byte(data)), data)
					}
				}
				code, answer = post(t, m, path, tell)
				assert.Equal(t, http.StatusOK, code)
				assert.Contains(t, answer, tt.done)
				assert.NotContains(t, answer, "720.0", "it calls once")
				require.Len(t, m.results, 1)
				assert.Contains(t, m.results[0], "recorded")
				assert.Len(t, m.offered, 1+strings.Count(tt.path, "responses"))
			}
		})
	}
}

func TestModel_Refuses(t *testing.T) {
	t.Parallel()
	m := &model{plan: plan()}
	for path, request := range map[string]string{
		"/v1/messages":                     `{"tools":[{"name":"loopgrid.record_decision"}]}`,
		"/v1/responses":                    `{"tools":[{"name":"` + strings.Repeat("x", 65) + `"}]}`,
		"/v1beta/models/x:generateContent": `{"tools":[{"functionDeclarations":[{"name":"1"}]}]}`,
		"/v1/chat/completions":             `{`,
	} {
		code, answer := post(t, m, path, request)
		assert.Equal(t, http.StatusBadRequest, code, path)
		assert.Contains(t, answer, "message")
	}
	code, _ := post(t, m, "/elsewhere", "")
	assert.Equal(t, http.StatusNotFound, code)
	assert.Contains(t, m.story(), "POST /elsewhere")

	m = &model{}
	for range maxRequests {
		code, _ := post(t, m, "/v1/chat/completions", `{}`)
		require.Equal(t, http.StatusOK, code)
	}
	code, answer := post(t, m, "/v1/chat/completions", `{}`)
	assert.Equal(t, http.StatusBadRequest, code)
	assert.Contains(t, answer, "too many requests")
}

func post(t *testing.T, m *model, path, request string) (code int, answer string) {
	t.Helper()
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(request)))
	return w.Code, w.Body.String()
}

func TestModel_FindsToolsThatAreNotOffered(t *testing.T) {
	t.Parallel()
	m := &model{plan: []planned{{"record_decision", `{"n":720.0}`}, {"record_action", `{"decision_id":"{id}"}`}}}
	hidden := `"messages":[{"role":"system","content":"loopgrid.record_decision\nmcp__loopgrid__loopgrid_record_decision_0cbcq5l\nmcp__loopgrid__loopgrid_record_action"}`
	_, answer := post(t, m, "/v1/chat/completions", `{"tools":[{"function":{"name":"tool_call"}}],`+hidden+`]}`)
	assert.Contains(t, answer, `"name":"tool_call"`)
	assert.Contains(t, answer, `{\"arguments\":{\"n\":720.0},\"name\":\"mcp__loopgrid__loopgrid_record_decision_0cbcq5l\"}`)
	_, answer = post(t, m, "/v1/chat/completions", `{"tools":[{"function":{"name":"tool_call"}}],`+hidden+`,{"role":"tool","content":"dec_0123456789abcdef01234567"}]}`)
	assert.Contains(t, answer, `{\"arguments\":{\"decision_id\":\"dec_0123456789abcdef01234567\"},\"name\":\"mcp__loopgrid__loopgrid_record_action\"}`)

	search := `{"tools":[{"name":"ToolSearch"}],"messages":[{"content":"mcp__loopgrid__loopgrid_record_decision"}`
	_, answer = post(t, m, "/v1/messages", search+`]}`)
	assert.Contains(t, answer, `"query":"select:mcp__loopgrid__loopgrid_record_decision"`)
	_, answer = post(t, m, "/v1/messages", search+`,{"content":[{"type":"tool_result","tool_use_id":"search_call_1","content":"none"}]}]}`)
	assert.Contains(t, answer, `"end_turn"`, "it searches once")
}

func TestTap_RepeatsInitialize(t *testing.T) {
	t.Parallel()
	legacy := readSession(
		[]byte(`{"id":0,"method":"initialize","params":{"clientInfo":{"name":"a","version":"1"}}}`+"\n"+`{"id":"loopgrid-mcp-tap","method":"initialize"}`),
		[]byte(`{"id":0,"result":{"protocolVersion":"2025-11-25"}}`+"\n"+`{"id":"loopgrid-mcp-tap","result":{"protocolVersion":"2025-11-25"}}`),
	)
	assert.True(t, legacy.again)
	legacy = readSession(
		[]byte(`{"id":0,"method":"initialize"}`+"\n"+`{"id":"loopgrid-mcp-tap","method":"initialize"}`),
		[]byte(`{"id":0,"result":{"protocolVersion":"2025-11-25"}}`+"\n"+`{"id":"loopgrid-mcp-tap","error":{}}`),
	)
	assert.False(t, legacy.again)
}

func TestReadSession(t *testing.T) {
	t.Parallel()
	legacy := readSession(
		[]byte(`{"id":0,"method":"initialize","params":{"protocolVersion":"9","clientInfo":{"name":"a","version":"1"}}}`+"\n"+`{"method":"notifications/initialized"}`+"\nnoise\n"+
			`{"id":"x","method":"tools/list"}`+"\n"+`{"id":2,"method":"tools/call","params":{"name":"t","arguments":{"n":720.0}}}`+"\n"+`{"id":3,"method":"tools/call"}`),
		[]byte(`{"id":0,"result":{"protocolVersion":"2025-11-25"}}`+"\n"+`{"id":2,"result":{"ok":1}}`+"\n"+`{"id":"x","result":{"tools":[{"name":"t"}]}}`+"\n"+`{"id":3,"error":{}}`+"\n"),
	)
	assert.Equal(t, session{
		begun: "initialize", client: "a 1", spoken: "2025-11-25", tools: []string{"t"},
		calls: []call{{"t", json.RawMessage(`{"n":720.0}`), json.RawMessage(`{"ok":1}`)}},
	}, legacy)

	modern := readSession(
		[]byte(`{"id":0,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"b","version":"2"},"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`),
		[]byte(`{"id":0,"result":{}}`),
	)
	assert.Equal(t, session{begun: "server/discover", client: "b 2", spoken: "2026-07-28"}, modern)
}
