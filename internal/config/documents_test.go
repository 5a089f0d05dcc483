package config_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/config"
)

func TestEnvExample_IsTheTable(t *testing.T) {
	t.Parallel()

	text, err := os.ReadFile("../../.env.example")
	require.NoError(t, err)
	_, settings, found := strings.Cut(string(text), "\n\n")
	require.True(t, found, "an introduction, an empty line, the settings")

	entries := make([]string, 0, len(config.Variables()))
	for _, v := range config.Variables() {
		entries = append(entries, "# "+v.Description+"\n"+v.Name+"="+v.Default+"\n")
	}
	assert.Equal(t, strings.Join(entries, "\n"), settings)

	var environ []string
	for line := range strings.Lines(settings) {
		if !strings.HasPrefix(line, "#") {
			environ = append(environ, strings.TrimSpace(line))
		}
	}
	assert.Empty(t, lines(load(t, environ...)), "used as it is, it is a working configuration")
}

// registryVariable is a setting as a registry describes it.
type registryVariable struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Default     string   `json:"default"`
	Choices     []string `json:"choices"`
	IsSecret    bool     `json:"isSecret"`
	IsRequired  bool     `json:"isRequired"`
}

func TestServerJSON_HasTheTable(t *testing.T) {
	t.Parallel()

	text, err := os.ReadFile("../../server.json")
	require.NoError(t, err)
	var server struct {
		Description string `json:"description"`
		Packages    []struct {
			EnvironmentVariables []registryVariable `json:"environmentVariables"`
		} `json:"packages"`
		Meta struct {
			Publisher struct {
				EnvironmentVariables []registryVariable `json:"environmentVariables"`
			} `json:"io.modelcontextprotocol.registry/publisher-provided"`
		} `json:"_meta"`
	}
	require.NoError(t, json.Unmarshal(text, &server))

	want := make([]registryVariable, 0, len(config.Variables()))
	for _, v := range config.Variables() {
		want = append(want, registryVariable{
			Name: v.Name, Description: v.Description, Default: v.Default, Choices: v.Choices, IsSecret: v.Secret,
		})
	}
	assert.Equal(t, want, server.Meta.Publisher.EnvironmentVariables)
	for _, p := range server.Packages {
		assert.Equal(t, want, p.EnvironmentVariables)
	}
	assert.LessOrEqual(t, len(server.Description), 100, "the registry refuses a longer description")
}
