package config

import (
	"reflect"
	"slices"
	"strings"
	"sync"
)

// environment is the table of settings, and what the operator wrote before any
// rule is applied: envconfig fills it. A new setting is a field here, a field of
// [Settings], and a line in parse that joins the two.
//
// Every field is a text, because envconfig's own errors print values. The tags
// besides envconfig's are those of [Variable]; touches is the [Scope] of the calls
// that cannot be served while the value is unusable: all, review or evidence. kind
// says which mistakes in the text are looked for: see [loader.given].
type environment struct {
	BaseURL            string `envconfig:"LOOPGRID_BASE_URL" kind:"target" default:"http://127.0.0.1:8000" touches:"all" desc:"Address of the LoopGrid service, with its base path if it has one."`
	Workspace          string `envconfig:"LOOPGRID_WORKSPACE" kind:"target" default:"default" touches:"all" desc:"LoopGrid workspace that every call records into and reads from."`
	ServiceKey         string `envconfig:"LOOPGRID_SERVICE_KEY" kind:"key" secret:"true" touches:"all" desc:"LoopGrid service key, if the service requires one."`
	ServiceKeyFile     string `envconfig:"LOOPGRID_SERVICE_KEY_FILE" kind:"path" touches:"all" desc:"File that holds the service key, such as a Docker or Kubernetes secret; use it instead of LOOPGRID_SERVICE_KEY."`
	CAFile             string `envconfig:"LOOPGRID_CA_FILE" kind:"path" touches:"all" desc:"PEM file with certificates of authorities to trust in addition to the system's."`
	EvidenceDir        string `envconfig:"LOOPGRID_EVIDENCE_DIR" kind:"path" touches:"evidence" desc:"Directory for downloaded evidence. Unset: loopgrid-evidence in the working directory, or in the user's data directory where that is not possible."`
	MaxEvidenceBytes   string `envconfig:"LOOPGRID_MAX_EVIDENCE_BYTES" default:"52428800" touches:"evidence" desc:"Largest evidence file to download, in bytes."`
	TimeoutSeconds     string `envconfig:"LOOPGRID_MCP_TIMEOUT_SECONDS" default:"20" touches:"all" desc:"Time limit in seconds for one request, repeats included; a whole call may take twice as long."`
	WriteLock          string `envconfig:"LOOPGRID_MCP_WRITE_LOCK" default:"auto" choices:"auto,on,off" desc:"Whether writes take turns: auto (unless LoopGrid says that it runs on PostgreSQL), on, or off (only right on PostgreSQL: on SQLite, overlapping writes break the chain)."`
	EnableReviewTool   string `envconfig:"LOOPGRID_MCP_ENABLE_REVIEW_TOOL" default:"false" choices:"true,false" touches:"review" desc:"Whether the review tool may record a human approval or rejection."`
	ReviewerID         string `envconfig:"LOOPGRID_MCP_REVIEWER_ID" kind:"person" touches:"review" desc:"Reviewer of record, at most 128 characters; required when the review tool is on."`
	ReviewConfirmation string `envconfig:"LOOPGRID_MCP_REVIEW_CONFIRMATION" default:"auto" choices:"auto,required,host" touches:"review" desc:"How a person confirms a review: auto (by a form if the host can show one, otherwise by the host's own approval of calls), required (by a form or not at all), host (by the host's approval alone)."`
	AllowPayloadExport string `envconfig:"LOOPGRID_MCP_ALLOW_PAYLOAD_EXPORT" default:"false" choices:"true,false" touches:"evidence" desc:"Whether evidence may be downloaded with its clear payloads."`
	ToolNames          string `envconfig:"LOOPGRID_MCP_TOOL_NAMES" default:"auto" choices:"auto,dotted,underscore" desc:"Spelling of tool names: dotted (loopgrid.record_decision), underscore, or auto, which depends on the client."`
	LogLevel           string `envconfig:"LOOPGRID_MCP_LOG_LEVEL" default:"info" choices:"debug,info,warn,error" desc:"Lowest level of log lines written to stderr."`
}

// The names of the variables, for messages.
const (
	baseURL            = "LOOPGRID_BASE_URL"
	workspace          = "LOOPGRID_WORKSPACE"
	serviceKey         = "LOOPGRID_SERVICE_KEY"
	serviceKeyFile     = "LOOPGRID_SERVICE_KEY_FILE"
	caFile             = "LOOPGRID_CA_FILE"
	evidenceDir        = "LOOPGRID_EVIDENCE_DIR"
	maxEvidenceBytes   = "LOOPGRID_MAX_EVIDENCE_BYTES"
	timeoutSeconds     = "LOOPGRID_MCP_TIMEOUT_SECONDS"
	writeLock          = "LOOPGRID_MCP_WRITE_LOCK"
	enableReviewTool   = "LOOPGRID_MCP_ENABLE_REVIEW_TOOL"
	reviewerID         = "LOOPGRID_MCP_REVIEWER_ID"
	reviewConfirmation = "LOOPGRID_MCP_REVIEW_CONFIRMATION"
	allowPayloadExport = "LOOPGRID_MCP_ALLOW_PAYLOAD_EXPORT"
	toolNames          = "LOOPGRID_MCP_TOOL_NAMES"
	logLevel           = "LOOPGRID_MCP_LOG_LEVEL"
)

// Variable describes one setting for documentation and for registries.
type Variable struct {
	// Name is the name of the environment variable.
	Name string
	// Default is the value that an unset variable has; it is empty where
	// unset means "none" or where the description says what happens.
	Default string
	// Description is one line of plain text.
	Description string
	// Choices lists the values where only a few are possible. Switches take more
	// spellings than are listed here (1/0, yes/no, on/off).
	Choices []string
	// Secret says that the value must never be shown.
	Secret bool
	// Touches says which calls cannot be served while the value is unusable.
	Touches Scope

	kind string // target (of evidence), person, path or key; "" is anything else
}

// Variables returns the settings in the order in which they are documented and
// in which problems are reported. No variable is required by itself.
func Variables() []Variable { return slices.Clone(table()) }

// table is [Variables], read from the tags once: that takes a part of the time in
// which the server starts.
var table = sync.OnceValue(func() []Variable { //nolint:gochecknoglobals // It never changes.
	var all []Variable
	scopes := map[string]Scope{"": NoCalls, "all": AllCalls, "review": ReviewCalls, "evidence": EvidenceCalls}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[environment]()) {
		v := Variable{
			Name:        field.Tag.Get("envconfig"),
			Default:     field.Tag.Get("default"),
			Description: field.Tag.Get("desc"),
			Secret:      field.Tag.Get("secret") == "true",
			Touches:     scopes[field.Tag.Get("touches")],
			kind:        field.Tag.Get("kind"),
		}
		if choices := field.Tag.Get("choices"); choices != "" {
			v.Choices = strings.Split(choices, ",")
		}
		all = append(all, v)
	}

	return all
})

func lookUp(name string) Variable {
	for _, v := range table() {
		if v.Name == name {
			return v
		}
	}

	return Variable{}
}
