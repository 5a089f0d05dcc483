package config

import (
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/loopgridio/loopgrid-mcp/internal/text"
)

// relatives are names that other programs read, or that an operator guesses, for
// what is a variable of ours. Names that only differ by MCP_ need no entry.
func relatives() map[string]string {
	meanings := map[string]string{
		baseURL:            "URL URI HOST PORT ENDPOINT ADDRESS ADDR SERVER SERVER_URL SERVICE_URL API_URL API_BASE API_BASE_URL",
		workspace:          "WORKSPACE_ID WORKSPACE_NAME PROJECT TENANT",
		serviceKey:         "KEY TOKEN API_KEY API_TOKEN SECRET SECRET_KEY ACCESS_TOKEN AUTH_TOKEN BEARER_TOKEN PASSWORD SERVICE_TOKEN CREDENTIAL",
		serviceKeyFile:     "KEY_FILE API_KEY_FILE TOKEN_FILE SECRET_FILE",
		caFile:             "CA CA_CERT CA_CERT_FILE CA_BUNDLE CERT CERT_FILE SSL_CERT_FILE TLS_CA_FILE",
		evidenceDir:        "EVIDENCE EVIDENCE_PATH EVIDENCE_FOLDER OUTPUT_DIR",
		maxEvidenceBytes:   "MAX_EVIDENCE_SIZE MAX_BYTES",
		timeoutSeconds:     "TIMEOUT TIMEOUT_MS REQUEST_TIMEOUT",
		writeLock:          "LOCK",
		enableReviewTool:   "REVIEW REVIEW_TOOL ENABLE_REVIEW ENABLE_REVIEWS REVIEW_ENABLED ALLOW_REVIEW",
		reviewerID:         "REVIEWER REVIEWER_NAME",
		reviewConfirmation: "CONFIRMATION CONFIRM_REVIEW",
		allowPayloadExport: "EXPORT ALLOW_EXPORT PAYLOAD_EXPORT ENABLE_PAYLOAD_EXPORT INCLUDE_PAYLOADS",
		toolNames:          "NAMES TOOL_NAMING",
		logLevel:           "LOG DEBUG VERBOSE LOGLEVEL",
	}
	all := map[string]string{}
	for meant, names := range meanings {
		for name := range strings.FieldsSeq(names) {
			all[name] = meant
		}
		all[withoutPrefix(meant)] = meant
	}

	return all
}

// withoutPrefix returns the part of a name that says what the variable is for.
func withoutPrefix(name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(strings.ToUpper(name), "LOOPGRID_"), "MCP_")
}

// warnOfUnread warns of variables that look like one of ours and are not. All
// other LOOPGRID_* variables belong to the service.
func (l *loader) warnOfUnread() {
	var ours []string
	for _, v := range Variables() {
		ours = append(ours, v.Name)
	}
	known := relatives()
	for _, name := range slices.Sorted(maps.Keys(l.environ)) {
		if !l.isSet(name) || slices.Contains(ours, name) {
			continue
		}
		// A mistyped name of ours is named first: LOOPGRID_BASE_URI is one.
		meant := Nearest(name, ours)
		if meant == "" && strings.HasPrefix(strings.ToUpper(name), "LOOPGRID_") {
			if meant = known[withoutPrefix(name)]; meant != "" && l.isSet(meant) {
				continue
			}
		}
		if meant != "" {
			l.warn(meant,
				shown(name)+" is set, but this program does not read it.",
				"Use "+meant+", if that is what it is meant for.")
		}
	}
}

// Nearest returns the known name that a name misspells by at most two letters,
// whatever their case, and of several the first; it returns "" where there is none
// or the name is right.
func Nearest(name string, known []string) string {
	const most = 2

	folded := strings.ToLower(name)
	found, least := "", most+1
	for _, one := range known {
		if distance := editDistance(folded, strings.ToLower(one), most); distance < least {
			found, least = one, distance
		}
	}
	if found == name {
		return ""
	}

	return found
}

// editDistance counts the letters to insert, delete or replace that make b of a.
// It does not count beyond most+1.
func editDistance(a, b string, most int) int {
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return most + 1
	}

	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		least := row[0]
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
			least = min(least, row[j+1])
		}
		if least > most {
			return most + 1
		}
	}

	return row[len(b)]
}

// canonicalName returns the name as the system compares it: Windows does not
// tell capitals from small letters.
func canonicalName(name string) string {
	if runtime.GOOS == "windows" {
		return strings.ToUpper(name)
	}

	return name
}

// shown is a name or a path as messages show it.
func shown(name string) string {
	const longest = 500
	return text.Clean(name, longest)
}
