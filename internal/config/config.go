// Package config holds the operator's settings: it reads them from the
// environment, checks them, and says in plain words what is wrong with them.
//
// It is the only package that reads the environment. It knows the names,
// defaults and rules of the LOOPGRID_* variables and nothing of MCP, HTTP or the
// evidence itself. It never ends the program and never prints the value of a
// variable: a broken configuration is a list of problems that the caller shows,
// because hosts hide a server that exits at start.
package config

import (
	"log/slog"
	"net/url"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/kelseyhightower/envconfig"
)

// Settings is everything the operator decides. The zero value is not usable;
// [Load] and [LoadFrom] fill every field.
type Settings struct {
	// BaseURL is the address of LoopGrid: http or https, a host, a base path
	// without a trailing slash. It is nil where a problem says that the variable
	// cannot be used, so that nothing is ever sent to a guessed address.
	BaseURL *url.URL
	// Workspace is 1 to 64 characters. It is empty where a problem says that the
	// variable cannot be used; an empty workspace must never be sent.
	Workspace string
	// ServiceKey is the credential for LoopGrid, from its variable or its file; it
	// is unset where there is none.
	ServiceKey Secret
	// RereadServiceKey reads the file of the service key again, for a caller whose
	// key was refused: the file may have changed since. Compare the result with the
	// key that was sent. It is nil where the key does not come from a file.
	RereadServiceKey func() (Secret, error)
	// CACertificates is the PEM text of LOOPGRID_CA_FILE, with at least one
	// certificate: authorities to trust in addition to the system's. It is nil where
	// none is set.
	CACertificates []byte
	// EvidenceDir is where evidence files go.
	EvidenceDir EvidenceDir
	// MaxEvidenceBytes is the largest evidence file to keep, in bytes. One more
	// than it still fits an int64.
	MaxEvidenceBytes int64
	// Timeout bounds one request with its repeats.
	Timeout time.Duration
	// WriteLock says whether writes take turns.
	WriteLock WriteLock
	// EnableReviewTool opens the review tool.
	EnableReviewTool bool
	// ReviewerID is the reviewer of record, at most 128 characters.
	ReviewerID string
	// ReviewConfirmation says who makes sure that a person decides a review.
	ReviewConfirmation ReviewConfirmation
	// AllowPayloadExport opens the download of evidence with clear payloads.
	AllowPayloadExport bool
	// ToolNames is how tool names are spelt.
	ToolNames ToolNames
	// LogLevel is the least severe level that is logged.
	LogLevel slog.Level
	// NoColor says that output for people carries no colours: NO_COLOR is set, or
	// TERM says that the terminal has none.
	NoColor bool

	// Set names the variables of [Variables] that are set to something, in that
	// order, whether or not the value can be used.
	Set []string
	// Values holds, by name, the texts of the variables in Set that can be used,
	// without quotation marks and with paths in full, for a setup that hands them on.
	// No secret is among them.
	Values map[string]string
	// Network names the variables that are set and that decide how programs reach
	// other machines: proxies and certificates, in capitals.
	Network []string
	// Unread names the other LOOPGRID_* variables that are set to something, in
	// alphabetical order. Most belong to the service.
	Unread []string

	// Problems says why calls cannot be served, in the order of [Variables].
	Problems []Problem
	// Warnings is what the operator should know and nothing depends on.
	Warnings []Warning
}

// Problem is a setting that cannot be used. Its texts never hold the value.
type Problem struct {
	// Variable is the name of the variable, one of [Variables].
	Variable string
	// Message is one sentence that names the variable and says what is wrong.
	Message string
	// Remedy is one line that says what to do.
	Remedy string
	// Touches says which calls cannot be served.
	Touches Scope
}

// Warning is something that works, but probably not as the operator meant it.
// Its texts never hold a value.
type Warning struct {
	// Variable is the name of the variable of ours that the warning is about.
	Variable string
	// Message is one sentence that says what was noticed.
	Message string
	// Remedy is one line that says what to do.
	Remedy string
}

// Scope names the calls that a setting touches.
type Scope int

// The scopes of settings.
const (
	NoCalls       Scope = iota // no call depends on it: a bad value falls back with a warning
	AllCalls                   // every tool call
	ReviewCalls                // record_review
	EvidenceCalls              // get_evidence
)

// WriteLock says whether writes to LoopGrid take turns, in this process and
// between processes.
type WriteLock string

// The kinds of write lock.
const (
	AutoWriteLock WriteLock = "auto" // unless LoopGrid says that it orders writes itself
	WriteLockOn   WriteLock = "on"   // always
	WriteLockOff  WriteLock = "off"  // never
)

// ReviewConfirmation says who makes sure that a person decides a review: this
// program, by a form that the host shows, or the host, by its own approval of
// tool calls.
type ReviewConfirmation string

// The kinds of confirmation.
const (
	AutoConfirmation     ReviewConfirmation = "auto"     // the person is asked where the host can show a form
	RequiredConfirmation ReviewConfirmation = "required" // the person is asked, or nothing is recorded
	HostConfirmation     ReviewConfirmation = "host"     // the host alone
)

// ToolNames is how the tools are called in the list that a client sees.
type ToolNames string

// The spellings of tool names.
const (
	AutoNames       ToolNames = "auto"       // by the name of the client
	DottedNames     ToolNames = "dotted"     // loopgrid.record_decision
	UnderscoreNames ToolNames = "underscore" // loopgrid_record_decision
)

// Load reads the settings from the environment of the process. It never fails:
// what is wrong is in the Problems and Warnings of the result. It looks at the
// working directory and at the files that settings name, but changes nothing on
// disk.
func Load() Settings {
	var given environment
	// Every field is a text: there is no conversion that could fail.
	_ = envconfig.Process("", &given)

	return parse(given, byName(os.Environ()))
}

// LoadFrom is [Load] with the environment given as "NAME=value" texts, as
// [os.Environ] returns them.
func LoadFrom(environ []string) Settings {
	names := byName(environ)

	var given environment
	fields := reflect.ValueOf(&given).Elem()
	for i := range fields.NumField() {
		fields.Field(i).SetString(names[fields.Type().Field(i).Tag.Get("envconfig")])
	}

	return parse(given, names)
}

// ProblemsFor returns the problems because of which calls of the scope
// cannot be served: those of every call and those of the scope itself.
func (s Settings) ProblemsFor(scope Scope) []Problem {
	var found []Problem
	for _, p := range s.Problems {
		if p.Touches == AllCalls || p.Touches == scope {
			found = append(found, p)
		}
	}

	return found
}

// KeyNote says why no service key is sent although the operator may believe that
// one is, or why the one that is sent may not be what was meant: to be added to
// the text of a refusal by LoopGrid. It is empty where there is nothing to say.
func (s Settings) KeyNote() string {
	for _, w := range s.Warnings {
		if w.Variable == serviceKey && w.Message != shortKey || w.Variable == serviceKeyFile && !s.ServiceKey.IsSet() {
			return w.Message + " " + w.Remedy
		}
	}

	return ""
}

// KeyVariable returns the name of the variable that the service key comes from, for texts that say where to look: that of the key itself
// where there is none.
func (s Settings) KeyVariable() string {
	if s.RereadServiceKey != nil {
		return serviceKeyFile
	}
	return serviceKey
}

// UseKey says how an operator gives this program another key, in lower case and without a full stop. The two variables exclude each other.
func (s Settings) UseKey(key string) string {
	if s.RereadServiceKey != nil {
		return "write " + key + " into the file that " + serviceKeyFile + " names"
	}
	return "set " + serviceKey + " to " + key
}

// byName sorts an environment into a map. The first of two equal names counts, as
// in [os.LookupEnv].
func byName(environ []string) map[string]string {
	names := make(map[string]string, len(environ))
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		name = canonicalName(name)
		if _, taken := names[name]; !taken {
			names[name] = value
		}
	}

	return names
}
