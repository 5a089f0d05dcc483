package cli_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/cli"
	"github.com/loopgridio/loopgrid-mcp/internal/golden"
)

// agent is an AI host with the bridge, which speaks to a sandbox.
type agent struct {
	t   *testing.T
	in  io.Writer
	out *json.Decoder
}

func startAgent(t *testing.T, base, key string) *agent {
	t.Helper()
	clearEnvironment(t)
	t.Setenv("LOOPGRID_BASE_URL", base)
	t.Setenv("LOOPGRID_SERVICE_KEY", key)
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	ended := make(chan int)
	go func() {
		ended <- cli.Run(t.Context(), cli.Process{
			Args: []string{"loopgrid-mcp"}, Stdin: stdin, Stdout: stdout, Stderr: io.Discard, LockDir: filepath.Join(t.TempDir(), "locks"),
		})
	}()
	t.Cleanup(func() {
		assert.NoError(t, in.Close())
		assert.Equal(t, 0, <-ended)
	})
	a := &agent{t, in, json.NewDecoder(out)}
	a.request("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"agent","version":"1"}}`)
	_, err := io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	require.NoError(t, err)
	return a
}

func (a *agent) request(method, params string) (result map[string]any) {
	a.t.Helper()
	_, err := io.WriteString(a.in, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+"}\n")
	require.NoError(a.t, err)
	var answer struct {
		Result map[string]any `json:"result"`
		Error  any            `json:"error"`
	}
	require.NoError(a.t, a.out.Decode(&answer))
	require.Nil(a.t, answer.Error)
	return answer.Result
}

// call calls a tool and returns what it answered and whether it is an error.
func (a *agent) call(tool, arguments string) (text string, failed bool) {
	a.t.Helper()
	result := a.request("tools/call", `{"name":"loopgrid.`+tool+`","arguments":`+arguments+`}`)
	raw, err := json.Marshal(result)
	require.NoError(a.t, err)
	failed, _ = result["isError"].(bool)
	return string(raw), failed
}

// refund records a refund that the policy judges, and returns the decision's id.
func (a *agent) refund(agentID, amount, input string) string {
	a.t.Helper()
	result := a.request("tools/call", `{"name":"loopgrid.record_decision","arguments":{"decision_type":"customer_refund","agent_id":"`+agentID+`",`+
		`"proposed_action":{"tool":"stripe.refunds","amount":`+amount+`,"currency":"USD","order":"A-1047"},"input_data":`+input+`,`+
		`"model":{"name":"some-model"},"model_output":{"recommendation":"refund","confidence":0.90},"policy_id":"refund-policy"}}`)
	content, _ := result["structuredContent"].(map[string]any)
	id, _ := content["decision_id"].(string)
	require.Regexp(a.t, `^dec_[0-9a-f]{24}$`, id, "%v", result)
	return id
}

const recordedRefund = `{"decision_id":"ID","tool":"stripe.refunds","external_reference":"re_1047","details":{"amount":720,"currency":"USD"}}`

// TestPageInABrowser is the story of the sandbox: an agent records a refund of 720 USD, a person approves it on the page, and the agent's action is
// then accepted.
func TestPageInABrowser(t *testing.T) { //nolint:paralleltest // it sets the environment
	b := startBrowser(t)
	s := startSandbox(t, "--quiet")
	page := s.waitFor(t, `approve or reject: +(http://\S+)\n`)
	a := startAgent(t, strings.TrimSuffix(page, "/"), "")

	b.open(page, 1280, 860)
	b.waitFor(`document.body.innerText.includes("Nothing is recorded yet")`)
	assert.Contains(t, b.text(`document.body`), "What is recorded here proves nothing.")
	assert.Contains(t, b.text(`document.body`), "loopgrid-mcp config HOST --env LOOPGRID_BASE_URL="+strings.TrimSuffix(page, "/"))

	// What is recorded appears by itself, as text and with every digit.
	a.refund("support-agent", "45", `{"message":"<img src=x onerror=alert(1)><b>hello</b>","exact":[9007199254740993,720.0,1e-7,"720.0"]}`)
	b.waitFor(`document.querySelectorAll("#list button").length === 1`)
	b.run(`document.querySelector("#list button").click()`)
	b.waitFor(`document.querySelectorAll("#events li").length === 3`)
	text := b.text(`document.body`)
	assert.Contains(t, text, `<img src=x onerror=alert(1)><b>hello</b>`)
	assert.Contains(t, text, "9007199254740993,\n      720.0,\n      1e-7,\n      \"720.0\"")
	assert.Equal(t, "0", b.run(`document.querySelectorAll("main img, main b").length`))
	assert.Equal(t, "0", b.run(`document.querySelectorAll("form").length`), "nothing to review")

	id := a.refund("support-agent", "720", `{"message":"The parcel arrived broken."}`)
	answer, failed := a.call("record_action", strings.Replace(recordedRefund, "ID", id, 1))
	require.True(t, failed, answer)
	assert.Contains(t, answer, "approval_required")
	b.waitFor(`document.title === "(1) LoopGrid sandbox"`)
	assert.Contains(t, b.text(`document.querySelector("#list button")`), "awaiting human review", "it comes first")

	// The keyboard is enough.
	b.run(`document.querySelector("#list button").focus()`)
	b.press("Enter")
	b.waitFor(`document.querySelector("#approve") && document.activeElement.id === "detail"`)
	for b.run(`document.activeElement.id`) != `"reason"` {
		b.press("Tab")
	}
	b.press(strings.Split("Checked with Ann", "")...)
	if golden.Updating() {
		b.call("Emulation.setEmulatedMedia", object{"features": []object{{"name": "prefers-color-scheme", "value": "light"}}}, nil)
		b.run(`document.activeElement.blur(); scrollTo(0, 0)`)
		picture := b.picture()
		assert.Less(t, len(picture), 150_000)
		require.NoError(t, os.WriteFile("../../docs/sandbox.png", picture, 0o644))
		b.run(`document.getElementById("reason").focus()`)
	}
	// What arrives meanwhile takes neither the text nor the focus.
	other := a.refund("other-agent", "9000", `{}`)
	b.waitFor(`document.querySelectorAll("#list button").length === 3`)
	assert.Equal(t, `"reason Checked with Ann"`, b.run(`document.activeElement.id + " " + document.getElementById("reason").value`))
	b.press("Tab")
	assert.Equal(t, `"approve"`, b.run(`document.activeElement.id`))
	b.press("Enter")
	b.waitFor(`document.querySelectorAll("#events li").length === 4 && !document.querySelector("form")`)
	assert.Contains(t, b.text(`document.getElementById("detail")`), "human_approved · Sandbox reviewer · Checked with Ann")
	assert.Equal(t, `"LoopGrid sandbox"`, b.run(`document.title`))

	answer, failed = a.call("record_action", strings.Replace(recordedRefund, "ID", id, 1))
	require.False(t, failed, answer)
	b.waitFor(`document.querySelectorAll("#events li").length === 5`)

	// The link leads to the bundle.
	zip, err := http.Get(b.value(`document.querySelector("#detail a").href`)) //nolint:noctx // the sandbox answers
	require.NoError(t, err)
	defer func() { _ = zip.Body.Close() }()
	head := make([]byte, 2)
	_, err = io.ReadFull(zip.Body, head)
	require.NoError(t, err)
	assert.Equal(t, "PK", string(head))

	// A telephone shows either the list or a decision, and nothing is wider than it.
	b.resize(360, 740)
	b.waitFor(`getComputedStyle(document.querySelector("nav")).display === "none"`)
	assert.Equal(t, "true", b.run(`document.documentElement.scrollWidth <= innerWidth`))
	b.run(`document.getElementById("back").click()`)
	b.waitFor(`getComputedStyle(document.querySelector("nav")).display !== "none"`)
	assert.Equal(t, "true", b.run(`document.documentElement.scrollWidth <= innerWidth`))
	assert.Contains(t, b.text(`document.querySelector('[data-id="`+other+`"]')`), "Blocked by policy")
	b.hadNoProblems()

	close(s.stop)
	assert.Equal(t, 0, <-s.code)
	b.waitFor(`document.getElementById("status").innerText.includes("Is it still running?")`)
}

// TestPageWithKeysInABrowser opens the page of a sandbox that asks for keys, with and without the one in its address.
func TestPageWithKeysInABrowser(t *testing.T) { //nolint:paralleltest // as above
	b := startBrowser(t)
	s := startSandbox(t, "--quiet", "--auth")
	page := s.waitFor(t, `approve or reject: +(http://\S+)\n`)
	base, key, _ := strings.Cut(page, "/#key=")
	a := startAgent(t, base, s.waitFor(t, `(lg_live_\S+)  \[ingest read\]`))
	id := a.refund("support-agent", "720", `{}`)

	b.open(page, 1280, 860)
	b.waitFor(`document.querySelectorAll("#list button").length === 1`)
	assert.Equal(t, `"`+base+`/"`, b.run(`location.href`), "the key leaves the address")
	b.run(`document.querySelector("#list button").click()`)
	b.waitFor(`document.getElementById("reject")`)
	b.run(`document.getElementById("reject").click()`)
	b.waitFor(`document.getElementById("detail").innerText.includes("human_rejected")`)
	answer, failed := a.call("record_action", strings.Replace(recordedRefund, "ID", id, 1))
	assert.True(t, failed, answer)
	b.hadNoProblems()

	b.open(base+"/", 360, 740)
	b.run(`sessionStorage.clear()`)
	b.waitFor(`document.getElementById("key")`)
	assert.Contains(t, b.text(`document.body`), "This sandbox asks for a key")
	b.run(`document.getElementById("key").value = ` + quoted(t, key))
	b.run(`document.querySelector("form button").click()`)
	b.waitFor(`document.querySelectorAll("#list button").length === 1`)
	b.hadNoProblems("401")
	close(s.stop)
	assert.Equal(t, 0, <-s.code)
}

func quoted(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, json.NewEncoder(&b).Encode(s))
	return b.String()
}
