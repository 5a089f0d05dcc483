package cli_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// browser is a headless Chromium with one page, driven over the pipe of its DevTools protocol.
type browser struct {
	t       *testing.T
	in      io.Writer
	id      int
	session string
	answers chan devtools

	mu       sync.Mutex
	problems []string // what the page's console complained of
}

// devtools is a message of the protocol: an answer, or an event without an id.
type devtools struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Params json.RawMessage `json:"params"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// startBrowser starts the Chromium that CHROMIUM names, as make page-test does; without one the test is skipped.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	program := os.Getenv("CHROMIUM")
	if program == "" || runtime.GOOS == "windows" {
		t.Skip("needs Chromium: make page-test looks for it, or set CHROMIUM to its path")
	}
	theirIn, in, err := os.Pipe()
	require.NoError(t, err)
	out, theirOut, err := os.Pipe()
	require.NoError(t, err)
	flags := strings.Fields(`--headless --remote-debugging-pipe --no-first-run --disable-gpu --disable-quic --disable-background-networking
		--disable-component-update --disable-sync --disable-dev-shm-usage`)
	if os.Geteuid() == 0 {
		flags = append(flags, "--no-sandbox") // Chromium's own does not work for root.
	}
	// Not t.Context: the browser ends by itself when its pipe is closed, and is only killed if it does not.
	cmd := exec.CommandContext(context.Background(), program, append(flags, "--user-data-dir="+filepath.Join(t.TempDir(), "profile"), "about:blank")...) //nolint:gosec // whoever runs the tests names it
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	require.NoError(t, cmd.Start())
	require.NoError(t, theirIn.Close())
	require.NoError(t, theirOut.Close())
	b := &browser{t: t, in: in, answers: make(chan devtools)}
	done := make(chan struct{})
	go b.read(out, done)
	t.Cleanup(func() {
		_, _ = io.WriteString(in, `{"id":1000000,"method":"Browser.close"}`+"\x00")
		_ = in.Close()
		<-done
		_ = cmd.Wait()
	})
	return b
}

// read hands out the answers and keeps what the page complains of.
func (b *browser) read(out io.ReadCloser, done chan struct{}) {
	defer close(done)
	defer func() { _ = out.Close() }()
	defer close(b.answers)
	for r := bufio.NewReader(out); ; {
		text, err := r.ReadString(0)
		if err != nil {
			return
		}
		var m devtools
		_ = json.Unmarshal([]byte(strings.TrimSuffix(text, "\x00")), &m)
		switch {
		case m.ID >= 1000000:
		case m.ID > 0:
			b.answers <- m
		case slices.Contains([]string{"Runtime.exceptionThrown", "Log.entryAdded"}, m.Method):
			b.mu.Lock()
			b.problems = append(b.problems, string(m.Params))
			b.mu.Unlock()
		}
	}
}

// call calls a method of the protocol and reads its result into result, which may be nil.
func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	b.id++
	message, err := json.Marshal(struct {
		ID      int    `json:"id"`
		Method  string `json:"method"`
		Params  any    `json:"params,omitempty"`
		Session string `json:"sessionId,omitempty"`
	}{b.id, method, params, b.session})
	require.NoError(b.t, err)
	_, err = b.in.Write(append(message, 0))
	require.NoError(b.t, err)
	answer, alive := <-b.answers
	require.True(b.t, alive, "the browser ended")
	require.Equal(b.t, b.id, answer.ID)
	require.Nil(b.t, answer.Error, "%s: %+v", method, answer.Error)
	if result != nil {
		require.NoError(b.t, json.Unmarshal(answer.Result, result))
	}
}

type object map[string]any

// open opens a page in a window of that size.
func (b *browser) open(url string, width, height int) {
	b.t.Helper()
	b.session = ""
	var target struct {
		TargetID string `json:"targetId"`
	}
	b.call("Target.createTarget", object{"url": "about:blank"}, &target)
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	b.call("Target.attachToTarget", object{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	b.call("Runtime.enable", nil, nil)
	b.call("Log.enable", nil, nil)
	b.resize(width, height)
	b.call("Page.navigate", object{"url": url}, nil)
}

func (b *browser) resize(width, height int) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", object{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
}

// run runs a script in the page and returns its value as JSON text.
func (b *browser) run(script string) string {
	b.t.Helper()
	var answer struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text string `json:"text"`
		} `json:"exceptionDetails"`
	}
	b.call("Runtime.evaluate", object{"expression": script, "returnByValue": true, "awaitPromise": true}, &answer)
	require.Nil(b.t, answer.Exception, script)
	return string(answer.Result.Value)
}

// value is run for a script whose value is a string.
func (b *browser) value(script string) (value string) {
	b.t.Helper()
	require.NoError(b.t, json.Unmarshal([]byte(b.run(script)), &value))
	return value
}

// text returns the text that an element shows.
func (b *browser) text(element string) string {
	b.t.Helper()
	return b.value(element + ".innerText")
}

// waitFor waits until an expression is true in the page. The page looks for itself, so that nothing here depends on time.
func (b *browser) waitFor(expression string) {
	b.t.Helper()
	b.run(`new Promise(done => {
		const look = () => {
			let found = false;
			try { found = ` + expression + `; } catch {} // what it looks at is not there yet
			found ? done(true) : setTimeout(look, 20);
		};
		look();
	})`)
}

// press presses keys as a person at the keyboard does. A key of one character is typed.
func (b *browser) press(keys ...string) {
	b.t.Helper()
	codes := map[string]int{"Tab": 9, "Enter": 13}
	for _, key := range keys {
		down := object{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
		switch {
		case key == "Enter":
			down["text"] = "\r"
		case len(key) == 1:
			down = object{"type": "keyDown", "key": key, "text": key}
		}
		b.call("Input.dispatchKeyEvent", down, nil)
		b.call("Input.dispatchKeyEvent", object{"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}, nil)
	}
}

// picture returns a PNG of what the window shows.
func (b *browser) picture() []byte {
	b.t.Helper()
	var shot struct {
		Data string `json:"data"`
	}
	b.call("Page.captureScreenshot", object{"format": "png"}, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	require.NoError(b.t, err)
	return png
}

// hadNoProblems fails the test if the page complained of anything that the test did not ask for.
func (b *browser) hadNoProblems(expected ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, problem := range b.problems {
		assert.True(b.t, slices.ContainsFunc(expected, func(part string) bool { return strings.Contains(problem, part) }), problem)
	}
}
