package sandbox

import (
	"errors"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// form is a request body or a query while its fields are validated as pydantic does: every problem is told, in the order of the fields.
type form struct {
	// place is "body" or "query".
	place string
	in    *object
	// values are the validated fields, defaults filled in.
	values   map[string]any
	problems []jsontext.Value
}

// problem records what is wrong with the value at loc. The context is optional.
func (f *form) problem(kind string, loc []any, message string, input any, context ...evidence.Field) {
	fields := []evidence.Field{kv("type", quoted(kind)), kv("loc", text(loc)), kv("msg", quoted(message)), kv("input", text(input))}
	if len(context) > 0 {
		fields = append(fields, kv("ctx", evidence.Object(context...)))
	}
	f.problems = append(f.problems, evidence.Object(fields...))
}

// err returns the refusal that lists the problems, nil where there are none.
func (f *form) err() error {
	if len(f.problems) == 0 {
		return nil
	}
	detail := jsontext.Value("[")
	for i, problem := range f.problems {
		if i > 0 {
			detail = append(detail, ',')
		}
		detail = append(detail, problem...)
	}
	return &refusal{status: http.StatusUnprocessableEntity, detail: append(detail, ']')}
}

// readForm parses a request body. What is no JSON object is a problem of the body as a whole.
func readForm(contentType string, body []byte) (*form, error) {
	f := &form{place: "body", values: map[string]any{}}
	var value any
	switch {
	case len(body) == 0:
	case !isJSON(contentType):
		if !utf8.Valid(body) {
			return nil, errInternal // LoopGrid echoes the body as text.
		}
		value = string(body)
	default:
		var err error
		value, err = parseBody(body)
		var syntax *syntaxError
		switch {
		case errors.As(err, &syntax):
			f.problem("json_invalid", []any{"body", at(syntax.Position)}, "JSON decode error", newObject(),
				kv("error", quoted(syntax.Message)))
			return nil, f.err()
		case err != nil:
			return nil, refuse(http.StatusBadRequest, "There was an error parsing the body")
		}
	}
	switch in := value.(type) {
	case *object:
		f.in = in
		return f, nil
	case nil:
		f.problem("missing", []any{"body"}, "Field required", nil)
	default:
		f.problem("model_attributes_type", []any{"body"}, "Input should be a valid dictionary or object to extract fields from", value)
	}
	return nil, f.err()
}

// queryForm is the form of a query, in which every value is a string and the last of a name counts.
func queryForm(query url.Values) *form {
	f := &form{place: "query", in: newObject(), values: map[string]any{}}
	for name, values := range query {
		f.in.set(name, values[len(values)-1])
	}
	return f
}

func at(position int) integer { return integer(strconv.Itoa(position)) }

// loc is where a field of the form stands.
func (f *form) loc(name string, more ...any) []any { return append([]any{f.place, name}, more...) }

// field returns what was sent for a field. Where nothing was sent, it takes the fallback, or reports a required field as missing.
func (f *form) field(name string, fallback any) (value any, sent bool) {
	if value, sent = f.in.values[name]; sent {
		return value, true
	}
	if fallback == (requirement{}) {
		f.problem("missing", f.loc(name), "Field required", f.in)
		return nil, false
	}
	f.values[name] = fallback
	return nil, false
}

// requirement is the type of the fallback that a required field has.
type requirement struct{}

// text is a string of at least shortest and at most longest characters; longest 0 means any.
func (f *form) text(name string, fallback any, shortest, longest int) {
	value, sent := f.field(name, fallback)
	if !sent || value == nil && fallback == nil {
		return
	}
	s, ok := value.(string)
	switch length := utf8.RuneCountInString(s); {
	case !ok:
		f.problem("string_type", f.loc(name), "Input should be a valid string", value)
	case !utf8.ValidString(s):
		// The surrogate in the echo makes it a 500.
		f.problem("string_unicode", f.loc(name), "Input should be a valid string, unable to parse raw data as a unicode string", value)
	case length < shortest:
		f.problem("string_too_short", f.loc(name), "String should have at least "+characters(shortest), value, kv("min_length", number(shortest)))
	case longest > 0 && length > longest:
		f.problem("string_too_long", f.loc(name), "String should have at most "+characters(longest), value, kv("max_length", number(longest)))
	default:
		f.values[name] = s
	}
}

func characters(n int) string {
	if n == 1 {
		return "1 character"
	}
	return strconv.Itoa(n) + " characters"
}

// oneOf is one of some strings; null is taken where it is the fallback.
func (f *form) oneOf(name string, fallback any, allowed ...string) {
	value, sent := f.field(name, fallback)
	if !sent || value == nil && fallback == nil {
		return
	}
	if f.literal(f.loc(name), value, allowed) {
		f.values[name] = value
	}
}

func (f *form) literal(loc []any, value any, allowed []string) bool {
	if s, ok := value.(string); ok && slices.Contains(allowed, s) {
		return true
	}
	last := len(allowed) - 1
	expected := "'" + strings.Join(allowed[:last], "', '") + "' or '" + allowed[last] + "'"
	f.problem("literal_error", loc, "Input should be "+expected, value, kv("expected", quoted(expected)))
	return false
}

// object is a JSON object.
func (f *form) object(name string, fallback any) {
	value, sent := f.field(name, fallback)
	if !sent {
		return
	}
	if o, ok := value.(*object); ok {
		f.values[name] = o
		return
	}
	f.problem("dict_type", f.loc(name), "Input should be a valid dictionary", value)
}

// texts is a list of strings, each of them one of allowed if there are any.
func (f *form) texts(name string, fallback []any, allowed ...string) {
	value, sent := f.field(name, fallback)
	if !sent {
		return
	}
	list, ok := value.([]any)
	if !ok {
		f.problem("list_type", f.loc(name), "Input should be a valid list", value)
		return
	}
	for i, element := range list {
		if len(allowed) > 0 {
			f.literal(f.loc(name, at(i)), element, allowed)
		} else if _, ok := element.(string); !ok {
			f.problem("string_type", f.loc(name, at(i)), "Input should be a valid string", element)
		}
	}
	f.values[name] = list
}

// whole is an integer between least and most; null is taken where it is the fallback. The value is an int.
func (f *form) whole(name string, fallback any, least, most int) {
	value, sent := f.field(name, fallback)
	if !sent || value == nil && fallback == nil {
		return
	}
	var n float64
	switch v := value.(type) {
	case integer:
		n, _ = strconv.ParseFloat(string(v), 64)
	case float64:
		if n = v; v != math.Trunc(v) {
			f.problem("int_from_float", f.loc(name), "Input should be a valid integer, got a number with a fractional part", value)
			return
		}
	case bool:
		if n = 0; v {
			n = 1
		}
	case string:
		digits, fraction, _ := strings.Cut(strings.TrimSpace(v), ".")
		parsed, err := strconv.Atoi(strings.ReplaceAll(digits, "_", ""))
		if err != nil || strings.Trim(fraction, "0") != "" {
			f.problem("int_parsing", f.loc(name), "Input should be a valid integer, unable to parse string as an integer", value)
			return
		}
		n = float64(parsed)
	default:
		f.problem("int_type", f.loc(name), "Input should be a valid integer", value)
		return
	}
	switch {
	case n < float64(least):
		f.problem("greater_than_equal", f.loc(name), "Input should be greater than or equal to "+strconv.Itoa(least), value, kv("ge", number(least)))
	case n > float64(most):
		f.problem("less_than_equal", f.loc(name), "Input should be less than or equal to "+strconv.Itoa(most), value, kv("le", number(most)))
	default:
		f.values[name] = int(n)
	}
}

// boolean is true or false, or one of the words and numbers that pydantic takes for them.
func (f *form) boolean(name string, fallback bool) {
	value, sent := f.field(name, fallback)
	if !sent {
		return
	}
	var word string
	switch v := value.(type) {
	case bool:
		f.values[name] = v
		return
	case string:
		word = strings.ToLower(v)
	case integer:
		word = string(v)
	case float64:
		if v == 0 || v == 1 {
			f.values[name] = v == 1
			return
		}
	}
	switch word {
	case "1", "t", "true", "y", "yes", "on":
		f.values[name] = true
		return
	case "0", "f", "false", "n", "no", "off":
		f.values[name] = false
		return
	}
	switch value.(type) {
	case string, integer:
		f.problem("bool_parsing", f.loc(name), "Input should be a valid boolean, unable to interpret input", value)
	default:
		f.problem("bool_type", f.loc(name), "Input should be a valid boolean", value)
	}
}

// str returns a validated string, "" where it is null.
func (f *form) str(name string) string {
	s, _ := f.values[name].(string)
	return s
}

// strOrNil returns a validated string that may be null.
func (f *form) strOrNil(name string) *string {
	if s, ok := f.values[name].(string); ok {
		return &s
	}
	return nil
}

// obj returns a validated object.
func (f *form) obj(name string) *object {
	o, _ := f.values[name].(*object)
	return o
}

// list returns a validated list of strings.
func (f *form) list(name string) []string {
	values, _ := f.values[name].([]any)
	var list []string
	for _, value := range values {
		if s, ok := value.(string); ok {
			list = append(list, s)
		}
	}
	return list
}

// num returns a validated integer, 0 where it is null.
func (f *form) num(name string) int {
	n, _ := f.values[name].(int)
	return n
}

// privacyModes are LoopGrid's, in its order.
func privacyModes() []string { return []string{modeFull, modeRedacted, modeProofOnly} }

func decisionForm(f *form) {
	f.text("decision_type", requirement{}, 1, 120)
	f.text("service_name", "ai-agent", 0, 120)
	f.text("workspace_id", defaultWorkspace, 0, 64)
	f.oneOf("privacy_mode", nil, privacyModes()...)
	f.text("idempotency_key", nil, 0, 160)
	for _, name := range []string{"agent", "authority", "model", "context", "input", "proposed_action", "metadata"} {
		f.object(name, newObject())
	}
}

func eventForm(f *form) {
	f.oneOf("event_type", requirement{}, modelCompleted, policyEvaluated, humanApproved, humanRejected, toolRequested, toolResult, toolExecuted,
		outcomeObserved, humanAdjudicated, "incident_flagged", replayExecuted, "checkpoint_created", "telemetry_ingested", mcpToolRequested,
		mcpToolResult, payloadErased)
	f.oneOf("actor_type", "system", "agent", "human", "system", "tool", "policy", "integration")
	f.text("actor_id", "loopgrid", 0, 0)
	f.object("payload", newObject())
	f.oneOf("privacy_mode", nil, privacyModes()...)
	f.text("idempotency_key", nil, 0, 160)
}

func reviewForm(f *form) {
	f.oneOf("action", requirement{}, "approve", "reject")
	f.text("reviewer", requirement{}, 1, 160)
	f.text("reason", "", 0, 1000)
}

func evaluateForm(f *form) {
	f.text("policy_id", requirement{}, 0, 0)
	f.object("proposed_action", requirement{})
	f.object("authority", newObject())
	f.object("context", newObject())
}

func workspaceForm(f *form) {
	f.text("name", requirement{}, 1, 160)
	f.oneOf("environment", "development", "development", "staging", "production")
	f.oneOf("privacy_mode", modeFull, privacyModes()...)
	f.whole("retention_days", 90, 1, 3650)
	f.texts("redaction_fields", nil)
}

func keyForm(f *form) {
	f.text("name", "Default ingestion key", 1, 120)
	f.text("description", "", 0, 500)
	f.texts("scopes", []any{scopeIngest, scopeRead}, scopeIngest, scopeRead, scopeReview, scopeAdmin)
	f.whole("expires_in_days", nil, 1, 3650)
}

func policyForm(f *form) {
	f.text("policy_id", requirement{}, 1, 96)
	f.text("name", requirement{}, 1, 160)
	f.text("version", requirement{}, 1, 48)
	f.object("rule", requirement{})
	f.boolean("active", true)
}

func eraseForm(f *form) {
	f.text("reason", "customer_request", 0, 160)
}
