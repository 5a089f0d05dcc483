package sandbox

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/text"
)

// maxLogged is how many characters of a client's text a line shows.
const maxLogged = 80

// logEvent queues the line of an event: when, which decision, what, by whom, and what the policy said. Payloads are not shown. The caller holds
// mu, so nothing is written here: a terminal may be slow.
func (s *Server) logEvent(d *decision, e *event, now time.Time) {
	if s.log == nil {
		return
	}
	line := fmt.Sprintf("%s  %s  %-17s  %s %s", now.Format("15:04:05.000"), e.decisionID, e.kind, e.actorType, text.Clean(e.actorID, maxLogged))
	if e.workspaceID != defaultWorkspace {
		line += "  in " + text.Clean(e.workspaceID, maxLogged)
	}
	if result, _ := story(d.events).policyResult(); result != "" {
		line += "  policy: " + text.Clean(result, maxLogged)
		if reason := evidence.GetText(e.shown(), "reason"); reason != "" && e.kind == policyEvaluated {
			line += " (" + text.Clean(reason, maxLogged) + ")"
		}
	}
	s.lines = append(s.lines, line)
}

// writeLog writes the queued lines in their order. The caller does not hold mu.
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
		_, _ = io.WriteString(s.log, strings.Join(lines, "\n")+"\n") // The sandbox goes on without its log.
	}
}
