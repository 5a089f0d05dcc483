package bridge

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// warningCode names a kind of warning in a result. Callers rely on it, so it never changes.
type warningCode string

const (
	commitmentMismatch warningCode = "commitment_mismatch"
	largeInteger       warningCode = "large_integer"
	lineBreakers       warningCode = "line_breakers"
	noFormShown        warningCode = "no_form_shown"
	otherWorkspace     warningCode = "other_workspace"
	policyNotEnforced  warningCode = "policy_not_enforced"
	policyRedacted     warningCode = "policy_result_redacted"
	policyResultHidden warningCode = "policy_result_hidden"
	privacyModeDiffers warningCode = "privacy_mode_differs"
	sandboxWarning     warningCode = "sandbox"
	stepsNotChecked    warningCode = "steps_not_checked"
	writeLockOff       warningCode = "write_lock_off"
)

// WarningCode is a code that can appear in the warnings of a result, and what it means.
type WarningCode struct{ Code, Meaning string }

// WarningCodes lists every code, sorted.
func WarningCodes() []WarningCode {
	meanings := map[warningCode]string{
		commitmentMismatch: "LoopGrid recorded evidence, but the hash it returned does not match what was sent. Tell the operator, and do not rely on the record.",
		largeInteger:       "An argument contains an integer whose absolute value is 2^53 or more, in any notation. It is recorded exactly as received, but hosts written in JavaScript round such numbers before sending them. If it is an ID, send it as a string.",
		noFormShown:        "A review was recorded from a host that cannot show forms, so only the host could make sure that a person decided. With LOOPGRID_MCP_REVIEW_CONFIRMATION=required, such reviews are not recorded.",
		lineBreakers:       "A text contains U+2028, U+2029 or U+0085. It is recorded exactly as sent, but loopgrid-verify 0.1.0 cannot read a bundle that discloses it.",
		otherWorkspace:     "The evidence belongs to a workspace other than LOOPGRID_WORKSPACE: a LoopGrid without keys accepts decisions from any workspace.",
		policyRedacted:     "The workspace's redaction_fields hide the policy's result, even from LoopGrid itself: from now on it answers 500 to every request about this decision.",
		writeLockOff:       "LOOPGRID_MCP_WRITE_LOCK=off, but this LoopGrid does not run on PostgreSQL: two simultaneous writes break its chain for good.",
		policyNotEnforced:  "The decision is in privacy mode proof_only, where LoopGrid cannot see the policy's result: it neither refuses an action that the policy blocks nor accepts a review.",
		policyResultHidden: "The policy's result was recorded by an earlier call, and the decision's privacy mode hides it.",
		privacyModeDiffers: "The decision was already recorded in a privacy mode other than the one now requested; the recorded mode remains in force.",
		sandboxWarning:     "The evidence was recorded in a sandbox, not in LoopGrid. It is lost when the sandbox ends and proves nothing.",
		stepsNotChecked:    "A repeated call could not read which of its steps were already recorded. Steps recorded by this program are not recorded twice; steps recorded by another program may be.",
	}
	var all []WarningCode
	for code, meaning := range meanings {
		all = append(all, WarningCode{string(code), meaning})
	}
	slices.SortFunc(all, func(a, b WarningCode) int { return strings.Compare(a.Code, b.Code) })
	return all
}

// warning reports something that is recorded but may cause trouble later.
type warning struct {
	code    warningCode
	message string
}

func (c *call) warn(code warningCode, message string) {
	c.warnings = append(c.warnings, warning{code, message})
}

func (c *call) warnLineBreakers(what string) {
	c.warn(lineBreakers, what+" contains U+2028, U+2029 or U+0085. It is recorded exactly as sent, but loopgrid-verify 0.1.0 cannot read an evidence bundle that discloses it.")
}

func (c *call) warnMismatch(f fidelity) {
	if f == differs {
		c.warn(commitmentMismatch, "LoopGrid recorded evidence, but the hash it returned does not match what was sent. Tell the operator, and do not rely on this record.")
	}
}

// warnSandbox marks evidence that was not recorded by LoopGrid, once per call.
func (c *call) warnSandbox(sandbox bool) {
	if sandbox && !slices.ContainsFunc(c.warnings, func(w warning) bool { return w.code == sandboxWarning }) {
		c.warn(sandboxWarning, "This was recorded in a sandbox, not in LoopGrid: it is lost when the sandbox ends and proves nothing.")
	}
}

// warnWorkspace marks evidence from a workspace other than the operator's, once per call.
func (c *call) warnWorkspace(id string) {
	isKnown := slices.ContainsFunc(c.warnings, func(w warning) bool { return w.code == otherWorkspace })
	if id != "" && id != c.settings.Workspace && !isKnown {
		c.warn(otherWorkspace, "This belongs to the workspace "+c.word(id)+", not to "+c.word(c.settings.Workspace)+" (LOOPGRID_WORKSPACE). Check decision_id, and tell the operator.")
	}
}

func (c *call) warningList() jsontext.Value {
	if len(c.warnings) == 0 {
		return nil
	}
	list := make([]jsontext.Value, len(c.warnings))
	for i, w := range c.warnings {
		list[i] = evidence.Object(field("code", string(w.code)), field("message", w.message))
	}
	return evidence.Array(list...)
}
