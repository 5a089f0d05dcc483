package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRunTakesFlagsAlone(t *testing.T) {
	t.Parallel()
	for args, code := range map[string]int{"-h": 0, "-unknown": 2, "extra": 2} {
		var out bytes.Buffer
		assert.Equal(t, code, run(t.Context(), []string{args}, &out), args)
		assert.NotContains(t, out.String(), "[PASS]")
	}
}

// good is what a client tells of a step when all is well.
func good(s step) event {
	more := s.want.text // a member, or a text
	if !strings.HasPrefix(more, `"`) {
		more = `"note":"` + more + `"`
	}
	e := event{Text: `{"state":"` + s.want.state + `","human_confirmation":"` + s.want.confirmation + `",` + more + `}`, Version: newestProtocol}
	if s.want.state == "" {
		e.Text, e.IsError = s.want.text, true
	}
	if s.CanAsk {
		question := `[{"message":"customer_refund: synthetic.refund, amount 720, currency USD\n- amount: 720\n- reviewer of record: alice@acme.example\nThe model says: approve, \"The model's words.\"",
			"schema":{"required":["action"],"properties":{"action":{"enum":["undecided","approve","reject"]},"reason":{}}}}]`
		if err := json.Unmarshal([]byte(question), &e.Questions); err != nil {
			panic(err)
		}
	}
	return e
}

func TestChecksPassAndFail(t *testing.T) {
	t.Parallel()
	for _, s := range plan() {
		require.NoError(t, s.check(good(s), newestProtocol), s.name)
		for name, spoil := range map[string]func(*event){
			"another protocol": func(e *event) { e.Version = olderProtocol },
			"asked or not": func(e *event) {
				if e.Questions == nil {
					e.Questions = good(plan()[0]).Questions
				} else {
					e.Questions = nil
				}
			},
			"error or not":  func(e *event) { e.IsError = !e.IsError },
			"another state": func(e *event) { e.Text = strings.Replace(e.Text, "e", "x", 4) },
		} {
			e := good(s)
			spoil(&e)
			require.Error(t, s.check(e, newestProtocol), "%s: %s", s.name, name)
		}
		if !s.CanAsk {
			continue
		}
		for name, spoil := range map[string]func(*event){
			"no amount": func(e *event) {
				e.Questions[0].Message = strings.Replace(e.Questions[0].Message, "- amount: 720\n", "", 1)
			},
			"another first line": func(e *event) { e.Questions[0].Message = "Look:\n" + e.Questions[0].Message },
			"no model": func(e *event) {
				e.Questions[0].Message = strings.Replace(e.Questions[0].Message, "The model says", "", 1)
			},
			"not required": func(e *event) { e.Questions[0].Schema = []byte(`{"properties":{"action":{}}}`) },
			"prefilled": func(e *event) {
				e.Questions[0].Schema = []byte(`{"required":["action"],"properties":{"action":{"default":"approve"}}}`)
			},
			"schema no JSON": func(e *event) { e.Questions[0].Schema = []byte(`"`) },
		} {
			e := good(s)
			spoil(&e)
			assert.Error(t, s.check(e, newestProtocol), "%s: %s", s.name, name)
		}
	}
}

func TestOnce(t *testing.T) {
	t.Parallel()
	mark := filepath.Join(t.TempDir(), "mark")
	times := 0
	do := func() error { times++; return nil }
	require.ErrorContains(t, once(mark, "a 1", func() error { return errors.New("no network") }), "no network")
	for _, what := range []string{"a 1", "a 1", "a 2", "a 2"} {
		require.NoError(t, once(mark, what, do))
	}
	assert.Equal(t, 2, times, "what failed is done again, and a new version too")
	text, err := os.ReadFile(mark)
	require.NoError(t, err)
	assert.Equal(t, "a 2", string(text))
}

func TestEveryClientGoesThroughBothEras(t *testing.T) {
	t.Parallel()
	versions := map[string]int{}
	for _, c := range (clients{python: "python", node: "node"}).clients("program") {
		versions[c.version]++
		assert.Contains(t, c.command, "program")
	}
	assert.Equal(t, map[string]int{olderProtocol: 3, newestProtocol: 2}, versions)
}
