package bridge_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

const decideSlowly = `{"decision_type":"t","proposed_action":{},"model_output":{},"idempotency_key":"k"}`

func (x *session) begin(id, tool, arguments string) {
	x.t.Helper()
	x.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `}}`)
}

// TestPanicInTheMiddleOfADecision: the session continues, and the text says what may be recorded and how to continue.
func TestPanicInTheMiddleOfADecision(t *testing.T) {
	t.Parallel()
	x, s := open(t)
	s.mu.Lock()
	s.before = func(r sent) (*http.Response, error) {
		if strings.HasSuffix(r.path, "/events") {
			panic("secret 4111111111111111")
		}
		return nil, nil //nolint:nilnil // the sandbox answers
	}
	s.mu.Unlock()
	text := x.fails("loopgrid.record_decision", decideSlowly)
	assert.True(t, strings.HasPrefix(text, "Outcome unknown: "), text)
	golden(t, "texts/panic.txt", []byte(normal(text)))
	assert.Contains(t, x.log.String(), "msg=panic")
	assert.Contains(t, x.log.String(), "goroutine ")
	assert.NotContains(t, x.log.String(), "4111111111111111")
	s.sandboxAnswers()
	r := x.ok("loopgrid.record_decision", decideSlowly)
	assert.Equal(t, "Existing decision; 1 missing step appended.", r.str(t, "note"))
	assert.Len(t, recorded(s, r.str(t, "decision_id")), 2)
}

// TestCancelledDecisionIsCompleted: a call that has sent its first request completes all its steps; its answer is not written.
func TestCancelledDecisionIsCompleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x, s := open(t)
		reached, goOn := make(chan struct{}), make(chan struct{})
		s.mu.Lock()
		s.before = func(r sent) (*http.Response, error) {
			if r.String() == "POST /api/v1/decisions" {
				close(reached)
				<-goOn
			}
			return nil, nil //nolint:nilnil // the sandbox answers
		}
		s.mu.Unlock()
		x.begin("7", "loopgrid.record_decision", decideSlowly)
		<-reached
		x.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
		synctest.Wait()
		close(goOn)
		synctest.Wait()
		x.send(`{"jsonrpc":"2.0","id":8,"method":"ping"}`)
		assert.Contains(t, x.receive(), `"id":8`, "the answer of the cancelled call is not written")
		events := s.sandbox.Events("default")
		require.Len(t, events, 2)
		assert.Equal(t, "model_completed", events[1].EventType)
		assert.Contains(t, x.log.String(), "outcome=ok")
	})
}

// TestAWriteWithoutAnswerAtTheEnd: the caller is answered shortly before the process ends, and the turn is kept, since LoopGrid may still
// be working on the write.
func TestAWriteWithoutAnswerAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		tool, arguments string
		part            string // of the request that is not answered
		want            string
	}{
		"decision": {"loopgrid.record_decision", decideSlowly, "POST /api/v1/decisions", "Outcome unknown: the server shut down before LoopGrid answered.\n" +
			"Outcome of each step:\n- decision: outcome unknown\n- model_event: outcome unknown\n" +
			"To find out and finish, call loopgrid.record_decision again with idempotency_key \"k\" and otherwise the same arguments: nothing is recorded twice."},
		"second step": {"loopgrid.record_decision", decideSlowly, "/events", "- decision: recorded now\n- model_event: outcome unknown\ndecision_id: dec_"},
		"action": {
			"loopgrid.record_action", `{"decision_id":"dec_1","tool":"t","idempotency_key":"k"}`, "/events",
			"of decision dec_1: outcome unknown\ndecision_id: dec_1.\nTo find out and finish, call loopgrid.record_action again with idempotency_key \"k\"",
		},
		"review": {"loopgrid.record_review", `{"decision_id":"dec_1","action":"approve"}`, "/review", "the review of decision dec_1: outcome unknown\ndecision_id: dec_1.\nCheck in LoopGrid before repeating the call."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				x, s := open(t, "LOOPGRID_MCP_ENABLE_REVIEW_TOOL=true", "LOOPGRID_MCP_REVIEWER_ID=ann")
				goOn := make(chan struct{})
				s.mu.Lock()
				s.before = func(r sent) (*http.Response, error) {
					if strings.Contains(r.String(), test.part) {
						<-goOn
					}
					return nil, nil //nolint:nilnil // the sandbox answers
				}
				s.mu.Unlock()
				x.begin("1", test.tool, test.arguments)
				synctest.Wait()
				began := time.Now()
				close(x.stop)
				line := x.receive()
				assert.Equal(t, 1350*time.Millisecond, time.Since(began))
				var answer struct{ Result result }
				require.NoError(t, json.Unmarshal([]byte(line), &answer))
				assert.True(t, answer.Result.IsError)
				assert.Contains(t, answer.Result.text(), test.want)
				require.NoError(t, <-x.done)
				x.done <- nil // for the cleanup
				assert.Equal(t, 1350*time.Millisecond, time.Since(began), "nothing is waited for once all is answered")
				assert.Contains(t, x.log.String(), `outcome="outcome unknown"`)

				turn := make(chan error, 1)
				go func() {
					w := x.client.NewTurn()
					defer w.End()
					turn <- w.Begin(t.Context(), loopgrid.Subject{})
				}()
				synctest.Wait()
				assert.Empty(t, turn, "the turn is not given up")
				close(goOn)
				require.NoError(t, <-turn)
			})
		})
	}
}

// TestReadsThatAreCut: the log distinguishes a cancelled read from a failed one, and the answer says why the server cut it short.
func TestReadsThatAreCut(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"loopgrid.verify_evidence", "loopgrid.get_evidence"} {
		synctest.Test(t, func(t *testing.T) {
			x, s := open(t)
			s.untilCancelled = true
			x.begin("1", tool, `{"decision_id":"dec_1"}`)
			synctest.Wait()
			x.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
			synctest.Wait()
			assert.Contains(t, x.log.String(), "outcome=cancelled")
			assert.NotContains(t, x.log.String(), "outcome=failed")
			x.begin("2", tool, `{"decision_id":"dec_1"}`)
			synctest.Wait()
			close(x.stop)
			line := x.receive()
			assert.Contains(t, line, ": the server shut down before LoopGrid answered.\\nNothing was changed: it is safe to call again.")
			assert.Contains(t, x.log.String(), `cause="the server is shutting down"`)
		})
	}
}

// TestCancelledWhileWaiting: a call that is cancelled while it waits for its turn sends nothing.
func TestCancelledWhileWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x, s := open(t)
		id := decided(x)
		n := s.count()
		reached, goOn := make(chan struct{}), make(chan struct{})
		s.mu.Lock()
		s.before = func(r sent) (*http.Response, error) {
			if strings.Contains(r.body, "first") {
				close(reached)
				<-goOn
			}
			return nil, nil //nolint:nilnil // the sandbox answers
		}
		s.mu.Unlock()
		x.begin("1", "loopgrid.record_action", `{"decision_id":"`+id+`","tool":"first"}`)
		<-reached
		x.begin("2", "loopgrid.record_action", `{"decision_id":"`+id+`","tool":"second"}`)
		x.begin("3", "loopgrid.record_action", `{"decision_id":"`+id+`","tool":"third"}`)
		x.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
		synctest.Wait()
		close(goOn)
		assert.Contains(t, x.receive(), `"id":1`)
		assert.Contains(t, x.receive(), `"id":3`)
		var tools []string
		for _, r := range s.sentSince(n) {
			tools = append(tools, members(t, r.body)["payload"])
		}
		assert.Equal(t, []string{`{"tool":"first"}`, `{"tool":"third"}`}, tools)
	})
}

// TestWritesKeepTheirOrder: calls that arrive one after the other are recorded in that order, however many there are.
func TestWritesKeepTheirOrder(t *testing.T) {
	t.Parallel()
	x, s := open(t)
	id := decided(x)
	const calls = 200
	go func() {
		for i := range calls {
			x.begin(itoa(1000+i), "loopgrid.record_action", `{"decision_id":"`+id+`","tool":"t`+itoa(i)+`"}`)
		}
	}()
	for range calls {
		assert.Contains(t, x.receive(), `\"recorded\":true`)
	}
	for i, e := range recorded(s, id)[2:] {
		assert.JSONEq(t, `{"tool":"t`+itoa(i)+`"}`, string(e.Payload))
	}
	assert.Zero(t, s.sandbox.Stats().Overlaps)
}

// lost makes the service drop the answer to what matches, after or before it is handled, n times.
func (s *service) lost(part string, handled bool, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = func(r sent) (*http.Response, error) {
		if !strings.Contains(r.String(), part) || n == 0 {
			return nil, nil //nolint:nilnil // the sandbox answers
		}
		n--
		if handled {
			req, _ := http.NewRequest(r.method, "http://x"+r.path, strings.NewReader(r.body)) //nolint:noctx // ends at once
			req.Header = r.header
			res, err := s.sandbox.RoundTrip(req)
			if err == nil {
				_ = res.Body.Close()
			}
		}
		return nil, errReset
	}
}

// TestLostAnswers: the answer to each step of a decision is lost once, before or after the service handled it. Each step is still
// recorded exactly once.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"POST /api/v1/decisions", "/events", "/evaluate"} {
		for _, handled := range []bool{false, true} {
			t.Run(part, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					x, s := open(t)
					s.lost(part, handled, 1)
					began := time.Now()
					r := x.ok("loopgrid.record_decision", `{"decision_type":"t","proposed_action":{"amount":1},"model_output":{},"policy_id":"refund-policy"}`)
					assert.Equal(t, "false", r.member(t, "idempotent_replay"), "the key is our own: a replay is a repeat")
					assert.NotContains(t, members(t, r.text()), "note")
					assert.Equal(t, "true", r.member(t, "commitment_verified"))
					assert.Len(t, recorded(s, r.str(t, "decision_id")), 3)
					if part != "/evaluate" {
						assert.GreaterOrEqual(t, time.Since(began), time.Second, "an unanswered write may still be running")
					}
				})
			})
		}
	}
}

// TestLostForGood: the text of a write whose answer never came, and the error of the next writer.
func TestLostForGood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x, s := open(t, "LOOPGRID_MCP_TIMEOUT_SECONDS=4")
		id := decided(x)
		var all strings.Builder
		show := func(what, text string) { all.WriteString("== " + what + "\n" + normal(text) + "\n\n") }
		s.lost("/events", true, -1)
		show("record_action", x.fails("loopgrid.record_action", `{"decision_id":"`+id+`","tool":"t","idempotency_key":"k"}`))
		show("the next writer", x.fails("loopgrid.record_action", `{"decision_id":"`+id+`","tool":"u"}`))
		s.sandboxAnswers()
		r := x.ok("loopgrid.record_action", `{"decision_id":"`+id+`","tool":"t","idempotency_key":"k"}`)
		assert.Equal(t, "true", r.member(t, "commitment_verified"))
		assert.Len(t, recorded(s, id), 3, "recorded once")

		s.lost("/events", true, -1)
		show("record_decision", x.fails("loopgrid.record_decision", strings.Replace(decideSlowly, `"k"`, `"k2"`, 1)))
		s.lost("POST /api/v1/decisions", true, -1)
		time.Sleep(10 * time.Second)
		show("record_decision, from the start", x.fails("loopgrid.record_decision", `{"decision_type":"t","proposed_action":{}}`))
		golden(t, "texts/lost.txt", []byte(all.String()))
	})
}

// TestReviewWithoutAnswer: the review is never posted again; the decision is read instead.
func TestReviewWithoutAnswer(t *testing.T) {
	t.Parallel()
	const approve = `,"action":"approve","reason":"ok"}`
	for name, tt := range map[string]struct {
		arrange func(s *service, id string)
		check   func(t *testing.T, r result)
	}{
		"recorded": {
			func(s *service, _ string) { s.lost("/review", true, 1) },
			func(t *testing.T, r result) {
				t.Helper()
				assert.Equal(t, "human_approved", r.str(t, "review", "event_type"))
				assert.Equal(t, "approve", r.str(t, "state"))
				assert.Equal(t, "host", r.str(t, "human_confirmation"))
			},
		},
		"not recorded": {
			func(s *service, _ string) { s.lost("/review", false, 1) },
			func(t *testing.T, r result) {
				t.Helper()
				assert.True(t, r.IsError)
				assert.Contains(t, r.text(), "Outcome unknown: the review of decision")
				assert.Contains(t, r.text(), "LoopGrid does not show it yet; it may still arrive. Do not send it again until a person has checked in LoopGrid.")
			},
		},
		"another one": {
			func(s *service, id string) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.before = func(r sent) (*http.Response, error) {
					if !strings.Contains(r.path, "/review") {
						return nil, nil //nolint:nilnil // the sandbox answers
					}
					req, _ := http.NewRequest(http.MethodPost, "http://x/api/v1/decisions/"+id+"/review", strings.NewReader(`{"action":"reject","reviewer":"bob"}`)) //nolint:noctx // ends at once
					req.Header.Set("Content-Type", "application/json")
					if res, err := s.sandbox.RoundTrip(req); err == nil {
						_ = res.Body.Close()
					}
					return nil, errReset
				}
			},
			func(t *testing.T, r result) {
				t.Helper()
				assert.True(t, r.IsError)
				assert.Regexp(t, `Another review is recorded: a human_rejected event of decision dec_\w+ by human bob\.`, r.text())
			},
		},
		"no read scope": {
			func(s *service, _ string) {
				s.lost("/review", true, 1)
				s.mu.Lock()
				defer s.mu.Unlock()
				drop := s.before
				s.before = func(r sent) (*http.Response, error) {
					if r.method == http.MethodGet {
						res := jsonAnswer(`{"detail":"Invalid, revoked, or insufficient LoopGrid API key (read scope required)"}`)
						res.StatusCode = http.StatusUnauthorized
						return res, nil
					}
					return drop(r)
				}
			},
			func(t *testing.T, r result) {
				t.Helper()
				assert.True(t, r.IsError)
				assert.Contains(t, r.text(), "Outcome unknown: the review of decision")
				assert.Contains(t, r.text(), "Do not send it again until a person has checked in LoopGrid.")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				x, s := openForReview(t)
				id := waitingForReview(x)
				n := s.count()
				tt.arrange(s, id)
				r := x.call("loopgrid.record_review", `{"decision_id":"`+id+`"`+approve)
				posts := 0
				for _, r := range s.sentSince(n) {
					if r.method == http.MethodPost {
						posts++
					}
				}
				assert.Equal(t, 1, posts, "posted once")
				tt.check(t, r)
			})
		})
	}
}

// TestProgress: a client that asks for it gets a notification at every step and every second, and none after the answer.
func TestProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x, s := open(t)
		id := decided(x)
		s.mu.Lock()
		s.before = func(sent) (*http.Response, error) {
			time.Sleep(3500 * time.Millisecond)
			return nil, nil //nolint:nilnil // the sandbox answers
		}
		s.mu.Unlock()
		x.send(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"loopgrid.verify_evidence","arguments":{"decision_id":"` + id + `"},"_meta":{"progressToken":9007199254740993}}}`)
		for count := 1; ; count++ {
			line := x.receive()
			if strings.Contains(line, `"id":5`) {
				assert.Equal(t, 5, count, "one step and three seconds before")
				break
			}
			assert.Contains(t, line, `"progressToken":9007199254740993`)
			assert.Contains(t, line, `"progress":`+itoa(count))
			assert.Contains(t, line, `"message":"LoopGrid is checking the chain"`)
		}
		x.send(`{"jsonrpc":"2.0","id":6,"method":"ping"}`)
		time.Sleep(5 * time.Second)
		assert.Contains(t, x.receive(), `"id":6`)
	})
}

// TestTheKeyIsHiddenInProgress: a progress message may contain names from the service or the caller.
func TestTheKeyIsHiddenInProgress(t *testing.T) {
	t.Parallel()
	const key = "lg_live_0123456789abcdef"
	x, s := open(t, "LOOPGRID_SERVICE_KEY="+key)
	s.answerWith("", http.StatusOK, "application/json", `{}`)
	x.send(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"loopgrid.record_action","arguments":{"decision_id":"` + key + `","tool":"t"},"_meta":{"progressToken":1}}}`)
	for {
		line := x.receive()
		assert.NotContains(t, line, "0123456")
		if strings.Contains(line, `"id":5`) {
			return
		}
	}
}

// TestAWriteThatBeginsWhileTheServerEndsIsLogged: if the process is killed then, it leaves a line that says how to resume.
func TestAWriteThatBeginsWhileTheServerEndsIsLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x, s := open(t)
		id := decided(x)
		goOn := make(chan struct{})
		s.mu.Lock()
		s.before = func(sent) (*http.Response, error) {
			<-goOn
			return nil, nil //nolint:nilnil // the sandbox answers
		}
		s.mu.Unlock()
		for _, key := range []string{"first", "second"} {
			x.begin(`"`+key+`"`, "loopgrid.record_action", `{"decision_id":"`+id+`","tool":"t","idempotency_key":"`+key+`"}`)
		}
		synctest.Wait()
		require.NoError(t, x.in.Close())
		synctest.Wait()
		const line = `msg="shutting down while a write is unfinished" tool=record_action decision_id=`
		assert.Equal(t, 1, strings.Count(x.log.String(), line), "the second one waits for its turn")
		close(goOn)
		x.receive()
		x.receive()
		assert.Contains(t, x.log.String(), line+id+` idempotency_key=first steps_left="the action of decision `+id+`"`)
		assert.Contains(t, x.log.String(), line+id+` idempotency_key=second steps_left="the action of decision `+id+`"`)
	})
}

// TestTheNextWriteDoesNotWaitForAReviewThatWasFound: the review was read back, so its write is over.
func TestTheNextWriteDoesNotWaitForAReviewThatWasFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x, s := openForReview(t)
		id := waitingForReview(x)
		s.lost("/review", true, 1)
		x.ok("loopgrid.record_review", `{"decision_id":"`+id+`","action":"approve"}`)
		began := time.Now()
		x.ok("loopgrid.record_action", `{"decision_id":"`+id+`","tool":"t"}`)
		assert.Zero(t, time.Since(began))
	})
}
