package sandbox

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// logEvent keeps the line of an event: when, which decision, what, by whom, and what the policy said. Payloads are not shown. The caller holds
// mu, over which nothing is written: a terminal may be slow.
func (s *Server) logEvent(d *decision, e *event, now time.Time) {
	if s.log == nil {
		return
	}
	line := fmt.Sprintf("%s  %s  %-17s  %s %s", now.Format("15:04:05.000"), e.decisionID, e.kind, e.actorType, visible(e.actorID))
	if e.workspaceID != defaultWorkspace {
		line += "  in " + visible(e.workspaceID)
	}
	if result, _ := story(d.events).policyResult(); result != "" {
		line += "  policy: " + visible(result)
		if reason := evidence.GetText(e.shown(), "reason"); reason != "" && e.kind == policyEvaluated {
			line += " (" + visible(reason) + ")"
		}
	}
	s.lines = append(s.lines, line)
}

// writeLog writes the lines that are kept, in their order. The caller does not hold mu.
func (s *Server) writeLog() {
	if s.log == nil {
		return
	}
	s.logMu.Lock()
	defer s.logMu.Unlock()
	s.mu.Lock()
	lines := s.lines
	s.lines = nil
	s.mu.Unlock()
	if len(lines) > 0 {
		_, _ = io.WriteString(s.log, strings.Join(lines, "\n")+"\n") // A log that cannot be written stops nothing.
	}
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
