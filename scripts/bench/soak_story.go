package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/loopgridio/loopgrid-mcp/scripts/wire"
)

// host is a process that several lanes call at the same time.
type host struct {
	process *wire.Process
	read    sync.WaitGroup
	ended   chan struct{} // no more answers come

	mu      sync.Mutex // of all below, and of what is sent
	lastID  int
	waiting map[string]chan []byte
	err     error // why it ended
}

func startHost(cmd *exec.Cmd) (*host, error) {
	process, err := wire.Start(cmd)
	if err != nil {
		return nil, err
	}
	if err := process.Initialize("2025-11-25"); err != nil {
		return nil, errors.Join(err, closeOf(process.Close()))
	}
	h := &host{process: process, ended: make(chan struct{}), waiting: map[string]chan []byte{}}
	h.read.Go(h.receive)
	return h, nil
}

// receive hands out the answers.
func (h *host) receive() {
	defer close(h.ended)
	for {
		line, id, err := h.process.Answer()
		h.mu.Lock()
		waiting := h.waiting[id]
		delete(h.waiting, id)
		h.err = err
		h.mu.Unlock()
		if err != nil {
			return
		}
		if waiting != nil {
			waiting <- []byte(string(line)) // The line is valid only now.
		}
	}
}

// close ends the process, and returns why it ended before.
func (h *host) close() error {
	_ = h.process.CloseInput() // It may have ended already.
	h.read.Wait()
	_, err := h.process.Close()
	return err
}

// toolAnswer is what a call was answered with.
type toolAnswer struct {
	text    string
	isError bool
}

// call calls a tool and waits for the answer.
func (h *host) call(ctx context.Context, tool, arguments string) (*toolAnswer, error) {
	answer := make(chan []byte, 1)
	h.mu.Lock()
	h.lastID++
	id := strconv.Itoa(1_000_000 + h.lastID) // apart from those of the process's own requests
	h.waiting[id] = answer
	err := h.process.Send(wire.Request(id, "tools/call", `{"name":"loopgrid.`+tool+`","arguments":`+arguments+`}`))
	h.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case line := <-answer:
		return readAnswer(line)
	case <-h.ended:
		h.mu.Lock()
		defer h.mu.Unlock()
		return nil, fmt.Errorf("%s was not answered: %w", tool, h.err)
	case <-ctx.Done():
		return nil, fmt.Errorf("%s was not answered: %w", tool, context.Cause(ctx))
	}
}

func readAnswer(line []byte) (*toolAnswer, error) {
	var message struct {
		Result struct {
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
			IsError bool `json:"isError"`
		} `json:"result"`
	}
	if err := json.Unmarshal(line, &message); err != nil || len(message.Result.Content) == 0 {
		return nil, fmt.Errorf("not a tool's answer: %.500s", line)
	}
	return &toolAnswer{message.Result.Content[0].Text, message.Result.IsError}, nil
}

// result is what the tools answer, as far as it matters here.
type result struct {
	DecisionID         string     `json:"decision_id"`
	Captured           bool       `json:"captured"`
	Recorded           bool       `json:"recorded"`
	CommitmentVerified *bool      `json:"commitment_verified"`
	Next               string     `json:"next"`
	Downloaded         bool       `json:"downloaded"`
	Bundle             bundleFile `json:"bundle"`
	Verification       verified   `json:"verification"`
	ServerVerification verified   `json:"server_verification"`
}

type bundleFile struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
}

type verified struct {
	Valid bool `json:"valid"`
}

func (a *toolAnswer) result() (*result, error) {
	var r result
	if err := json.Unmarshal([]byte(a.text), &r); err != nil {
		return nil, fmt.Errorf("not a result: %.500s", a.text)
	}
	return &r, nil
}

// lane makes one call after the other.
type lane struct {
	*soak

	host    *host
	number  int
	stories int
	serial  int // of the calls that record
}

// story is a decision from the proposal to the outcome.
func (l *lane) story(ctx context.Context) error {
	amount := "120.50"
	if l.stories++; l.stories%2 == 1 {
		amount = "720.0" // a person has to approve this one
	}
	decision, err := l.keep(ctx, "record_decision",
		`"decision_type":"customer_refund","policy_id":"refund-policy","model_output":{"text":"<é>"},"authority":{"limit_usd":1500},`+
			`"proposed_action":{"amount":`+amount+`,"currency":"USD","order":9007199254740993}`)
	if err != nil {
		return err
	}
	id := decision.DecisionID
	l.tell(id, "decision_created", "model_completed", "policy_evaluated")
	about := `"decision_id":"` + id + `"`
	if strings.HasPrefix(decision.Next, "human_approval_required") {
		if err := l.review(ctx, about); err != nil {
			return err
		}
		l.tell(id, "human_approved")
	}
	if _, err := l.keep(ctx, "record_action", about+`,"tool":"payments.refund","details":`+smallDetails); err != nil {
		return err
	}
	l.tell(id, "tool_executed")
	if _, err := l.keep(ctx, "record_outcome", about+`,"status":"completed","verified_against":"bank"`); err != nil {
		return err
	}
	l.tell(id, "outcome_observed")
	if l.stories%3 != 1 { // A check of the chain costs the service more than all the rest.
		return nil
	}
	return l.readBack(ctx, about)
}

// left is the beginning of what is said of a call whose evidence is there only in part, or perhaps.
var left = regexp.MustCompile(`^Outcome unknown: |^The decision is recorded, but not every step of it\.`)

// named finds the key in it.
var named = regexp.MustCompile(`idempotency_key "([^"]+)"`)

// refused says that LoopGrid does not take what was sent: nothing here is to be refused, however often it is repeated.
var refused = regexp.MustCompile(`LoopGrid answered 4(0\d|1\d|22) `)

// keep calls a tool that records until what it is to record is recorded. What is left open is settled with the key that the answer names.
// What is said to be not recorded is recorded under another key: if it was there all the same, it is now there twice.
func (l *lane) keep(ctx context.Context, tool, arguments string) (*result, error) {
	key, settling := "", false
	for {
		if l.serial++; !settling {
			key = ""
			if l.serial%2 == 0 {
				key = fmt.Sprintf("soak-%d-%d-%s", l.number, l.serial, tool)
			}
		}
		with := arguments
		if key != "" {
			with += `,"idempotency_key":"` + key + `"`
		}
		a, err := l.host.call(ctx, tool, "{"+with+"}")
		if err != nil {
			return nil, err
		}
		open := a.isError && left.MatchString(a.text)
		l.called(tool, open)
		switch {
		case open:
			match := named.FindStringSubmatch(a.text)
			if match == nil || key != "" && match[1] != key {
				return nil, fmt.Errorf("%s left open, and not under its key %q: %s", tool, key, a.text)
			}
			key, settling = match[1], true
		case a.isError && strings.HasPrefix(a.text, "Not recorded: ") && !refused.MatchString(a.text):
			// Of an earlier call that was left open this says nothing.
		case a.isError:
			return nil, fmt.Errorf("%s: not an answer to expect: %s", tool, a.text)
		default:
			r, err := a.result()
			if err == nil && (!r.Captured && !r.Recorded || r.CommitmentVerified == nil || !*r.CommitmentVerified) {
				err = fmt.Errorf("%s: recorded, and not what was sent: %s", tool, a.text)
			}
			return r, err
		}
	}
}

// review has the decision approved. The tool takes no key: a second review is refused, and shows that the first one is recorded.
func (l *lane) review(ctx context.Context, about string) error {
	open := false
	for {
		a, err := l.host.call(ctx, "record_review", "{"+about+`,"action":"approve","reason":"as agreed"}`)
		if err != nil {
			return err
		}
		unknown := a.isError && strings.HasPrefix(a.text, "Outcome unknown: ")
		l.called("record_review", unknown)
		switch {
		case !a.isError, open && strings.Contains(a.text, "review_already_recorded"):
			return nil
		case !unknown && (refused.MatchString(a.text) || !strings.HasPrefix(a.text, "Not recorded: ")):
			return fmt.Errorf("record_review: not an answer to expect: %s", a.text)
		}
		open = open || unknown
	}
}

// readBack has the chain verified and the evidence downloaded. Both may fail, as the network does.
func (l *lane) readBack(ctx context.Context, about string) error {
	a, err := l.host.call(ctx, "verify_evidence", "{"+about+"}")
	if err != nil {
		return err
	}
	l.called("verify_evidence", false)
	if !a.isError {
		if r, err := a.result(); err != nil || !r.Verification.Valid {
			return errors.Join(err, fmt.Errorf("the evidence is not valid: %s", a.text))
		}
	}
	if a, err = l.host.call(ctx, "get_evidence", "{"+about+"}"); err != nil {
		return err
	}
	l.called("get_evidence", false)
	if a.isError {
		return nil
	}
	r, err := a.result()
	if err != nil {
		return err
	}
	info, err := os.Stat(r.Bundle.Path)
	if err != nil || !r.Downloaded || info.Size() != r.Bundle.Bytes || !r.ServerVerification.Valid {
		return errors.Join(err, fmt.Errorf("the evidence is not what the answer says: %s", a.text))
	}
	return os.Remove(r.Bundle.Path) // so that a long soak does not fill the disk
}
