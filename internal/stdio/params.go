package stdio

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/text"
)

// shape is what go-sdk needs a value to be, or it refuses the whole request and repeats its params in the error. A member of another
// shape counts as absent, since no tool needs it. The zero shape takes any value.
type shape struct {
	kind     jsontext.Kind // 't' for both booleans
	members  map[string]shape
	elements *shape
}

func stringShape() shape { return shape{kind: '"'} }

func objectShape(members map[string]shape) shape { return shape{kind: '{', members: members} }

func arrayShape(elements shape) shape { return shape{kind: '[', elements: &elements} }

// implementationShape is that of [mcp.Implementation].
func implementationShape() shape {
	icon := objectShape(map[string]shape{
		"src": stringShape(), "mimeType": stringShape(), "theme": stringShape(), "sizes": arrayShape(stringShape()),
	})
	return objectShape(map[string]shape{
		"name": stringShape(), "title": stringShape(), "description": stringShape(), "version": stringShape(), "websiteUrl": stringShape(),
		"icons": arrayShape(icon),
	})
}

// capabilitiesShape is that of [mcp.ClientCapabilities].
func capabilitiesShape() shape {
	anyObject := objectShape(nil)
	return objectShape(map[string]shape{
		"experimental": anyObject, "extensions": anyObject,
		"roots":       objectShape(map[string]shape{"listChanged": {kind: 't'}}),
		"sampling":    objectShape(map[string]shape{"context": anyObject, "tools": anyObject}),
		"elicitation": objectShape(map[string]shape{"form": anyObject, "url": anyObject}),
	})
}

func metaShape() shape {
	return objectShape(map[string]shape{
		mcp.MetaKeyProtocolVersion: stringShape(), mcp.MetaKeyClientInfo: implementationShape(),
		mcp.MetaKeyClientCapabilities: capabilitiesShape(), "io.modelcontextprotocol/logLevel": stringShape(),
	})
}

// paramsShape is that of the params of a method, without _meta.
func paramsShape(method string) shape {
	switch method {
	case methodInitialize:
		return objectShape(map[string]shape{
			"protocolVersion": stringShape(), "capabilities": capabilitiesShape(), "clientInfo": implementationShape(),
		})
	case "tools/list":
		return objectShape(map[string]shape{"cursor": stringShape()})
	}
	return shape{kind: '{'}
}

// usable returns value without what is not of the shape, nil if nothing is left of it, and adds the paths of what it left out to
// dropped. A null is as good as absent everywhere.
func (s shape) usable(value jsontext.Value, path string, dropped *[]string) jsontext.Value {
	kind := value.Kind()
	if kind == 'f' {
		kind = 't'
	}
	switch {
	case kind == 'n':
		return value
	case s.kind != 0 && kind != s.kind, s.kind == 0 && evidence.CheckValue(value) != nil: // such as 1e400, which no float64 holds
		if !slices.Contains(*dropped, path) {
			*dropped = append(*dropped, path)
		}
		return nil
	case kind == '{' && s.kind != 0:
		return s.usableMembers(value, path, dropped)
	case kind == '[' && s.elements != nil:
		var elements []jsontext.Value
		for element := range evidence.Elements(value) {
			if element = s.elements.usable(element, path, dropped); element != nil {
				elements = append(elements, element)
			}
		}
		return evidence.Array(elements...)
	}
	return value
}

func (s shape) usableMembers(object jsontext.Value, path string, dropped *[]string) jsontext.Value {
	var fields []evidence.Field
	for name, value := range evidence.Members(object) {
		member, known := s.members[name]
		inner := path // names that only the host knows stay out of the log
		if known {
			inner = strings.TrimPrefix(path+"."+name, ".")
		}
		fields = append(fields, evidence.Field{Name: name, Value: member.usable(value, inner, dropped)})
	}
	return evidence.Object(fields...) // leaves out what has no value
}

// usableParams returns the params of a message for go-sdk: without members that it cannot use, without the arguments of a call, which
// reach the tool past it (see [Transport.TakeCall]), and with the progress token as a JSON string that holds the token's own JSON text,
// because go-sdk would make a float64 of a number. It notes in e what _meta says.
func (t *Transport) usableParams(e *envelope) ([]byte, *lineFault) {
	params, wasObject := jsontext.Value(e.params), jsontext.Value(e.params).Kind() == '{'
	if !wasObject {
		params = nil
	}
	var dropped []string
	switch {
	case e.name == methodCallTool:
		if problem := e.checkCall(); problem != "" {
			return nil, paramsFault(problem)
		}
	case wasObject && e.name == methodInitialize, wasObject && e.name == "tools/list":
		params = paramsShape(e.name).usable(params, "", &dropped)
		e.meta = evidence.Find(params, "_meta")
	case !wasObject && e.name == methodInitialize:
		params = jsontext.Value("{}")
	}
	if e.name == methodInitialize {
		params = withLegacyVersion(params)
		e.meta = evidence.Find(params, "_meta")
	}
	if !wasObject && e.params != nil && string(e.params) != "null" {
		dropped = append(dropped, "params")
	}
	edits := []replacement{{at: e.arguments, new: []byte("null")}}
	if e.meta.End > 0 {
		meta, fault := t.usableMeta(e, e.meta.Of(params), &dropped)
		if fault != nil {
			return nil, fault
		}
		edits = append(edits, replacement{at: e.meta, new: meta})
		if e.meta.Start < e.arguments.Start {
			slices.Reverse(edits)
		}
	}
	if len(dropped) > 0 {
		t.log.Warn("ignored what cannot be used of a message", "method", text.Clip(e.name, 64), "members", strings.Join(dropped, ", "))
	}
	return splice(params, edits...), nil
}

// checkCall says what is wrong with the params of a tools/call that cannot be ignored.
func (e *envelope) checkCall() string {
	kindOf := func(at evidence.Span) jsontext.Kind { return jsontext.Value(at.Of(e.params)).Kind() }
	isAbsent := func(at evidence.Span) bool { return at.End == 0 || kindOf(at) == 'n' }
	switch {
	case jsontext.Value(e.params).Kind() != '{':
		return `"params" must be an object`
	case e.toolName.End > 0 && kindOf(e.toolName) != '"':
		return `"name" must be a string`
	case !isAbsent(e.inputResponses) && kindOf(e.inputResponses) != '{':
		return `"inputResponses" must be an object`
	case !isAbsent(e.requestState) && kindOf(e.requestState) != '"':
		return `"requestState" must be a string`
	}
	return ""
}

// usableMeta does for params._meta what usableParams does for the rest.
func (t *Transport) usableMeta(e *envelope, meta jsontext.Value, dropped *[]string) (jsontext.Value, *lineFault) {
	if meta.Kind() != '{' {
		if meta.Kind() != 'n' {
			*dropped = append(*dropped, "_meta")
		}
		return jsontext.Value("{}"), nil
	}
	if fault := t.readVersion(e, evidence.Get(meta, mcp.MetaKeyProtocolVersion)); fault != nil {
		return nil, fault
	}
	shapes := metaShape().members
	var fields []evidence.Field
	for name, value := range evidence.Members(meta) {
		member, known := shapes[name]
		path := "_meta"
		if known {
			path += "." + name
		}
		switch {
		case name == "progressToken" && isID(value):
			e.token = string(value)
			value = evidence.Text(e.token)
		case name == "progressToken":
			*dropped = append(*dropped, "_meta.progressToken")
			continue
		case name == mcp.MetaKeyProtocolVersion && !e.stateless:
			continue // go-sdk reads it as a claim to be stateless
		default:
			value = member.usable(value, path, dropped)
			if known && value.Kind() == 'n' {
				value = nil
			}
			if value == nil && name == mcp.MetaKeyClientCapabilities {
				value = jsontext.Value("{}") // a client that names none has none
			}
		}
		fields = append(fields, evidence.Field{Name: name, Value: value})
	}
	return evidence.Object(fields...), nil
}
