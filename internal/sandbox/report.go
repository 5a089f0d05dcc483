package sandbox

import (
	"html"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// The sentences of a bundle. Each one says what a sandbox's evidence is worth, since the files outlive the sandbox and may be read by somebody
// who never saw it.
const (
	productionRecommendation = "Do not use this key for anything but tests: it was made by a sandbox and is gone when the sandbox stops. " +
		"Run LoopGrid itself, with a signing key that is kept in a KMS."
	trustModel = "Whoever holds this file can check that nothing in it was changed after the sandbox signed it. " +
		"Who ran the sandbox, and what really happened, it cannot show."
	legalNote = "Made by a sandbox for trying and testing. It proves nothing about a real decision and supports no legal claim."
)

// maxReportPayload is how many characters of a payload the report shows. LoopGrid's report cuts at the same length.
const maxReportPayload = 2600

const reportStyle = `body{margin:2rem auto;max-width:60rem;padding:0 1rem;font:1rem/1.5 system-ui,sans-serif;color:#222;background:#fff}
.notice{border:.2rem solid #b45309;background:#fff7ed;padding:.7rem 1rem}
table{border-collapse:collapse;width:100%}
th,td{border-bottom:1px solid #ddd;padding:.4rem .6rem .4rem 0;text-align:left;vertical-align:top}
pre{margin:0;white-space:pre-wrap;overflow-wrap:anywhere;font-size:.85rem}`

// report writes report.html: the same facts as the other files, for a person. It shows no payload that the files withhold.
func (e *export) report() ([]byte, error) {
	var p page
	p.raw("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")
	p.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>")
	p.text("Sandbox evidence of " + plain(e.summary["decision_id"]))
	p.raw("</title>\n<style>\n" + reportStyle + "\n</style>\n</head>\n<body>\n")
	p.element("h1", "Evidence of a sandbox decision")
	p.raw("<p class=\"notice\"><strong>Not from LoopGrid.</strong> ")
	p.text("The sandbox of loopgrid-mcp, " + e.SoftwareVersion + ". " + legalNote)
	p.raw("</p>\n")
	e.reportFacts(&p)
	e.reportCoverage(&p)
	if err := e.reportEvents(&p); err != nil {
		return nil, err
	}
	verification, err := appendPython(nil, e.Verification, true)
	if err != nil {
		return nil, err
	}
	p.element("h2", "The chain when this file was made")
	p.element("pre", string(verification))
	p.element("h2", "Check it yourself")
	p.raw("<p>")
	p.text("Install the PyPI package loopgrid-verify and give it the ZIP: ")
	p.element("code", "loopgrid-verify FILE.zip --expected-key-id "+e.KeyID)
	p.raw("</p>\n</body>\n</html>\n")
	return p, nil
}

// reportFacts is the table at the top. It reads what decision.json shows, so withheld facts are missing here as they are there.
func (e *export) reportFacts(p *page) {
	p.raw("<table>\n")
	p.row("Decision", plain(memberOf(e.shown, "decision_id")))
	p.row("Type", plain(memberOf(e.shown, "decision_type")))
	p.row("Workspace", plain(memberOf(e.shown, "workspace_id")))
	p.row("Privacy mode", plain(memberOf(e.shown, "privacy_mode")))
	p.row("Created", plain(memberOf(e.shown, "created_at")))
	p.row("State", plain(memberOf(memberOf(e.shown, "lifecycle"), "label")))
	p.row("Agent", plain(memberOf(memberOf(e.shown, "agent"), "id")))
	p.row("Proposed tool", plain(memberOf(memberOf(e.shown, "proposed_action"), "tool")))
	p.row("Policy", plain(memberOf(memberOf(e.shown, "policy"), "policy_id")))
	p.row("Policy version", plain(memberOf(memberOf(e.shown, "policy"), "version")))
	p.row("Policy result", plain(memberOf(memberOf(e.shown, "policy"), "decision")))
	p.row("Review", plain(memberOf(e.shown, "approval_event")))
	p.row("Outcome", plain(memberOf(memberOf(e.shown, "outcome"), "status")))
	payloads, chain := "withheld by the export", "broken"
	if e.IncludePayloads {
		payloads = "shown as far as the privacy mode allows"
	}
	if string(memberOf(e.Verification, "valid")) == "true" {
		chain = "intact"
	}
	p.row("Payloads", payloads)
	p.row("Chain of the workspace", chain)
	p.raw("</table>\n")
}

func (e *export) reportCoverage(p *page) {
	p.element("h2", "What is covered")
	p.element("p", plain(memberOf(e.Coverage, "label"))+": "+plain(memberOf(e.Coverage, "passed"))+" of "+plain(memberOf(e.Coverage, "total"))+
		" ("+plain(memberOf(e.Coverage, "score"))+" %)")
	p.raw("<table>\n")
	for check := range evidence.Elements(memberOf(e.Coverage, "checks")) {
		p.row(plain(memberOf(check, "label")), strings.ReplaceAll(plain(memberOf(check, "status")), "_", " "))
	}
	p.raw("</table>\n")
}

func (e *export) reportEvents(p *page) error {
	p.element("h2", "Events in the order of the ledger")
	p.raw("<table>\n")
	for i, event := range e.events {
		payload := event["payload"]
		if clear := e.Events[i].Clear; clear != nil && e.IncludePayloads {
			payload = clear
		}
		shown, err := appendPython(nil, payload, true)
		if err != nil {
			return err
		}
		p.raw("<tr><td>")
		p.text(plain(event["seq"]))
		p.raw("</td><td>")
		p.element("strong", plain(event["event_type"]))
		p.element("div", plain(memberOf(event["actor"], "type"))+" "+plain(memberOf(event["actor"], "id")))
		p.element("div", plain(event["occurred_at"]))
		p.raw("</td><td>")
		p.element("pre", shorten(string(shown), maxReportPayload))
		p.raw("</td></tr>\n")
	}
	p.raw("</table>\n")
	return nil
}

// readme writes README.txt.
func (e *export) readme() []byte {
	var s strings.Builder
	s.WriteString("SANDBOX EVIDENCE, NOT FROM LOOPGRID\n\n")
	s.WriteString("This ZIP comes from the sandbox of loopgrid-mcp, " + e.SoftwareVersion + ". It has the form of LoopGrid's evidence, so that\n")
	s.WriteString("programs that read or check evidence can be tried on it.\n\n" + legalNote + "\n\n")
	s.WriteString("To check it without the sandbox, install the PyPI package loopgrid-verify:\n\n")
	s.WriteString("    loopgrid-verify FILE.zip --expected-key-id " + e.KeyID + "\n\n")
	s.WriteString("While the sandbox runs, it answers this key id whenever it is asked to verify a decision.\n\n")
	for _, line := range [][2]string{
		{"manifest.json", "what is in here and whose it is"},
		{"decision.json", "the decision as it stood at the time of the export"},
		{"events.jsonl", "its signed events, one a line"},
		{"chain-witness.jsonl", "proofs of other decisions' events in between, without their contents"},
		{"disclosures.jsonl", "clear payloads, where they were asked for and the privacy mode keeps them"},
		{policyFile, "the policy result, where there is one and payloads were asked for"},
		{"verification.json", "what the sandbox itself found when it checked its chain"},
		{"lifecycle.json", "the state of the decision"},
		{"signer.json", "the signing key, described"},
		{"public-key.pem", "the signing key's public half"},
		{"report.html", "all of this for a person to read"},
		{attestationFile, "a signed list of the SHA-256 digests of all other files"},
	} {
		s.WriteString(line[0] + strings.Repeat(" ", 26-len(line[0])) + line[1] + "\n")
	}
	return []byte(s.String())
}

// page builds HTML; everything but raw is escaped.
type page []byte

func (p *page) raw(s string) { *p = append(*p, s...) }

func (p *page) text(s string) { p.raw(html.EscapeString(s)) }

func (p *page) element(name, text string) {
	p.raw("<" + name + ">")
	p.text(text)
	p.raw("</" + name + ">\n")
}

func (p *page) row(label, text string) {
	p.raw("<tr><th>")
	p.text(label)
	p.raw("</th><td>")
	p.text(text)
	p.raw("</td></tr>\n")
}

// plain is a value as a person reads it: a string without its quotes, a dash for what is not there, a redacted value as such.
func plain(v jsontext.Value) string {
	if v == nil || v.Kind() == jsontext.KindNull {
		return "-"
	}
	if s, ok := evidence.Unquote(v); ok {
		return s
	}
	if memberOf(v, "redacted") != nil {
		return "redacted"
	}
	if s, err := evidence.AppendCanonical(nil, v); err == nil {
		return string(s)
	}
	return string(v)
}

// shorten cuts s after limit characters and says so.
func shorten(s string, limit int) string {
	n := 0
	for i := range s {
		if n == limit {
			return s[:i] + "\n[cut here: the other files have the rest]"
		}
		n++
	}
	return s
}
