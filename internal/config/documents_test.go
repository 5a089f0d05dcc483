package config_test

import (
	"encoding/json"
	"os"
	"slices"
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
			RegistryType         string             `json:"registryType"`
			EnvironmentVariables []registryVariable `json:"environmentVariables"`
		} `json:"packages"`
	}
	require.NoError(t, json.Unmarshal(text, &server))

	want := make([]registryVariable, 0, len(config.Variables()))
	for _, v := range config.Variables() {
		want = append(want, registryVariable{
			Name: v.Name, Description: v.Description, Default: v.Default, Choices: v.Choices, IsSecret: v.Secret,
		})
	}
	kinds := map[string]bool{}
	for _, p := range server.Packages {
		kinds[p.RegistryType] = true
		got := slices.Clone(p.EnvironmentVariables)
		if p.RegistryType == "oci" {
			// In a container these two cannot be what they are elsewhere.
			for i, v := range got {
				switch v.Name {
				case "LOOPGRID_BASE_URL":
					assert.Equal(t, "http://host.docker.internal:8000", v.Default)
					got[i].Default = want[i].Default
				case "LOOPGRID_EVIDENCE_DIR":
					assert.Equal(t, "/evidence", v.Default)
					got[i].Default = want[i].Default
				}
			}
		}
		assert.Equal(t, want, got, p.RegistryType)
	}
	assert.Equal(t, map[string]bool{"pypi": true, "npm": true, "oci": true, "mcpb": true}, kinds)
	assert.LessOrEqual(t, len(server.Description), 100, "the registry refuses a longer description")
}
