package config

// Variable describes one setting for documentation and for registries.
type Variable struct {
	// Name is the name of the environment variable.
	Name string
	// Default is the value that an unset variable stands for; it is empty where
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
}

// The names of the variables, for messages.
const (
	baseURL            = "LOOPGRID_BASE_URL"
	workspace          = "LOOPGRID_WORKSPACE"
	serviceKey         = "LOOPGRID_SERVICE_KEY"
	evidenceDir        = "LOOPGRID_EVIDENCE_DIR"
	maxEvidenceBytes   = "LOOPGRID_MAX_EVIDENCE_BYTES"
	timeoutSeconds     = "LOOPGRID_MCP_TIMEOUT_SECONDS"
	enableReviewTool   = "LOOPGRID_MCP_ENABLE_REVIEW_TOOL"
	reviewerID         = "LOOPGRID_MCP_REVIEWER_ID"
	reviewConfirmation = "LOOPGRID_MCP_REVIEW_CONFIRMATION"
	allowPayloadExport = "LOOPGRID_MCP_ALLOW_PAYLOAD_EXPORT"
	toolNames          = "LOOPGRID_MCP_TOOL_NAMES"
	logLevel           = "LOOPGRID_MCP_LOG_LEVEL"
)

// Variables returns the settings in the order in which they are documented and
// in which problems are reported. No variable is required by itself.
func Variables() []Variable {
	return []Variable{
		{
			Name: baseURL, Default: "http://127.0.0.1:8000", Touches: AllCalls,
			Description: "Address of the LoopGrid service, with its base path if it has one.",
		},
		{
			Name: workspace, Default: "default", Touches: AllCalls,
			Description: "LoopGrid workspace that every call records into and reads from.",
		},
		{
			Name: serviceKey, Secret: true, Touches: AllCalls,
			Description: "LoopGrid service key; needed where the service asks for one.",
		},
		{
			Name: evidenceDir, Touches: EvidenceCalls,
			Description: "Directory for downloaded evidence. Unset: loopgrid-evidence in the working directory, " +
				"or in the user's data directory where that is not possible.",
		},
		{
			Name: maxEvidenceBytes, Default: "52428800", Touches: EvidenceCalls,
			Description: "Largest evidence file that is downloaded, in bytes.",
		},
		{
			Name: timeoutSeconds, Default: "20", Touches: AllCalls,
			Description: "Seconds that one request with its repeats may take; a whole call may take twice as long.",
		},
		{
			Name: enableReviewTool, Default: "false", Choices: []string{"true", "false"}, Touches: ReviewCalls,
			Description: "Whether the review tool may record a human approval or rejection.",
		},
		{
			Name: reviewerID, Touches: ReviewCalls,
			Description: "Reviewer of record, at most 128 characters; required when the review tool is on.",
		},
		{
			Name: reviewConfirmation, Default: string(AutoConfirmation), Touches: ReviewCalls,
			Choices: []string{string(AutoConfirmation), string(RequiredConfirmation), string(HostConfirmation)},
			Description: "How a person confirms a review: auto (by a form where the host can show one, elsewhere by the host's own approval of calls), " +
				"required (by a form or not at all), host (by the host's approval alone).",
		},
		{
			Name: allowPayloadExport, Default: "false", Choices: []string{"true", "false"}, Touches: EvidenceCalls,
			Description: "Whether evidence may be downloaded with its clear payloads.",
		},
		{
			Name: toolNames, Default: string(AutoNames),
			Choices:     []string{string(AutoNames), string(DottedNames), string(UnderscoreNames)},
			Description: "Spelling of tool names: dotted (loopgrid.record_decision), underscore, or auto, which goes by the client.",
		},
		{
			Name: logLevel, Default: "info", Choices: []string{"debug", "info", "warn", "error"},
			Description: "Least severe log lines that are written to stderr.",
		},
	}
}

// environment is what the operator wrote, before any rule is applied.
type environment struct {
	BaseURL            string `env:"LOOPGRID_BASE_URL"`
	Workspace          string `env:"LOOPGRID_WORKSPACE"`
	ServiceKey         string `env:"LOOPGRID_SERVICE_KEY"`
	EvidenceDir        string `env:"LOOPGRID_EVIDENCE_DIR"`
	MaxEvidenceBytes   string `env:"LOOPGRID_MAX_EVIDENCE_BYTES"`
	TimeoutSeconds     string `env:"LOOPGRID_MCP_TIMEOUT_SECONDS"`
	EnableReviewTool   string `env:"LOOPGRID_MCP_ENABLE_REVIEW_TOOL"`
	ReviewerID         string `env:"LOOPGRID_MCP_REVIEWER_ID"`
	ReviewConfirmation string `env:"LOOPGRID_MCP_REVIEW_CONFIRMATION"`
	AllowPayloadExport string `env:"LOOPGRID_MCP_ALLOW_PAYLOAD_EXPORT"`
	ToolNames          string `env:"LOOPGRID_MCP_TOOL_NAMES"`
	LogLevel           string `env:"LOOPGRID_MCP_LOG_LEVEL"`
}
