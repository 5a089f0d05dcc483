package sandbox_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
)

// TestValidation compares with what pydantic 2 says to bodies of the set-up routes: testdata/validation.jsonl was written with it.
func TestValidation(t *testing.T) {
	t.Parallel()
	lines, err := os.ReadFile("testdata/validation.jsonl")
	require.NoError(t, err)
	c := newClient(t, sandbox.Options{})
	for line := range bytes.Lines(lines) {
		var x struct {
			Path   string `json:"path"`
			Body   string `json:"body"`
			Detail string `json:"detail"`
		}
		require.NoError(t, json.Unmarshal(line, &x))
		status, body := c.post(x.Path, x.Body)
		if x.Detail == "" {
			assert.Equal(t, http.StatusOK, status, "%s: %s", x.Body, body)
			continue
		}
		assert.Equal(t, http.StatusUnprocessableEntity, status, x.Body)
		assert.Equal(t, `{"detail":`+x.Detail+`}`, body, x.Body)
	}
}

func TestQueryValidation(t *testing.T) {
	t.Parallel()
	c := newClient(t, sandbox.Options{})
	id := c.create(`{"decision_type":"t"}`)
	const bad = `{"detail":[{"type":"bool_parsing","loc":["query","include_payloads"],"msg":"Input should be a valid boolean, unable to ` +
		`interpret input","input":"maybe"}]}`
	for path, want := range map[string]struct {
		status int
		body   string
	}{
		"/api/v1/decisions/" + id + "/evidence?include_payloads=maybe": {http.StatusUnprocessableEntity, bad},
		"/api/v1/decisions/dec_x/evidence?include_payloads=maybe":      {http.StatusUnprocessableEntity, bad},
		"/api/v1/decisions?limit=0": {
			http.StatusUnprocessableEntity,
			`{"detail":[{"type":"greater_than_equal","loc":["query","limit"],"msg":"Input should be greater than or equal to 1","input":"0",` +
				`"ctx":{"ge":1}}]}`,
		},
		"/api/v1/decisions?limit=x": {
			http.StatusUnprocessableEntity,
			`{"detail":[{"type":"int_parsing","loc":["query","limit"],"msg":"Input should be a valid integer, unable to parse string as an integer",` +
				`"input":"x"}]}`,
		},
		"/api/v1/decisions?workspace_id=nobody":          {http.StatusOK, `[]`},
		"/api/v1/decisions?workspace_id=a&limit=1&x=%zz": {http.StatusOK, `[]`},
	} {
		status, body := c.get(path)
		assert.Equal(t, want.status, status, path)
		assert.Equal(t, want.body, body, path)
	}
	for _, word := range []string{"true", "True", "1", "false", "0"} {
		status, _ := c.get("/api/v1/decisions/" + id + "/evidence?include_payloads=" + word)
		assert.Equal(t, http.StatusOK, status, word)
	}
}

// TestFloatSpelling sends each number of the recorded table and reads it back in the spelling of the answers and of the ledger.
func TestFloatSpelling(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../evidence/testdata/float_spelling.json")
	require.NoError(t, err)
	var table struct {
		Table []struct {
			Sent      string `json:"sent"`
			Answer    string `json:"api_answer"`
			Canonical string `json:"canonical"`
		} `json:"table"`
	}
	require.NoError(t, json.Unmarshal(raw, &table))
	require.NotEmpty(t, table.Table)
	for _, mode := range []string{"full", "redacted"} {
		c := newClient(t, sandbox.Options{})
		for i, x := range table.Table {
			status, body := c.post("/api/v1/decisions", `{"decision_type":"t","privacy_mode":"`+mode+`","input":{"x":`+x.Sent+`}}`)
			require.Equal(t, http.StatusOK, status)
			assert.Contains(t, body, `"input":{"x":`+x.Answer+`}`, x.Sent)
			assert.Contains(t, string(c.server.Events("default")[i].Payload), `"input":{"x":`+x.Canonical+`}`, x.Sent)
		}
	}
}

// TestDepthThresholds repeats the recorded table of nesting: LoopGrid appends and then fails to answer.
func TestDepthThresholds(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/depth_thresholds.json")
	require.NoError(t, err)
	var table struct {
		Create []struct {
			Arrays   int `json:"arrays_inside_input.x"`
			Post     int `json:"POST decisions"`
			Appended int `json:"appended"`
			Get      int `json:"GET decision"`
			Evidence int `json:"GET evidence"`
			Verify   int `json:"GET verify"`
			After    int `json:"POST events after"`
		} `json:"create"`
		Event []struct {
			Arrays int `json:"arrays_inside_payload.x"`
			Post   int `json:"POST events"`
		} `json:"event"`
	}
	require.NoError(t, json.Unmarshal(raw, &table))
	require.NotEmpty(t, table.Create)
	require.NotEmpty(t, table.Event)
	nested := func(depth int) string { return `{"x":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}` }
	for _, x := range table.Create {
		c := newClient(t, sandbox.Options{})
		status := func(status int, _ string) int { return status }
		assert.Equal(t, x.Post, status(c.post("/api/v1/decisions", `{"decision_type":"t","input":`+nested(x.Arrays)+`}`)), x.Arrays)
		events := c.server.Events("default")
		require.Len(t, events, x.Appended)
		path := "/api/v1/decisions/" + events[0].DecisionID
		assert.Equal(t, x.Get, status(c.get(path)), x.Arrays)
		assert.Equal(t, x.Evidence, status(c.get(path+"/evidence")), x.Arrays)
		assert.Equal(t, x.Verify, status(c.get(path+"/verify")), x.Arrays)
		assert.Equal(t, x.After, status(c.post(path+"/events", `{"event_type":"model_completed"}`)), x.Arrays)
	}
	c := newClient(t, sandbox.Options{})
	id := c.create(`{"decision_type":"t"}`)
	for _, x := range table.Event {
		status, _ := c.post("/api/v1/decisions/"+id+"/events", `{"event_type":"model_completed","payload":`+nested(x.Arrays)+`}`)
		assert.Equal(t, x.Post, status, x.Arrays)
	}
}
