package stdio

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnIdleSessionEndsAtOnce(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		end  func(*wireHost)
	}{
		{"EOF", func(h *wireHost) { _ = h.in.Close() }},
		{"stop", func(h *wireHost) { h.transport.Stop() }},
		{"stop twice", func(h *wireHost) { h.transport.Stop(); h.transport.Stop() }},
		{"EOF and stop", func(h *wireHost) { _ = h.in.Close(); h.transport.Stop() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newInitializedWireHost(t)
				require.Equal(t, wireText("1", "{}"), h.ask(wireCall("1", "echo", "{}")))
				begin := time.Now()
				test.end(h)
				require.NoError(t, h.wait())
				assert.Zero(t, time.Since(begin))
				assert.Empty(t, h.transport.calls.byKey)
				<-h.transport.Ended()
				require.NoError(t, h.in.Close()) // a Read that waits for a line ends with the process, here with the pipe
				require.NoError(t, h.out.Close())
			})
		})
	}
}

func TestASessionThatNeverBeganEnds(t *testing.T) {
	t.Parallel()
	h := newWireHost(t)
	require.NoError(t, h.end())
}

func TestCallsInFlightAreAnsweredAfterEOF(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newInitializedWireHost(t)
		const calls = 120
		for i := range calls {
			h.send(wireCall(strconv.Itoa(i), "slow", fmt.Sprintf(`"%dms"`, i*50)))
		}
		begin := time.Now()
		require.NoError(t, h.in.Close())
		answers := make(map[string]bool)
		for range calls {
			answers[h.next()] = true
		}
		for i := range calls {
			assert.True(t, answers[wireText(strconv.Itoa(i), "done")], i)
		}
		require.NoError(t, h.wait())
		assert.Equal(t, (calls-1)*50*time.Millisecond, time.Since(begin))
		select {
		case <-h.transport.CancelWaiting():
			assert.Fail(t, "no call had to give up")
		default:
		}
		require.NoError(t, h.out.Close())
	})
}

func TestInstantCallsAreAnsweredAfterEOF(t *testing.T) {
	t.Parallel()
	h := newWireHost(t)
	go func() {
		_, _ = io.WriteString(h.in, wireInitialize+"\n"+wireInitialized+"\n")
		for i := range 120 {
			_, _ = io.WriteString(h.in, wireCall(strconv.Itoa(i), "echo", "{}")+"\n")
		}
		_ = h.in.Close()
	}()
	answers := make(map[string]bool)
	for range 121 {
		answers[h.next()] = true
	}
	for i := range 120 {
		assert.True(t, answers[wireText(strconv.Itoa(i), "{}")], i)
	}
	require.NoError(t, h.wait())
}

func TestTheDrainIsBounded(t *testing.T) {
	t.Parallel()
	const notRecorded = "Not recorded: the bridge is stopping."
	eof := func(h *wireHost) { _ = h.in.Close() }
	stop := func(h *wireHost) { h.transport.Stop() }
	after := func(d time.Duration, what func(*wireHost)) func(*wireHost) {
		return func(h *wireHost) {
			go func() {
				time.Sleep(d)
				what(h)
			}()
		}
	}
	for _, test := range []struct {
		name      string
		end       []func(*wireHost)
		cancelled time.Duration // when the waiting call gives up
		bound     time.Duration
	}{
		{"EOF", []func(*wireHost){eof}, 9700 * time.Millisecond, 10 * time.Second},
		{"stop", []func(*wireHost){stop}, 1200 * time.Millisecond, 1500 * time.Millisecond},
		{"second stop", []func(*wireHost){stop, after(time.Second, stop)}, 1200 * time.Millisecond, 1500 * time.Millisecond},
		{"stop in the drain", []func(*wireHost){eof, after(2*time.Second, stop)}, 3200 * time.Millisecond, 3500 * time.Millisecond},
		{"stop late in the drain", []func(*wireHost){eof, after(9*time.Second, stop)}, 9700 * time.Millisecond, 10 * time.Second},
		{"EOF after stop", []func(*wireHost){stop, after(time.Second, eof)}, 1200 * time.Millisecond, 1500 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newInitializedWireHost(t)
				h.send(wireCall("1", "slow", `"1h"`), wireCall("2", "wait", `{}`), wireCall("3", "slow", `"1s"`), wireCall("4", "sent", `"1h"`))
				synctest.Wait()
				begin := time.Now()
				for _, end := range test.end {
					end(h)
				}
				require.Equal(t, wireText("3", "done"), h.next())
				assert.Equal(t, time.Second, time.Since(begin))
				require.Equal(t, wireFailure("2", notRecorded), h.next())
				assert.Equal(t, test.cancelled, time.Since(begin))
				// What no handler answers in time is answered all the same.
				rest := []string{h.next(), h.next()}
				assert.Contains(t, strings.Join(rest, ""), `"id":1,"result":{"content":[{"type":"text","text":"Not recorded: the server shut down`)
				assert.Contains(t, strings.Join(rest, ""), `"id":4,"result":{"content":[{"type":"text","text":"Outcome unknown: the server shut down`)
				require.NoError(t, h.wait())
				assert.Equal(t, test.bound-lastWords/4, time.Since(begin))
				assert.Contains(t, h.log.String(), `"answered calls that had no time to finish" requests=2`)
				_ = h.in.Close()
				require.NoError(t, h.out.Close())
				time.Sleep(time.Hour) // all goroutines have ended when the call that hangs has
			})
		})
	}
}

func TestNoRequestBeginsAfterStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newInitializedWireHost(t)
		h.send(wireCall("2", "slow", `"1s"`), wireCall("3", "wait", `{}`))
		synctest.Wait()
		h.transport.Stop()
		h.expect(wireCall("4", "echo", `"4"`),
			`{"jsonrpc":"2.0","id":4,"error":{"code":-32603,"message":"loopgrid-mcp is stopping: the request was not begun and nothing was recorded"}}`)
		// What belongs to calls that have begun is still heard.
		h.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
		synctest.Wait()
		begin := time.Now()
		require.Equal(t, wireText("2", "done"), h.next())
		require.NoError(t, h.wait())
		assert.Equal(t, time.Second, time.Since(begin))
		assert.NotContains(t, h.wire.starts, `"4"`)
		require.NoError(t, h.in.Close())
		require.NoError(t, h.out.Close())
	})
}

func TestAQuestionEndsWhenNobodyCanAnswerIt(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*wireHost){
		"EOF":  func(h *wireHost) { _ = h.in.Close() },
		"stop": func(h *wireHost) { h.transport.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newInitializedWireHost(t)
				require.Contains(t, h.ask(wireCall("1", "ask", "{}")), "elicitation/create")
				begin := time.Now()
				end(h)
				// go-sdk tells the client that the question is off, before or after.
				want := wireFailure("1", `multi-round-trip: fulfilling input request "confirm": context canceled.`)
				for line := h.next(); line != want; line = h.next() {
					assert.Contains(t, line, `"method":"notifications/cancelled"`)
				}
				go func() {
					for line := range h.lines {
						assert.Contains(t, line, `"method":"notifications/cancelled"`)
					}
				}()
				require.NoError(t, h.wait())
				assert.Zero(t, time.Since(begin))
				_ = h.in.Close()
				require.NoError(t, h.out.Close())
			})
		})
	}
}

func TestTheContextOfServeStopsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newInitializedWireHost(t)
		h.send(wireCall("1", "wait", "{}"))
		synctest.Wait()
		begin := time.Now()
		h.cancel()
		require.Equal(t, wireFailure("1", "Not recorded: the bridge is stopping."), h.next(), "the call is not cancelled with it")
		require.NoError(t, h.wait())
		assert.Equal(t, 1200*time.Millisecond, time.Since(begin))
		require.NoError(t, h.in.Close())
		require.NoError(t, h.out.Close())
	})
}

// A host that has gone shows as a write error, where its end of our input may still be open.
func TestADeadOutputEndsTheSessionWhenCallsHaveFinished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newInitializedWireHost(t)
		h.send(wireCall("1", "slow", `"3s"`), wireCall("2", "slow", `"1s"`), wireCall("3", "slow", `"2s"`))
		require.NoError(t, h.out.CloseWithError(syscall.EPIPE))
		begin := time.Now()
		require.ErrorIs(t, h.wait(), syscall.EPIPE)
		assert.Equal(t, 3*time.Second, time.Since(begin), "the other calls finish")
		assert.Equal(t, 3, h.wire.left)
		require.NoError(t, h.in.Close())
	})
}

func TestABrokenInputEndsTheSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newInitializedWireHost(t)
		broken := errors.New("input/output error")
		h.send(wireCall("1", "slow", `"3s"`))
		require.NoError(t, h.in.CloseWithError(broken))
		require.Equal(t, wireText("1", "done"), h.next())
		require.ErrorIs(t, h.wait(), broken)
		require.NoError(t, h.out.Close())
	})
}

func TestAHostThatDoesNotRead(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T, lines ...string) *wireHost {
		t.Helper()
		stdin, in := io.Pipe()
		out, stdout := io.Pipe()
		h := startWireHost(t, stdin, in, nil, stdout)
		h.out = out
		h.send(lines...)
		return h
	}
	const progress = `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"_meta":{"progressToken":1},"arguments":{},"name":"progress"}}`
	for name, first := range map[string][]string{
		"the answer to initialize": {wireInitialize, wireInitialized},
		"a refusal":                {"garbage", wireInitialize, wireInitialized},
		"progress":                 {wireInitialize, wireInitialized},
	} {
		t.Run("leaves "+name+" unread and is heard", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := start(t, first[0])
				synctest.Wait()
				if name == "progress" { // the host reads up to it
					_, err := h.out.Read(make([]byte, 1000))
					require.NoError(t, err)
					synctest.Wait()
					h.send(wireInitialized, progress)
					synctest.Wait()
					assert.Equal(t, 1, h.wire.left, "progress holds up no call")
				}
				h.send(first[1:]...)
				for range 1000 {
					h.send("garbage", wirePing, wireCall("2", "nothing", "{}"))
				}
				h.send(wireCall("3", "wait", "{}"), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
				synctest.Wait()
				assert.Len(t, h.wire.starts, h.wire.left, "the cancel came through")
				require.NoError(t, h.in.Close())
				begin := time.Now()
				require.NoError(t, h.wait())
				assert.Equal(t, 10*time.Second, time.Since(begin))
				require.NoError(t, h.out.Close())
			})
		})
	}
	t.Run("but reads late still gets its answer", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h := start(t, wireInitialize)
			synctest.Wait() // the answer is being written
			require.NoError(t, h.in.Close())
			time.Sleep(9 * time.Second)
			assert.Empty(t, h.left)
			answer := make([]byte, 1000)
			n, err := h.out.Read(answer)
			require.NoError(t, err)
			assert.Equal(t, byte('\n'), answer[n-1])
			require.NoError(t, h.wait())
			require.NoError(t, h.out.Close())
		})
	})
	t.Run("does not hold up a stop", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h := start(t, wireInitialize, wireInitialized)
			h.send(wireCall("1", "slow", `"1s"`))
			synctest.Wait()
			begin := time.Now()
			h.transport.Stop()
			require.NoError(t, h.wait())
			assert.Equal(t, 1500*time.Millisecond, time.Since(begin))
			require.NoError(t, h.in.Close())
			require.NoError(t, h.out.Close())
		})
	})
}

// A call that gave up, or was answered for want of time, must not be recorded after all.
func TestACallThatGaveUpClaimsNothing(t *testing.T) {
	t.Parallel()
	var tr Transport
	tr.calls.limit = 1
	call := func(key string) *Call {
		require.Nil(t, tr.calls.add(key, pendingCall{method: methodCallTool}))
		return &Call{transport: &tr, key: key}
	}
	early, late, rest := call("1"), call("2"), call("3")
	assert.True(t, early.Claim())
	assert.False(t, early.GiveUp(), "it has claimed")
	assert.True(t, late.GiveUp())
	assert.False(t, late.Claim())
	assert.Len(t, tr.calls.takeCalls(), 3)
	assert.False(t, rest.Claim())
	assert.True(t, (&Call{transport: &tr}).Claim(), "a call over another transport")
}
