package bridge

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/config"
	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// tool is one tool: what clients see of it, and what it does. One table of parameters is the input schema, the check of the
// arguments and the documentation.
type tool struct {
	name        string // record_decision: the last part of the name in every spelling
	title       string
	description string // {name} stands for the name of another tool, in the spelling of the client
	parameters  []parameter
	results     []result
	annotations mcp.ToolAnnotations
	meta        mcp.Meta
	scope       config.Scope // whose configuration problems keep it from being called, besides those of all calls
	writes      bool         // it takes a place in the queue of writers when its call arrives
	effect      string       // for the README: what a call changes
	route       string       // for the README: the routes behind it
	run         func(context.Context, *call) *mcp.CallToolResult
}

// valueKind is the kind of value that a parameter takes.
type valueKind int

const (
	textKind    valueKind = iota // a JSON string
	objectKind                   // a JSON object, passed on as the text it arrived as
	booleanKind                  // true or false
)

// parameter is one argument of a tool.
type parameter struct {
	name        string
	kind        valueKind
	required    bool
	limit       int      // code points of a text; 0: only the body limit of the service
	choices     []string // of a text; nil: any
	fallback    string   // the value where the argument is absent
	id          bool     // a decision's id
	clear       bool     // no U+0000: PostgreSQL cannot store it outside of payloads
	description string
}

// result is one member of a tool's structured result, for its output schema.
type result struct {
	name     string
	kind     string // a JSON Schema type
	required bool
}

// catalogue returns the six tools in the order in which they are used.
func catalogue() []*tool {
	return []*tool{recordDecision(), recordReview(), recordAction(), recordOutcome(), getEvidence(), verifyEvidence()}
}

// decisionID is the parameter that five of the tools share.
func decisionID() parameter {
	return parameter{name: "decision_id", kind: textKind, required: true, limit: 128, id: true, description: "Id of the decision, as {record_decision} returned it."}
}

// idempotencyKey is the parameter that the three recording tools share.
func idempotencyKey(same string) parameter {
	return parameter{
		name: "idempotency_key", kind: textKind, limit: 160, clear: true,
		description: "Reuse the key when repeating the same " + same + ", so that it is recorded once. Left out: a new key for this call.",
	}
}

// recording annotates a tool that appends evidence and does nothing else.
func recording() mcp.ToolAnnotations {
	no := false
	return mcp.ToolAnnotations{ReadOnlyHint: false, DestructiveHint: &no, IdempotentHint: false, OpenWorldHint: &no}
}

// definition is the tool as a client sees it that knows it under this spelling.
func (t *tool) definition(s spelling) *mcp.Tool {
	annotations := t.annotations
	annotations.Title = t.title
	return &mcp.Tool{
		Meta: t.meta, Name: s.toolName(t.name), Title: t.title, Description: s.names(t.description),
		InputSchema: t.inputSchema(s), OutputSchema: t.outputSchema(), Annotations: &annotations,
	}
}

// inputSchema is written by hand because schema libraries reorder it, and because every host and model API takes only this much
// of JSON Schema: a plain object, one type per property, no combinators, no formats, no null.
func (t *tool) inputSchema(s spelling) json.RawMessage {
	var properties []evidence.Field
	var required []string
	for _, p := range t.parameters {
		properties = append(properties, evidence.Field{Name: p.name, Value: p.schema(s)})
		if p.required {
			required = append(required, p.name)
		}
	}
	return json.RawMessage(evidence.Object(
		evidence.Field{Name: "type", Value: evidence.Text("object")},
		evidence.Field{Name: "properties", Value: evidence.Object(properties...)},
		evidence.Field{Name: "required", Value: texts(required)},
		evidence.Field{Name: "additionalProperties", Value: jsontext.Value("false")},
	))
}

func (p *parameter) schema(s spelling) jsontext.Value {
	var fields []evidence.Field
	add := func(name string, value jsontext.Value) {
		fields = append(fields, evidence.Field{Name: name, Value: value})
	}
	number := func(n int) jsontext.Value { return jsontext.Value(strconv.Itoa(n)) }
	switch p.kind {
	case textKind:
		add("type", evidence.Text("string"))
		if p.required {
			add("minLength", number(1))
		}
		if p.limit > 0 {
			add("maxLength", number(p.limit))
		}
		if p.choices != nil {
			add("enum", texts(p.choices))
		}
		if p.id {
			add("pattern", evidence.Text("^[A-Za-z0-9_-]+$"))
		}
		if p.fallback != "" {
			add("default", evidence.Text(p.fallback))
		}
	case objectKind:
		add("type", evidence.Text("object"))
	case booleanKind:
		add("type", evidence.Text("boolean"))
		add("default", jsontext.Value(p.fallback))
	}
	add("description", evidence.Text(s.names(p.description)))
	return evidence.Object(fields...)
}

// outputSchema stays open: answers of the service are passed through in it.
func (t *tool) outputSchema() json.RawMessage {
	var properties []evidence.Field
	var required []string
	for _, r := range t.results {
		properties = append(properties, evidence.Field{Name: r.name, Value: evidence.Object(evidence.Field{Name: "type", Value: evidence.Text(r.kind)})})
		if r.required {
			required = append(required, r.name)
		}
	}
	return json.RawMessage(evidence.Object(
		evidence.Field{Name: "type", Value: evidence.Text("object")},
		evidence.Field{Name: "properties", Value: evidence.Object(properties...)},
		evidence.Field{Name: "required", Value: texts(required)},
	))
}

func texts(all []string) jsontext.Value {
	values := make([]jsontext.Value, len(all))
	for i, s := range all {
		values[i] = evidence.Text(s)
	}
	return evidence.Array(values...)
}

// argumentNames lists the arguments of the tool, for an error about one that does not exist.
func (t *tool) argumentNames() []string {
	var all []string
	for _, p := range t.parameters {
		all = append(all, p.name)
	}
	return all
}
