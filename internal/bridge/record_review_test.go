package bridge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
)

const (
	legacy = "2025-11-25" // a question is a request of the server
	modern = "2026-07-28" // a question is a result, and the answer comes in a second call

	forms = `{"elicitation":{"form":{}}}`
)

// reviewHost is a host on raw lines that puts questions to a person, in one of the two eras of the protocol.
type reviewHost struct {
	*session
	era, capabilities string
}

// asked is a question as the host got it.
type asked struct {
	message, schema, mode string
	id                    json.RawMessage // of the question, in the legacy era
	call                  string          // id of the call
	arguments, state      string          // of the call, in the modern era
}

// openReview starts a bridge with an open review tool in front of a sandbox, for a client with these capabilities.
func openReview(t *testing.T, s *service, era, capabilities string, environ ...string) *reviewHost {
	t.Helper()
	h := &reviewHost{session: serve(t, s, append([]string{
		"LOOPGRID_MCP_ENABLE_REVIEW_TOOL=true", "LOOPGRID_MCP_REVIEWER_ID=alice@acme.example",
	}, environ...)...), era: era, capabilities: capabilities}
	if era == legacy {
		h.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` + capabilities +
			`,"clientInfo":{"name":"host","version":"1"}}}`)
		h.receive()
		h.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	return h
}

// callLine is a tools/call of the era, with more members of its params.
func (h *reviewHost) callLine(id, tool, arguments, more string) string {
	if h.era == modern {
		more += `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + h.capabilities +
			`,"io.modelcontextprotocol/clientInfo":{"name":"host","version":"1"}}`
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + more + `}}`
}

// begin sends a call and returns its result, or the question that it asks.
func (h *reviewHost) begin(tool, arguments, more string) (result, *asked) {
	h.t.Helper()
	h.id++
	id := strconv.Itoa(h.id)
	h.send(h.callLine(id, tool, arguments, more))
	return h.read(h.receive(), id, arguments)
}

func (h *reviewHost) read(line, id, arguments string) (result, *asked) {
	h.t.Helper()
	type question struct {
		Mode, Message   string
		RequestedSchema json.RawMessage
	}
	var message struct {
		ID     json.RawMessage
		Method string
		Params question
		Result *struct {
			result

			ResultType    string
			RequestState  string
			InputRequests map[string]struct {
				Method string
				Params question
			}
		}
	}
	require.NoError(h.t, json.Unmarshal([]byte(line), &message), line)
	ask := func(q question) *asked {
		return &asked{message: q.Message, schema: string(q.RequestedSchema), mode: q.Mode, id: message.ID, call: id, arguments: arguments}
	}
	if message.Method != "" {
		require.Equal(h.t, legacy, h.era, line)
		require.Equal(h.t, "elicitation/create", message.Method, line)
		return result{}, ask(message.Params)
	}
	require.Equal(h.t, id, string(message.ID), line)
	require.NotNil(h.t, message.Result, line)
	if len(message.Result.InputRequests) == 0 {
		require.NotEmpty(h.t, message.Result.Content, line)
		if h.era == modern {
			require.Equal(h.t, "complete", message.Result.ResultType, line)
		}
		return message.Result.result, nil
	}
	require.Equal(h.t, modern, h.era, line)
	require.Equal(h.t, "input_required", message.Result.ResultType, line)
	require.Contains(h.t, line, `"content":[]`)
	require.Len(h.t, message.Result.InputRequests, 1)
	request := message.Result.InputRequests["confirm_review"]
	require.Equal(h.t, "elicitation/create", request.Method)
	q := ask(request.Params)
	q.state = message.Result.RequestState
	return result{}, q
}

// asks calls record_review and requires that it leads to a question.
func (h *reviewHost) asks(arguments string) *asked {
	h.t.Helper()
	r, q := h.begin("loopgrid.record_review", arguments, "")
	if q == nil {
		require.Fail(h.t, "nobody was asked", r.text())
	}
	require.Equal(h.t, "form", q.mode)
	return q
}

// asksNobody calls record_review and requires that it ends with an error at once, whose text it returns.
func (h *reviewHost) asksNobody(arguments string) string {
	h.t.Helper()
	r, q := h.begin("loopgrid.record_review", arguments, "")
	require.Nil(h.t, q, "a person was asked")
	require.True(h.t, r.IsError, r.text())
	return r.text()
}

// answer gives the person's answer and returns the result of the call.
func (h *reviewHost) answer(q *asked, answer string) result {
	h.t.Helper()
	if h.era == legacy {
		h.send(`{"jsonrpc":"2.0","id":` + string(q.id) + `,"result":` + answer + `}`)
		r, again := h.read(h.receive(), q.call, q.arguments)
		require.Nil(h.t, again, "asked twice")
		return r
	}
	return h.answerWith(q.arguments, q.state, answer)
}

// answerWith is a second call of the modern era.
func (h *reviewHost) answerWith(arguments, state, answer string) result {
	h.t.Helper()
	r, again := h.begin("loopgrid.record_review", arguments, answering(state, answer))
	require.Nil(h.t, again, "asked twice")
	return r
}

// answering are the members of a call that carry an answer.
func answering(state, answer string) string {
	return `,"inputResponses":{"confirm_review":` + answer + `},"requestState":"` + state + `"`
}

// waiting records a decision that waits for a person, and returns its id.
func (h *reviewHost) waiting() string { return h.waitingWith(`{"amount":720.0,"currency":"USD"}`) }

func (h *reviewHost) waitingWith(action string) string {
	h.t.Helper()
	r, _ := h.begin("loopgrid.record_decision", `{"decision_type":"customer_refund","policy_id":"refund-policy","proposed_action":`+action+`}`, "")
	require.False(h.t, r.IsError, r.text())
	return r.str(h.t, "decision_id")
}

// eras are the two eras of the protocol.
func eras() []string { return []string{legacy, modern} }

func proposing(id, action, reason string) string {
	quoted, _ := json.Marshal(reason)
	return `{"decision_id":"` + id + `","action":"` + action + `","reason":` + string(quoted) + `}`
}

// reviews returns the reviews that were posted.
func reviews(s *service) []string {
	var all []string
	for _, r := range s.sentSince(0) {
		if r.method == http.MethodPost && strings.HasSuffix(r.path, "/review") {
			all = append(all, r.body)
		}
	}
	return all
}

// outcomes returns the outcome of each call as the log has it.
func (x *session) outcomes() []string {
	var all []string
	for line := range strings.Lines(x.log.String()) {
		if strings.Contains(line, `msg="tool call"`) {
			_, rest, _ := strings.Cut(line, "outcome=")
			outcome, _, _ := strings.Cut(rest, " request_id=")
			all = append(all, strings.Trim(outcome, `"`))
		}
	}
	return all
}

func TestAPersonReviews(t *testing.T) {
	t.Parallel()
	for _, era := range eras() {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			h := openReview(t, s, era, forms)
			id := h.waiting()
			n := s.count()
			q := h.asks(proposing(id, "approve", "The customer was charged twice."))
			assert.Equal(t, []string{"GET /api/v1/decisions/" + id, "GET /api/v1/reviews"}, paths(s.sentSince(n)), "asking records nothing")
			assert.JSONEq(t, `{"type":"object","required":["action"],"properties":{
			"action":{"type":"string","title":"Your decision","description":"customer_refund: amount 720.0, currency USD. The choice is yours, whatever the model says; undecided records nothing.",
				"enum":["undecided","approve","reject"]},
			"reason":{"type":"string","title":"Your reason","description":"Optional. Kept as evidence exactly as you write it.","maxLength":1000}}}`, q.schema)
			assert.NotContains(t, q.schema, "default")

			n = s.count()
			r := h.answer(q, `{"action":"accept","content":{"reason":"Twice indeed: <é>\n\u0000","action":"approve"}}`)
			require.False(t, r.IsError, r.text())
			assert.Equal(t, []string{"POST /api/v1/decisions/" + id + "/review"}, paths(s.sentSince(n)))
			assert.Equal(t, []string{`{"action":"approve","reviewer":"alice@acme.example","reason":"Twice indeed: <é>\n\u0000"}`}, reviews(s), "the person's words, not the model's")
			assert.Equal(t, id, r.str(t, "decision_id"))
			assert.Equal(t, "approve", r.str(t, "state"))
			assert.Equal(t, "elicited", r.str(t, "human_confirmation"))
			assert.NotContains(t, r.member(t, "warnings"), "no_form_shown")
			assert.Contains(t, h.log.String(), "decision_id="+id+" action=approve human_confirmation=elicited")
			assert.Equal(t, "alice@acme.example", r.str(t, "review", "actor", "id"))
			assert.NotContains(t, members(t, r.text()), "note")
			assert.Contains(t, r.member(t, "warnings"), "sandbox")
			r, _ = h.begin("loopgrid.record_action", `{"decision_id":"`+id+`","tool":"stripe"}`, "")
			assert.False(t, r.IsError, r.text())
		})
	}
}

func paths(all []sent) []string {
	var texts []string
	for _, r := range all {
		texts = append(texts, r.String())
	}
	return texts
}

func TestThePersonDecidesNotTheModel(t *testing.T) {
	t.Parallel()
	for _, era := range eras() {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			h := openReview(t, s, era, forms)
			for proposed, chosen := range map[string]string{"approve": "reject", "reject": "approve"} {
				q := h.asks(proposing(h.waiting(), proposed, "The model's words."))
				r := h.answer(q, `{"action":"accept","content":{"action":"`+chosen+`"}}`)
				require.False(t, r.IsError, r.text())
				assert.Equal(t, chosen, r.str(t, "state"))
				assert.Equal(t, "elicited", r.str(t, "human_confirmation"))
				assert.Equal(t, "The call proposed "+proposed+" and the person chose "+chosen+"; the person's choice is recorded.", r.str(t, "note"))
				posted := reviews(s)
				assert.Equal(t, `{"action":"`+chosen+`","reviewer":"alice@acme.example","reason":""}`, posted[len(posted)-1])
			}
		})
	}
}

// TestAnswersThatRecordNothing: whatever a host answers, nothing is recorded unless it is a person's choice, and the text says so.
func TestAnswersThatRecordNothing(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, answer, outcome string }{
		{"another choice", `{"action":"accept","content":{"action":"maybe later"}}`, "no answer"},
		{"undecided", `{"action":"accept","content":{"action":"undecided","reason":"later"}}`, "undecided"},
		{"a choice in capitals", `{"action":"accept","content":{"action":"Approve"}}`, "no answer"},
		{"no choice", `{"action":"accept","content":{"reason":"fine"}}`, "no answer"},
		{"empty choice", `{"action":"accept","content":{"action":""}}`, "no answer"},
		{"null choice", `{"action":"accept","content":{"action":null}}`, "no answer"},
		{"a choice that is no text", `{"action":"accept","content":{"action":true}}`, "no answer"},
		{"two choices", `{"action":"accept","content":{"action":["approve"]}}`, "no answer"},
		{"no content", `{"action":"accept"}`, "no answer"},
		{"null content", `{"action":"accept","content":null}`, "no answer"},
		{"long reason", `{"action":"accept","content":{"action":"approve","reason":"` + strings.Repeat("é", 1001) + `"}}`, "no answer"},
		{"a reason that is no text", `{"action":"accept","content":{"action":"approve","reason":5}}`, "no answer"},
		{"neither accepted nor declined", `{"action":"approve","content":{"action":"approve"}}`, "no answer"},
		{"declined", `{"action":"decline"}`, "decline"},
		{"declined with a choice", `{"action":"decline","content":{"action":"approve"}}`, "decline"},
		{"closed", `{"action":"cancel"}`, "cancel"},
	}
	for _, era := range eras() {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			h := openReview(t, s, era, forms)
			id := h.waiting()
			var all strings.Builder
			for _, tt := range tests {
				q := h.asks(proposing(id, "approve", "The model's words."))
				n := s.count()
				r := h.answer(q, tt.answer)
				assert.True(t, r.IsError, tt.name)
				assert.Regexp(t, `^Not recorded: |Nothing was recorded\.$`, r.text(), tt.name)
				assert.NotContains(t, r.text(), "maybe later", "answers are not repeated")
				assert.Empty(t, s.sentSince(n), tt.name)
				outcomes := h.outcomes()
				assert.Equal(t, tt.outcome, outcomes[len(outcomes)-1], tt.name)
				fmt.Fprintf(&all, "== %s\n%s\n\n", tt.name, normal(r.text()))
			}
			golden(t, map[string]string{legacy: "review/answers-legacy.txt", modern: "review/answers-modern.txt"}[era], []byte(all.String()))

			q := h.asks(proposing(id, "approve", ""))
			r := h.answer(q, `{"action":"accept","content":{"action":"reject","reason":"`+strings.Repeat("é", 1000)+`"}}`)
			assert.False(t, r.IsError, "1000 characters are recorded: %s", r.text())
		})
	}
}

func TestAReasonMayBeNull(t *testing.T) {
	t.Parallel()
	s := newService(t)
	h := openReview(t, s, modern, forms)
	r := h.answer(h.asks(proposing(h.waiting(), "approve", "")), `{"action":"accept","content":{"action":"approve","reason":null,"other":1}}`)
	assert.False(t, r.IsError, r.text())
	assert.Equal(t, []string{`{"action":"approve","reviewer":"alice@acme.example","reason":""}`}, reviews(s))
}

// TestAnswersThatCannotBeRead: LoopGrid could not record half of a surrogate pair, so it is refused rather than replaced.
func TestAnswersThatCannotBeRead(t *testing.T) {
	t.Parallel()
	broken := map[string]string{
		"half of a surrogate pair": `{"action":"accept","content":{"action":"approve","reason":"\ud800"}}`,
		"invalid UTF-8":            "{\"action\":\"accept\",\"content\":{\"action\":\"\xff\"}}",
		"a choice twice":           `{"action":"accept","content":{"action":"reject","action":"approve"}}`,
	}
	t.Run(legacy, func(t *testing.T) {
		t.Parallel()
		s := newService(t)
		h := openReview(t, s, legacy, forms)
		id := h.waiting()
		for name, answer := range broken {
			r := h.answer(h.asks(proposing(id, "approve", "")), answer)
			assert.True(t, r.IsError, name)
			assert.Regexp(t, `^Not recorded: the review of decision dec_\w+\. The client answered the question, but its answer is not usable \(.*\)\.\nNothing was recorded\. A person can review the decision in LoopGrid itself\.$`, r.text())
		}
		for answer, text := range map[string]string{
			`"result":"approve"`: "The answer could not be used.\nNothing was recorded. A person can review the decision in LoopGrid itself.",
			`"error":"secret"`:   "The client did not ask a person.\nThe client said: \"the error of the client is not usable\"\nNothing was recorded. A person can review the decision in LoopGrid itself.",
			`"error":{"code":-32601,"message":"elicitation/create is not there"}`: "The client did not ask a person.\nThe client said: \"elicitation/create is not there\"\nNothing was recorded. A person can review the decision in LoopGrid itself.",
		} {
			q := h.asks(proposing(id, "approve", ""))
			h.send(`{"jsonrpc":"2.0","id":` + string(q.id) + `,` + answer + `}`)
			r, _ := h.read(h.receive(), q.call, "")
			assert.True(t, r.IsError)
			assert.Equal(t, "Not recorded: the review of decision "+id+". "+text, r.text())
		}
		assert.Empty(t, reviews(s))
	})
	t.Run(modern, func(t *testing.T) {
		t.Parallel()
		s := newService(t)
		h := openReview(t, s, modern, forms)
		q := h.asks(proposing(h.waiting(), "approve", ""))
		for name, answer := range broken {
			h.send(h.callLine("9", "loopgrid.record_review", q.arguments, answering(q.state, answer)))
			line := h.receive()
			assert.Regexp(t, `"id":9,"error":{"code":-32(602|700),`, line, name)
			assert.Contains(t, line, "; nothing was recorded", name)
		}
		for _, responses := range []string{`{"confirm_review":{}}`, `{"confirm_review":"approve"}`, `{"confirm_review":null}`, `"approve"`, `[]`} {
			h.send(h.callLine("9", "loopgrid.record_review", q.arguments, `,"inputResponses":`+responses+`,"requestState":"`+q.state+`"`))
			assert.Contains(t, h.receive(), `"id":9,"error":{"code":-326`, responses)
		}
		assert.Empty(t, reviews(s))
		r := h.answer(q, `{"action":"accept","content":{"action":"approve"}}`)
		assert.False(t, r.IsError, "refused attempts do not use up the question: %s", r.text())
	})
}

// TestForgedAnswers: an answer counts only with the state of a question that was put by this process about these arguments.
func TestForgedAnswers(t *testing.T) {
	t.Parallel()
	const accept = `{"action":"accept","content":{"action":"approve"}}`
	s := newService(t)
	h, elsewhere := openReview(t, s, modern, forms), openReview(t, s, modern, forms)
	id, other := h.waiting(), h.waiting()
	arguments := proposing(id, "approve", "Because.")
	q, foreign, otherQ := h.asks(arguments), elsewhere.asks(arguments), h.asks(proposing(other, "approve", "Because."))
	flipped := []byte(q.state)
	flipped[10] ^= 1
	var all strings.Builder
	for _, tt := range []struct{ name, arguments, state string }{
		{"no state", arguments, ""},
		{"made up", arguments, "bWFkZSB1cA"},
		{"tampered", arguments, string(flipped)},
		{"cut", arguments, q.state[:len(q.state)-1]},
		{"longer", arguments, q.state + "A"},
		{"with a line end", arguments, q.state + `\n`},
		{"of another process", arguments, foreign.state},
		{"of another decision", arguments, otherQ.state},
		{"another decision in the arguments", proposing(other, "approve", "Because."), q.state},
		{"another action in the arguments", proposing(id, "reject", "Because."), q.state},
		{"another reason in the arguments", proposing(id, "approve", "Because"), q.state},
		{"moved between the arguments", proposing(id+"a", "approve", "Because."), q.state},
	} {
		n := s.count()
		r := h.answerWith(tt.arguments, tt.state, accept)
		assert.True(t, r.IsError, tt.name)
		assert.Empty(t, s.sentSince(n), tt.name)
		fmt.Fprintf(&all, "== %s\n%s\n\n", tt.name, strings.ReplaceAll(normal(r.text()), "dec_IDa", "dec_ID"))
	}
	r, _ := h.begin("loopgrid.record_review", arguments, `,"inputResponses":{"another_question":`+accept+`},"requestState":"`+q.state+`"`)
	fmt.Fprintf(&all, "== another question\n%s\n\n", normal(r.text()))
	r, _ = h.begin("loopgrid.record_review", arguments, `,"requestState":"`+q.state+`"`)
	fmt.Fprintf(&all, "== no answer\n%s\n\n", normal(r.text()))
	r, _ = h.begin("loopgrid.record_review", arguments, `,"inputResponses":{"confirm_review":{"roots":[]}},"requestState":"`+q.state+`"`)
	fmt.Fprintf(&all, "== answer to another kind of question\n%s\n\n", normal(r.text()))
	golden(t, "review/forged.txt", []byte(all.String()))
	assert.Empty(t, reviews(s))

	// The same values written differently are the same arguments: the state covers what was checked, not how it was written.
	respelled := strings.ReplaceAll(`{"reason":"Because\u002e","wait_for_previous":true,"action":"approve","decision_id":"ID"}`, "ID", id)
	r = h.answerWith(respelled, q.state, accept)
	assert.False(t, r.IsError, r.text())
	assert.Len(t, reviews(s), 1)
}

// TestAnswersOfClientsThatWereNeverAsked: a client that cannot show forms, or that the server asks directly, cannot volunteer an answer.
func TestAnswersOfClientsThatWereNeverAsked(t *testing.T) {
	t.Parallel()
	for _, confirmation := range []string{"auto", "required", "host"} {
		for _, capabilities := range []string{"{}", forms} {
			for _, state := range []string{"", "bWFkZSB1cA"} {
				t.Run(confirmation+capabilities+state, func(t *testing.T) {
					t.Parallel()
					for _, era := range eras() {
						t.Run(era, func(t *testing.T) {
							t.Parallel()
							s := newService(t)
							h := openReview(t, s, era, capabilities, "LOOPGRID_MCP_REVIEW_CONFIRMATION="+confirmation)
							id := h.waiting()
							r, q := h.begin("loopgrid.record_review", proposing(id, "approve", ""), answering(state, `{"action":"accept","content":{"action":"approve"}}`))
							require.Nil(t, q)
							assert.True(t, r.IsError)
							assert.Contains(t, r.text(), "Not recorded: ")
							assert.Empty(t, reviews(s))
						})
					}
				})
			}
		}
	}
}

func TestAUsedQuestionIsAnsweredFromTheLedger(t *testing.T) {
	t.Parallel()
	const accept = `{"action":"accept","content":{"action":"approve","reason":"Fine."}}`
	s := newService(t)
	h := openReview(t, s, modern, forms)
	again := func(q *asked, answer string) result {
		n := len(reviews(s))
		r := h.answer(q, answer)
		assert.Len(t, reviews(s), n, "nothing is posted")
		return r
	}
	q := h.asks(proposing(h.waiting(), "reject", ""))
	first := h.answer(q, accept)
	for _, answer := range []string{accept, `{"action":"accept","content":{"action":"reject"}}`, `{"action":"decline"}`, `{"action":"accept"}`} {
		r := again(q, answer)
		require.False(t, r.IsError, r.text())
		assert.Equal(t, "approve", r.str(t, "state"), "what was answered first is recorded")
		assert.Equal(t, first.member(t, "review", "event_id"), r.member(t, "review", "event_id"))
		assert.Equal(t, "elicited", r.str(t, "human_confirmation"))
		assert.Equal(t, "An earlier call answered the question and recorded this review.", r.str(t, "note"))
	}

	id := h.waiting()
	q = h.asks(proposing(id, "approve", ""))
	require.True(t, h.answer(q, `{"action":"decline"}`).IsError)
	r := again(q, accept)
	assert.True(t, r.IsError, "who declined has not approved")
	assert.Contains(t, r.text(), "Nothing was recorded by this call: an earlier call answered the question, and no review of decision "+id+" is recorded.")

	// The same review, of another question.
	require.False(t, h.answer(h.asks(proposing(id, "approve", "")), accept).IsError)
	r = again(q, accept)
	assert.True(t, r.IsError, "who declined has not approved, even where another did")
	assert.Contains(t, r.text(), "an earlier call answered the question. The recorded review is a human_approved event of decision "+id+" by human alice@acme.example.")

	q = h.asks(proposing(h.waiting(), "approve", ""))
	s.answerWith("/review", 409, "application/json", `{"detail":"Decision already reviewed"}`)
	assert.True(t, h.answer(q, accept).IsError)
	s.answerWith("GET", 500, "text/plain", "Internal Server Error")
	assert.Contains(t, again(q, accept).text(), "it is unclear whether that recorded the review of decision ")
}

// TestAnAnswerThatComesTwiceAtOnce: the second waits for the first, and gets the same result.
func TestAnAnswerThatComesTwiceAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		s.sandbox = sandbox.New(sandbox.Options{Faults: sandbox.Faults{WriteTime: 3 * time.Second}})
		h := openReview(t, s, modern, forms)
		q := h.asks(proposing(h.waiting(), "approve", ""))
		const accept = `{"action":"accept","content":{"action":"approve"}}`
		for _, id := range []string{"101", "102", "103"} {
			h.send(h.callLine(id, "loopgrid.record_review", q.arguments, answering(q.state, accept)))
		}
		begun := time.Now()
		notes := 0
		for range 3 {
			line := h.receive()
			assert.Contains(t, line, `"state":"approve"`)
			if strings.Contains(line, "An earlier call answered the question") {
				notes++
			}
		}
		assert.Equal(t, 2, notes)
		assert.Len(t, reviews(s), 1)
		assert.Equal(t, 3*time.Second, time.Since(begun))
	})
}

// TestNobodyIsAskedInVain: a review that LoopGrid would refuse fails before a person is asked.
func TestNobodyIsAskedInVain(t *testing.T) {
	t.Parallel()
	for _, era := range eras() {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			var all strings.Builder
			show := func(name, text string) {
				assert.Contains(t, text, "othing was recorded", name)
				fmt.Fprintf(&all, "== %s\n%s\n\n", name, normal(text))
			}
			s := newService(t)
			h := openReview(t, s, era, forms)
			record := func(arguments string) string {
				r, _ := h.begin("loopgrid.record_decision", `{"decision_type":"t",`+arguments+`}`, "")
				require.False(t, r.IsError, r.text())
				return r.str(t, "decision_id")
			}
			nobody := func(name, id string) { show(name, h.asksNobody(proposing(id, "approve", ""))) }
			nobody("unknown", "dec_unknown")
			nobody("no policy", record(`"proposed_action":{"amount":720}`))
			nobody("allowed", record(`"proposed_action":{"amount":20},"policy_id":"refund-policy"`))
			nobody("blocked", record(`"proposed_action":{"amount":2000},"policy_id":"refund-policy"`))
			nobody("for a person to look into", record(`"proposed_action":{},"policy_id":"refund-policy"`))
			for _, action := range []string{"approve", "reject"} {
				id := h.waiting()
				require.False(t, h.answer(h.asks(proposing(id, action, "")), `{"action":"accept","content":{"action":"`+action+`"}}`).IsError)
				nobody("reviewed: "+action, id)
			}
			adjudicated := h.waiting()
			appendEvent(t, s, adjudicated, `{"event_type":"human_adjudicated","actor_type":"human","actor_id":"bob","payload":{"approved":true}}`)
			nobody("adjudicated", adjudicated)
			nobody("redacted", record(`"proposed_action":{"amount":720},"policy_id":"refund-policy","privacy_mode":"redacted"`))
			nobody("proof only", record(`"proposed_action":{"amount":720},"policy_id":"refund-policy","privacy_mode":"proof_only"`))
			wide := h.waitingWith(`{"amount":720` + memberList(12) + `}`)
			nobody("too many members", wide)
			long := h.waitingWith(`{"amount":720` + strings.ReplaceAll(memberList(11), "0", `"`+strings.Repeat("x", 115)+`"`) + `}`)
			nobody("too long", long)
			id := h.waiting()
			hide := func(name, from, to string) {
				s.rewrite("GET /api/v1/decisions/"+id, from, to)
				nobody(name, id)
				s.sandboxAnswers()
			}
			hide("erased", `"payload_available":true`, `"payload_available":false`)
			hide("availability not said", `"payload_available":true`, `"payload_availability":true`)
			hide("not what was signed", `"amount":720`, `"amount":72`)
			hide("another decision", `"decision_id":"`+id+`","workspace_id":"default","event_type":"decision_created"`, `"decision_id":"dec_other","workspace_id":"default","event_type":"decision_created"`)
			hide("no decision", `"event_type":"decision_created"`, `"event_type":"decision_made"`)
			s.answerWith("GET", 500, "text/plain", "Internal Server Error")
			nobody("LoopGrid fails", id)
			s.sandboxAnswers()
			assert.Len(t, reviews(s), 2)
			for _, outcome := range h.outcomes() {
				assert.Contains(t, []string{"ok", "not asked", "asked"}, outcome)
			}

			s.answerWith("/api/v1/reviews", 404, "application/json", `{"detail":"Not Found"}`)
			h.asks(proposing(id, "approve", "")) // a service without the route may still accept the review

			for _, scopes := range [][]string{{"ingest"}, {"ingest", "read"}, {"ingest", "read", "review"}} {
				s := newService(t)
				s.sandbox = sandbox.New(sandbox.Options{Auth: true})
				h := openReview(t, s, era, forms, "LOOPGRID_SERVICE_KEY="+s.sandbox.CreateKey("default", scopes...))
				id := h.waiting()
				if len(scopes) == 3 {
					assert.False(t, h.answer(h.asks(proposing(id, "approve", "")), `{"action":"accept","content":{"action":"approve"}}`).IsError)
					continue
				}
				show("scopes "+strings.Join(scopes, " "), h.asksNobody(proposing(id, "approve", "")))
				assert.Empty(t, reviews(s))
			}
			golden(t, "review/not-asked.txt", []byte(all.String()))
		})
	}
}

func memberList(n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, `,"member_%c":0`, 'a'+i)
	}
	return all.String()
}

// rewrite replaces a text in the sandbox's answers to a request.
func (s *service) rewrite(request, from, to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = func(r sent) (*http.Response, error) {
		if r.String() != request {
			return nil, nil //nolint:nilnil // the sandbox answers
		}
		req, err := http.NewRequestWithContext(context.Background(), r.method, "http://loopgrid.test"+r.path, http.NoBody)
		if err != nil {
			return nil, err
		}
		res, err := s.sandbox.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(res.Body)
		assert.Contains(s.t, string(body), from)
		return jsonAnswer(strings.ReplaceAll(string(body), from, to)), err
	}
}

// appendEvent records an event as another client of the service.
func appendEvent(t *testing.T, s *service, id, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://loopgrid.test/api/v1/decisions/"+id+"/events", strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	res, err := s.sandbox.RoundTrip(req)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, 200, res.StatusCode)
}

func TestWhoConfirms(t *testing.T) {
	t.Parallel()
	const asks, host, refused = "asks", "host", "refused"
	for _, tt := range []struct{ confirmation, capabilities, want string }{
		{"", forms, asks},
		{"auto", forms, asks},
		{"auto", `{"elicitation":{}}`, asks},
		{"auto", `{"elicitation":{"form":{},"url":{}}}`, asks},
		{"auto", `{"elicitation":{"url":{}}}`, host},
		{"auto", `{}`, host},
		{"auto", `{"sampling":{}}`, host},
		{"required", forms, asks},
		{"required", `{"elicitation":{}}`, asks},
		{"required", `{"elicitation":{"url":{}}}`, refused},
		{"required", `{}`, refused},
		{"host", forms, host},
		{"host", `{}`, host},
	} {
		t.Run(tt.confirmation+" "+tt.capabilities, func(t *testing.T) {
			t.Parallel()
			for _, era := range eras() {
				t.Run(era, func(t *testing.T) {
					t.Parallel()
					s := newService(t)
					h := openReview(t, s, era, tt.capabilities, "LOOPGRID_MCP_REVIEW_CONFIRMATION="+tt.confirmation)
					id := h.waiting()
					n := s.count()
					r, q := h.begin("loopgrid.record_review", proposing(id, "approve", "The person said so."), "")
					if tt.want == asks {
						require.NotNil(t, q)
						return
					}
					require.Nil(t, q)
					if tt.want == refused {
						assert.True(t, r.IsError)
						assert.Contains(t, r.text(), "(LOOPGRID_MCP_REVIEW_CONFIRMATION=required)")
						assert.Contains(t, r.text(), "Not recorded: ")
						assert.Empty(t, s.sentSince(n))
						return
					}
					require.False(t, r.IsError, r.text())
					assert.Equal(t, "host", r.str(t, "human_confirmation"))
					assert.Contains(t, h.log.String(), "decision_id="+id+" action=approve human_confirmation=host")
					warning := "With LOOPGRID_MCP_REVIEW_CONFIRMATION=required, nothing would be recorded here."
					if tt.confirmation == "host" { // as the operator chose
						assert.NotContains(t, r.member(t, "warnings"), "no_form_shown")
					} else {
						assert.Contains(t, r.member(t, "warnings"), "no_form_shown")
						assert.Contains(t, r.member(t, "warnings"), warning)
					}
					assert.Equal(t, []string{"POST /api/v1/decisions/" + id + "/review"}, paths(s.sentSince(n)))
					assert.Equal(t, []string{`{"action":"approve","reviewer":"alice@acme.example","reason":"The person said so."}`}, reviews(s))
				})
			}
		})
	}
}

func TestABrokenConfirmationAsksNobody(t *testing.T) {
	t.Parallel()
	for _, era := range eras() {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			h := openReview(t, s, era, forms, "LOOPGRID_MCP_REVIEW_CONFIRMATION=never")
			id := h.waiting()
			assert.Contains(t, h.asksNobody(proposing(id, "approve", "")), "LOOPGRID_MCP_REVIEW_CONFIRMATION")
			assert.Empty(t, reviews(s))
		})
	}
}

// TestARequestIsServedByTheVersionItNames: what initialize said about the client does not apply to a request that names its own version.
func TestARequestIsServedByTheVersionItNames(t *testing.T) {
	t.Parallel()
	s := newService(t)
	h := openReview(t, s, legacy, `{}`, "LOOPGRID_MCP_REVIEW_CONFIRMATION=required")
	id := h.waiting()
	assert.Contains(t, h.asksNobody(proposing(id, "approve", "")), "LOOPGRID_MCP_REVIEW_CONFIRMATION=required")
	h.send(h.callLine("9", "loopgrid.record_review", proposing(id, "approve", ""),
		`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`))
	assert.Contains(t, h.receive(), `"resultType":"input_required"`)
}

func TestTheModelsReasonIsNotWhatIsWarnedOf(t *testing.T) {
	t.Parallel()
	for _, era := range eras() {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			h := openReview(t, s, era, forms)
			r := h.answer(h.asks(proposing(h.waiting(), "approve", "a\u2028b")), `{"action":"accept","content":{"action":"approve","reason":"plain"}}`)
			assert.NotContains(t, r.text(), "line_breakers")
			r = h.answer(h.asks(proposing(h.waiting(), "approve", "")), `{"action":"accept","content":{"action":"approve","reason":"a\u2028b"}}`)
			assert.Equal(t, 1, strings.Count(r.text(), "line_breakers"), r.text())
			assert.Contains(t, r.text(), "The person's reason contains U+2028")
			h = openReview(t, s, era, "{}")
			r, _ = h.begin("loopgrid.record_review", proposing(h.waiting(), "approve", "a\u2028b"), "")
			assert.Contains(t, r.text(), "reason contains U+2028")
		})
	}
}

// TestALostAnswerOfLoopGrid: a review that was recorded although the connection ended is found, even if a person was asked.
func TestALostAnswerOfLoopGrid(t *testing.T) {
	t.Parallel()
	for _, era := range eras() {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newService(t)
				s.sandbox = sandbox.New(sandbox.Options{Faults: sandbox.Faults{DropAnswer: func(w sandbox.Write) bool { return strings.HasPrefix(w.EventType, "human_") }}})
				h := openReview(t, s, era, forms)
				r := h.answer(h.asks(proposing(h.waiting(), "approve", "")), `{"action":"accept","content":{"action":"reject","reason":"No."}}`)
				require.False(t, r.IsError, r.text())
				assert.Equal(t, "reject", r.str(t, "state"))
				assert.Equal(t, "elicited", r.str(t, "human_confirmation"))
				assert.Contains(t, r.str(t, "note"), "the person chose reject")
				assert.Len(t, reviews(s), 1)
			})
		})
	}
}

// TestAPersonTakesTime: thinking time does not count towards the call's timeout, and has a limit of its own.
func TestAPersonTakesTime(t *testing.T) {
	t.Parallel()
	for _, era := range eras() {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newService(t)
				h := openReview(t, s, era, forms, "LOOPGRID_MCP_TIMEOUT_SECONDS=1")
				const accept = `{"action":"accept","content":{"action":"approve"}}`
				q := h.asks(proposing(h.waiting(), "approve", ""))
				time.Sleep(10*time.Minute - time.Second)
				r := h.answer(q, accept)
				require.False(t, r.IsError, r.text())

				id := h.waiting()
				q = h.asks(proposing(id, "approve", ""))
				begun := time.Now()
				if era == legacy {
					ended, cancelled := h.receive(), ""
					for !strings.Contains(ended, `"result"`) || cancelled == "" {
						if strings.Contains(ended, "notifications/cancelled") {
							cancelled = ended
							ended = h.receive()
						} else {
							cancelled = h.receive()
						}
					}
					assert.Contains(t, cancelled, `"requestId":`+string(q.id), "the host is told to close the form")
					r, _ = h.read(ended, q.call, "")
					assert.Equal(t, 10*time.Minute, time.Since(begun))
					assert.Regexp(t, `^Not recorded: the review of decision dec_\w+\. The question ended without an answer\.\nNothing was recorded\. A person can review the decision in LoopGrid itself\.$`, r.text())
					h.send(`{"jsonrpc":"2.0","id":` + string(q.id) + `,"result":` + accept + `}`) // too late: belongs to no question
				} else {
					time.Sleep(10 * time.Minute)
					r = h.answer(q, accept)
					assert.Contains(t, r.text(), "The question has expired: it stays open for 10 minutes.")
				}
				assert.True(t, r.IsError)
				assert.Len(t, reviews(s), 1)
				require.NotNil(t, h.asks(proposing(id, "approve", "")), "it can be asked anew")
			})
		})
	}
}

// TestTheEndOfTheInputEndsAQuestion: nobody can answer it afterwards. What was answered before is recorded.
func TestTheEndOfTheInputEndsAQuestion(t *testing.T) {
	t.Parallel()
	const accept = `{"action":"accept","content":{"action":"approve"}}`
	t.Run("while a person thinks", func(t *testing.T) {
		t.Parallel()
		for name, end := range map[string]func(*reviewHost){
			"EOF":  func(h *reviewHost) { _ = h.in.Close() },
			"stop": func(h *reviewHost) { close(h.stop) },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := newService(t)
					h := openReview(t, s, legacy, forms)
					q := h.asks(proposing(h.waiting(), "approve", ""))
					time.Sleep(time.Minute)
					begun := time.Now()
					end(h)
					line := h.receive()
					if strings.Contains(line, "notifications/cancelled") {
						line = h.receive()
					}
					r, _ := h.read(line, q.call, "")
					assert.Less(t, time.Since(begun), 200*time.Millisecond)
					assert.Regexp(t, `^Not recorded: the review of decision dec_\w+\. The question ended without an answer\.\nNothing was recorded\. A person can review the decision in LoopGrid itself\.$`, r.text())
					assert.Empty(t, reviews(s))
				})
			})
		}
	})
	t.Run("right behind the answer", func(t *testing.T) {
		t.Parallel()
		for range 20 {
			synctest.Test(t, func(t *testing.T) {
				s := newService(t)
				s.sandbox = sandbox.New(sandbox.Options{Faults: sandbox.Faults{WriteTime: 2 * time.Second}})
				h := openReview(t, s, legacy, forms)
				q := h.asks(proposing(h.waiting(), "approve", ""))
				other := h.callLine("200", "loopgrid.record_decision", `{"decision_type":"t","proposed_action":{}}`, "")
				go func() { // the review must wait for the other write
					_, _ = io.WriteString(h.in, other+"\n"+`{"jsonrpc":"2.0","id":`+string(q.id)+`,"result":`+accept+"}\n")
					_ = h.in.Close()
				}()
				assert.Contains(t, h.receive(), `"id":200,"result"`)
				r, _ := h.read(h.receive(), q.call, "")
				assert.False(t, r.IsError, r.text())
				assert.Len(t, reviews(s), 1)
			})
		}
	})
	t.Run("where nobody is asked", func(t *testing.T) {
		t.Parallel()
		for _, era := range []string{legacy, modern} {
			s := newService(t)
			h := openReview(t, s, era, "{}")
			line := h.callLine("77", "loopgrid.record_review", proposing(h.waiting(), "approve", ""), "")
			go func() {
				_, _ = io.WriteString(h.in, line+"\n")
				_ = h.in.Close()
			}()
			r, _ := h.read(h.receive(), "77", "")
			assert.False(t, r.IsError, r.text())
			assert.Len(t, reviews(s), 1)
		}
	})
}

// TestACancelledQuestion: the host cancels its call while the person is thinking.
func TestACancelledQuestion(t *testing.T) {
	t.Parallel()
	s := newService(t)
	h := openReview(t, s, legacy, forms)
	id := h.waiting()
	q := h.asks(proposing(id, "approve", ""))
	h.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + q.call + `}}`)
	assert.Contains(t, h.receive(), "notifications/cancelled")
	h.send(`{"jsonrpc":"2.0","id":` + string(q.id) + `,"result":{"action":"accept","content":{"action":"approve"}}}`)
	h.send(`{"jsonrpc":"2.0","id":"ping","method":"ping"}`)
	assert.Contains(t, h.receive(), `"id":"ping"`, "no answer to a cancelled call")
	assert.Empty(t, reviews(s))
	require.False(t, h.answer(h.asks(proposing(id, "approve", "")), `{"action":"accept","content":{"action":"approve"}}`).IsError)
}

// TestProgressWhileAPersonThinks: a host that resets its timeout on progress waits for the person.
func TestProgressWhileAPersonThinks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		h := openReview(t, s, legacy, forms)
		id := h.waiting()
		h.send(h.callLine("50", "loopgrid.record_review", proposing(id, "approve", ""), `,"_meta":{"progressToken":"p"}`))
		var messages []string
		var question string
		for len(messages) < 8 {
			line := h.receive()
			switch {
			case strings.Contains(line, "elicitation/create"):
				question = line
			default:
				require.Contains(t, line, `"progressToken":"p"`)
				var m struct{ Params struct{ Message string } }
				require.NoError(t, json.Unmarshal([]byte(line), &m))
				messages = append(messages, m.Params.Message)
			}
		}
		assert.Equal(t, "waiting for the person's answer", messages[7])
		_, q := h.read(question, "50", "")
		h.send(`{"jsonrpc":"2.0","id":` + string(q.id) + `,"result":{"action":"accept","content":{"action":"approve"}}}`)
		line := h.receive()
		for strings.Contains(line, "notifications/progress") {
			line = h.receive()
		}
		r, _ := h.read(line, "50", "")
		assert.False(t, r.IsError, r.text())
		h.send(`{"jsonrpc":"2.0","id":"ping","method":"ping"}`)
		assert.Contains(t, h.receive(), `"id":"ping"`, "no progress after the answer")
	})
}

// TestOtherCallsGoOnWhileAPersonThinks: a question does not hold the turn to write.
func TestOtherCallsGoOnWhileAPersonThinks(t *testing.T) {
	t.Parallel()
	for _, era := range eras() {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			h := openReview(t, s, era, forms)
			id := h.waiting()
			q := h.asks(proposing(id, "approve", ""))
			h.waiting()
			second := h.asks(proposing(h.waiting(), "approve", ""))
			require.False(t, h.answer(second, `{"action":"accept","content":{"action":"reject"}}`).IsError)
			require.False(t, h.answer(q, `{"action":"accept","content":{"action":"approve"}}`).IsError)
			assert.Len(t, reviews(s), 2)
		})
	}
}

// TestTheOfficialClient drives the bridge with the handler that a host would write with the official Go SDK.
func TestTheOfficialClient(t *testing.T) {
	t.Parallel()
	for _, era := range eras() {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			x := serve(t, s, "LOOPGRID_MCP_ENABLE_REVIEW_TOOL=true", "LOOPGRID_MCP_REVIEWER_ID=alice@acme.example")
			answers := make(chan *mcp.ElicitResult, 1)
			var shown []string
			client := mcp.NewClient(&mcp.Implementation{Name: "go", Version: "1"}, &mcp.ClientOptions{
				ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					shown = append(shown, req.Params.Message)
					return <-answers, nil
				},
			})
			c, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: io.NopCloser(x.lines), Writer: x.in}, &mcp.ClientSessionOptions{ProtocolVersion: era})
			require.NoError(t, err)
			require.Equal(t, era, c.InitializeResult().ProtocolVersion)
			call := func(tool string, arguments map[string]any) (*mcp.CallToolResult, string) {
				r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
				require.NoError(t, err)
				require.NotEmpty(t, r.Content)
				text, ok := r.Content[0].(*mcp.TextContent)
				require.True(t, ok)
				return r, text.Text
			}
			id := func() string {
				_, text := call("loopgrid.record_decision", map[string]any{"decision_type": "t", "proposed_action": map[string]any{"amount": 720}, "policy_id": "refund-policy"})
				return evidence.GetText([]byte(text), "decision_id")
			}
			for _, tt := range []struct {
				answer *mcp.ElicitResult
				want   string
			}{
				{&mcp.ElicitResult{Action: "accept", Content: map[string]any{"action": "approve", "reason": "Seen."}}, `"state":"approve"`},
				{&mcp.ElicitResult{Action: "accept", Content: map[string]any{"action": "reject"}}, `"note":"The call proposed approve and the person chose reject;`},
				{&mcp.ElicitResult{Action: "decline"}, "The person, or the host on their behalf, declined to answer."},
				{&mcp.ElicitResult{Action: "cancel"}, "The form was closed without an answer"},
				{&mcp.ElicitResult{Action: "accept"}, "action must be approve, reject or undecided"},
			} {
				answers <- tt.answer
				r, text := call("loopgrid.record_review", map[string]any{"decision_id": id(), "action": "approve"})
				assert.Contains(t, text, tt.want)
				assert.Equal(t, !strings.HasPrefix(tt.want, `"`), r.IsError)
			}
			assert.Len(t, reviews(s), 2)
			require.Len(t, shown, 5)
			assert.True(t, strings.HasPrefix(shown[0], "t: amount 720\n"), shown[0])
			require.NoError(t, c.Close())
		})
	}
}

// TestTheForm shows the texts that people read, for actions that a model wrote to get approval.
func TestTheForm(t *testing.T) {
	t.Parallel()
	s := newService(t)
	h := openReview(t, s, modern, forms)
	const filler = "\u3164\u2800\u115f"
	for _, tt := range []struct{ name, decisionType, action, reason string }{ //nolint:paralleltest // one session
		{"review/form-plain.txt", "customer_refund", `{"tool":"stripe.refunds.create","amount":720.0,"currency":"USD","charge":9007199254740993,"urgent":true,"note":null}`, "The customer was charged twice."},
		{"review/form-documented.txt", "customer_refund", `{"tool":"stripe.refunds.create","amount":720.0,"currency":"USD"}`, "The customer was charged twice."},
		{"review/form-nested.txt", "customer_refund", `{"amount":720,"items":[{"sku":"a-1","price":1e-5},[]],"to":{"name":"Zoë","iban":"DE00"},"empty":{},"text":""}`, ""},
		{"review/form-long.txt", "customer_refund", `{"amount":720,"note":"` + strings.Repeat("very ", 100) + `","` + strings.Repeat("n", 100) + `":1,"digits":` + strings.Repeat("7", 200) + `}`, strings.Repeat("please ", 100)},
		{
			"review/form-hostile.txt", "refund\n- policy result: auto_allowed\n\n\n\n\n\n",
			`{"amount":720,"amount: 1\n":0,"note":"ok\n\n\n\n\n\n\n\n- amount: 1","esc":"\u001b[2K\u001b[1A\r\u0008\u0007\u009b0m","bidi":"1\u202e027\u202c \u2066x\u2069\u200f",` +
				`"hidden":"a\u200b\u200d\ufeff\u00ad\u2063\u00a0\u3000\u2028\u2029\u0085\ufe0f\udb40\udc41b","zalgo":"a\u0301\u0302\u0303\u0304\u0305","é":"é",` +
				`"quote":"\"- amount: 1\"","back":"\\\\u202e","":1}`,
			"ok\nThe model says: reject\u202e \u001b[8m<!--",
		},
		{
			"review/form-markup.txt", "<b>refund</b>",
			`{"amount":720,"fill":"` + filler + `",` +
				`"markup":"<!-- <b>1</b> --> <script> a<b a < b R&D &amp; &#x202e; [x](http://h) ![](h) ~~720~~ ` + "`1` **1**" + `"}`,
			"<i>fine</i>",
		},
		{"review/form-emoji.txt", "größe", `{"amount":720,"note":"😀 更多 שלום","\ud83d\ude00":"\ud83d\udc68\u200d\ud83d\udc69"}`, "更多"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			decisionType, err := json.Marshal(tt.decisionType)
			require.NoError(t, err)
			r, _ := h.begin("loopgrid.record_decision", `{"decision_type":`+string(decisionType)+`,"policy_id":"refund-policy","proposed_action":`+tt.action+`}`, "")
			require.False(t, r.IsError, r.text())
			q := h.asks(proposing(r.str(t, "decision_id"), "approve", tt.reason))
			golden(t, tt.name, []byte(normal(q.message)+"\n"))
			if tt.name == "review/form-documented.txt" {
				document, err := os.ReadFile("../../docs/review.md")
				require.NoError(t, err)
				assert.Contains(t, normal(string(document)), "```text\n"+normal(q.message)+"\n```")
			}
		})
	}
	q := h.asks(proposing(h.waitingWith(`{"amount":720`+memberList(11)+`}`), "approve", ""))
	assert.Equal(t, 12, strings.Count(q.message, "\n- ")-4, "four lines are about the decision")
	golden(t, "review/form-reject.txt", []byte(normal(h.asks(proposing(h.waiting(), "reject", "Too much.")).message)+"\n"))
}

// TestTheFormShowsWhoReviews: the operator's reviewer is shown in full, whatever it contains.
func TestTheFormShowsWhoReviews(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for reviewer, shown := range map[string]string{
		"alice@acme.example":      "alice@acme.example",
		"Ann <ann@acme.example>":  `"Ann \u003cann@acme.example>"`,
		strings.Repeat("é", 128):  `"` + strings.Repeat("é", 128) + `"`,
		strings.Repeat("r.", 64):  strings.Repeat("r.", 64),
		"a\u202eb":                `"a\u202eb"`,
		"Kim, Head of Operations": `"Kim, Head of Operations"`,
	} {
		h := openReview(t, s, modern, forms, "LOOPGRID_MCP_REVIEWER_ID="+reviewer)
		q := h.asks(proposing(h.waiting(), "approve", ""))
		assert.Contains(t, q.message, "\n- reviewer of record: "+shown+"\n")
	}
}

func TestThePolicyInTheForm(t *testing.T) {
	t.Parallel()
	s := newService(t)
	h := openReview(t, s, modern, forms)
	id := h.waiting()
	for change, shown := range map[[2]string]string{
		{`"reason":"action_exceeds_auto_approval_threshold"`, `"reason":"new\nline"`}:                        `human_approval_required, reason: "new\nline"`,
		{`"reason":"action_exceeds_auto_approval_threshold"`, `"other":1`}:                                   "human_approval_required",
		{`"event_type":"policy_evaluated"`, `"event_type":"policy_evaluation"`}:                              "(not shown by LoopGrid)",
		{`"decision":"human_approval_required","hard_limit"`, `"decisions":"human","hard_limit"`}:            "(not shown by LoopGrid)",
		{`"decision":"human_approval_required","hard_limit"`, `"decision":"a b","hard_limit"`}:               `"a b", reason: action_exceeds_auto_approval_threshold`,
		{`"decision":"human_approval_required","hard_limit"`, `"decision":"auto","hard_limit"`}:              "auto, reason: action_exceeds_auto_approval_threshold",
		{`"decision":"human_approval_required","hard_limit"`, `"decision":["list"],"hard_limit"`}:            "(not shown by LoopGrid)",
		{`"reason":"action_exceeds_auto_approval_threshold"`, `"reason":{"a":"b"}`}:                          "human_approval_required",
		{`"reason":"action_exceeds_auto_approval_threshold"`, `"reason":"` + strings.Repeat("r", 300) + `"`}: "human_approval_required, reason: " + strings.Repeat("r", 120) + "… (+180)",
	} {
		s.rewrite("GET /api/v1/decisions/"+id, change[0], change[1])
		q := h.asks(proposing(id, "approve", ""))
		assert.Contains(t, q.message, "\n- policy result: "+shown+"\n", change[1])
		s.sandboxAnswers()
	}
	assert.True(t, slices.ContainsFunc(s.sentSince(0), func(r sent) bool { return r.path == "/api/v1/reviews" && r.query == "workspace_id=default" }))
}

// TestAReviewWithoutAnAnswerOfLoopGrid: the route takes no key, so the decision is read, and the review is not posted again.
func TestAReviewWithoutAnAnswerOfLoopGrid(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		lost func(s *service, id string) // what else happens to the lost review
		want string
	}{
		{
			"it never arrived", func(*service, string) {},
			"Outcome unknown: the review of decision dec_ID may or may not be recorded. The connection to LoopGrid ended before POST /api/v1/decisions/{id}/review was answered (at loopgrid.test:80).\n" +
				"LoopGrid does not show it yet; it may still arrive. Do not send it again until a person has checked in LoopGrid.",
		},
		{"another was there first", func(s *service, id string) {
			appendEvent(s.t, s, id, `{"event_type":"human_rejected","actor_type":"human","actor_id":"bob","payload":{"approved":false}}`)
		}, "Not recorded: the review of decision dec_ID. Another review is recorded: a human_rejected event of decision dec_ID by human bob."},
		{
			"it cannot be looked up", nil,
			"Outcome unknown: the review of decision dec_ID may or may not be recorded. The connection to LoopGrid ended before POST /api/v1/decisions/{id}/review was answered (at loopgrid.test:80).\n" +
				"Could not look it up: LoopGrid answered 401 to GET /api/v1/decisions/{id}. Do not send it again until a person has checked in LoopGrid.",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, capabilities := range []string{"{}", forms} {
				synctest.Test(t, func(t *testing.T) {
					s := newService(t)
					h := openReview(t, s, modern, capabilities)
					id := h.waiting()
					var q *asked
					if capabilities == forms {
						q = h.asks(proposing(id, "approve", ""))
					}
					s.mu.Lock()
					s.before = func(r sent) (*http.Response, error) {
						switch {
						case strings.HasSuffix(r.path, "/review"):
							if tt.lost != nil {
								tt.lost(s, id)
							}
							return nil, io.ErrUnexpectedEOF
						case tt.lost == nil:
							return &http.Response{
								StatusCode: http.StatusUnauthorized, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(`{"detail":""}`)),
							}, nil
						}
						return nil, nil //nolint:nilnil // the sandbox answers
					}
					s.mu.Unlock()
					var r result
					if q != nil {
						r = h.answer(q, `{"action":"accept","content":{"action":"approve"}}`)
					} else {
						r, _ = h.begin("loopgrid.record_review", proposing(id, "approve", ""), "")
					}
					assert.True(t, r.IsError)
					assert.Contains(t, normal(r.text()), tt.want)
				})
			}
		})
	}
}

// TestAReviewThatDoesNotGetItsTurn: the person has answered, and the error says that the answer was not recorded.
func TestAReviewThatDoesNotGetItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		h := openReview(t, s, modern, forms, "LOOPGRID_MCP_TIMEOUT_SECONDS=5")
		q := h.asks(proposing(h.waiting(), "approve", ""))
		s.mu.Lock()
		s.before = func(r sent) (*http.Response, error) {
			if r.path == "/api/v1/decisions" {
				time.Sleep(time.Minute)
			}
			return nil, nil //nolint:nilnil // the sandbox answers
		}
		s.mu.Unlock()
		h.send(h.callLine("88", "loopgrid.record_decision", `{"decision_type":"t","proposed_action":{}}`, ""))
		h.send(h.callLine("89", "loopgrid.record_review", q.arguments, answering(q.state, `{"action":"accept","content":{"action":"approve"}}`)))
		r, _ := h.read(h.receive(), "89", "")
		assert.True(t, r.IsError)
		assert.Contains(t, r.text(), "Not recorded: the review of decision")
		assert.Empty(t, reviews(s))
		h.receive()
	})
}

// TestTheServerEndsWhileAnAnswerIsRecorded: a second call with the same answer says where to look.
func TestTheServerEndsWhileAnAnswerIsRecorded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		s.sandbox = sandbox.New(sandbox.Options{Faults: sandbox.Faults{WriteTime: 1300 * time.Millisecond}})
		h := openReview(t, s, modern, forms)
		q := h.asks(proposing(h.waiting(), "approve", ""))
		for _, id := range []string{"101", "102"} {
			h.send(h.callLine(id, "loopgrid.record_review", q.arguments, answering(q.state, `{"action":"accept","content":{"action":"approve"}}`)))
		}
		synctest.Wait()
		close(h.stop)
		told, recorded := h.receive(), h.receive()
		assert.Contains(t, told, "an earlier call answered the question and is still recording the review of decision")
		assert.Contains(t, told, "loopgrid.get_evidence shows the result.")
		assert.Contains(t, recorded, `"state":"approve"`)
		assert.Len(t, reviews(s), 1)
	})
}

// A form is cut line by line: a key that is cut is hidden too.
func TestTheKeyIsHiddenInTheForm(t *testing.T) {
	t.Parallel()
	for _, era := range []string{legacy, modern} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			s.sandbox = sandbox.New(sandbox.Options{Auth: true})
			key := s.sandbox.CreateKey("default", "ingest", "read", "review")
			h := openReview(t, s, era, forms, "LOOPGRID_SERVICE_KEY="+key)
			id := h.waitingWith(`{"amount":720,"a":"` + key + `","b":"` + strings.Repeat("x", 100) + key + `"}`)
			q := h.asks(proposing(id, "approve", key))
			assert.NotContains(t, q.message, key[:len(key)/2])
			assert.Equal(t, 4, strings.Count(q.message, "[service key]"), q.message)
			assert.NotContains(t, q.schema, key[:len(key)/2])
			assert.Equal(t, 1, strings.Count(q.schema, "[service key]"), q.schema)
		})
	}
}
