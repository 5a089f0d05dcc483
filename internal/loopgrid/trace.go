package loopgrid

import (
	"context"
	"net/http"
	"regexp"
	"strings"
)

// traceContext is a caller's place in a distributed trace, as W3C Trace Context writes it.
type traceContext struct{ parent, state string }

type traceKey struct{}

// The forms have no upper bounds, which would take a millisecond of every start to compile: the lengths are checked beside them.
var (
	traceparentForm = regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-[!-~]+)?$`)
	memberForm      = regexp.MustCompile(`^([a-z0-9][a-z0-9_*/-]*)(?:@([a-z][a-z0-9_*/-]*))?=([ -+\--<>-~]*[!-+\--<>-~])$`)
)

// WithTrace returns a context whose requests carry traceparent and tracestate on to LoopGrid, and the id of the trace for a log line. A
// traceparent that W3C Trace Context does not allow is dropped with its tracestate, and the id is empty then; so is a tracestate alone.
func WithTrace(ctx context.Context, traceparent, tracestate string) (context.Context, string) {
	id := traceID(traceparent)
	if id == "" {
		return ctx, ""
	}
	if !isTraceState(tracestate) {
		tracestate = ""
	}
	return context.WithValue(ctx, traceKey{}, traceContext{traceparent, tracestate}), id
}

// setTrace adds the headers of the context's trace, if it has one.
func setTrace(ctx context.Context, header http.Header) {
	trace, ok := ctx.Value(traceKey{}).(traceContext)
	if !ok {
		return
	}
	header.Set("Traceparent", trace.parent)
	if trace.state != "" {
		header.Set("Tracestate", trace.state)
	}
}

// traceID returns the trace id of a well-formed traceparent, empty for any other: version, trace id, parent id and flags in lower-case
// hexadecimal digits. Neither id is all zeros; version ff does not exist; later ones than 00 may add fields.
func traceID(traceparent string) string {
	const (
		zeros    = "00000000000000000000000000000000"
		maxLater = 201 // what a later version may add, its hyphen included
	)
	match := traceparentForm.FindStringSubmatch(traceparent)
	if match == nil || match[1] == "ff" || match[2] == zeros || match[3] == zeros[:16] || match[1] == "00" && match[4] != "" || len(match[4]) > maxLater {
		return ""
	}
	return match[2]
}

// isTraceState says whether a text is a tracestate: up to 32 members key=value, and up to 512 characters, which everybody passes on.
func isTraceState(tracestate string) bool {
	const (
		maxMembers = 32
		maxLength  = 512
	)
	members := strings.Split(tracestate, ",")
	if len(tracestate) > maxLength || len(members) > maxMembers {
		return false
	}
	seen := map[string]bool{}
	for _, m := range members {
		m = strings.Trim(m, " \t")
		key, _, _ := strings.Cut(m, "=")
		if m == "" {
			continue // the specification allows empty members
		}
		if !isMember(m) || seen[key] {
			return false
		}
		seen[key] = true
	}
	return true
}

// isMember says whether a text is one member of a tracestate.
func isMember(m string) bool {
	const maxKey, maxSystem, maxValue = 241, 14, 256
	parts := memberForm.FindStringSubmatch(m)
	return parts != nil && len(parts[1]) <= maxKey && len(parts[2]) <= maxSystem && len(parts[3]) <= maxValue
}
