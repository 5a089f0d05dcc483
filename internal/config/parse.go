package config

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

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

func parseBaseURL(text string) (*url.URL, *fault) {
	unusable := &fault{
		"is not an http or https address",
		"Set it to the address of LoopGrid, for example " + lookUp(baseURL).Default + ".",
	}

	if meant := withScheme(text); meant != "" {
		unusable.remedy = "Did you mean " + meant + "?"
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || (u.Scheme != "http" && u.Scheme != "https") || !isHost(u) {
		return nil, unusable
	}

	var extra []string
	if u.User != nil {
		extra = append(extra, "a user name or password")
	}
	if u.RawQuery != "" || u.ForceQuery {
		extra = append(extra, "a query")
	}
	// The parser forgets an empty fragment; the sign itself would cut off paths.
	if strings.Contains(text, "#") {
		extra = append(extra, "a fragment")
	}
	if extra != nil {
		return nil, &fault{
			"holds " + strings.Join(extra, " and ") + ", which is never sent",
			"Keep the scheme, the host, the port and the base path only; a key belongs in " + serviceKey + ".",
		}
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if segment == "." || segment == ".." {
			return nil, &fault{"holds a path with . or .. in it", "Write the base path as the service sees it."}
		}
	}

	return &url.URL{
		Scheme:  u.Scheme,
		Host:    strings.TrimSuffix(u.Host, ":"),
		Path:    strings.TrimRight(u.Path, "/"),
		RawPath: strings.TrimRight(u.RawPath, "/"),
	}, nil
}

// withScheme returns the address that a host and a port without a scheme probably
// stand for, "" where the text is something else: it may be a key.
func withScheme(text string) string {
	hostPort, _, _ := strings.Cut(text, "/")
	host, port, err := net.SplitHostPort(hostPort)
	number, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil || number == 0 || strings.ContainsFunc(hostPort, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]", r)
	}) {
		return ""
	}
	if address.IsLoopback(host) {
		return "http://" + hostPort
	}

	return "https://" + hostPort
}

// isHost says whether the URL names a host and, if any, a port that can exist.
func isHost(u *url.URL) bool {
	if u.Hostname() == "" || strings.ContainsAny(u.Hostname(), `!"$&'()*+,;<=> `) {
		return false
	}
	if u.Port() == "" {
		return true
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)

	return err == nil && port > 0
}

func parseWorkspace(text string) (string, *fault) {
	switch {
	case utf8.RuneCountInString(text) > maxWorkspace:
		return "", &fault{"has more than 64 characters", "Set it to the id of a workspace of LoopGrid."}
	case !isPlain(text) || strings.ContainsFunc(text, isInvisible) || strings.Contains(text, "/") || text == "." || text == "..":
		return "", &fault{
			"is not the id of a workspace",
			"Use letters, digits, - and _; control and invisible characters, / and a lone . or .. are refused.",
		}
	}

	return text, nil
}

// readKeyFile takes the service key from its file, where one is named.
func (l *loader) readKeyFile(from file) {
	if from.path == "" {
		return
	}
	l.keep(serviceKeyFile, from.path)
	if l.settings.ServiceKey.IsSet() || l.isBroken(serviceKey) {
		l.report(serviceKeyFile, fault{"and " + serviceKey + " are both set", "Remove one of them."})
		return
	}
	key, notes, wrong := from.readKey()
	if wrong != nil {
		l.report(serviceKeyFile, *wrong)
		return
	}
	for _, note := range notes {
		l.warn(serviceKeyFile, serviceKeyFile+" "+note.message+".", note.remedy)
	}
	l.settings.ServiceKey = key
	l.settings.RereadServiceKey = func() (Secret, error) {
		again, _, wrong := from.readKey()
		if wrong != nil {
			return Secret{}, errors.New(serviceKeyFile + " " + wrong.message)
		}

		return again, nil
	}
}

// readCAFile reads the certificates to trust, where a file is named.
func (l *loader) readCAFile(from file) {
	l.lookAtSystemCertificates(runtime.GOOS)
	if from.path == "" {
		return
	}
	l.keep(caFile, from.path)
	certificates, wrong := from.readCertificates()
	if wrong != nil {
		l.report(caFile, *wrong)
		return
	}
	l.settings.CACertificates = certificates
}

const shortKey = "The service key has fewer than 16 characters: it is easy to guess, and too short to be hidden reliably in texts."

// warnOfKey warns of what a key can hardly be, and is sent all the same: what
// a key is, only the service knows.
func (l *loader) warnOfKey(key string) {
	const (
		word     = "bearer "
		shortest = 16
	)
	switch {
	case key == "":
	case strings.Trim(key, `"'`) != key:
		l.warn(serviceKey,
			"The service key begins or ends with a quotation mark, which is sent as a part of the key.",
			"Set "+serviceKey+" to the key without it, unless LoopGrid's operator gave it with that mark.")
	case len(key) >= len(word) && strings.EqualFold(key[:len(word)], word):
		l.warn(serviceKey,
			"The service key starts with Bearer, which is sent as a part of the key.",
			"Set "+serviceKey+" to the key alone, unless LoopGrid's operator gave it with that word.")
	case len(key) < shortest:
		l.warn(serviceKey, shortKey, "Use a key that LoopGrid made.")
	}
}

func parseServiceKey(text string) (Secret, *fault) {
	position := 0
	for _, r := range text {
		position++
		if r < ' ' || r > '~' {
			return Secret{}, &fault{
				fmt.Sprintf("holds a character that no key has (character %d is not printable ASCII)", position),
				"Copy the key again, as one line.",
			}
		}
	}

	return NewSecret(text), nil
}

// parseBytes reads a whole number as Python does, whose spellings 0.1.0 took.
func parseBytes(text string) (int64, *fault) {
	// The reader of a file asks for one byte more than the limit.
	const most = math.MaxInt64 - 1

	number, err := strconv.ParseInt(joinDigits(text), 10, 64)
	if errors.Is(err, strconv.ErrRange) && number > 0 {
		return most, nil
	}
	if err != nil || number <= 0 {
		return 0, &fault{
			"is not a whole number greater than zero",
			"Set it to a number of bytes, for example " + lookUp(maxEvidenceBytes).Default + ".",
		}
	}

	return min(number, most), nil
}

// parseTimeout reads a number of seconds as Python does, whose spellings 0.1.0
// took.
func parseTimeout(text string) (time.Duration, *fault) {
	seconds, err := strconv.ParseFloat(joinDigits(text), 64)
	// Go alone reads hexadecimal fractions.
	if err != nil || strings.ContainsAny(text, "xX") || math.IsNaN(seconds) || math.IsInf(seconds, 0) {
		return 0, &fault{"is not a number", "Set it to a number of seconds without a unit, for example 20 or 0.5."}
	}

	timeout := maxTimeout + 1
	if seconds <= maxTimeout.Seconds() {
		timeout = time.Duration(seconds * float64(time.Second))
	}
	if timeout <= 0 || timeout > maxTimeout {
		return 0, &fault{
			"is out of range",
			"Set it to a number of seconds greater than 0 and at most 86400, for example " + lookUp(timeoutSeconds).Default + ".",
		}
	}

	return timeout, nil
}

// joinDigits drops the underscores that stand between two digits, as Python's
// numbers may have them. Any other underscore stays, so that the number is
// refused.
func joinDigits(text string) string {
	isDigit := func(i int) bool { return i >= 0 && i < len(text) && text[i] >= '0' && text[i] <= '9' }

	joined := make([]byte, 0, len(text))
	for i := range len(text) {
		if text[i] != '_' || !isDigit(i-1) || !isDigit(i+1) {
			joined = append(joined, text[i])
		}
	}

	return string(joined)
}

// parseSwitch never takes an unclear word as "on": a switch opens a gate.
func parseSwitch(text string) (bool, *fault) {
	switch strings.ToLower(text) {
	case "1", "true", "yes", "on":
		return true, nil
	case "0", "false", "no", "off":
		return false, nil
	}

	return false, &fault{"is neither on nor off", "Set it to true or false."}
}

func parseReviewer(text string) (string, *fault) {
	switch {
	case utf8.RuneCountInString(text) > maxReviewer:
		return "", &fault{"has more than 128 characters", "Use a shorter name."}
	case !isPlain(text):
		return "", &fault{
			"holds a line break, a control character or bytes that are not UTF-8",
			"Use a name on one line.",
		}
	}

	return text, nil
}

// choice returns the rule of a setting that is one of a few words.
func choice[T ~string](name string) func(string) (T, *fault) {
	return func(text string) (T, *fault) {
		choices := lookUp(name).Choices
		if text = strings.ToLower(text); slices.Contains(choices, text) {
			return T(text), nil
		}

		return "", &fault{"is not one of " + strings.Join(choices, ", "), "Set it to one of them, or remove it."}
	}
}

func parseLogLevel(text string) (slog.Level, *fault) {
	word, wrong := choice[string](logLevel)(text)
	if wrong != nil {
		return 0, wrong
	}

	return map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}[word], nil
}

func isInvisible(r rune) bool { return unicode.Is(unicode.Cf, r) }

// isPlain says whether a text is valid UTF-8 on one line without control
// characters. U+2028 and U+2029 break lines too: the published verifier cannot
// read evidence whose actor holds one.
func isPlain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
	})
}
