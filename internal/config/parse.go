package config

import (
	"strings"
	"time"

	"github.com/loopgridio/loopgrid-mcp/internal/address"
)

// The bounds of settings.
const (
	maxWorkspace = 64  // characters; LoopGrid refuses longer ones
	maxReviewer  = 128 // characters; LoopGrid on PostgreSQL fails with longer ones
	maxTimeout   = 24 * time.Hour
	longTimeout  = 10 * time.Minute // a longer one was probably meant in milliseconds
)

// loader collects settings and what is wrong with them.
type loader struct {
	environ  map[string]string
	settings Settings
}

// fault is what a rule objects to: Message without the name of the variable at
// its start, and Remedy.
type fault struct {
	message, remedy string
}

func parse(given environment, environ map[string]string) Settings {
	l := &loader{environ: environ}
	s := &l.settings

	s.BaseURL = setting(l, baseURL, given.BaseURL, parseBaseURL)
	if l.isBroken(baseURL) {
		s.BaseURL = nil
	}
	s.Workspace = setting(l, workspace, given.Workspace, parseWorkspace)
	if l.isBroken(workspace) {
		s.Workspace = ""
	}
	where := placeOf(environ)
	s.ServiceKey = setting(l, serviceKey, given.ServiceKey, parseServiceKey)
	l.readKeyFile(setting(l, serviceKeyFile, given.ServiceKeyFile, where.file))
	l.warnOfKey(s.ServiceKey.Reveal())
	l.readCAFile(setting(l, caFile, given.CAFile, where.file))
	s.EvidenceDir = setting(l, evidenceDir, given.EvidenceDir, where.evidenceDir)
	if l.isBroken(evidenceDir) {
		s.EvidenceDir = EvidenceDir{}
	} else if !s.EvidenceDir.IsDefault {
		l.keep(evidenceDir, s.EvidenceDir.Path)
	}
	s.MaxEvidenceBytes = setting(l, maxEvidenceBytes, given.MaxEvidenceBytes, parseBytes)
	s.Timeout = setting(l, timeoutSeconds, given.TimeoutSeconds, parseTimeout)
	if s.Timeout > longTimeout {
		l.warn(timeoutSeconds, timeoutSeconds+" is over 600; its unit is seconds.", "Set it to a number of seconds, for example "+lookUp(timeoutSeconds).Default+".")
	}
	s.WriteLock = setting(l, writeLock, given.WriteLock, choice[WriteLock](writeLock))
	s.EnableReviewTool = setting(l, enableReviewTool, given.EnableReviewTool, parseSwitch)
	s.ReviewerID = setting(l, reviewerID, given.ReviewerID, parseReviewer)
	if s.EnableReviewTool && s.ReviewerID == "" && !l.isBroken(reviewerID) {
		l.report(reviewerID, fault{
			"is not set, but the review tool is on",
			"Set it to the name of the person who reviews, or turn " + enableReviewTool + " off.",
		})
	}
	s.ReviewConfirmation = setting(l, reviewConfirmation, given.ReviewConfirmation, choice[ReviewConfirmation](reviewConfirmation))
	s.AllowPayloadExport = setting(l, allowPayloadExport, given.AllowPayloadExport, parseSwitch)
	s.ToolNames = setting(l, toolNames, given.ToolNames, choice[ToolNames](toolNames))
	s.LogLevel = setting(l, logLevel, given.LogLevel, parseLogLevel)

	if s.BaseURL != nil && s.BaseURL.Scheme == "http" && s.ServiceKey.IsSet() && !address.IsLoopback(s.BaseURL.Hostname()) {
		l.warn(baseURL,
			baseURL+" is plain http to another machine: the service key travels unencrypted.",
			"Use an https address.")
	}
	l.warnOfUnread()
	l.noteNames()

	return l.settings
}

// setting returns the value of one variable: what the operator gave, or the
// default where that is nothing or cannot be used.
func setting[T any](l *loader, name, given string, rule func(string) (T, *fault)) T {
	if given = l.given(name, given); given != "" {
		value, wrong := rule(given)
		if wrong == nil {
			l.keep(name, given)

			return value
		}
		l.report(name, *wrong)
	}

	value, wrong := rule(lookUp(name).Default)
	if wrong != nil {
		l.report(name, *wrong)
	}

	return value
}

// keep notes the text of a variable that can be used.
func (l *loader) keep(name, given string) {
	if lookUp(name).Secret {
		return
	}
	if l.settings.Values == nil {
		l.settings.Values = map[string]string{}
	}
	l.settings.Values[name] = given
}

// given returns what is left of a value to apply a rule to, "" where the variable
// counts as not set: one rule for all variables. Hosts pass "" for what a user
// left empty.
func (l *loader) given(name, text string) string {
	v := clean(text)
	if v.text == "" {
		return ""
	}
	if v.quoted {
		l.warn(name, name+" is in quotation marks; they were taken off.", "Write the value without them.")
	}
	kind := lookUp(name).kind
	whole := isPlaceholder(v.text)
	const fillIn = "Write the value itself, or define what the placeholder names where the host starts."

	switch {
	case holdsExample(v.text):
		l.report(name, fault{"still holds the text of an example", "Replace it with your own value, or remove the variable."})
	case whole && kind != "target" && name != reviewConfirmation:
		l.warn(name, name+" is a placeholder that the host did not fill in; it counts as not set.", fillIn)
	case whole, kind == "key" && holdsPair(v.text), kind != "key" && holdsPlaceholder(v.text):
		// An address or a workspace by guess would write into the wrong ledger,
		// for good, and the default confirmation may be weaker than what is meant.
		l.report(name, fault{"holds a placeholder that the host did not fill in", fillIn})
	case strings.HasPrefix(v.text, name+"="):
		l.report(name, fault{"begins with its own name", "Write the value alone."})
	case v.hasComment() && (kind == "target" || kind == "path"):
		l.report(name, fault{
			"holds a # after a blank, which looks like a comment",
			"Put the comment on a line of its own, or the value in quotation marks if the # belongs to it.",
		})
	case (kind == "target" || kind == "person") && strings.Contains(v.text, `"`):
		l.report(name, fault{`holds a quotation mark (")`, "Write the value without it."})
	case v.quoted && kind != "" && kind != "path" && strings.TrimSpace(v.text) != v.text:
		l.report(name, fault{"begins or ends with a blank inside its quotation marks", "Write the value without the blank and the marks."})
	default:
		if v.hasComment() && kind != "" { // other kinds are refused with it
			l.warn(name, name+" holds a # after a blank; it is taken as a part of the value, not as a comment.", "Put the comment on a line of its own.")
		}

		return v.text
	}

	return ""
}

// report records that a variable cannot be used, once for each variable: as a
// problem where calls depend on it, else as a warning.
func (l *loader) report(name string, wrong fault) {
	touches := lookUp(name).Touches
	switch {
	case touches == NoCalls:
		l.warn(name, name+" "+wrong.message+"; the default is used.", wrong.remedy)
	case !l.isBroken(name):
		l.settings.Problems = append(l.settings.Problems,
			Problem{Variable: name, Message: name + " " + wrong.message + ".", Remedy: wrong.remedy, Touches: touches})
	}
}

func (l *loader) warn(name, message, remedy string) {
	l.settings.Warnings = append(l.settings.Warnings, Warning{Variable: name, Message: message, Remedy: remedy})
}

// isBroken says whether a problem with the variable is known.
func (l *loader) isBroken(name string) bool {
	for _, p := range l.settings.Problems {
		if p.Variable == name {
			return true
		}
	}

	return false
}
