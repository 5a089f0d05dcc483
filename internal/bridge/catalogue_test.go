package bridge_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/bridge"
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

// allTools are the tools in the order of their use, without a prefix.
func allTools() []string {
	var names []string
	for _, tool := range bridge.Document() {
		names = append(names, strings.TrimPrefix(tool.Name, "loopgrid."))
	}
	return names
}

func inSpelling(prefix string) []string {
	var names []string
	for _, name := range allTools() {
		names = append(names, prefix+name)
	}
	return names
}

// leastArguments are minimal arguments for each tool: the required ones, with values that pass the check.
func leastArguments(t *testing.T) map[string]string {
	t.Helper()
	x := serve(t, newService(t))
	x.initialize("test-client")
	x.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	all := map[string]string{}
	for _, tool := range listed(t, x.receive()) {
		var schema struct {
			Required   []string
			Properties map[string]struct {
				Type string
				Enum []string
			}
		}
		require.NoError(t, json.Unmarshal(tool.InputSchema, &schema))
		var members []string
		for _, name := range schema.Required {
			p := schema.Properties[name]
			value := map[string]string{"string": `"x"`, "object": "{}", "boolean": "false"}[p.Type]
			if p.Enum != nil {
				value = `"` + p.Enum[0] + `"`
			}
			members = append(members, `"`+name+`":`+value)
		}
		all[strings.TrimPrefix(tool.Name, "loopgrid.")] = "{" + strings.Join(members, ",") + "}"
	}
	return all
}

func TestTheCatalogueIsTheOnlyList(t *testing.T) {
	t.Parallel()
	sixTools := []string{"record_decision", "record_review", "record_action", "record_outcome", "get_evidence", "verify_evidence"}
	require.GreaterOrEqual(t, len(allTools()), len(sixTools))
	assert.Equal(t, sixTools, allTools()[:len(sixTools)], "the names are an interface")
	for _, tool := range bridge.Document() {
		assert.Equal(t, strings.Replace(tool.Name, ".", "_", 1), tool.Underscore)
		assert.Regexp(t, `^[A-Z].*\.$`, tool.Summary)
		assert.NotContains(t, tool.Summary, "{")
		assert.NotEmpty(t, tool.Effect)
		assert.NotEmpty(t, tool.Routes)
	}
}

func TestCatalogueAsClientsSeeIt(t *testing.T) {
	t.Parallel()
	x := serve(t, newService(t))
	golden(t, "catalogue/initialize.json", indented(t, json.RawMessage(x.initialize("test-client"))))
	x.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	line := x.receive()
	var answer struct {
		Result struct{ Tools []json.RawMessage }
	}
	require.NoError(t, json.Unmarshal([]byte(line), &answer))
	require.Len(t, answer.Result.Tools, len(allTools()))
	for i, name := range allTools() {
		golden(t, "catalogue/"+name+".json", indented(t, answer.Result.Tools[i]))
	}

	modern := serve(t, newService(t))
	modern.send(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":` + modernMeta("cursor-vscode") + `}}`)
	golden(t, "catalogue/discover-underscore.json", indented(t, json.RawMessage(modern.receive())))
	modern.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":` + modernMeta("cursor-vscode") + `}}`)
	var underscored struct {
		Result struct{ Tools []json.RawMessage }
	}
	require.NoError(t, json.Unmarshal([]byte(modern.receive()), &underscored))
	for i, dotted := range answer.Result.Tools {
		assert.Equal(t, strings.ReplaceAll(string(dotted), "loopgrid.", "loopgrid_"), string(underscored.Result.Tools[i]), "the spelling is the only difference")
	}
}

func modernMeta(client string) string {
	return `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"` + client + `","version":"1"}}`
}

// orphans lists the golden files below dir that no test reads: those of the catalogue are named by its tools, the others in full in the
// test that reads them.
func orphans(t *testing.T, dir string) []string {
	t.Helper()
	var sources strings.Builder
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		sources.Write(text)
	}
	for _, tool := range allTools() {
		sources.WriteString(`"catalogue/` + tool + `.json"`)
	}
	var found []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		name = filepath.ToSlash(name)
		if !strings.HasPrefix(name, "fuzz/") && !strings.Contains(sources.String(), `"`+name+`"`) {
			found = append(found, name)
		}
		return err
	}))
	return found
}

func TestNoOrphans(t *testing.T) {
	t.Parallel()
	assert.Empty(t, orphans(t, "testdata"), "no test reads them")

	planted := t.TempDir()
	want := []string{"catalogue/" + "tool.json", "review/" + "form.txt", "texts/" + "a.txt"}
	for _, name := range append([]string{"texts/lost.txt"}, want...) {
		require.NoError(t, os.MkdirAll(filepath.Join(planted, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(planted, name), nil, 0o600))
	}
	assert.Equal(t, want, orphans(t, planted))
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
		{"", "continue-cli-client", "loopgrid_"},
		{"", "fast-agent-mcp", "loopgrid_"},
		{"", "mcp-use", "loopgrid_"},
		{"", "nanocoder-mcp-client", "loopgrid_"},
		{"", "fastmcp", "loopgrid_"},
		{"", "@langchain/mcp-adapters", "loopgrid_"},
		{"", "ai-sdk-mcp-client", "loopgrid_"},
		{"", "qwen-cli-mcp-client-loopgrid", "loopgrid_"},
		{"", "@cline/core", "loopgrid_"},
		{"", "mcp", "loopgrid."},
		{"", "mcporter", "loopgrid."},
		{"", "gemini-cli-mcp-client", "loopgrid."},
		{"auto", "codex-mcp-client", "loopgrid."},
		{"dotted", "claude-ai", "loopgrid."},
		{"underscore", "claude-code", "loopgrid_"},
	} {
		t.Run(tt.setting+"/"+tt.client, func(t *testing.T) {
			t.Parallel()
			x := serve(t, newService(t), "LOOPGRID_MCP_TOOL_NAMES="+tt.setting)
			assert.Contains(t, x.initialize(tt.client), "1. Call "+tt.prefix+"record_decision")
			x.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
			assert.Equal(t, inSpelling(tt.prefix), toolNames(listed(t, x.receive())))

			modern := serve(t, newService(t), "LOOPGRID_MCP_TOOL_NAMES="+tt.setting)
			modern.send(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":` + modernMeta(tt.client) + `}}`)
			assert.Contains(t, modern.receive(), "1. Call "+tt.prefix+"record_decision")
			modern.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":` + modernMeta(tt.client) + `}}`)
			assert.Equal(t, inSpelling(tt.prefix), toolNames(listed(t, modern.receive())))
			// The client is identified per request: another one sees its own spelling.
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

// TestSchemasFitEveryHost restricts the input schemas to what every host and model API accepts.
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
		for _, word := range []string{`"$ref"`, `"anyOf"`, `"oneOf"`, `"allOf"`, `"const"`, `"format"`, `"null"`} {
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
