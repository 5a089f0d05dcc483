package bridge

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/config"
	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
	"github.com/loopgridio/loopgrid-mcp/internal/text"
)

// arguments are the checked arguments of a call.
type arguments struct {
	tool  *tool
	given map[string]jsontext.Value // those that are present; texts still quoted
	// withLineBreakers names the arguments whose text contains a character that a published verifier cannot read.
	withLineBreakers []string
	// withLargeIntegers names the arguments that contain an integer JavaScript cannot represent exactly.
	withLargeIntegers []string
}

// text returns a text argument, or its default if it is absent.
func (a *arguments) text(name string) string {
	if v, ok := a.given[name]; ok {
		s, _ := evidence.Unquote(v)
		return s
	}
	return a.parameter(name).fallback
}

// object returns an object argument as the caller wrote it; nil if it is absent.
func (a *arguments) object(name string) jsontext.Value { return a.given[name] }

// boolean returns a boolean argument, or its default if it is absent.
func (a *arguments) boolean(name string) bool {
	if v, ok := a.given[name]; ok {
		return v.Kind() == 't'
	}
	return a.parameter(name).fallback == "true"
}

func (a *arguments) parameter(name string) *parameter {
	for i := range a.tool.parameters {
		if a.tool.parameters[i].name == name {
			return &a.tool.parameters[i]
		}
	}
	panic("no parameter " + name) // a mistake in this package
}

const (
	maxUnknownShown = 10
	maxNameShown    = 60
)

// waitForPrevious is an argument that Gemini CLI adds to every tool and tells its model to send.
const waitForPrevious = "wait_for_previous"

// check reads the raw arguments of a call. It returns all problems: those of the parameters, in order, then the unknown arguments. No
// problem quotes the value of an argument.
func (t *tool) check(raw []byte) (*arguments, []string) {
	if len(raw) == 0 || string(raw) == "null" {
		raw = []byte("{}")
	}
	if !utf8.Valid(raw) { // the names may be broken too
		return nil, []string{"arguments: " + evidence.CheckValue(raw).Error()}
	}
	if err := evidence.ShallowObject(raw); err != nil {
		return nil, []string{"arguments: " + err.Error()}
	}
	sent := t.sort(raw)
	a := &arguments{tool: t, given: make(map[string]jsontext.Value, len(t.parameters))}
	var problems []string
	for i := range t.parameters {
		p := &t.parameters[i]
		if sent.twice[p.name] {
			problems = append(problems, p.name+": given twice; send it once")
			continue
		}
		value, reason := p.check(sent.values[p.name])
		switch {
		case reason != "":
			problems = append(problems, p.name+reason)
		case value != nil:
			a.take(p.name, value)
		}
	}
	if problems = append(problems, t.unknownProblems(&sent)...); len(problems) > 0 {
		return nil, problems
	}
	return a, nil
}

// take keeps a checked value.
func (a *arguments) take(name string, value jsontext.Value) {
	a.given[name] = value
	if evidence.HasLineBreakers(value) {
		a.withLineBreakers = append(a.withLineBreakers, name)
	}
	if evidence.HasLargeIntegers(value) {
		a.withLargeIntegers = append(a.withLargeIntegers, name)
	}
}

// sentArguments are the arguments of a call, sorted by name: known, given twice or unknown.
type sentArguments struct {
	values      map[string]jsontext.Value // of names that exist
	twice       map[string]bool
	unknown     []string // no more than maxUnknownShown: a line can hold a million
	unknownMore int
}

func (t *tool) sort(raw []byte) sentArguments {
	sent := sentArguments{values: make(map[string]jsontext.Value, len(t.parameters)), twice: map[string]bool{}}
	for name, value := range evidence.Members(raw) {
		_, given := sent.values[name]
		switch {
		case name == waitForPrevious, slices.Contains(sent.unknown, name):
		case given:
			sent.twice[name] = true
		case t.has(name):
			sent.values[name] = value
		case len(sent.unknown) == maxUnknownShown:
			sent.unknownMore++
		default:
			sent.unknown = append(sent.unknown, name)
		}
	}
	return sent
}

// unknownProblems describes the unknown names. It lists the valid ones at most once.
func (t *tool) unknownProblems(sent *sentArguments) []string {
	var problems []string
	listed := false
	for _, name := range sent.unknown {
		problem := quoteName(name) + ": unknown argument"
		if near := config.Nearest(name, t.argumentNames()); near != "" {
			problem += "; did you mean " + near + "?"
		} else if !listed {
			problem += "; the arguments are " + strings.Join(t.argumentNames(), ", ")
			listed = true
		}
		problems = append(problems, problem)
	}
	if sent.unknownMore > 0 {
		problems = append(problems, fmt.Sprintf("and %d more unknown arguments", sent.unknownMore))
	}
	return problems
}

func (t *tool) has(name string) bool {
	for i := range t.parameters {
		if t.parameters[i].name == name {
			return true
		}
	}
	return false
}

// check checks one argument and returns the value to use, nil if it is absent. The reason begins with ": " or with a path.
func (p *parameter) check(value jsontext.Value) (jsontext.Value, string) {
	kind := value.Kind()
	empty := value == nil || kind == 'n' || string(value) == `""`
	switch {
	case empty && !p.required:
		return nil, ""
	case value == nil || kind == 'n':
		return nil, ": required but missing"
	}
	switch p.kind {
	case textKind:
		return p.checkText(value)
	case objectKind:
		return p.checkObject(value)
	case booleanKind:
		switch string(value) {
		case "true", `"true"`:
			return jsontext.Value("true"), ""
		case "false", `"false"`:
			return jsontext.Value("false"), ""
		}
		return nil, ": must be true or false, got " + evidence.KindName(value)
	}
	return nil, ": cannot be checked"
}

func (p *parameter) checkText(value jsontext.Value) (jsontext.Value, string) {
	if value.Kind() != '"' {
		return nil, ": must be a string, got " + evidence.KindName(value)
	}
	if err := evidence.CheckValue(value); err != nil {
		return nil, ": " + err.Error()
	}
	s, _ := evidence.Unquote(value)
	length := utf8.RuneCountInString(s)
	switch {
	case s == "":
		return nil, ": must not be empty"
	case p.id && !loopgrid.IsDecisionID(s):
		return nil, ": must be a decision ID: 1 to 128 letters, digits, hyphens and underscores, e.g. dec_0123456789abcdef01234567"
	case p.limit > 0 && length > p.limit:
		return nil, fmt.Sprintf(": must be at most %d characters, got %d", p.limit, length)
	case p.noNUL && strings.ContainsRune(s, 0):
		return nil, ": must not contain U+0000"
	case p.choices != nil && !slices.Contains(p.choices, s):
		return nil, ": must be one of " + strings.Join(p.choices, ", ")
	}
	return value, ""
}

// checkObject also accepts a string that holds an object, as some models write it: the intent is clear, and the object inside is checked
// as strictly as any other.
func (p *parameter) checkObject(value jsontext.Value) (jsontext.Value, string) {
	if value.Kind() == '"' {
		if err := evidence.CheckValue(value); err != nil {
			return nil, ": " + err.Error()
		}
		inner, _ := evidence.Unquote(value)
		if jsontext.Value(inner).Kind() != '{' {
			return nil, ": must be a JSON object, got a string"
		}
		value = jsontext.Value(inner)
	}
	if err := evidence.CheckObject(value); err != nil {
		var problem *evidence.Problem
		switch {
		case !errors.As(err, &problem) || problem.Path == "":
			return nil, ": " + err.Error()
		case strings.HasPrefix(problem.Path, "["):
			return nil, err.Error()
		default:
			return nil, "." + err.Error()
		}
	}
	return value, ""
}

// quoteName quotes a name sent by a caller for a message.
func quoteName(name string) string { return strconv.QuoteToGraphic(text.Clip(name, maxNameShown)) }
