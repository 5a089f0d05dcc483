package wire_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/scripts/wire"
)

// TestMain is also the program on the other side: it answers each line with what its script says, and ends when its input or the
// script does.
func TestMain(m *testing.M) {
	script, ok := os.LookupEnv("WIRE_SCRIPT")
	if !ok {
		os.Exit(m.Run())
	}
	if script == "tools" {
		answerInPairs()
		return
	}
	answers := strings.Split(script, "|")
	for lines := bufio.NewScanner(os.Stdin); len(answers) > 0 && lines.Scan(); answers = answers[1:] {
		answer := strings.ReplaceAll(answers[0], "LONG", strings.Repeat("x", 300_000))
		_, _ = fmt.Fprint(os.Stdout, strings.ReplaceAll(answer, "¶", "\n"))
	}
	code, _ := strconv.Atoi(os.Getenv("WIRE_EXIT"))
	os.Exit(code)
}

func start(t *testing.T, script string, environ ...string) *wire.Process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(append(os.Environ(), "WIRE_SCRIPT="+script), environ...)
	p, err := wire.Start(cmd)
	require.NoError(t, err)
	return p
}

func TestCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ answer, expected, problem string }{
		"usual":              {answer: `{"jsonrpc":"2.0","id":1,"result":{}}¶`, expected: `{"jsonrpc":"2.0","id":1,"result":{}}`},
		"id last":            {answer: `{"result":{}, "jsonrpc":"2.0", "id":1}¶`, expected: `{"result":{}, "jsonrpc":"2.0", "id":1}`},
		"error":              {answer: `{"jsonrpc":"2.0","id":1,"error":{}}¶`, expected: `{"jsonrpc":"2.0","id":1,"error":{}}`},
		"after notification": {answer: `{"jsonrpc":"2.0","method":"x"}¶{"jsonrpc":"2.0","id":1,"result":2}¶`, expected: `{"jsonrpc":"2.0","id":1,"result":2}`},
		"after a question":   {answer: `{"jsonrpc":"2.0","id":1,"method":"x"}¶{"jsonrpc":"2.0","id":1,"result":2}¶`, expected: `{"jsonrpc":"2.0","id":1,"result":2}`},
		"long":               {answer: `{"jsonrpc":"2.0","id":1,"result":"LONG"}¶`, expected: `{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("x", 300_000) + `"}`},
		"another id":         {answer: `{"jsonrpc":"2.0","id":2,"result":{}}¶`, problem: "request 1 was answered under the id 2"},
		"no message":         {answer: `hello¶`, problem: "not a message"},
		"silence":            {answer: ``, problem: "ended its output"},
		"half a line":        {answer: `{"jsonrpc":"2.0","id":1`, problem: "ended its output"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, c.answer)
			line, err := p.Call("m", "{}")
			if c.problem == "" {
				require.NoError(t, err)
				assert.Equal(t, c.expected, string(line))
			} else {
				require.ErrorContains(t, err, c.problem)
			}
			_, err = p.Close()
			require.NoError(t, err)
		})
	}
}

func TestInitialize(t *testing.T) {
	t.Parallel()
	const answer = `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}¶`
	p := start(t, answer+"||"+`{"jsonrpc":"2.0","id":2,"result":{}}¶|`)
	require.NoError(t, p.Initialize("2025-06-18"))
	_, err := p.Call("m", "{}")
	require.NoError(t, err)
	_, err = p.Close()
	require.NoError(t, err)

	p = start(t, answer)
	require.ErrorContains(t, p.Initialize("2025-11-25"), "no session of revision 2025-11-25")
	_, err = p.Close()
	require.NoError(t, err)
}

func TestCloseTellsTheExitCode(t *testing.T) {
	t.Parallel()
	took, err := start(t, "x", "WIRE_EXIT=3").Close()
	require.ErrorContains(t, err, "exit status 3")
	assert.Positive(t, took)
}

// answerInPairs answers two calls at a time, the second one first, until the input ends.
func answerInPairs() {
	held := ""
	id := regexp.MustCompile(`"id":(\d+),"method":"tools/call","params":\{(\d*)\}`)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		found := id.FindStringSubmatch(lines.Text())
		result := `{}`
		if found[1] == found[2] {
			result = `{"isError":true}`
		}
		answer := `{"jsonrpc":"2.0","id":` + found[1] + `,"result":` + result + "}\n"
		if held == "" {
			held = answer
			continue
		}
		_, _ = os.Stdout.WriteString(answer + held)
		held = ""
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	p := start(t, "tools")
	for range 2 { // ids go on
		took, err := p.Run(wire.Load{Params: []string{"{}"}, Calls: 100, InFlight: 16})
		require.NoError(t, err)
		assert.Len(t, took, 100)
		for _, d := range took {
			assert.Positive(t, d)
		}
	}
	took, err := p.Run(wire.Load{Params: []string{"{}"}, Calls: 2, InFlight: 16})
	require.NoError(t, err)
	assert.Len(t, took, 2, "fewer calls than may be in flight")
	_, err = p.Run(wire.Load{Params: []string{"{210}"}, Calls: 20, InFlight: 2})
	require.ErrorContains(t, err, `a call was answered with {"jsonrpc":"2.0","id":210,"result":{"isError":true}}`)
	_, err = p.Close()
	require.NoError(t, err)
}

func TestRunUntil(t *testing.T) {
	t.Parallel()
	p := start(t, `{"jsonrpc":"2.0","id":1,"result":{}}¶|{"jsonrpc":"2.0","id":2,"result":{}}¶`)
	took, err := p.Run(wire.Load{Params: []string{"{}"}, Calls: 100, InFlight: 1, Until: time.Now().Add(-time.Second)})
	require.NoError(t, err)
	assert.Len(t, took, 1, "one call at least")
	_, err = p.Close()
	require.NoError(t, err)
}

func TestRunNoticesWrongAnswers(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		`{"jsonrpc":"2.0","id":7,"result":{}}¶`,
		`{"jsonrpc":"2.0","id":"x","result":{}}¶`,
		`{"jsonrpc":"2.0","id":1,"result":{}}¶{"jsonrpc":"2.0","id":1,"result":{}}¶`,
	} {
		p := start(t, answer)
		_, err := p.Run(wire.Load{Params: []string{"{}"}, Calls: 2, InFlight: 2})
		require.ErrorContains(t, err, "not in flight", answer)
		_, _ = p.Close()
	}
	p := start(t, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}¶`)
	_, err := p.Run(wire.Load{Params: []string{"{}"}, Calls: 1, InFlight: 1})
	require.ErrorContains(t, err, "a call was answered with")
	_, err = p.Close()
	require.NoError(t, err)
}
