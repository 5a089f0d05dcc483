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

// catalogue lists the tools, in the order of their use. Every other list of tools is derived from it.
func catalogue() []*tool {
	return []*tool{recordDecisionTool(), recordReviewTool(), recordActionTool(), recordOutcomeTool(), getEvidenceTool(), verifyEvidenceTool()}
}

// tool is one tool: what clients see, and what handles its calls. Its parameters define the input schema, the checks of the arguments
// and the documentation.
type tool struct {
	name        string // record_decision: the last part of the name in every spelling
	title       string
	description string // {record_decision} becomes the name of that tool in the spelling of the client
	parameters  []parameter
	results     []result
	annotations mcp.ToolAnnotations
	meta        mcp.Meta
	touches     config.Scope // settings whose problems make it unusable, besides those that affect every call
	queues      bool         // its calls join the queue of writers on arrival
	effect      string       // for the README: what a call changes
	routes      string       // for the README: the routes behind it
	handle      func(context.Context, *call) *mcp.CallToolResult
}

// valueKind is the kind of value that a parameter takes.
type valueKind int

const (
	textKind    valueKind = iota // a JSON string
	objectKind                   // a JSON object, passed on exactly as written
	booleanKind                  // true or false
)

// parameter is one argument of a tool.
type parameter struct {
	name        string
	kind        valueKind
	required    bool
	limit       int      // code points of a text; 0: limited only by the service's body limit
	choices     []string // of a text; nil: any
	fallback    string   // the value if the argument is absent
	id          bool     // a decision's id
	noNUL       bool     // no U+0000, which PostgreSQL cannot store outside payloads
	description string
}

// result is one member of a tool's structured result, for its output schema.
type result struct {
	name        string
	kind        string // a JSON Schema type; empty: not declared, since the member can be null
	required    bool
	description string
}

// decisionID is the parameter that most tools share.
func decisionID() parameter {
	return parameter{name: "decision_id", kind: textKind, required: true, limit: 128, id: true, description: "ID returned by {record_decision}."}
}

// idempotencyKeyFor is the parameter that the recording tools share.
func idempotencyKeyFor(what string) parameter {
	return parameter{
		name: "idempotency_key", kind: textKind, limit: 160, noNUL: true,
		description: "Reuse the key to retry the same " + what + " without recording it twice. Default: a new key.",
	}
}

// recording annotates a tool that appends evidence and does nothing else.
func recording() mcp.ToolAnnotations {
	no := false
	return mcp.ToolAnnotations{ReadOnlyHint: false, DestructiveHint: &no, IdempotentHint: false, OpenWorldHint: &no}
}

// reading annotates a tool that changes nothing.
func reading() mcp.ToolAnnotations {
	no := false
	return mcp.ToolAnnotations{ReadOnlyHint: true, DestructiveHint: &no, IdempotentHint: true, OpenWorldHint: &no}
}

// definition is the tool as a client sees it, in this spelling.
func (t *tool) definition(s spelling) *mcp.Tool {
	annotations := t.annotations
	annotations.Title = t.title
	return &mcp.Tool{
		Meta: t.meta, Name: s.toolName(t.name), Title: t.title, Description: s.names(t.description),
		InputSchema: t.inputSchema(s), OutputSchema: t.outputSchema(), Annotations: &annotations,
	}
}

// inputSchema builds the schema by hand: schema libraries reorder it, and only this subset of JSON Schema is accepted by every host and
// model API: a plain object, one type per property, no combinators, no formats, no null.
func (t *tool) inputSchema(s spelling) json.RawMessage {
	var properties []evidence.Field
	var required []string
	for _, p := range t.parameters {
		properties = append(properties, raw(p.name, p.schema(s)))
		if p.required {
			required = append(required, p.name)
		}
	}
	return json.RawMessage(evidence.Object(
		field("type", "object"),
		raw("properties", evidence.Object(properties...)),
		raw("required", texts(required)),
		flag("additionalProperties", false),
	))
}

func (p *parameter) schema(s spelling) jsontext.Value {
	var fields []evidence.Field
	add := func(name string, value jsontext.Value) { fields = append(fields, raw(name, value)) }
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

// outputSchema allows other members, because the service's answers are passed through.
func (t *tool) outputSchema() json.RawMessage {
	var properties []evidence.Field
	var required []string
	for _, r := range t.results {
		properties = append(properties, raw(r.name, evidence.Object(optional("type", r.kind), optional("description", r.description))))
		if r.required {
			required = append(required, r.name)
		}
	}
	return json.RawMessage(evidence.Object(
		field("type", "object"),
		raw("properties", evidence.Object(properties...)),
		raw("required", texts(required)),
	))
}

func texts(all []string) jsontext.Value {
	values := make([]jsontext.Value, len(all))
	for i, s := range all {
		values[i] = evidence.Text(s)
	}
	return evidence.Array(values...)
}

// argumentNames lists the arguments of the tool.
func (t *tool) argumentNames() []string {
	var all []string
	for _, p := range t.parameters {
		all = append(all, p.name)
	}
	return all
}
