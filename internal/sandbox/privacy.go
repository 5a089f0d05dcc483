package sandbox

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// Privacy modes of an event.
const (
	modeFull      = "full"
	modeRedacted  = "redacted"
	modeProofOnly = "proof_only"
)

// project returns the payload that is signed in the modes redacted and proof_only; append makes the one for full mode.
func project(payload jsontext.Value, mode, commitment string, custom []string) jsontext.Value {
	if mode == modeProofOnly {
		return evidence.Object(kv("proof_only", true), kv("payload_sha256", commitment))
	}
	return redact(payload, "", custom)
}

// redact replaces the values of sensitive names by their commitments, at any depth.
func redact(value jsontext.Value, path string, custom []string) jsontext.Value {
	switch value.Kind() {
	case '{':
		var fields []evidence.Field
		for name, member := range evidence.Members(value) {
			at := name
			if path != "" {
				at = path + "." + name
			}
			if sensitive(name, at, custom) {
				member = commit(member)
			} else {
				member = redact(member, at, custom)
			}
			fields = append(fields, kv(name, member))
		}
		return evidence.Object(fields...)
	case '[':
		var elements []jsontext.Value
		for element := range evidence.Elements(value) {
			elements = append(elements, redact(element, path+"[]", custom))
		}
		return evidence.Array(elements...)
	default:
		return value
	}
}

// sensitive says whether a name looks private, or it or its path is in the workspace's own list. Names are compared in lower case with the
// list as written, so an entry with capitals or hyphens never matches.
func sensitive(name, path string, custom []string) bool {
	plain := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }
	name = plain(name)
	for _, hint := range []string{
		"email", "phone", "name", "address", "message", "prompt", "response", "customer", "account", "token", "secret", "password",
		"ssn", "dob", "content", "body",
	} {
		if strings.Contains(name, hint) {
			return true
		}
	}
	return slices.Contains(custom, name) || slices.Contains(custom, plain(path))
}

// commit returns what replaces a sensitive value.
func commit(value jsontext.Value) jsontext.Value {
	hash, _ := evidence.Commitment(value) // It was read before.
	kind := map[jsontext.Kind]string{'n': "NoneType", 't': "bool", 'f': "bool", '"': "str", '0': "int", '[': "list", '{': "dict"}[value.Kind()]
	if kind == "int" && isFloat(value) {
		kind = "float"
	}
	return evidence.Object(kv("redacted", true), kv("sha256", hash), kv("type", kind))
}
