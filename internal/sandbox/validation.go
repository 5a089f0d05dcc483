package sandbox

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// form is a request body or a query while its fields are validated the way pydantic does it: all problems are listed, in the order of the fields.
type form struct {
	// place is "body" or "query".
	place string
	in    jsontext.Value
	sent  map[string]jsontext.Value
	// values are the validated fields, defaults filled in.
	values   map[string]jsontext.Value
	problems []jsontext.Value
}

// problem records what is wrong with the input at a place; the context is optional. It returns false, so that a check can end with it.
func (f *form) problem(kind string, loc []any, message string, input any, context ...evidence.Field) bool {
	place := []jsontext.Value{evidence.Text(f.place)}
	for _, step := range loc {
		place = append(place, encode(step))
	}
	fields := []evidence.Field{kv("type", kind), kv("loc", place), kv("msg", message), kv("input", input)}
	if len(context) > 0 {
		fields = append(fields, kv("ctx", evidence.Object(context...)))
	}
	f.problems = append(f.problems, evidence.Object(fields...))
	return false
}

// err returns a refusal that lists the problems, nil if there are none.
func (f *form) err() error {
	if len(f.problems) == 0 {
		return nil
	}
	return &refusal{status: http.StatusUnprocessableEntity, detail: evidence.Array(f.problems...)}
}

// readForm parses a request body. A body that is not a JSON object is one problem of the whole body.
func readForm(contentType string, body []byte) (*form, error) {
	f := &form{place: "body", values: map[string]jsontext.Value{}}
	media, _, _ := strings.Cut(strings.ToLower(contentType), ";")
	switch kind, sub, _ := strings.Cut(strings.TrimSpace(media), "/"); {
	case len(body) == 0:
		f.problem("missing", nil, "Field required", nil)
		return nil, f.err()
	case kind == "application" && (sub == "json" || strings.HasSuffix(sub, "+json")):
		var err error
		if f.in, err = readJSON(f, body); err != nil {
			return nil, err
		}
	default:
		f.in = evidence.Text(string(body)) // LoopGrid reads it as a string.
	}
	if f.in.Kind() != '{' {
		f.problem("model_attributes_type", nil, "Input should be a valid dictionary or object to extract fields from", f.in)
		return nil, f.err()
	}
	f.sent = maps.Collect(evidence.Members(f.in))
	return f, nil
}

// syntax refuses a body that is not JSON. The reason is in the parser's words, the place in bytes.
func (f *form) syntax(err error) error {
	at, reason := 0, err.Error()
	if syntax := (*jsontext.SyntacticError)(nil); errors.As(err, &syntax) {
		at, reason = int(syntax.ByteOffset), syntax.Err.Error()
	}
	f.problem("json_invalid", []any{at}, "JSON decode error", evidence.Object(), kv("error", reason))
	return f.err()
}

// queryForm is the form of a query, in which every value is a string and the last of a name counts.
func queryForm(query url.Values) *form {
	f := &form{place: "query", sent: map[string]jsontext.Value{}, values: map[string]jsontext.Value{}}
	for name, values := range query {
		f.sent[name] = evidence.Text(strings.ToValidUTF8(values[len(values)-1], "\ufffd"))
	}
	return f
}

// field validates one field: a value that was sent must pass the check, otherwise the fallback applies. A fallback of nil makes the field
// required; a fallback of null allows null.
func (f *form) field(name string, fallback any, check func(value jsontext.Value) bool) {
	value, sent := f.sent[name]
	switch {
	case !sent && fallback == nil:
		f.problem("missing", []any{name}, "Field required", f.in)
	case !sent || string(value) == "null" && fallback != nil && string(encode(fallback)) == "null":
		f.values[name] = encode(fallback)
	case check(value):
		f.values[name] = value
	}
}

// null is the fallback of a field that may be null.
func null() jsontext.Value { return jsontext.Value("null") }

// text is a string of at least shortest and at most longest characters; longest 0 means any.
func (f *form) text(name string, fallback any, shortest, longest int) {
	f.field(name, fallback, func(value jsontext.Value) bool {
		s, ok := evidence.Unquote(value)
		switch length := utf8.RuneCountInString(s); {
		case !ok:
			return f.problem("string_type", []any{name}, "Input should be a valid string", value)
		case length < shortest:
			return f.problem("string_too_short", []any{name}, "String should have at least "+characters(shortest), value, kv("min_length", shortest))
		case longest > 0 && length > longest:
			return f.problem("string_too_long", []any{name}, "String should have at most "+characters(longest), value, kv("max_length", longest))
		}
		return true
	})
}

func characters(n int) string {
	if n == 1 {
		return "1 character"
	}
	return strconv.Itoa(n) + " characters"
}

// oneOf is one of some strings.
func (f *form) oneOf(name string, fallback any, allowed ...string) {
	f.field(name, fallback, func(value jsontext.Value) bool { return f.literal([]any{name}, value, allowed) })
}

func (f *form) literal(loc []any, value jsontext.Value, allowed []string) bool {
	if s, ok := evidence.Unquote(value); ok && slices.Contains(allowed, s) {
		return true
	}
	last := len(allowed) - 1
	expected := "'" + strings.Join(allowed[:last], "', '") + "' or '" + allowed[last] + "'"
	return f.problem("literal_error", loc, "Input should be "+expected, value, kv("expected", expected))
}

// object is a JSON object.
func (f *form) object(name string, fallback any) {
	f.field(name, fallback, func(value jsontext.Value) bool {
		return value.Kind() == '{' || f.problem("dict_type", []any{name}, "Input should be a valid dictionary", value)
	})
}

// texts is a list of strings, each of them one of allowed if there are any.
func (f *form) texts(name string, fallback []string, allowed ...string) {
	f.field(name, fallback, func(value jsontext.Value) bool {
		if value.Kind() != '[' {
			return f.problem("list_type", []any{name}, "Input should be a valid list", value)
		}
		ok, i := true, 0
		for element := range evidence.Elements(value) {
			if len(allowed) > 0 {
				ok = f.literal([]any{name, i}, element, allowed) && ok
			} else if element.Kind() != '"' {
				ok = f.problem("string_type", []any{name, i}, "Input should be a valid string", element)
			}
			i++
		}
		return ok
	})
}

// whole is an integer between least and most, in a query as text.
func (f *form) whole(name string, fallback any, least, most int) {
	f.field(name, fallback, func(value jsontext.Value) bool {
		n, err := strconv.Atoi(strings.Trim(string(value), `"`))
		switch {
		case err != nil:
			return f.problem("int_parsing", []any{name}, "Input should be a valid integer, unable to parse string as an integer", value)
		case n < least:
			return f.problem("greater_than_equal", []any{name}, "Input should be greater than or equal to "+strconv.Itoa(least), value, kv("ge", least))
		case n > most:
			return f.problem("less_than_equal", []any{name}, "Input should be less than or equal to "+strconv.Itoa(most), value, kv("le", most))
		}
		return true
	})
}

// boolean is true or false, in a query as text.
func (f *form) boolean(name string, fallback bool) {
	f.field(name, fallback, func(value jsontext.Value) bool {
		_, err := strconv.ParseBool(strings.Trim(string(value), `"`))
		return err == nil || f.problem("bool_parsing", []any{name}, "Input should be a valid boolean, unable to interpret input", value)
	})
}

// str returns a validated string, "" for null.
func (f *form) str(name string) string {
	s, _ := evidence.Unquote(f.values[name])
	return s
}

// list returns a validated list of strings.
func (f *form) list(name string) []string {
	var list []string
	for element := range evidence.Elements(f.values[name]) {
		s, _ := evidence.Unquote(element)
		list = append(list, s)
	}
	return list
}

// num returns a validated integer, 0 for null.
func (f *form) num(name string) int {
	n, _ := strconv.Atoi(strings.Trim(string(f.values[name]), `"`))
	return n
}

// is returns a validated boolean.
func (f *form) is(name string) bool {
	b, _ := strconv.ParseBool(strings.Trim(string(f.values[name]), `"`))
	return b
}

// privacyModes are LoopGrid's, in its order.
func privacyModes() []string { return []string{modeFull, modeRedacted, modeProofOnly} }

// capturedObjects are the objects of a decision, in their order.
func capturedObjects() []string {
	return []string{"agent", "authority", "model", "context", "input", "proposed_action", "metadata"}
}

func decisionForm(f *form) {
	f.text("decision_type", nil, 1, 120)
	f.text("service_name", "ai-agent", 0, 120)
	f.text("workspace_id", defaultWorkspace, 0, 64)
	f.oneOf("privacy_mode", null(), privacyModes()...)
	f.text("idempotency_key", null(), 0, 160)
	for _, name := range capturedObjects() {
		f.object(name, evidence.Object())
	}
}

func eventForm(f *form) {
	f.oneOf("event_type", nil, modelCompleted, policyEvaluated, humanApproved, humanRejected, toolRequested, toolResult, toolExecuted,
		outcomeObserved, humanAdjudicated, "incident_flagged", replayExecuted, "checkpoint_created", "telemetry_ingested", mcpToolRequested,
		mcpToolResult, payloadErased)
	f.oneOf("actor_type", "system", "agent", "human", "system", "tool", "policy", "integration")
	f.text("actor_id", "loopgrid", 0, 0)
	f.object("payload", evidence.Object())
	f.oneOf("privacy_mode", null(), privacyModes()...)
	f.text("idempotency_key", null(), 0, 160)
}

func reviewForm(f *form) {
	f.oneOf("action", nil, "approve", "reject")
	f.text("reviewer", nil, 1, 160)
	f.text("reason", "", 0, 1000)
}

func evaluateForm(f *form) {
	f.text("policy_id", nil, 0, 0)
	f.object("proposed_action", nil)
	f.object("authority", evidence.Object())
	f.object("context", evidence.Object())
}

func workspaceForm(f *form) {
	f.text("name", nil, 1, 160)
	f.oneOf("environment", "development", "development", "staging", "production")
	f.oneOf("privacy_mode", modeFull, privacyModes()...)
	f.whole("retention_days", 90, 1, 3650)
	f.texts("redaction_fields", []string{})
}

func keyForm(f *form) {
	f.text("name", "Default ingestion key", 1, 120)
	f.texts("scopes", []string{scopeIngest, scopeRead}, scopeIngest, scopeRead, scopeReview, scopeAdmin)
	f.whole("expires_in_days", null(), 1, 3650)
}

func policyForm(f *form) {
	f.text("policy_id", nil, 1, 96)
	f.text("name", nil, 1, 160)
	f.text("version", nil, 1, 48)
	f.object("rule", nil)
	f.boolean("active", true)
}

func eraseForm(f *form) {
	f.text("reason", "customer_request", 0, 160)
}
