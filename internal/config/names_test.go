package config_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLoadFrom_NamesWhatIsSet(t *testing.T) {
	t.Parallel()

	s := load(t)
	assert.Empty(t, s.Set)
	assert.Empty(t, s.Unread)
	assert.False(t, s.NoColor)
	assert.Empty(t, s.Network)

	assert.Equal(t, []string{"HTTP_PROXY", "HTTPS_PROXY", "SSL_CERT_DIR"}, load(t, "https_proxy=x", "HTTP_PROXY=x", "SSL_CERT_DIR=x", "NO_PROXY=").Network)
	assert.True(t, load(t, "TERM=dumb").NoColor)
	assert.Equal(t, runtime.GOOS != "windows", load(t, "TERM=").NoColor)

	s = load(t, "LOOPGRID_SERVICE_KEY=k", "LOOPGRID_BASE_URL=nonsense", "LOOPGRID_WORKSPACE= ", "LOOPGRID_EVIDENCE_DIR=",
		"LOOPGRID_SIGNING_\x1b[31KEY=x", "LOOPGRID_DATABASE_URL=postgresql://user:pw@host/db", "LOOPGRID_EMPTY=", "OTHER=1", "NO_COLOR=0")
	assert.Equal(t, []string{"LOOPGRID_BASE_URL", "LOOPGRID_SERVICE_KEY"}, s.Set, "in the order of the documentation, usable or not")
	assert.Equal(t, []string{"LOOPGRID_DATABASE_URL", "LOOPGRID_SIGNING_ [31KEY"}, s.Unread, "nothing in a name can reach a terminal")
	assert.True(t, s.NoColor, "any text counts")

	assert.False(t, load(t, "NO_COLOR=", "TERM=xterm").NoColor)
}

func TestLoadFrom_NamesThatAreMeantForOurs(t *testing.T) {
	t.Parallel()

	for name, meant := range map[string]string{
		"LOOPGRID_URL":                         "LOOPGRID_BASE_URL",
		"LOOPGRID_HOST":                        "LOOPGRID_BASE_URL",
		"LOOPGRID_ENDPOINT":                    "LOOPGRID_BASE_URL",
		"LOOPGRID_MCP_BASE_URL":                "LOOPGRID_BASE_URL",
		"LOOPGRID_TOKEN":                       "LOOPGRID_SERVICE_KEY",
		"LOOPGRID_KEY":                         "LOOPGRID_SERVICE_KEY",
		"LOOPGRID_KEY_FILE":                    "LOOPGRID_SERVICE_KEY_FILE",
		"LOOPGRID_CA_BUNDLE":                   "LOOPGRID_CA_FILE",
		"LOOPGRID_TIMEOUT":                     "LOOPGRID_MCP_TIMEOUT_SECONDS",
		"LOOPGRID_TIMEOUT_SECONDS":             "LOOPGRID_MCP_TIMEOUT_SECONDS",
		"LOOPGRID_MCP_REVIEW_TOOL":             "LOOPGRID_MCP_ENABLE_REVIEW_TOOL",
		"LOOPGRID_MCP_ENABLE_REVIEW":           "LOOPGRID_MCP_ENABLE_REVIEW_TOOL",
		"LOOPGRID_MCP_REVIEWER":                "LOOPGRID_MCP_REVIEWER_ID",
		"LOOPGRID_REVIEWER_ID":                 "LOOPGRID_MCP_REVIEWER_ID",
		"LOOPGRID_ALLOW_PAYLOAD_EXPORT":        "LOOPGRID_MCP_ALLOW_PAYLOAD_EXPORT",
		"LOOPGRID_DATABASE_URL":                "",
		"LOOPGRID_MCP_SOMETHING_ELSE_ENTIRELY": "",
	} {
		s := load(t, name+"=x")
		if meant == "" {
			assert.Empty(t, lines(s), name)
			continue
		}
		assert.Equal(t, []string{
			"warning " + meant + ": " + name + " is set, but this program does not read it.",
			"  → Use " + meant + ", if that is what it is meant for.",
		}, lines(s))
		assert.Empty(t, lines(load(t, name+"=")), "set to nothing")
	}
	// Windows does not tell small letters from capitals: there this is the variable.
	if small := load(t, "loopgrid_mcp_log_level=debug"); runtime.GOOS != "windows" {
		assert.Equal(t, "warning LOOPGRID_MCP_LOG_LEVEL: loopgrid_mcp_log_level is set, but this program does not read it.", lines(small)[0])
	} else {
		assert.Empty(t, lines(small))
	}
}

// Placeholders of every shape that something else should have filled in are not
// taken for values.
func TestLoadFrom_Placeholders(t *testing.T) {
	t.Parallel()

	for _, shape := range []string{
		"${X}", "$X", "${env:X}", "{env:X}", "${input:x}", "${user_config.x}", "${X:-default}", "$env:X", "%X%", "$(X)", "$(cat /run/x)",
		"{{X}}", "{{ .Values.x }}", "${{ secrets.X }}", "#{X}", "{X}", "__X__", "@X@", "!X!", "<%= x %>", "op://vault/item/key", `"${X}"`, "'$X'",
	} {
		address, key, dir := load(t, "LOOPGRID_BASE_URL="+shape), load(t, "LOOPGRID_SERVICE_KEY="+shape), load(t, "LOOPGRID_EVIDENCE_DIR="+shape)
		assert.Contains(t, strings.Join(lines(address), "\n"), "problem 1 LOOPGRID_BASE_URL: LOOPGRID_BASE_URL holds a placeholder", shape)
		assert.Contains(t, strings.Join(lines(key), "\n"), "LOOPGRID_SERVICE_KEY is a placeholder that the host did not fill in; it counts as not set.", shape)
		assert.Empty(t, key.Problems, shape)
		assert.False(t, key.ServiceKey.IsSet(), shape)
		assert.True(t, dir.EvidenceDir.IsDefault, shape)
	}
	for _, part := range []string{"team-${X}", "team-$TEAM", "$HOME/x", "x-%TEAM%", "{{ team }}-x", "x/$(pwd)"} {
		for _, name := range []string{"LOOPGRID_BASE_URL", "LOOPGRID_WORKSPACE", "LOOPGRID_EVIDENCE_DIR", "LOOPGRID_MCP_REVIEWER_ID", "LOOPGRID_CA_FILE"} {
			s := load(t, name+"="+part)
			assert.Equal(t, name+" holds a placeholder that the host did not fill in.", s.Problems[0].Message, part)
		}
	}
}

func TestSettings_Values(t *testing.T) {
	t.Parallel()

	work, err := os.Getwd()
	require.NoError(t, err)
	s := load(t, `LOOPGRID_WORKSPACE="claims"`, "LOOPGRID_SERVICE_KEY=lg_live_1234567890", "LOOPGRID_EVIDENCE_DIR=x", "LOOPGRID_MCP_TIMEOUT_SECONDS=soon",
		"LOOPGRID_MCP_TOOL_NAMES=camel", "LOOPGRID_MCP_LOG_LEVEL=${LEVEL}", "LOOPGRID_MCP_ENABLE_REVIEW_TOOL=yes", "LOOPGRID_MCP_REVIEWER_ID=ann")
	assert.Equal(t, map[string]string{
		"LOOPGRID_WORKSPACE": "claims", "LOOPGRID_EVIDENCE_DIR": filepath.Join(work, "x"),
		"LOOPGRID_MCP_ENABLE_REVIEW_TOOL": "yes", "LOOPGRID_MCP_REVIEWER_ID": "ann",
	}, s.Values)
}
