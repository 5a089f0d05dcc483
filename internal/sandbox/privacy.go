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

// project returns the payload that is signed in the modes redacted and proof_only; what full mode signs is made where the payload is kept.
func project(payload *object, mode, commitment string, custom []string) jsontext.Value {
	if mode == modeProofOnly {
		return evidence.Object(kv("proof_only", boolean(true)), kv("payload_sha256", quoted(commitment)))
	}
	return text(redact(payload, "", custom))
}

// redact replaces the values of sensitive names by their commitments, at any depth.
func redact(value any, path string, custom []string) any {
	switch v := value.(type) {
	case *object:
		out := newObject()
		for _, name := range v.names {
			at := name
			if path != "" {
				at = path + "." + name
			}
			member := v.values[name]
			if sensitive(name, at, custom) {
				out.set(name, commit(member))
			} else {
				out.set(name, redact(member, at, custom))
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, element := range v {
			out[i] = redact(element, path+"[]", custom)
		}
		return out
	}
	return value
}

// sensitive says whether a name looks private, or it or its path is in the workspace's own list. The list is compared as it was written with
// names in lower case: an entry with capitals or hyphens never matches.
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

// commit stands for a value that is not shown. A value without canonical form makes the whole event fail, since its payload has none either.
func commit(value any) *object {
	hash, err := evidence.Commitment(text(value))
	if err != nil {
		hash = ""
	}
	kind := "NoneType"
	switch value.(type) {
	case bool:
		kind = "bool"
	case string:
		kind = "str"
	case integer:
		kind = "int"
	case float64:
		kind = "float"
	case []any:
		kind = "list"
	case *object:
		kind = "dict"
	}
	out := newObject()
	out.set("redacted", true)
	out.set("sha256", hash)
	out.set("type", kind)
	return out
}
