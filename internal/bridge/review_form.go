package bridge

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

// Limits on what a person is shown, in characters as displayed. They are based on what hosts were seen to display.
const (
	maxForm        = 1600 // the whole form: its text and its fields
	maxFormSummary = 100  // the first line
	maxFormMembers = 12   // members of the proposed action, each on a line of its own
	maxFormLine    = 160  // a line about the decision
	maxFormName    = 60   // of a member
	maxFormValue   = 120
	maxFormModel   = 200 // what the model says about it
	maxSummaryWord = 30  // the type and the tool in the first line

	// maxReason is the longest reason that LoopGrid records, in code points.
	maxReason = 1000
)

// undecided is the choice that records nothing. It comes first, and there is no default, because some hosts preselect the first value: a
// person who only confirms what is there has decided nothing.
const undecided = "undecided"

// formRule is what an answer to the form must be.
const formRule = "action must be approve, reject or undecided, and reason must be text of at most 1000 characters"

// form is what a person is asked.
type form struct {
	message string
	schema  jsontext.Value
}

// formSchema defines the two fields of the form. The description of the choice begins with the decision itself, since some hosts show
// only that line and the first three of the message.
func formSchema(summary string) jsontext.Value {
	return evidence.Object(
		field("type", "object"),
		raw("properties", evidence.Object(
			raw("action", evidence.Object(
				field("type", "string"), field("title", "Your decision"),
				field("description", summary+". The choice is yours, whatever the model says; undecided records nothing."),
				raw("enum", texts([]string{undecided, "approve", "reject"})))),
			raw("reason", evidence.Object(
				field("type", "string"), field("title", "Your reason"),
				field("description", "Optional. Kept as evidence exactly as you write it."), raw("maxLength", jsontext.Value(strconv.Itoa(maxReason))))))),
		raw("required", texts([]string{"action"})))
}

// reviewForm returns the form: LoopGrid's record of the decision, and only at the end what the model says. Any text in it may come from a
// model that wants approval, so no text can pass for another line, hide part of itself or push another one out of sight. The refusal says
// why this decision cannot be shown in a form.
func reviewForm(record *loopgrid.DecisionRecord, p proposal, reviewer string, hide *keyHider) (f form, refusal string) {
	created := firstOf(record, "decision_created")
	if refusal := hidden(created, p.decisionID, hide); refusal != "" {
		return form{}, refusal
	}
	// The key is hidden before anything is clipped.
	shown := hide.json(created.Payload)
	decisionType, action := evidence.GetText(shown, "decision_type"), evidence.Get(shown, "proposed_action")
	p.reason = hide.text(p.reason)
	if action.Kind() != '{' {
		return form{}, "LoopGrid does not show its proposed action"
	}
	var lines []string
	for name, value := range evidence.Members(action) {
		lines = append(lines, "- "+plainly(name, maxFormName)+": "+visible(string(evidence.Compact(value)), maxFormValue))
	}
	switch {
	case len(lines) > maxFormMembers:
		return form{}, fmt.Sprintf("its proposed action has %d members, and a form shows at most %d", len(lines), maxFormMembers)
	case len(lines) == 0:
		lines = []string{"- (empty)"}
	}
	summary := summaryOf(decisionType, action)
	if utf8.RuneCountInString(summary) > maxFormSummary {
		return form{}, "its amount is too long to show in one line"
	}
	f.schema = formSchema(summary)
	f.message = summary + "\n" +
		"LoopGrid is waiting for a person to review this decision. Your answer is signed and kept as evidence.\n" +
		"- policy result: " + policyLine(firstOf(record, "policy_evaluated"), hide) + "\n" +
		"- decision: " + p.decisionID + "\n" +
		"- type: " + plainly(decisionType, maxFormLine) + "\n" +
		"- reviewer of record: " + plainly(reviewer, maxFormLine) + "\n\n" +
		"Proposed action:\n\n" + strings.Join(lines, "\n") + "\n\n" +
		"The model says: " + modelLine(p)
	if n := utf8.RuneCountInString(f.message) + utf8.RuneCount(f.schema); n > maxForm {
		return form{}, fmt.Sprintf("it needs %d characters, and the form holds %d", n, maxForm)
	}
	return f, ""
}

// summaryOf is the decision in one line, such as "customer_refund: stripe.refunds.create, amount 720.0, currency USD (+2 more)": its type
// and its tool, which may be clipped, its amount, which never is, and as many other simple values as fit. Only a very long amount makes
// it longer than maxFormSummary.
func summaryOf(decisionType string, action jsontext.Value) string {
	line, separator, left := clippedWord(decisionType, maxSummaryWord), ": ", 0
	add := func(part string, always bool) {
		reserved := len(" (+12 more)")
		if part == "" || !always && utf8.RuneCountInString(line+separator+part)+reserved > maxFormSummary {
			left++
			return
		}
		line, separator = line+separator+part, ", "
	}
	first := []string{"tool", "amount", "currency"}
	for _, name := range first {
		value := evidence.Get(action, name)
		text, isText := evidence.Unquote(value)
		switch {
		case value == nil:
		case name == "tool" && isText:
			add(clippedWord(text, maxSummaryWord), true)
		default:
			add(named(name, value), name == "amount")
		}
	}
	for name, value := range evidence.Members(action) {
		if !slices.Contains(first, name) {
			add(named(name, value), false)
		}
	}
	if left > 0 {
		line += fmt.Sprintf(" (+%d more)", left)
	}
	return line
}

// named is a simple value with its name; empty for an object, an array or null.
func named(name string, value jsontext.Value) string {
	const whole = 1 << 20
	switch value.Kind() {
	case '"':
		text, _ := evidence.Unquote(value)
		return plainly(name, maxFormName) + " " + plainly(text, whole)
	case '0', 't', 'f':
		return plainly(name, maxFormName) + " " + string(value)
	default:
		return ""
	}
}

// clippedWord is [plainly] within limit characters, with "…" where it was cut.
func clippedWord(text string, limit int) string {
	shown := plainly(text, limit)
	if utf8.RuneCountInString(shown) <= limit {
		return shown
	}
	end := "…"
	if strings.HasPrefix(shown, `"`) {
		end = `…"`
	}
	shown, _, _ = strings.Cut(plainly(text, limit-utf8.RuneCountInString(end)), "… (+")
	return shown + end
}

// hidden says why LoopGrid does not show a decision to its readers; empty if it does.
func hidden(created *loopgrid.Event, id string, hide *keyHider) string {
	switch {
	case created == nil || created.DecisionID != id:
		return "LoopGrid does not show the decision itself"
	case created.PrivacyMode != "full":
		return "its privacy mode, " + plainly(hide.text(created.PrivacyMode), maxServiceWord) + ", hides the proposed action"
	case evidence.Get(created.Raw, "payload_available").Kind() != 't':
		return "its proposed action is no longer available"
	case compareCommitment(created, created.Payload) == differs:
		return "what LoopGrid shows does not match what it signed: tell the operator"
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

func policyLine(policy *loopgrid.Event, hide *keyHider) string {
	if policy == nil {
		return "(not shown by LoopGrid)"
	}
	result, reason := hide.text(evidence.GetText(policy.Payload, "decision")), hide.text(evidence.GetText(policy.Payload, "reason"))
	switch {
	case result == "":
		return "(not shown by LoopGrid)"
	case reason == "":
		return plainly(result, maxFormValue)
	default:
		return plainly(result, maxFormValue) + ", reason: " + plainly(reason, maxFormValue)
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

// plainly shows one plain word as it is and any other text as a JSON string, so that no text can look like the start of another line or
// of another part of its line.
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

// visible makes a JSON text safe to show in a form: characters that are invisible, move other text or could pass for markup become the
// equivalent JSON escapes. The text is cut to limit characters, followed by the number of characters cut.
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

// maxMarks is how many accents a letter may have; more would cover the lines around it.
const maxMarks = 2

// isVisible says whether a character is visible and leaves its neighbors in place. Control, bidirectional, joining and filler characters
// are not, nor is any blank other than the ordinary space.
func isVisible(r rune) bool {
	const braillePatternBlank = '\u2800'
	return unicode.IsPrint(r) && r != braillePatternBlank && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// isMarkup says whether text begins with something that could hide a part of it in a host that renders Markdown or HTML: a tag or a
// comment, an entity, the target of a link or an image, struck-through text. Emphasis hides nothing and stays.
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
