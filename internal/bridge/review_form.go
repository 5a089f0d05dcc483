package bridge

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

// The limits of what a person is shown, in characters as they are shown.
const (
	maxForm        = 2000 // the whole text
	maxFormMembers = 25   // members of the proposed action, each on a line of its own
	maxFormLine    = 160  // a line about the decision
	maxFormName    = 60   // of a member
	maxFormValue   = 120
	maxFormModel   = 200 // what the model says about it

	// maxReason is the longest reason that LoopGrid records, in code points.
	maxReason = 1000
)

// formSchema are the two fields of the form. The choice has no default: a person who only confirms what is there has decided
// nothing.
func formSchema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{` +
		`"action":{"type":"string","title":"Your decision","description":"approve or reject. The choice is yours, whatever the model says.","enum":["approve","reject"]},` +
		`"reason":{"type":"string","title":"Your reason","description":"Kept as evidence, as you write it. May stay empty.","maxLength":1000}},` +
		`"required":["action"]}`)
}

// formRule is what an answer to the form has to be.
const formRule = "action has to be approve or reject, and reason a text of at most 1000 characters"

// reviewForm returns the text of the form: what LoopGrid holds of the decision, and only at its end what the model says. Every text
// in it may come from a model that wants to be approved, so none can pass for another line, hide a part of itself or push another one
// out of sight. The refusal says why this decision cannot be shown in a form.
func reviewForm(record *loopgrid.DecisionRecord, p proposal, reviewer string) (text, refusal string) {
	created := firstOf(record, "decision_created")
	if refusal := hidden(created, p.decisionID); refusal != "" {
		return "", refusal
	}
	action := evidence.Get(created.Payload, "proposed_action")
	if action.Kind() != '{' {
		return "", "LoopGrid does not show its proposed action"
	}
	var lines []string
	for name, value := range evidence.Members(action) {
		lines = append(lines, "- "+plainly(name, maxFormName)+": "+visible(string(evidence.Compact(value)), maxFormValue))
	}
	switch {
	case len(lines) > maxFormMembers:
		return "", fmt.Sprintf("its proposed action has %d members, and a form shows at most %d", len(lines), maxFormMembers)
	case len(lines) == 0:
		lines = []string{"- (empty)"}
	}
	text = "LoopGrid waits for a person to review this decision. Your answer is signed and kept as evidence.\n\n" +
		"- decision: " + p.decisionID + "\n" +
		"- type: " + plainly(evidence.GetText(created.Payload, "decision_type"), maxFormLine) + "\n" +
		"- policy result: " + policyLine(firstOf(record, "policy_evaluated")) + "\n" +
		"- reviewer of record: " + plainly(reviewer, maxFormLine) + "\n\n" +
		"Proposed action:\n\n" + strings.Join(lines, "\n") + "\n\n" +
		"The model says: " + modelLine(p)
	if n := utf8.RuneCountInString(text); n > maxForm {
		return "", fmt.Sprintf("it takes %d characters to show, and a form has %d", n, maxForm)
	}
	return text, ""
}

// hidden says why LoopGrid does not show a decision to those who read it; empty where it does.
func hidden(created *loopgrid.Event, id string) string {
	switch {
	case created == nil || created.DecisionID != id:
		return "LoopGrid does not show the decision itself"
	case created.PrivacyMode != "full":
		return "its privacy mode, " + plainly(created.PrivacyMode, maxServiceWord) + ", hides the proposed action"
	case evidence.Get(created.Raw, "payload_available").Kind() != 't':
		return "its proposed action is not available any more"
	case compareCommitment(created, created.Payload) == differs:
		return "what LoopGrid shows of it is not what it signed: tell the operator"
	default:
		return ""
	}
}

// firstOf returns the first event of one of the types; nil if there is none.
func firstOf(record *loopgrid.DecisionRecord, eventTypes ...string) *loopgrid.Event {
	for i := range record.Events {
		if slices.Contains(eventTypes, record.Events[i].EventType) {
			return &record.Events[i]
		}
	}
	return nil
}

func policyLine(policy *loopgrid.Event) string {
	if policy == nil {
		return "(not shown by LoopGrid)"
	}
	result, reason := evidence.GetText(policy.Payload, "decision"), evidence.GetText(policy.Payload, "reason")
	switch {
	case result == "":
		return "(not shown by LoopGrid)"
	case reason == "":
		return plainly(result, maxFormValue)
	default:
		return plainly(result, maxFormValue) + " because of " + plainly(reason, maxFormValue)
	}
}

// modelLine is what the call proposed, all of it within maxFormModel.
func modelLine(p proposal) string {
	if p.reason == "" {
		return p.action
	}
	const clipMark = len("… (+1000)")
	return p.action + ", " + visible(string(evidence.Text(p.reason)), maxFormModel-len(p.action)-len(", ")-clipMark)
}

// plainly shows a text as it is where it is one plain word, and as a JSON string elsewhere, so that no text can go on as if another
// line or another part of the line began.
func plainly(text string, limit int) string {
	for _, r := range text {
		if r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_.-@", r) {
			return visible(string(evidence.Text(text)), limit)
		}
	}
	if text == "" {
		return `""`
	}
	return visible(text, limit)
}

// visible makes a JSON text fit for a form: what cannot be seen, moves other text or could be taken for markup is shown as the JSON
// escape that means the same. The text is cut to limit characters; how many of its own are left out is said.
func visible(text string, limit int) string {
	var out strings.Builder
	shown, marks := 0, 0
	for i, r := range text {
		if unicode.In(r, unicode.Mn, unicode.Me) {
			marks++
		} else {
			marks = 0
		}
		piece := string(r)
		if marks > maxMarks || !isVisible(r) || isMarkup(text[i:]) {
			piece = jsonEscape(r)
		}
		length := utf8.RuneCountInString(piece)
		if shown+length > limit {
			return fmt.Sprintf("%s… (+%d)", out.String(), utf8.RuneCountInString(text[i:]))
		}
		out.WriteString(piece)
		shown += length
	}
	return out.String()
}

// maxMarks is how many accents may stand on one letter; more of them paint over the lines around.
const maxMarks = 2

// isVisible says whether a character shows as something and leaves its neighbors where they are: control, bidirectional, joining and
// filling characters and all blanks but the usual one do not.
func isVisible(r rune) bool {
	const braillePatternBlank = '\u2800'
	return unicode.IsPrint(r) && r != braillePatternBlank && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// isMarkup says whether text begins with what could keep a part of it from being seen in a host that shows Markdown or HTML: a tag or
// a comment, an entity, the target of a link or an image, text struck through. Emphasis hides nothing and stays. Since every line
// is an item or a paragraph of its own, markup does not reach into the next one.
func isMarkup(text string) bool {
	if len(text) < 2 {
		return false
	}
	next := rune(text[1])
	switch text[0] {
	case '<':
		return next <= unicode.MaxASCII && unicode.IsLetter(next) || strings.ContainsRune("/!?", next)
	case '&':
		end := strings.IndexFunc(text[1:], func(r rune) bool {
			return r > unicode.MaxASCII || r != '#' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
		})
		return end > 0 && text[1+end] == ';'
	case ']':
		return next == '(' || next == '['
	case '~':
		return next == '~'
	default:
		return false
	}
}

// jsonEscape spells a character with ASCII letters, as JSON does inside of a string.
func jsonEscape(r rune) string {
	if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	}
	return fmt.Sprintf(`\u%04x`, r)
}
