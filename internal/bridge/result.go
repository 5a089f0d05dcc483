package bridge

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/stdio"
)

// success builds a result from its fields: the same JSON as text, which is exact in every host, and as structured content. A field with
// a nil value is left out; the warnings come last.
func (c *call) success(fields ...evidence.Field) *mcp.CallToolResult {
	return c.succeed(evidence.Object(append(fields, raw("warnings", c.warningList()))...))
}

// succeed builds a result from an object. go-sdk never answers a call whose result is not valid JSON, so that becomes an error here.
func (c *call) succeed(body jsontext.Value) *mcp.CallToolResult {
	if !body.IsValid(jsontext.AllowDuplicateNames(true)) {
		return c.internalError("the result is not valid JSON")
	}
	return &mcp.CallToolResult{
		Content:           []mcp.Content{&mcp.TextContent{Text: string(body)}},
		StructuredContent: json.RawMessage(body),
	}
}

// failed is a tool error: lines of text, without structured content. Empty lines are left out. The first line begins with the outcome,
// since hosts show people only its beginning.
func failed(lines ...string) *mcp.CallToolResult {
	lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" })
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: strings.Join(lines, "\n")}}}
}

// resultTypes are empty results of the two types that MCP 2026-07-28 knows. Only go-sdk can set the type, so these are copied.
type resultTypes struct{ complete, inputRequired mcp.CallToolResult }

func newResultTypes() resultTypes {
	var types resultTypes
	_ = json.Unmarshal([]byte(`{"resultType":"complete"}`), &types.complete)            // cannot fail, see the tests
	_ = json.Unmarshal([]byte(`{"resultType":"input_required"}`), &types.inputRequired) // cannot fail, see the tests
	return types
}

// sent is the result in the form that the client expects.
func (t *resultTypes) sent(req *mcp.CallToolRequest, answer *mcp.CallToolResult) *mcp.CallToolResult {
	if isLegacy(req) {
		return answer
	}
	typed := t.complete
	if answer.InputRequests != nil {
		typed = t.inputRequired
	}
	typed.Content, typed.StructuredContent, typed.IsError = answer.Content, answer.StructuredContent, answer.IsError
	typed.InputRequests, typed.RequestState = answer.InputRequests, answer.RequestState
	return &typed
}

// isLegacy says whether the session's protocol is older than MCP 2026-07-28, which has no initialize.
func isLegacy(req *mcp.CallToolRequest) bool {
	opened := req.Session.InitializeParams()
	return opened != nil && opened.ProtocolVersion < stdio.StatelessVersion
}

// service is a member that the service sent, with the key hidden.
func (c *call) service(name string, value jsontext.Value) evidence.Field {
	decisionID, _, _ := c.steps.pending()
	if c.tool.has("decision_id") {
		decisionID = c.args.text("decision_id")
	}
	return raw(name, c.hide.json(value, decisionID))
}

func field(name, value string) evidence.Field {
	return evidence.Field{Name: name, Value: evidence.Text(value)}
}

// optional is a field that is left out if it is empty.
func optional(name, value string) evidence.Field {
	if value == "" {
		return evidence.Field{Name: name}
	}
	return field(name, value)
}

func flag(name string, value bool) evidence.Field {
	if value {
		return raw(name, jsontext.Value("true"))
	}
	return raw(name, jsontext.Value("false"))
}

func raw(name string, value jsontext.Value) evidence.Field {
	return evidence.Field{Name: name, Value: value}
}

// sentences joins those that are not empty.
func sentences(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(s string) bool { return s == "" }), " ")
}

// capitalized makes the first letter a capital.
func capitalized(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
