package stdio

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// deafHost does not read until it is told to.
type deafHost struct {
	*wireHost
}

// newDeafHost starts an initialized session whose host has left more answers unread than it may, and goes on sending.
func newDeafHost(t *testing.T, before ...string) *deafHost {
	t.Helper()
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	h := &deafHost{startLimitedHost(t, stdin, in, nil, stdout, limits{unread: 4000, held: 2000, calls: 1 << 20})}
	h.out = out
	h.send(wireInitialize, wireInitialized)
	h.send(before...)
	synctest.Wait()
	h.send(wireCall(`"large"`, "echo", `"`+strings.Repeat("x", 5000)+`"`))
	synctest.Wait()
	return h
}

// read lets the host read, and returns what it reads until the output ends.
func (h *deafHost) read() []string {
	var lines []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		r := bufio.NewReader(h.out)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}()
	require.NoError(h.tb, h.wait())
	require.NoError(h.tb, h.out.Close())
	<-done
	return lines
}

func (h *deafHost) starts() []string {
	h.wire.mu.Lock()
	defer h.wire.mu.Unlock()
	return h.wire.starts
}

func (h *deafHost) left() int {
	h.wire.mu.Lock()
	defer h.wire.mu.Unlock()
	return h.wire.left
}

func TestAHostThatLeavesTooMuchUnread(t *testing.T) {
	t.Parallel()
	const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`
	t.Run("gets what waited when it reads, also after its end of the input", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h := newDeafHost(t)
			h.send(wireCall("1", "echo", `"1"`), wireCall("2", "echo", `"2"`), "garbage", wireCall("3", "echo", `"3"`), `{"jsonrpc":"2.0","id":4,"method":"tools/list"}`)
			synctest.Wait()
			assert.Len(t, h.starts(), 1, "they wait")
			require.NoError(t, h.in.Close())
			synctest.Wait()
			select {
			case <-h.transport.Ended():
			default:
				assert.Fail(t, "the end of the input was not noticed")
			}
			time.Sleep(9 * time.Second)
			begin := time.Now()
			lines := h.read()
			assert.Zero(t, time.Since(begin))
			for _, want := range []string{wireText("1", `"1"`), wireText("2", `"2"`), wireText("3", `"3"`)} {
				assert.Contains(t, lines, want)
			}
			all := strings.Join(lines, "\n")
			assert.Contains(t, all, "parse error")
			assert.Contains(t, all, `{"jsonrpc":"2.0","id":4,"result":{`)
			assert.Equal(t, []string{`"1"`, `"2"`, `"3"`}, h.starts()[1:], "in their order")
		})
	})
	t.Run("that never reads is left after the bound", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h := newDeafHost(t)
			h.send(wireCall("1", "echo", `"1"`))
			require.NoError(t, h.in.Close())
			begin := time.Now()
			require.NoError(t, h.wait())
			assert.Equal(t, 10*time.Second, time.Since(begin))
			assert.Len(t, h.starts(), 1)
			require.NoError(t, h.out.Close())
		})
	})
	t.Run("is heard where that needs no memory", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h := newDeafHost(t, wireCall("1", "wait", "{}"), wireCall("2", "ask", "{}"))
			assert.Zero(t, h.left()-1)
			h.send(wireCall("3", "echo", `"3"`), fmt.Sprintf(cancel, "1"), `{"jsonrpc":"2.0","id":1,"result":{"action":"decline"}}`, wirePing)
			synctest.Wait()
			assert.Equal(t, 3, h.left(), "the cancelled call and the answered question")
			require.NoError(t, h.in.Close())
			lines := h.read()
			assert.Contains(t, lines, wireText("2", "decline <nil> with {}"))
			assert.Contains(t, lines, wireText("3", `"3"`))
			assert.Contains(t, lines, wirePong)
			assert.NotContains(t, strings.Join(lines, "\n"), `"id":1,"result"`)
		})
	})
	t.Run("cancels what waits", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h := newDeafHost(t)
			h.send(wireCall("1", "echo", `"1"`), wireCall(`"\u0032"`, "echo", `"2"`), fmt.Sprintf(cancel, "1"), fmt.Sprintf(cancel, `"2"`), fmt.Sprintf(cancel, "3"), wireCall("3", "echo", `"3"`))
			synctest.Wait() // or the host could read before the cancellations are seen
			require.NoError(t, h.in.Close())
			lines := h.read()
			assert.Equal(t, []string{`"3"`}, h.starts()[1:])
			assert.Contains(t, lines, wireText("3", `"3"`))
			assert.Len(t, lines, 3)
		})
	})
	t.Run("gets a word about what waits when the server stops", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h := newDeafHost(t)
			h.send(wireCall("1", "echo", `"1"`))
			synctest.Wait()
			h.transport.Stop()
			synctest.Wait()
			lines := h.read()
			assert.Contains(t, strings.Join(lines, "\n"), `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"loopgrid-mcp is stopping: the request was not begun and nothing was recorded"}}`)
			require.NoError(t, h.in.Close())
		})
	})
	t.Run("is not read without end", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h := newDeafHost(t)
			sent := 0
			stopped := make(chan struct{})
			go func() {
				defer close(stopped)
				for _, line := range []string{wireCall("1", "echo", `"`+strings.Repeat("x", 100)+`"`), wirePing} {
					for range 10_000 {
						if _, err := io.WriteString(h.in, line+"\n"); err != nil {
							return
						}
						sent++
					}
				}
			}()
			synctest.Wait() // all goroutines wait: the one that sends too
			assert.Less(t, sent, 500)
			h.transport.Stop()
			require.NoError(t, h.wait())
			require.NoError(t, h.in.Close())
			require.NoError(t, h.out.Close())
			<-stopped
		})
	})
}

func TestCallsThatHoldTooMuchAreAnsweredAsBusy(t *testing.T) {
	t.Parallel()
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	h := startLimitedHost(t, stdin, in, out, stdout, limits{unread: 1 << 20, held: 1 << 20, calls: 2 << 20})
	large := func(id, tool string) string { return wireCall(id, tool, `"`+strings.Repeat("x", 1<<20)+`"`) }
	require.Contains(t, h.ask(wireInitialize), `"result"`)
	h.send(wireInitialized, large("1", "wait"))
	const busy = `{"content":[{"type":"text","text":"Not recorded: busy: the calls that wait for LoopGrid already hold 2 MB.\nNothing was sent. Nothing was recorded. ` +
		`Call again once one of them is answered."}],"isError":true`
	require.Equal(t, `{"jsonrpc":"2.0","id":2,"result":`+busy+`}}`, h.ask(large("2", "echo")))
	require.Equal(t, `{"jsonrpc":"2.0","id":3,"result":`+busy+`,"resultType":"complete"}}`,
		h.ask(strings.Replace(large("3", "echo"), `"params":{`, `"params":{`+wireModern+`,`, 1)))
	require.Equal(t, wireText("4", `"small"`), h.ask(wireCall("4", "echo", `"small"`)))
	h.expect(wirePing, wirePong)
	h.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	for answer := ""; !strings.HasPrefix(answer, `{"jsonrpc":"2.0","id":5,"result":{"content":[{"type":"text","text":"\"xxx`); {
		answer = h.ask(large("5", "echo")) // the cancelled call needs a moment
	}
	require.NoError(t, h.end())
	assert.Len(t, h.wire.starts, 3, "nothing that was told as not recorded has reached a tool")
	assert.Zero(t, h.transport.calls.size)
}

func TestManyWaitingCallsGiveUpEarlier(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newInitializedWireHost(t)
		const calls = 5000
		h.send(wireCall(`"sent"`, "slow", `"1200ms"`))
		for i := range calls {
			h.send(wireCall(strconv.Itoa(i), "wait", "{}"))
		}
		synctest.Wait()
		begin := time.Now()
		h.transport.Stop()
		for range calls {
			require.Contains(t, h.next(), "Not recorded: the bridge is stopping.")
		}
		assert.Equal(t, 700*time.Millisecond, time.Since(begin), "300 ms and 100 ms for each thousand before the bound")
		require.Equal(t, wireText(`"sent"`, "done"), h.next())
		require.NoError(t, h.wait())
		require.NoError(t, h.in.Close())
		require.NoError(t, h.out.Close())
	})
}

func TestBursts(t *testing.T) {
	t.Parallel()
	const many = 10_000
	h := newInitializedWireHost(t)
	var calls strings.Builder
	for i := range many {
		calls.WriteString(wireCall(strconv.Itoa(i), "echo", strconv.Itoa(i)) + "\n")
	}
	repeated := func(line string) string { return strings.Repeat(line+"\n", many) }
	for name, burst := range map[string]string{
		"calls in one write":         calls.String(),
		"notifications":              repeated(`{"jsonrpc":"2.0","method":"notifications/whatever"}`),
		"cancels of what is unknown": repeated(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"nothing"}}`),
		"initialized":                repeated(wireInitialized),
		"answers to no question":     repeated(`{"jsonrpc":"2.0","id":99,"result":{}}`),
		"blank lines":                repeated(""),
	} {
		go func() { _, _ = io.WriteString(h.in, burst) }()
		if name == "calls in one write" {
			for range many {
				require.Contains(t, h.next(), `"result":{"content":`)
			}
		}
		h.expect(wirePing, wirePong)
	}
	for range many / 10 { // an id is free again as soon as its answer is read
		h.expect(wireCall(`"same"`, "echo", "1.0"), wireText(`"same"`, "1.0"))
	}
	require.NoError(t, h.end())
	assert.Empty(t, h.transport.calls.byKey)
}
