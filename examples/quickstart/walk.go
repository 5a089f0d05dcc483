package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// newestProtocol is the revision that the official client and the program agree on, when both are of today.
const newestProtocol = "2026-07-28"

// walk is the demonstration, as a host that has connected.
type walk struct {
	*teller

	session *mcp.ClientSession
	bundle  string // path of the evidence ZIP
}

// connect starts the program and agrees with it on the newest protocol.
func (w *walk) connect(ctx context.Context, transport mcp.Transport) error {
	w.step("Connect to the program over stdio, as an AI host does")
	client := mcp.NewClient(&mcp.Implementation{Name: "loopgrid-quickstart", Version: "1.0.0"}, nil)
	session, err := client.Connect(ctx, transport, nil)
	if err != nil {
		return fmt.Errorf("connect to loopgrid-mcp: %w", err)
	}
	w.session = session
	return nil
}

// refunds is what the demonstration shows. The session is left open.
func (w *walk) refunds(ctx context.Context) error {
	if err := w.listTools(ctx); err != nil {
		return err
	}

	w.step("An agent proposes a refund of 720 USD: record_decision asks the refund policy")
	large, err := w.propose(ctx, "720.00", "human_approval_required")
	if err != nil {
		return err
	}
	if err := w.tryToGetAround(ctx, large.DecisionID); err != nil {
		return err
	}

	w.step("The agent proposes a refund of 320 USD")
	small, err := w.propose(ctx, "320.00", "auto_allowed")
	if err != nil {
		return err
	}
	if err := w.carryOut(ctx, small.DecisionID); err != nil {
		return err
	}
	return w.prove(ctx, small.DecisionID)
}

func (w *walk) listTools(ctx context.Context) error {
	server := w.session.InitializeResult()
	w.fact("protocol", server.ProtocolVersion+" (the newest), server "+server.ServerInfo.Name+" "+server.ServerInfo.Version)
	if server.ProtocolVersion != newestProtocol {
		return fmt.Errorf("the protocol agreed on is %s, not %s", server.ProtocolVersion, newestProtocol)
	}
	list, err := w.session.ListTools(ctx, nil)
	if err != nil {
		return fmt.Errorf("list the tools: %w", err)
	}
	var names []string
	for i, tool := range list.Tools {
		names = append(names, tool.Name)
		label := ""
		if i == 0 {
			label = "tools"
		}
		w.fact(label, tool.Name)
	}
	expected := []string{
		"loopgrid.get_evidence", "loopgrid.record_action", "loopgrid.record_decision",
		"loopgrid.record_outcome", "loopgrid.record_review", "loopgrid.verify_evidence",
	}
	slices.Sort(names)
	if !slices.Equal(names, expected) {
		return fmt.Errorf("the tools are %v, not %v", names, expected)
	}
	return nil
}

// propose records the decision to refund an amount, and the policy's result on it.
func (w *walk) propose(ctx context.Context, amount, expected string) (*result, error) {
	decision, err := w.call(ctx, "record_decision", arguments{
		"decision_type":   "customer_refund",
		"proposed_action": arguments{"tool": "payments.refund", "amount": json.Number(amount), "currency": "USD", "order": "A-1001"},
		"agent_id":        "refund-agent",
		"authority":       arguments{"limit_usd": 1500},
		"input_data":      arguments{"ticket": "T-2001", "reason": "the parcel never arrived"},
		"policy_id":       "refund-policy",
	})
	if err != nil {
		return nil, err
	}
	w.fact("decision", decision.DecisionID)
	w.fact("policy", decision.Policy.Decision+" ("+decision.Policy.Reason+")")
	w.quote(decision.Next)
	switch {
	case decision.DecisionID == "" || !decision.Captured:
		return nil, errors.New("the decision was not captured")
	case decision.Policy.Decision != expected:
		return nil, fmt.Errorf("the policy says %q of %s USD, not %q", decision.Policy.Decision, amount, expected)
	case !strings.HasPrefix(decision.Next, expected):
		return nil, fmt.Errorf("next does not tell the policy's result: %s", decision.Next)
	case decision.CommitmentVerified == nil || !*decision.CommitmentVerified:
		return nil, errors.New("what was recorded is not proven to be what was sent")
	}
	return decision, nil
}

// tryToGetAround shows that neither the action nor the approval of a decision that waits for a person can be recorded.
func (w *walk) tryToGetAround(ctx context.Context, decisionID string) error {
	w.step("It acts without waiting for a person: record_action is refused")
	refusal, err := w.refused(ctx, "record_action", arguments{"decision_id": decisionID, "tool": "payments.refund", "external_reference": "re_0001"})
	if err != nil {
		return err
	}
	w.quote(refusal)
	if !strings.HasPrefix(refusal, "Not recorded") {
		return errors.New("the refusal does not say that the action was not recorded")
	}

	w.step("It approves its own refund: record_review is disabled unless the operator enables it")
	review, err := w.call(ctx, "record_review", arguments{"decision_id": decisionID, "action": "approve", "reason": "looks fine to me"})
	if err != nil {
		return err
	}
	w.quote(review.Message)
	if !review.Disabled || review.Recorded {
		return errors.New("the review tool is not disabled by default")
	}
	return nil
}

// carryOut records an action and what came of it.
func (w *walk) carryOut(ctx context.Context, decisionID string) error {
	w.step("The refund is carried out elsewhere, and observed: record_action, record_outcome")
	action, err := w.call(ctx, "record_action", arguments{
		"decision_id": decisionID, "tool": "payments.refund", "external_reference": "re_0002",
		"details": arguments{"amount": json.Number("320.00"), "currency": "USD"},
	})
	if err != nil {
		return err
	}
	w.fact("action", action.Event.ID+" "+action.Event.Type)
	outcome, err := w.call(ctx, "record_outcome", arguments{
		"decision_id": decisionID, "status": "refunded", "verified_against": "payments.refunds", "external_reference": "re_0002",
	})
	if err != nil {
		return err
	}
	w.fact("outcome", outcome.Event.ID+" "+outcome.Event.Type)
	if !action.Recorded || action.Event.Type != "tool_executed" || !outcome.Recorded || outcome.Event.Type != "outcome_observed" {
		return errors.New("the action and its outcome are not both recorded")
	}
	return nil
}

// prove has the service check its chain, and exports the evidence.
func (w *walk) prove(ctx context.Context, decisionID string) error {
	// Two decisions, two policy results, one action and one outcome: what was refused left nothing behind.
	const events = 6
	w.step("Prove it: verify_evidence, get_evidence")
	checked, err := w.call(ctx, "verify_evidence", arguments{"decision_id": decisionID})
	if err != nil {
		return err
	}
	w.fact("verified", fmt.Sprintf("valid: %t, %d events in the signed chain", checked.Verification.Valid, checked.Verification.Events))
	if !checked.Verification.Valid || checked.Verification.Events != events {
		return fmt.Errorf("the chain is not %d valid events", events)
	}
	exported, err := w.call(ctx, "get_evidence", arguments{"decision_id": decisionID})
	if err != nil {
		return err
	}
	w.bundle = exported.Bundle.Path
	w.fact("state", exported.Lifecycle.State)
	w.fact("evidence", exported.Bundle.Path)
	w.fact("sha256", exported.Bundle.SHA256)
	w.fact("bytes", strconv.FormatInt(exported.Bundle.Bytes, 10))
	if !exported.Downloaded || exported.Lifecycle.State != "evidence_complete" || !exported.ServerVerification.Valid {
		return errors.New("the evidence is not complete and valid")
	}
	file, err := os.ReadFile(exported.Bundle.Path)
	if err != nil {
		return fmt.Errorf("read the evidence: %w", err)
	}
	sum := sha256.Sum256(file)
	if hex.EncodeToString(sum[:]) != exported.Bundle.SHA256 || int64(len(file)) != exported.Bundle.Bytes {
		return errors.New("the file on disk is not the one that was told")
	}
	return nil
}

type arguments map[string]any

// result is what the demonstration reads of the results.
type result struct {
	DecisionID         string `json:"decision_id"`
	Captured           bool   `json:"captured"`
	Recorded           bool   `json:"recorded"`
	Disabled           bool   `json:"disabled"`
	Downloaded         bool   `json:"downloaded"`
	Message            string `json:"message"`
	Next               string `json:"next"`
	CommitmentVerified *bool  `json:"commitment_verified"`
	Policy             struct {
		Decision string `json:"decision"`
		Reason   string `json:"reason"`
	} `json:"policy_evaluation"`
	Event struct {
		ID   string `json:"event_id"`
		Type string `json:"event_type"`
	} `json:"event"`
	Verification       verification `json:"verification"`
	ServerVerification verification `json:"server_verification"`
	Lifecycle          struct {
		State string `json:"state"`
	} `json:"lifecycle"`
	Bundle struct {
		Path   string `json:"path"`
		SHA256 string `json:"sha256"`
		Bytes  int64  `json:"bytes"`
	} `json:"bundle"`
}

type verification struct {
	Valid  bool `json:"valid"`
	Events int  `json:"total_ledger_events"`
}

// call calls a tool that has to succeed.
func (w *walk) call(ctx context.Context, tool string, args arguments) (*result, error) {
	text, failed, err := w.send(ctx, tool, args)
	if err != nil {
		return nil, err
	}
	if failed {
		return nil, fmt.Errorf("%s failed: %s", tool, text)
	}
	r := &result{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return nil, fmt.Errorf("read the result of %s: %w", tool, err)
	}
	return r, nil
}

// refused calls a tool that has to be refused, and returns why it was.
func (w *walk) refused(ctx context.Context, tool string, args arguments) (string, error) {
	text, failed, err := w.send(ctx, tool, args)
	if err != nil {
		return "", err
	}
	if !failed {
		return "", fmt.Errorf("%s was not refused: %s", tool, text)
	}
	return text, nil
}

// send calls a tool and returns the text of its result, and whether it is a refusal.
func (w *walk) send(ctx context.Context, tool string, args arguments) (text string, failed bool, err error) {
	res, err := w.session.CallTool(ctx, &mcp.CallToolParams{Name: "loopgrid." + tool, Arguments: args})
	if err != nil {
		return "", false, fmt.Errorf("call %s: %w", tool, err)
	}
	if len(res.Content) == 0 {
		return "", false, fmt.Errorf("call %s: the result is empty", tool)
	}
	content, ok := res.Content[0].(*mcp.TextContent)
	if !ok {
		return "", false, fmt.Errorf("call %s: the result does not begin with a text", tool)
	}
	return content.Text, res.IsError, nil
}
