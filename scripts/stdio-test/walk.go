package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/scripts/exact"
)

const (
	decisionType = "loopgrid_mcp_stdio_test"
	actor        = "loopgrid-mcp-stdio-test"
	policyID     = "refund-policy" // the one that LoopGrid ships

	// synthetic is sent wherever a tool takes an object.
	synthetic = `{"synthetic":true,"text":"größer, 更多, 😀 <&>","numbers":` + exact.Numbers + `}`
)

// caller calls tools, in one way or another.
type caller struct {
	*report

	who  string // for the lines
	call func(tool, args string) (answer, error)
}

// answer is the result of a call: its first text block, which is exact, and whether it is a refusal.
type answer struct {
	text   string
	failed bool
}

func (c *caller) pass(format string, args ...any) {
	c.line("PASS", "%s: %s", c.who, fmt.Sprintf(format, args...))
}

// walk calls all six tools on a decision of its own, and compares what is recorded with what was sent.
func (c *caller) walk() error {
	id, err := c.decide()
	if err != nil {
		return fmt.Errorf("record_decision: %w", err)
	}
	for _, step := range []struct {
		name string
		try  func(id string) (string, error)
	}{
		{"malformed id", c.malformed},
		{"record_review", c.review},
		{"record_action", c.act},
		{"record_outcome", c.observe},
		{"verify_evidence", c.verify},
		{"get_evidence", c.download},
	} {
		said, err := step.try(id)
		if err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		c.pass("%s: %s", step.name, said)
	}
	return c.askPolicy()
}

// decide records a decision with the numbers in every object, and returns its id.
func (c *caller) decide() (string, error) {
	args := `"decision_type":"` + decisionType + `","agent_id":"` + actor + `","privacy_mode":"full"`
	var argsSb74 strings.Builder
	for _, object := range []string{"proposed_action", "authority", "model", "context", "input_data", "metadata", "model_output"} {
		argsSb74.WriteString(`,"` + object + `":` + synthetic)
	}
	args += argsSb74.String()
	r, err := c.succeed("record_decision", args)
	if err != nil {
		return "", err
	}
	// The result does not repeat the decision. That it is recorded as it was sent is what the commitment proves.
	if err := errors.Join(r.is("captured", "true"), r.is("commitment_verified", "true"), r.is("action_executed", "false"),
		exact.Same(r.at("model_event", "payload"), jsontext.Value(synthetic))); err != nil {
		return "", err
	}
	id, ok := evidence.Unquote(r.at("decision_id"))
	if !ok {
		return "", errors.New("the result names no decision")
	}
	c.pass("record_decision: %s", id)
	return id, nil
}

// malformed sends what must not become a part of a request's path.
func (c *caller) malformed(id string) (string, error) {
	refusal, err := c.call("loopgrid.record_action", `{"decision_id":"../`+id+`","tool":"none"}`)
	if err == nil && (!refusal.failed || !strings.Contains(refusal.text, "decision_id") || !strings.Contains(refusal.text, "Nothing was recorded.")) {
		err = fmt.Errorf("it is not refused as it should be: %s", refusal.text)
	}
	return "refused, nothing was recorded", err
}

func (c *caller) review(id string) (string, error) {
	r, err := c.succeed("record_review", `"decision_id":"`+id+`","action":"approve"`)
	if err != nil {
		return "", err
	}
	return "disabled, as it is by default", errors.Join(r.is("disabled", "true"), r.is("recorded", "false"))
}

func (c *caller) act(id string) (string, error) {
	return c.record("record_action", id, `"tool":"synthetic.refund","external_reference":"synthetic"`)
}

func (c *caller) observe(id string) (string, error) {
	return c.record("record_outcome", id, `"status":"synthetic","verified_against":"nothing"`)
}

// record records an event whose payload is the details together with those arguments.
func (c *caller) record(tool, id, args string) (string, error) {
	r, err := c.succeed(tool, `"decision_id":"`+id+`","actor_id":"`+actor+`","details":`+synthetic+`,`+args)
	if err != nil {
		return "", err
	}
	event, _ := evidence.Unquote(r.at("event", "event_id"))
	return event, errors.Join(r.is("recorded", "true"), r.is("commitment_verified", "true"),
		exact.Same(r.at("event", "payload"), jsontext.Value(strings.TrimSuffix(synthetic, "}")+","+args+"}")))
}

func (c *caller) verify(id string) (string, error) {
	r, err := c.succeed("verify_evidence", `"decision_id":"`+id+`"`)
	if err != nil {
		return "", err
	}
	return "the chain of the workspace is valid", r.is("verification", "true", "valid")
}

// download exports the evidence and looks at the file.
func (c *caller) download(id string) (string, error) {
	r, err := c.succeed("get_evidence", `"decision_id":"`+id+`"`)
	if err != nil {
		return "", err
	}
	path, _ := evidence.Unquote(r.at("bundle", "path"))
	sum, _ := evidence.Unquote(r.at("bundle", "sha256"))
	file, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the bundle: %w", err)
	}
	onDisk := sha256.Sum256(file)
	if hex.EncodeToString(onDisk[:]) != sum || strconv.Itoa(len(file)) != string(r.at("bundle", "bytes")) {
		return "", errors.New("the file on disk is not the one that the result tells")
	}
	return fmt.Sprintf("%d bytes, SHA-256 %s", len(file), sum), r.is("downloaded", "true")
}

// askPolicy records a decision with a policy's result, where the workspace has the policy.
func (c *caller) askPolicy() error {
	a, err := c.call("loopgrid.record_decision", `{"decision_type":"`+decisionType+`","agent_id":"`+actor+`","policy_id":"`+policyID+`",`+
		`"proposed_action":{"tool":"synthetic.refund","amount":320.0,"currency":"USD"},"privacy_mode":"full"}`)
	switch {
	case err != nil:
		return err
	case a.failed && strings.Contains(a.text, "no active policy"):
		c.line("SKIP", "%s: policy: this workspace has no active %s", c.who, policyID)
		return nil
	case a.failed:
		return fmt.Errorf("policy: %s", a.text)
	}
	r := result(a.text)
	if err := errors.Join(r.is("commitment_verified", "true"), exact.Same(r.at("policy_event", "payload"), r.at("policy_evaluation"))); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	said, _ := evidence.Unquote(r.at("policy_evaluation", "decision"))
	c.pass("policy: %s says %s of 320 USD", policyID, said)
	return nil
}

// succeed calls a tool that has to succeed. The arguments are the members of the object.
func (c *caller) succeed(tool, args string) (result, error) {
	a, err := c.call("loopgrid."+tool, "{"+args+"}")
	if err != nil {
		return nil, err
	}
	if a.failed {
		return nil, errors.New(a.text)
	}
	return result(a.text), nil
}

// result is the JSON object that a call returned.
type result jsontext.Value

// at returns the value that the names lead to; nil if there is none.
func (r result) at(names ...string) jsontext.Value {
	value := jsontext.Value(r)
	for _, name := range names {
		var found jsontext.Value
		for n, v := range evidence.Members(value) {
			if n == name {
				found = v
			}
		}
		value = found
	}
	return value
}

// is checks the text of the value that the names lead to.
func (r result) is(name, expected string, below ...string) error {
	names := append([]string{name}, below...)
	if got := r.at(names...); string(got) != expected {
		return fmt.Errorf("%s is %.100s, not %s", strings.Join(names, "."), got, expected)
	}
	return nil
}
