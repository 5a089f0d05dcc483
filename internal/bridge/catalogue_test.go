package bridge_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	goldenfile "github.com/loopgridio/loopgrid-mcp/internal/golden"
)

// golden compares got with a file under testdata. TestNoOrphans fails on a file that no test reads.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	goldenfile.Equal(t, filepath.Join("testdata", name), string(got))
}

func indented(t *testing.T, raw json.RawMessage) []byte {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, json.Indent(&out, raw, "", "  "))
	out.WriteByte('\n')
	return out.Bytes()
}

type listedTool struct {
	Name, Title, Description  string
	InputSchema, OutputSchema json.RawMessage
	Annotations               map[string]any
}

func listed(t *testing.T, line string) []listedTool {
	t.Helper()
	var answer struct{ Result struct{ Tools []listedTool } }
	require.NoError(t, json.Unmarshal([]byte(line), &answer), line)
	return answer.Result.Tools
}

func toolNames(tools []listedTool) []string {
	var names []string
	for _, tool := range tools {
		names = append(names, tool.Name)
	}
	return names
}

var order = []string{"record_decision", "record_review", "record_action", "record_outcome", "get_evidence", "verify_evidence"} //nolint:gochecknoglobals // constant

func inSpelling(prefix string) []string {
	var names []string
	for _, name := range order {
		names = append(names, prefix+name)
	}
	return names
}

func TestCatalogueAsClientsSeeIt(t *testing.T) {
	t.Parallel()
	x := serve(t, newService(t))
	golden(t, "catalogue/initialize.json", indented(t, json.RawMessage(x.initialize("test-client"))))
	x.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	golden(t, "catalogue/tools.json", indented(t, json.RawMessage(x.receive())))

	modern := serve(t, newService(t))
	modern.send(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":` + modernMeta("cursor-vscode") + `}}`)
	golden(t, "catalogue/discover-underscore.json", indented(t, json.RawMessage(modern.receive())))
	modern.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":` + modernMeta("cursor-vscode") + `}}`)
	golden(t, "catalogue/tools-underscore.json", indented(t, json.RawMessage(modern.receive())))
}

func modernMeta(client string) string {
	return `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"` + client + `","version":"1"}}`
}

func TestNoOrphans(t *testing.T) {
	t.Parallel()
	var sources strings.Builder
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		sources.Write(text)
	}
	for _, folder := range []string{"catalogue", "review", "texts"} {
		entries, err := os.ReadDir(filepath.Join("testdata", folder))
		require.NoError(t, err)
		for _, e := range entries {
			name := strings.TrimSuffix(e.Name(), filepath.Ext(e.Name()))
			assert.Contains(t, sources.String(), name, "no test reads testdata/%s/%s", folder, e.Name())
		}
	}
}

func TestNamesByClient(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ setting, client, prefix string }{
		{"", "claude-code", "loopgrid."},
		{"", "", "loopgrid."},
		{"", "claude-ai", "loopgrid_"},
		{"", "Claude-AI", "loopgrid_"},
		{"", "cursor-vscode", "loopgrid_"},
		{"", "Cursor", "loopgrid_"},
		{"", "goose", "loopgrid_"},
		{"", "goose-desktop", "loopgrid_"},
		{"", "my-cursor", "loopgrid."},
		{"auto", "codex-mcp-client", "loopgrid."},
		{"dotted", "claude-ai", "loopgrid."},
		{"underscore", "claude-code", "loopgrid_"},
	} {
		t.Run(tt.setting+"/"+tt.client, func(t *testing.T) {
			t.Parallel()
			x := serve(t, newService(t), "LOOPGRID_MCP_TOOL_NAMES="+tt.setting)
			assert.Contains(t, x.initialize(tt.client), "1. "+tt.prefix+"record_decision")
			x.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
			assert.Equal(t, inSpelling(tt.prefix), toolNames(listed(t, x.receive())))

			modern := serve(t, newService(t), "LOOPGRID_MCP_TOOL_NAMES="+tt.setting)
			modern.send(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":` + modernMeta(tt.client) + `}}`)
			assert.Contains(t, modern.receive(), "1. "+tt.prefix+"record_decision")
			modern.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":` + modernMeta(tt.client) + `}}`)
			assert.Equal(t, inSpelling(tt.prefix), toolNames(listed(t, modern.receive())))
			// The client is looked at per request: another one sees its own spelling.
			modern.send(`{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"_meta":` + modernMeta("goose") + `}}`)
			if tt.setting == "" || tt.setting == "auto" {
				assert.Equal(t, inSpelling("loopgrid_"), toolNames(listed(t, modern.receive())))
			} else {
				assert.Equal(t, inSpelling(tt.prefix), toolNames(listed(t, modern.receive())))
			}
		})
	}
}

func TestBothSpellingsAreAcceptedAndAnsweredInKind(t *testing.T) {
	t.Parallel()
	x, _ := open(t)
	for _, prefix := range []string{"loopgrid.", "loopgrid_"} {
		text := x.fails(prefix+"record_action", `{"decision_id":"dec_unknown","tool":"t"}`)
		assert.Contains(t, text, prefix+"record_decision")
		x.ok(prefix+"record_decision", `{"decision_type":"t","proposed_action":{}}`)
	}
}

func TestUnknownToolListsTheNames(t *testing.T) {
	t.Parallel()
	x, _ := open(t)
	for name, prefix := range map[string]string{"loopgrid.delete_decision": "loopgrid.", "loopgrid_delete": "loopgrid_", "record_decision": "loopgrid."} {
		x.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `","arguments":{}}}`)
		answer := x.receive()
		assert.Contains(t, answer, `"code":-32602`)
		for _, known := range inSpelling(prefix) {
			assert.Contains(t, answer, known)
		}
	}
}

// TestSchemasFitEveryHost holds the input schemas to the little that every host and model API takes.
func TestSchemasFitEveryHost(t *testing.T) {
	t.Parallel()
	x := serve(t, newService(t))
	x.initialize("test-client")
	x.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	line := x.receive()
	assert.Less(t, len(line), 14_500, "the list has outgrown its budget of bytes, which every model reads in every session")
	for _, tool := range listed(t, line) {
		assert.LessOrEqual(t, len(regexp.MustCompile(`\. [A-Z]`).Split(tool.Description, -1)), 3, "%s: at most three sentences", tool.Name)
		for _, hint := range []string{"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"} {
			assert.Contains(t, tool.Annotations, hint, tool.Name)
		}
		for _, word := range []string{`"$ref"`, `"anyOf"`, `"oneOf"`, `"allOf"`, `"const"`, `"format"`, "null"} {
			assert.NotContains(t, string(tool.InputSchema), word, tool.Name)
			assert.NotContains(t, string(tool.OutputSchema), word, tool.Name)
		}
		var schema struct {
			Type                 string
			AdditionalProperties *bool
			Required             []string
			Properties           map[string]map[string]any
		}
		require.NoError(t, json.Unmarshal(tool.InputSchema, &schema))
		assert.Equal(t, "object", schema.Type)
		require.NotNil(t, schema.AdditionalProperties)
		assert.False(t, *schema.AdditionalProperties)
		for name, property := range schema.Properties {
			assert.IsType(t, "", property["type"], "%s.%s", tool.Name, name)
			assert.NotEmpty(t, property["description"], "%s.%s", tool.Name, name)
		}
		var output jsonschema.Schema
		require.NoError(t, json.Unmarshal(tool.OutputSchema, &output))
		_, err := output.Resolve(nil)
		require.NoError(t, err)
	}
}

// TestResultsSatisfyTheirSchema validates real results of every tool, since clients refuse one that does not fit.
func TestResultsSatisfyTheirSchema(t *testing.T) {
	t.Parallel()
	x, _ := open(t)
	x.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	schemas := map[string]*jsonschema.Resolved{}
	for _, tool := range listed(t, x.receive()) {
		var schema jsonschema.Schema
		require.NoError(t, json.Unmarshal(tool.OutputSchema, &schema))
		resolved, err := schema.Resolve(nil)
		require.NoError(t, err)
		schemas[tool.Name] = resolved
	}
	check := func(tool, arguments string) result {
		r := x.ok(tool, arguments)
		var value any
		require.NoError(t, json.Unmarshal([]byte(r.text()), &value))
		assert.NoError(t, schemas[tool].Validate(value), r.text())
		return r
	}
	id := check("loopgrid.record_decision", `{"decision_type":"t","proposed_action":{"amount":1},"model_output":{"x":1},"policy_id":"refund-policy"}`).str(t, "decision_id")
	check("loopgrid.record_decision", `{"decision_type":"t","proposed_action":{}}`)
	check("loopgrid.record_review", `{"decision_id":"`+id+`","action":"approve"}`)
	check("loopgrid.record_action", `{"decision_id":"`+id+`","tool":"t"}`)
	check("loopgrid.record_outcome", `{"decision_id":"`+id+`","status":"s","verified_against":"v"}`)
	check("loopgrid.verify_evidence", `{"decision_id":"`+id+`"}`)
	check("loopgrid.get_evidence", `{"decision_id":"`+id+`","include_payloads":true}`)
	check("loopgrid.get_evidence", `{"decision_id":"`+id+`"}`)
}
