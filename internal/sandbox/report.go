package sandbox

import (
	"fmt"
	"html"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// The sentences of a bundle. Each says what a sandbox's evidence is worth, since the files outlive the sandbox and somebody may read them who
// never saw it.
const (
	productionRecommendation = "Use this key for tests only: a sandbox made it, and it is gone when the sandbox stops. " +
		"Run LoopGrid itself, with a signing key in a KMS."
	trustModel = "Whoever holds this file can check that nothing in it changed after the sandbox signed it. " +
		"It cannot show who ran the sandbox, or what really happened."
	legalNote = "Made by a sandbox for trying and testing. It proves nothing about a real decision and supports no legal claim."
)

// maxReportPayload is how many characters of a payload the report shows. LoopGrid's report cuts at the same length.
const maxReportPayload = 2600

const reportHead = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sandbox evidence of %[1]s</title>
<style>
body{margin:2rem auto;max-width:60rem;padding:0 1rem;font:1rem/1.5 system-ui,sans-serif;color:#222;background:#fff}
.notice{border:.2rem solid #b45309;background:#fff7ed;padding:.7rem 1rem}
table{border-collapse:collapse;width:100%%}
th,td{border-bottom:1px solid #ddd;padding:.4rem .6rem .4rem 0;text-align:left;vertical-align:top}
pre{margin:0;white-space:pre-wrap;overflow-wrap:anywhere;font-size:.85rem}
</style>
</head>
<body>
<h1>Evidence of a sandbox decision</h1>
<p class="notice"><strong>Not from LoopGrid.</strong> The sandbox of loopgrid-mcp, %[2]s. %[3]s</p>
`

// report is report.html: the same facts as the other files, for a person. It shows no payload that the files withhold.
func (e *export) report() []byte {
	var b strings.Builder
	row := func(name, cell string) { fmt.Fprintf(&b, "<tr><th>%s</th><td>%s</td></tr>\n", name, cell) }
	plain := func(path ...string) string { return html.EscapeString(plain(evidence.Get(e.shown, path...))) }
	fmt.Fprintf(&b, reportHead, e.decision.id, Version, legalNote)
	b.WriteString("<table>\n")
	row("Decision", plain("decision_id"))
	row("Type", plain("decision_type"))
	row("Workspace", plain("workspace_id"))
	row("Privacy mode", plain("privacy_mode"))
	row("Created", plain("created_at"))
	row("State", plain("lifecycle", "label"))
	row("Agent", plain("agent", "id"))
	row("Policy", plain("policy", "policy_id"))
	row("Policy result", plain("policy", "decision"))
	row("Review", plain("approval_event"))
	row("Chain of the workspace", map[bool]string{true: "intact", false: "broken"}[truthy(evidence.Get(e.verification, "valid"))])
	row("Payloads", map[bool]string{true: "shown as far as the privacy mode allows", false: "withheld by the export"}[e.payloads])
	b.WriteString("</table>\n<h2>Events in the order of the ledger</h2>\n<table>\n")
	for _, event := range e.decision.events {
		payload := event.payload
		if e.payloads {
			payload = event.shown()
		}
		row(strconv.Itoa(event.seq), fmt.Sprintf("<strong>%s</strong> %s %s %s<pre>%s</pre>", event.kind, event.occurredAt, event.actorType,
			html.EscapeString(event.actorID), html.EscapeString(shorten(string(indented(payload)), maxReportPayload))))
	}
	b.WriteString("</table>\n<h2>Check it yourself</h2>\n<p>Install the PyPI package loopgrid-verify and give it the ZIP: " +
		"<code>loopgrid-verify FILE.zip --expected-key-id " + e.s.keyID + "</code></p>\n</body>\n</html>\n")
	return []byte(b.String())
}

// readme is README.txt.
func (e *export) readme() []byte {
	var b strings.Builder
	b.WriteString("SANDBOX EVIDENCE, NOT FROM LOOPGRID\n\n" +
		"This ZIP comes from the sandbox of loopgrid-mcp, " + Version + ". It has the form of LoopGrid's evidence, so that\n" +
		"programs that read or check evidence can be tried on it.\n\n" + legalNote + "\n\n" +
		"To check it without the sandbox, install the PyPI package loopgrid-verify:\n\n" +
		"    loopgrid-verify FILE.zip --expected-key-id " + e.s.keyID + "\n\n" +
		"While the sandbox runs, it answers this key id whenever it is asked to verify a decision.\n\n")
	for _, line := range [][2]string{
		{"manifest.json", "what is in here and whose it is"},
		{"decision.json", "the decision at the time of the export"},
		{"events.jsonl", "its signed events, one a line"},
		{"chain-witness.jsonl", "proofs of other decisions' events in between, without their contents"},
		{disclosuresFile, "clear payloads, where they were asked for and the privacy mode keeps them"},
		{policyFile, "the policy result, where there is one and payloads were asked for"},
		{"verification.json", "what the sandbox itself found when it checked its chain"},
		{"lifecycle.json", "the state of the decision"},
		{"signer.json", "the signing key, described"},
		{"public-key.pem", "the public half of the signing key"},
		{"report.html", "all of this for a person to read"},
		{attestationFile, "a signed list of the SHA-256 digests of all other files"},
	} {
		fmt.Fprintf(&b, "%-26s%s\n", line[0], line[1])
	}
	return []byte(b.String())
}

// plain returns a value for a person: a string without quotes, a dash for nothing, "redacted" for a redacted one.
func plain(v jsontext.Value) string {
	switch s, isText := evidence.Unquote(v); {
	case isText:
		return s
	case len(v) == 0 || v.Kind() == 'n':
		return "-"
	case evidence.Get(v, "redacted") != nil:
		return "redacted"
	}
	return string(v)
}

// shorten cuts s after limit characters and says so.
func shorten(s string, limit int) string {
	if runes := []rune(s); len(runes) > limit {
		return string(runes[:limit]) + "\n[cut here: the other files have the rest]"
	}
	return s
}
