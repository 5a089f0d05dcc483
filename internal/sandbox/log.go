package sandbox

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// logEvent writes the line of an event: when, which decision, what, by whom, and what the policy said. Payloads are not shown. The caller holds
// mu.
func (s *Server) logEvent(d *decision, e *event, now time.Time) {
	if s.log == nil {
		return
	}
	line := fmt.Sprintf("%s  %s  %-17s  %s %s", now.Format("15:04:05.000"), e.decisionID, e.kind, e.actorType, visible(e.actorID))
	if e.workspaceID != defaultWorkspace {
		line += "  in " + visible(e.workspaceID)
	}
	story := d.story()
	if result := story.policyResult(); result != nil {
		line += "  policy: " + visible(resultName(result))
		if reason, ok := story.content(e).get("reason").(string); ok && e.kind == policyEvaluated {
			line += " (" + visible(reason) + ")"
		}
	}
	_, _ = fmt.Fprintln(s.log, line) // A log that cannot be written stops nothing.
}

// visible makes a client's text fit for a line on a terminal.
func visible(s string) string {
	const longest = 80
	var b strings.Builder
	for i, r := range []rune(s) {
		if i == longest {
			b.WriteRune('…')
			break
		}
		if !unicode.IsPrint(r) {
			r = '\ufffd'
		}
		b.WriteRune(r)
	}
	return b.String()
}
