package config_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/config"
)

// load returns the settings of an environment that holds the given texts and what
// every process has.
func load(t *testing.T, environ ...string) config.Settings {
	t.Helper()

	home := t.TempDir()

	return config.LoadFrom(append(slices.Clone(environ), // the first of two counts
		"PATH=/usr/bin", "TERM=xterm", "HOME="+home, "USERPROFILE="+home, "LOCALAPPDATA="+home))
}

// lines puts everything that an operator would read on lines of its own.
func lines(s config.Settings) []string {
	all := []string{}
	for _, p := range s.Problems {
		all = append(all, fmt.Sprintf("problem %d %s: %s", p.Touches, p.Variable, p.Message), "  → "+p.Remedy)
	}
	for _, w := range s.Warnings {
		all = append(all, fmt.Sprintf("warning %s: %s", w.Variable, w.Message), "  → "+w.Remedy)
	}

	return all
}

func TestLoadFrom_NothingSetIsTheDefaults(t *testing.T) {
	t.Parallel()

	s := load(t)

	assert.Empty(t, lines(s))
	assert.Equal(t, "http://127.0.0.1:8000", s.BaseURL.String())
	assert.Equal(t, "default", s.Workspace)
	assert.False(t, s.ServiceKey.IsSet())
	assert.True(t, s.EvidenceDir.IsDefault)
	assert.Equal(t, int64(50*1024*1024), s.MaxEvidenceBytes)
	assert.Equal(t, 20*time.Second, s.Timeout)
	assert.False(t, s.EnableReviewTool)
	assert.Empty(t, s.ReviewerID)
	assert.Equal(t, config.AutoConfirmation, s.ReviewConfirmation)
	assert.False(t, s.AllowPayloadExport)
	assert.Equal(t, config.AutoNames, s.ToolNames)
	assert.Equal(t, slog.LevelInfo, s.LogLevel)
	assert.Equal(t, config.AutoWriteLock, s.WriteLock)
	assert.Nil(t, s.CACertificates)
	assert.Nil(t, s.RereadServiceKey)
}

func TestLoadFrom_EmptyAndBlankCountAsNotSet(t *testing.T) {
	t.Parallel()

	for _, value := range []string{"", " ", "\t \n"} {
		var environ []string
		for _, v := range config.Variables() {
			environ = append(environ, v.Name+"="+value)
		}
		s, unset := load(t, environ...), load(t)

		assert.Empty(t, lines(s))
		unset.EvidenceDir, s.EvidenceDir = config.EvidenceDir{}, config.EvidenceDir{} // another temporary home
		assert.Equal(t, unset, s)
	}
}

func TestLoad_ReadsWhatLoadFromReads(t *testing.T) {
	given := map[string]string{
		"LOOPGRID_BASE_URL":                 "https://loopgrid.example.com/base/",
		"LOOPGRID_WORKSPACE":                "claims",
		"LOOPGRID_SERVICE_KEY":              " key-for-a-test-run\n",
		"LOOPGRID_EVIDENCE_DIR":             t.TempDir(),
		"LOOPGRID_MAX_EVIDENCE_BYTES":       "1000",
		"LOOPGRID_MCP_TIMEOUT_SECONDS":      "2.5",
		"LOOPGRID_MCP_ENABLE_REVIEW_TOOL":   "Yes",
		"LOOPGRID_MCP_REVIEWER_ID":          "Žofie",
		"LOOPGRID_MCP_REVIEW_CONFIRMATION":  "Required",
		"LOOPGRID_MCP_ALLOW_PAYLOAD_EXPORT": "on",
		"LOOPGRID_MCP_TOOL_NAMES":           "Underscore",
		"LOOPGRID_MCP_LOG_LEVEL":            "DEBUG",
		"LOOPGRID_CA_FILE":                  writeFile(t, "ca.pem", certificate(t)),
		"LOOPGRID_MCP_WRITE_LOCK":           "OFF",
	}
	require.Len(t, given, len(config.Variables())-1, "every variable is in this test but LOOPGRID_SERVICE_KEY_FILE, which excludes another")

	t.Setenv("TERM", "xterm")
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"} {
		t.Setenv(name, "")
		t.Setenv(strings.ToLower(name), "")
	}
	environ := []string{"TERM=xterm", "LOOPGRID_WORKSPACE=claims", "LOOPGRID_WORKSPACE=the second of two does not count"}
	for name, value := range given {
		t.Setenv(name, value)
		environ = append(environ, name+"="+value)
	}
	s := config.Load()

	assert.Empty(t, lines(s))
	assert.Equal(t, s, config.LoadFrom(environ))
	assert.Equal(t, "https://loopgrid.example.com/base", s.BaseURL.String())
	assert.Equal(t, "claims", s.Workspace)
	assert.Equal(t, "key-for-a-test-run", s.ServiceKey.Reveal())
	assert.Equal(t, config.EvidenceDir{Path: given["LOOPGRID_EVIDENCE_DIR"], Why: "set by LOOPGRID_EVIDENCE_DIR"}, s.EvidenceDir)
	assert.Equal(t, int64(1000), s.MaxEvidenceBytes)
	assert.Equal(t, 2500*time.Millisecond, s.Timeout)
	assert.True(t, s.EnableReviewTool)
	assert.Equal(t, "Žofie", s.ReviewerID)
	assert.Equal(t, config.RequiredConfirmation, s.ReviewConfirmation)
	assert.True(t, s.AllowPayloadExport)
	assert.Equal(t, config.UnderscoreNames, s.ToolNames)
	assert.Equal(t, slog.LevelDebug, s.LogLevel)
	assert.Equal(t, config.WriteLockOff, s.WriteLock)
	assert.Contains(t, string(s.CACertificates), "BEGIN CERTIFICATE")
}

func TestLoadFrom_Accepts(t *testing.T) {
	t.Parallel()

	address := func(s config.Settings) any { return s.BaseURL.String() }
	tests := []struct {
		variable, given string
		got             func(config.Settings) any
		want            any
	}{
		{"LOOPGRID_BASE_URL", "http://localhost:8000///", address, "http://localhost:8000"},
		{"LOOPGRID_BASE_URL", " HTTPS://Example.com/a/b// ", address, "https://Example.com/a/b"},
		{"LOOPGRID_BASE_URL", "http://[::1]:8000", address, "http://[::1]:8000"},
		{"LOOPGRID_BASE_URL", "http://example.com:", address, "http://example.com"},
		{"LOOPGRID_BASE_URL", "http://h/a%2Fb/", address, "http://h/a%2Fb"},
		{"LOOPGRID_BASE_URL", "http://host.docker.internal:8000", address, "http://host.docker.internal:8000"},
		{"LOOPGRID_WORKSPACE", " claims ", func(s config.Settings) any { return s.Workspace }, "claims"},
		{"LOOPGRID_WORKSPACE", "a..b?#%2F\\ü", func(s config.Settings) any { return s.Workspace }, "a..b?#%2F\\ü"},
		{"LOOPGRID_WORKSPACE", strings.Repeat("ü", 64), func(s config.Settings) any { return s.Workspace }, strings.Repeat("ü", 64)},
		{"LOOPGRID_SERVICE_KEY", "a b c d e f g h i", func(s config.Settings) any { return s.ServiceKey.Reveal() }, "a b c d e f g h i"},
		{"LOOPGRID_SERVICE_KEY", "\u00a0$ecret}-of-somebody\r\n", func(s config.Settings) any { return s.ServiceKey.Reveal() }, "$ecret}-of-somebody"},
		{"LOOPGRID_MAX_EVIDENCE_BYTES", "1", func(s config.Settings) any { return s.MaxEvidenceBytes }, int64(1)},
		{"LOOPGRID_MAX_EVIDENCE_BYTES", " +5_242_880 ", func(s config.Settings) any { return s.MaxEvidenceBytes }, int64(5242880)},
		{"LOOPGRID_MAX_EVIDENCE_BYTES", "007", func(s config.Settings) any { return s.MaxEvidenceBytes }, int64(7)},
		{"LOOPGRID_MAX_EVIDENCE_BYTES", "9223372036854775807", func(s config.Settings) any { return s.MaxEvidenceBytes }, int64(math.MaxInt64 - 1)},
		{"LOOPGRID_MAX_EVIDENCE_BYTES", strings.Repeat("9", 30), func(s config.Settings) any { return s.MaxEvidenceBytes }, int64(math.MaxInt64 - 1)},
		{"LOOPGRID_MCP_TIMEOUT_SECONDS", " 20 ", func(s config.Settings) any { return s.Timeout }, 20 * time.Second},
		{"LOOPGRID_MCP_TIMEOUT_SECONDS", "1e1", func(s config.Settings) any { return s.Timeout }, 10 * time.Second},
		{"LOOPGRID_MCP_TIMEOUT_SECONDS", ".5", func(s config.Settings) any { return s.Timeout }, 500 * time.Millisecond},
		{"LOOPGRID_MCP_TIMEOUT_SECONDS", "+1_0.2_5", func(s config.Settings) any { return s.Timeout }, 10250 * time.Millisecond},
		{"LOOPGRID_MCP_TIMEOUT_SECONDS", "599.5", func(s config.Settings) any { return s.Timeout }, 599500 * time.Millisecond},
		{"LOOPGRID_MCP_TIMEOUT_SECONDS", "600", func(s config.Settings) any { return s.Timeout }, 10 * time.Minute},
		{"LOOPGRID_MCP_WRITE_LOCK", "On", func(s config.Settings) any { return s.WriteLock }, config.WriteLockOn},
		{"LOOPGRID_WORKSPACE", "\ufeff\u200bclaims\u2060 ", func(s config.Settings) any { return s.Workspace }, "claims"},
		{"LOOPGRID_MCP_REVIEWER_ID", "Ann O'Brien", func(s config.Settings) any { return s.ReviewerID }, "Ann O'Brien"},
		{"LOOPGRID_WORKSPACE", "a#b", func(s config.Settings) any { return s.Workspace }, "a#b"},
		{"LOOPGRID_WORKSPACE", "50%-a$b", func(s config.Settings) any { return s.Workspace }, "50%-a$b"},
		{"LOOPGRID_BASE_URL", "http://h/%E3%81%82%AB%CD", address, "http://h/%E3%81%82%AB%CD"},
		{"LOOPGRID_MCP_TOOL_NAMES", "dotted", func(s config.Settings) any { return s.ToolNames }, config.DottedNames},
		{"LOOPGRID_MCP_TOOL_NAMES", "AUTO", func(s config.Settings) any { return s.ToolNames }, config.AutoNames},
		{"LOOPGRID_MCP_REVIEW_CONFIRMATION", " HOST ", func(s config.Settings) any { return s.ReviewConfirmation }, config.HostConfirmation},
		{"LOOPGRID_MCP_LOG_LEVEL", "Warn", func(s config.Settings) any { return s.LogLevel }, slog.LevelWarn},
		{"LOOPGRID_MCP_LOG_LEVEL", "error", func(s config.Settings) any { return s.LogLevel }, slog.LevelError},
		{"LOOPGRID_MCP_REVIEWER_ID", strings.Repeat("ü", 128), func(s config.Settings) any { return s.ReviewerID }, strings.Repeat("ü", 128)},
		{"LOOPGRID_MCP_REVIEWER_ID", "Ann <ann@example.com>", func(s config.Settings) any { return s.ReviewerID }, "Ann <ann@example.com>"},
	}
	for _, on := range []string{"1", "true", "YES", "On", " true "} {
		tests = append(tests, struct {
			variable, given string
			got             func(config.Settings) any
			want            any
		}{"LOOPGRID_MCP_ALLOW_PAYLOAD_EXPORT", on, func(s config.Settings) any { return s.AllowPayloadExport }, true})
	}
	for _, off := range []string{"0", "False", "no", "OFF"} {
		tests = append(tests, struct {
			variable, given string
			got             func(config.Settings) any
			want            any
		}{"LOOPGRID_MCP_ALLOW_PAYLOAD_EXPORT", off, func(s config.Settings) any { return s.AllowPayloadExport }, false})
	}
	for _, tt := range tests {
		t.Run(tt.variable+"="+tt.given, func(t *testing.T) {
			t.Parallel()

			s := load(t, tt.variable+"="+tt.given)

			assert.Empty(t, lines(s))
			assert.Equal(t, tt.want, tt.got(s))
		})
	}
}

// Every text that an operator can meet.
func TestLoadFrom_Messages(t *testing.T) {
	t.Parallel()

	const (
		noAddress = "problem 1 LOOPGRID_BASE_URL: LOOPGRID_BASE_URL is not an http or https address."
		doAddress = "  → Set it to the address of LoopGrid, for example http://127.0.0.1:8000."
		doKeep    = "  → Keep the scheme, the host, the port and the base path only; a key belongs in LOOPGRID_SERVICE_KEY."
		noID      = "problem 1 LOOPGRID_WORKSPACE: LOOPGRID_WORKSPACE is not the id of a workspace."
		doID      = "  → Use letters, digits, - and _; control and invisible characters, / and a lone . or .. are refused."
		noCount   = "problem 3 LOOPGRID_MAX_EVIDENCE_BYTES: LOOPGRID_MAX_EVIDENCE_BYTES is not a whole number greater than zero."
		doCount   = "  → Set it to a number of bytes, for example 52428800."
		noNumber  = "problem 1 LOOPGRID_MCP_TIMEOUT_SECONDS: LOOPGRID_MCP_TIMEOUT_SECONDS is not a number."
		doNumber  = "  → Set it to a number of seconds without a unit, for example 20 or 0.5."
		outside   = "problem 1 LOOPGRID_MCP_TIMEOUT_SECONDS: LOOPGRID_MCP_TIMEOUT_SECONDS is out of range."
		doInside  = "  → Set it to a number of seconds greater than 0 and at most 86400, for example 20."
		noLine    = "problem 2 LOOPGRID_MCP_REVIEWER_ID: LOOPGRID_MCP_REVIEWER_ID holds a line break, a control character or bytes that are not UTF-8."
		doLine    = "  → Use a name on one line."
		doFill    = "  → Write the value itself, or define what the placeholder names where the host starts."
		doReplace = "  → Replace it with your own value, or remove the variable."
		doOneOf   = "  → Set it to one of them, or remove it."
		unfilled  = " holds a placeholder that the host did not fill in."
		quotedKey = "warning LOOPGRID_SERVICE_KEY: The service key begins or ends with a quotation mark, which is sent as a part of the key."
		doUnquote = "  → Set LOOPGRID_SERVICE_KEY to the key without it, unless LoopGrid's operator gave it with that mark."
		unquoted  = " is in quotation marks; they were taken off."
		doBare    = "  → Write the value without them."
		shortKey  = "warning LOOPGRID_SERVICE_KEY: The service key has fewer than 16 characters: it is easy to guess, and too short to be hidden reliably in texts."
		doLonger  = "  → Use a key that LoopGrid made."
		comment   = " holds a # after a blank, which looks like a comment."
		doComment = "  → Put the comment on a line of its own, or the value in quotation marks if the # belongs to it."
		inner     = ` holds a quotation mark (").`
		doWithout = "  → Write the value without it."
		asUnset   = " is a placeholder that the host did not fill in; it counts as not set."
	)
	tests := []struct {
		name    string
		environ []string
		want    []string
	}{
		{"no scheme", []string{"LOOPGRID_BASE_URL=localhost:8000/x"}, []string{noAddress, "  → Did you mean http://localhost:8000?"}},
		{"address without a scheme", []string{"LOOPGRID_BASE_URL=127.0.0.1:8000"}, []string{noAddress, "  → Did you mean http://127.0.0.1:8000?"}},
		{"another machine without a scheme", []string{"LOOPGRID_BASE_URL=loopgrid.example.com:443"}, []string{noAddress, "  → Did you mean https://loopgrid.example.com:443?"}},
		{"a key instead of an address", []string{"LOOPGRID_BASE_URL=lg_live_1234567890123456"}, []string{noAddress, doAddress}},
		{"another scheme", []string{"LOOPGRID_BASE_URL=file:///etc/passwd"}, []string{noAddress, doAddress}},
		{"no host", []string{"LOOPGRID_BASE_URL=http:///x"}, []string{noAddress, doAddress}},
		{"no host but a port", []string{"LOOPGRID_BASE_URL=http://:8000"}, []string{noAddress, doAddress}},
		{"one slash", []string{"LOOPGRID_BASE_URL=http:/localhost"}, []string{noAddress, doAddress}},
		{"opaque", []string{`LOOPGRID_BASE_URL=http:\\localhost`}, []string{noAddress, doAddress}},
		{"port beyond the last", []string{"LOOPGRID_BASE_URL=http://localhost:65536"}, []string{noAddress, doAddress}},
		{"port zero", []string{"LOOPGRID_BASE_URL=http://localhost:0"}, []string{noAddress, doAddress}},
		{"port in words", []string{"LOOPGRID_BASE_URL=http://localhost:http"}, []string{noAddress, doAddress}},
		{"a blank in the host", []string{"LOOPGRID_BASE_URL=http://local host"}, []string{noAddress, doAddress}},
		{"a line break in the address", []string{"LOOPGRID_BASE_URL=http://h/a\nb"}, []string{noAddress, doAddress}},
		{"a host in brackets", []string{"LOOPGRID_BASE_URL=http://<host>:8000"}, []string{noAddress, doAddress}},
		{
			"user info",
			[]string{"LOOPGRID_BASE_URL=http://ann:pass@h"},
			[]string{"problem 1 LOOPGRID_BASE_URL: LOOPGRID_BASE_URL holds a user name or password, which is never sent.", doKeep},
		},
		{
			"empty user info",
			[]string{"LOOPGRID_BASE_URL=http://@h"},
			[]string{"problem 1 LOOPGRID_BASE_URL: LOOPGRID_BASE_URL holds a user name or password, which is never sent.", doKeep},
		},
		{
			"query",
			[]string{"LOOPGRID_BASE_URL=http://h/?a=b"},
			[]string{"problem 1 LOOPGRID_BASE_URL: LOOPGRID_BASE_URL holds a query, which is never sent.", doKeep},
		},
		{
			"empty query",
			[]string{"LOOPGRID_BASE_URL=http://h?"},
			[]string{"problem 1 LOOPGRID_BASE_URL: LOOPGRID_BASE_URL holds a query, which is never sent.", doKeep},
		},
		{
			"all that does not belong",
			[]string{"LOOPGRID_BASE_URL=http://ann@h/?a#"},
			[]string{"problem 1 LOOPGRID_BASE_URL: LOOPGRID_BASE_URL holds a user name or password and a query and a fragment, which is never sent.", doKeep},
		},
		{
			"dots in the path",
			[]string{"LOOPGRID_BASE_URL=http://h/a/%2e%2e/b"},
			[]string{
				"problem 1 LOOPGRID_BASE_URL: LOOPGRID_BASE_URL holds a path with . or .. in it.",
				"  → Write the base path as the service sees it.",
			},
		},
		{"placeholder address", []string{"LOOPGRID_BASE_URL=${LOOPGRID_BASE_URL}"}, []string{"problem 1 LOOPGRID_BASE_URL: LOOPGRID_BASE_URL" + unfilled, doFill}},
		{"placeholder in the address", []string{"LOOPGRID_BASE_URL=http://${env:HOST}/"}, []string{"problem 1 LOOPGRID_BASE_URL: LOOPGRID_BASE_URL" + unfilled, doFill}},
		{
			"example in the address",
			[]string{"LOOPGRID_BASE_URL=https://<your-host>"},
			[]string{"problem 1 LOOPGRID_BASE_URL: LOOPGRID_BASE_URL still holds the text of an example.", doReplace},
		},

		{
			"long workspace",
			[]string{"LOOPGRID_WORKSPACE=" + strings.Repeat("w", 65)},
			[]string{
				"problem 1 LOOPGRID_WORKSPACE: LOOPGRID_WORKSPACE has more than 64 characters.",
				"  → Set it to the id of a workspace of LoopGrid.",
			},
		},
		{"workspace above", []string{"LOOPGRID_WORKSPACE=.."}, []string{noID, doID}},
		{"workspace here", []string{"LOOPGRID_WORKSPACE=."}, []string{noID, doID}},
		{"workspace with a path", []string{"LOOPGRID_WORKSPACE=a/b"}, []string{noID, doID}},
		{"workspace with a tab", []string{"LOOPGRID_WORKSPACE=a\tb"}, []string{noID, doID}},
		{"workspace with DEL", []string{"LOOPGRID_WORKSPACE=a\x7fb"}, []string{noID, doID}},
		{"workspace not UTF-8", []string{"LOOPGRID_WORKSPACE=a\xffb"}, []string{noID, doID}},
		{"placeholder workspace", []string{"LOOPGRID_WORKSPACE=$WORKSPACE"}, []string{"problem 1 LOOPGRID_WORKSPACE: LOOPGRID_WORKSPACE" + unfilled, doFill}},
		{"opencode's placeholder", []string{"LOOPGRID_WORKSPACE={env:WORKSPACE}"}, []string{"problem 1 LOOPGRID_WORKSPACE: LOOPGRID_WORKSPACE" + unfilled, doFill}},
		{"placeholder in the workspace", []string{"LOOPGRID_WORKSPACE=team-${TEAM}"}, []string{"problem 1 LOOPGRID_WORKSPACE: LOOPGRID_WORKSPACE" + unfilled, doFill}},

		{
			"key on two lines",
			[]string{"LOOPGRID_SERVICE_KEY=a\nb"},
			[]string{
				"problem 1 LOOPGRID_SERVICE_KEY: LOOPGRID_SERVICE_KEY holds a character that no key has (character 2 is not printable ASCII).",
				"  → Copy the key again, as one line.",
			},
		},
		{"placeholder key", []string{"LOOPGRID_SERVICE_KEY=${user_config.service_key}"}, []string{"warning LOOPGRID_SERVICE_KEY: LOOPGRID_SERVICE_KEY" + asUnset, doFill}},
		{
			"example key",
			[]string{"LOOPGRID_SERVICE_KEY=<YOUR_KEY>"},
			[]string{"problem 1 LOOPGRID_SERVICE_KEY: LOOPGRID_SERVICE_KEY still holds the text of an example.", doReplace},
		},
		{
			"example key without brackets",
			[]string{"LOOPGRID_SERVICE_KEY=YOUR_LOOPGRID_KEY"},
			[]string{"problem 1 LOOPGRID_SERVICE_KEY: LOOPGRID_SERVICE_KEY still holds the text of an example.", doReplace},
		},
		{
			"key in quotes",
			[]string{`LOOPGRID_SERVICE_KEY="lg_live_1234567890"`},
			[]string{"warning LOOPGRID_SERVICE_KEY: LOOPGRID_SERVICE_KEY" + unquoted, doBare},
		},
		{"key in one quote", []string{`LOOPGRID_SERVICE_KEY="lg_live_1`}, []string{quotedKey, doUnquote}},
		{"short key", []string{`LOOPGRID_SERVICE_KEY=123456789012345`}, []string{shortKey, doLonger}},
		{"long enough key", []string{`LOOPGRID_SERVICE_KEY=1234567890123456`}, []string{}},
		{
			"key with an invisible character",
			[]string{"LOOPGRID_SERVICE_KEY=\ufefflg_live\u200b_1234567890"},
			[]string{
				"problem 1 LOOPGRID_SERVICE_KEY: LOOPGRID_SERVICE_KEY holds a character that no key has (character 8 is not printable ASCII).",
				"  → Copy the key again, as one line.",
			},
		},
		{
			"workspace in quotes, address in curly ones, blanks around",
			[]string{`LOOPGRID_WORKSPACE= "claims" `, "LOOPGRID_BASE_URL=\u201chttp://h\u201d"},
			[]string{
				"warning LOOPGRID_BASE_URL: LOOPGRID_BASE_URL" + unquoted, doBare,
				"warning LOOPGRID_WORKSPACE: LOOPGRID_WORKSPACE" + unquoted, doBare,
			},
		},
		{"workspace with a quote inside", []string{`LOOPGRID_WORKSPACE=cl"aims`}, []string{"problem 1 LOOPGRID_WORKSPACE: LOOPGRID_WORKSPACE" + inner, doWithout}},
		{"reviewer with a quote inside", []string{`LOOPGRID_MCP_REVIEWER_ID=Ann "A" B`}, []string{"problem 2 LOOPGRID_MCP_REVIEWER_ID: LOOPGRID_MCP_REVIEWER_ID" + inner, doWithout}},
		{"address with a quote inside", []string{`LOOPGRID_BASE_URL=http://h/"`}, []string{"problem 1 LOOPGRID_BASE_URL: LOOPGRID_BASE_URL" + inner, doWithout}},
		{"workspace with a comment", []string{"LOOPGRID_WORKSPACE=default # production"}, []string{"problem 1 LOOPGRID_WORKSPACE: LOOPGRID_WORKSPACE" + comment, doComment}},
		{"address with a comment", []string{"LOOPGRID_BASE_URL=http://h # production"}, []string{"problem 1 LOOPGRID_BASE_URL: LOOPGRID_BASE_URL" + comment, doComment}},
		{
			"reviewer with a comment",
			[]string{"LOOPGRID_MCP_REVIEWER_ID=Ann # boss"},
			[]string{"warning LOOPGRID_MCP_REVIEWER_ID: LOOPGRID_MCP_REVIEWER_ID holds a # after a blank; it is taken as a part of the value, not as a comment.", "  → Put the comment on a line of its own."},
		},
		{"directory with a comment", []string{"LOOPGRID_EVIDENCE_DIR=/x # old"}, []string{"problem 3 LOOPGRID_EVIDENCE_DIR: LOOPGRID_EVIDENCE_DIR" + comment, doComment}},
		{"a # that belongs to it", []string{`LOOPGRID_WORKSPACE="a #1"`}, []string{"warning LOOPGRID_WORKSPACE: LOOPGRID_WORKSPACE" + unquoted, doBare}},
		{"a name twice", []string{"LOOPGRID_WORKSPACE=LOOPGRID_WORKSPACE=x"}, []string{
			"problem 1 LOOPGRID_WORKSPACE: LOOPGRID_WORKSPACE begins with its own name.", "  → Write the value alone.",
		}},
		{"placeholder in the key", []string{"LOOPGRID_SERVICE_KEY=lg_live_${KEY}"}, []string{"problem 1 LOOPGRID_SERVICE_KEY: LOOPGRID_SERVICE_KEY" + unfilled, doFill}},
		{
			"a blank inside the quotes",
			[]string{`LOOPGRID_WORKSPACE="claims "`},
			[]string{
				"problem 1 LOOPGRID_WORKSPACE: LOOPGRID_WORKSPACE begins or ends with a blank inside its quotation marks.",
				"  → Write the value without the blank and the marks.",
				"warning LOOPGRID_WORKSPACE: LOOPGRID_WORKSPACE" + unquoted, doBare,
			},
		},
		{"workspace with an invisible character", []string{"LOOPGRID_WORKSPACE=cl\u200baims"}, []string{noID, doID}},
		{"directory with one quote", []string{`LOOPGRID_EVIDENCE_DIR="/x`}, []string{
			"problem 3 LOOPGRID_EVIDENCE_DIR: LOOPGRID_EVIDENCE_DIR begins or ends with a quotation mark.",
			"  → Write the path without quotation marks.",
		}},
		{"milliseconds", []string{"LOOPGRID_MCP_TIMEOUT_SECONDS=20000"}, []string{
			"warning LOOPGRID_MCP_TIMEOUT_SECONDS: LOOPGRID_MCP_TIMEOUT_SECONDS is over 600; its unit is seconds.",
			"  → Set it to a number of seconds, for example 20.",
		}},
		{"unknown lock", []string{"LOOPGRID_MCP_WRITE_LOCK=maybe"}, []string{
			"warning LOOPGRID_MCP_WRITE_LOCK: LOOPGRID_MCP_WRITE_LOCK is not one of auto, on, off; the default is used.", doOneOf,
		}},
		{
			"key as a header",
			[]string{"LOOPGRID_SERVICE_KEY=bearer lg_live_1"},
			[]string{
				"warning LOOPGRID_SERVICE_KEY: The service key starts with Bearer, which is sent as a part of the key.",
				"  → Set LOOPGRID_SERVICE_KEY to the key alone, unless LoopGrid's operator gave it with that word.",
			},
		},
		{"key with quotes inside", []string{`LOOPGRID_SERVICE_KEY=a"b'c4567890123456`}, []string{}},
		{"key with the word inside", []string{`LOOPGRID_SERVICE_KEY=bearerkey-1234567`}, []string{}},
		{
			"key over plain http",
			[]string{"LOOPGRID_BASE_URL=http://10.0.0.7:8000", "LOOPGRID_SERVICE_KEY=1234567890123456"},
			[]string{
				"warning LOOPGRID_BASE_URL: LOOPGRID_BASE_URL is plain http to another machine: the service key travels unencrypted.",
				"  → Use an https address.",
			},
		},

		{"placeholder directory", []string{"LOOPGRID_EVIDENCE_DIR=${EVIDENCE}"}, []string{"warning LOOPGRID_EVIDENCE_DIR: LOOPGRID_EVIDENCE_DIR" + asUnset, doFill}},
		{
			"placeholder in the directory",
			[]string{"LOOPGRID_EVIDENCE_DIR=$HOME/evidence"},
			[]string{"problem 3 LOOPGRID_EVIDENCE_DIR: LOOPGRID_EVIDENCE_DIR" + unfilled, doFill},
		},
		{
			"directory with NUL",
			[]string{"LOOPGRID_EVIDENCE_DIR=a\x00b"},
			[]string{"problem 3 LOOPGRID_EVIDENCE_DIR: LOOPGRID_EVIDENCE_DIR is not a path.", "  → Set it to a path."},
		},
		{
			"directory whose name is not UTF-8",
			[]string{"LOOPGRID_EVIDENCE_DIR=/x/\xff"},
			[]string{
				"problem 3 LOOPGRID_EVIDENCE_DIR: LOOPGRID_EVIDENCE_DIR leads to a directory whose path is not UTF-8, so no result could name it.",
				"  → Set it to another directory.",
			},
		},
		{
			"home of nobody",
			[]string{"LOOPGRID_EVIDENCE_DIR=~no-such-user-here/evidence"},
			[]string{
				"problem 3 LOOPGRID_EVIDENCE_DIR: LOOPGRID_EVIDENCE_DIR starts with ~, and that home directory is not known.",
				"  → Write the path in full.",
			},
		},

		{"zero bytes", []string{"LOOPGRID_MAX_EVIDENCE_BYTES=0"}, []string{noCount, doCount}},
		{"bytes below zero", []string{"LOOPGRID_MAX_EVIDENCE_BYTES=-" + strings.Repeat("9", 30)}, []string{noCount, doCount}},
		{"a fraction of bytes", []string{"LOOPGRID_MAX_EVIDENCE_BYTES=1.5"}, []string{noCount, doCount}},
		{"bytes with a unit", []string{"LOOPGRID_MAX_EVIDENCE_BYTES=50MB"}, []string{noCount, doCount}},
		{"hexadecimal bytes", []string{"LOOPGRID_MAX_EVIDENCE_BYTES=0x10"}, []string{noCount, doCount}},
		{"a lost underscore", []string{"LOOPGRID_MAX_EVIDENCE_BYTES=1__0"}, []string{noCount, doCount}},

		{"time-out with a unit", []string{"LOOPGRID_MCP_TIMEOUT_SECONDS=20s"}, []string{noNumber, doNumber}},
		{"time-out without an end", []string{"LOOPGRID_MCP_TIMEOUT_SECONDS=inf"}, []string{noNumber, doNumber}},
		{"time-out NaN", []string{"LOOPGRID_MCP_TIMEOUT_SECONDS=nan"}, []string{noNumber, doNumber}},
		{"hexadecimal time-out", []string{"LOOPGRID_MCP_TIMEOUT_SECONDS=0x1p4"}, []string{noNumber, doNumber}},
		{"time-out with a comma", []string{"LOOPGRID_MCP_TIMEOUT_SECONDS=0,5"}, []string{noNumber, doNumber}},
		{"a trailing underscore", []string{"LOOPGRID_MCP_TIMEOUT_SECONDS=1_"}, []string{noNumber, doNumber}},
		{"time-out zero", []string{"LOOPGRID_MCP_TIMEOUT_SECONDS=0"}, []string{outside, doInside}},
		{"time-out below zero", []string{"LOOPGRID_MCP_TIMEOUT_SECONDS=-1"}, []string{outside, doInside}},
		{"time-out shorter than the clock", []string{"LOOPGRID_MCP_TIMEOUT_SECONDS=1e-12"}, []string{outside, doInside}},
		{"time-out over a day", []string{"LOOPGRID_MCP_TIMEOUT_SECONDS=86400.5"}, []string{outside, doInside}},
		{"time-out of ages", []string{"LOOPGRID_MCP_TIMEOUT_SECONDS=1e300"}, []string{outside, doInside}},

		{
			"an unclear switch",
			[]string{"LOOPGRID_MCP_ENABLE_REVIEW_TOOL=enabled", "LOOPGRID_MCP_ALLOW_PAYLOAD_EXPORT=2"},
			[]string{
				"problem 2 LOOPGRID_MCP_ENABLE_REVIEW_TOOL: LOOPGRID_MCP_ENABLE_REVIEW_TOOL is neither on nor off.",
				"  → Set it to true or false.",
				"problem 3 LOOPGRID_MCP_ALLOW_PAYLOAD_EXPORT: LOOPGRID_MCP_ALLOW_PAYLOAD_EXPORT is neither on nor off.",
				"  → Set it to true or false.",
			},
		},
		{
			"nobody reviews",
			[]string{"LOOPGRID_MCP_ENABLE_REVIEW_TOOL=1"},
			[]string{
				"problem 2 LOOPGRID_MCP_REVIEWER_ID: LOOPGRID_MCP_REVIEWER_ID is not set, but the review tool is on.",
				"  → Set it to the name of the person who reviews, or turn LOOPGRID_MCP_ENABLE_REVIEW_TOOL off.",
			},
		},
		{
			"a placeholder reviews",
			[]string{"LOOPGRID_MCP_ENABLE_REVIEW_TOOL=1", "LOOPGRID_MCP_REVIEWER_ID=$USER"},
			[]string{
				"problem 2 LOOPGRID_MCP_REVIEWER_ID: LOOPGRID_MCP_REVIEWER_ID is not set, but the review tool is on.",
				"  → Set it to the name of the person who reviews, or turn LOOPGRID_MCP_ENABLE_REVIEW_TOOL off.",
				"warning LOOPGRID_MCP_REVIEWER_ID: LOOPGRID_MCP_REVIEWER_ID" + asUnset, doFill,
			},
		},
		{
			"long reviewer",
			[]string{"LOOPGRID_MCP_ENABLE_REVIEW_TOOL=1", "LOOPGRID_MCP_REVIEWER_ID=" + strings.Repeat("r", 129)},
			[]string{
				"problem 2 LOOPGRID_MCP_REVIEWER_ID: LOOPGRID_MCP_REVIEWER_ID has more than 128 characters.",
				"  → Use a shorter name.",
			},
		},
		{"reviewer on two lines", []string{"LOOPGRID_MCP_REVIEWER_ID=a\u2028b"}, []string{noLine, doLine}},
		{"reviewer not UTF-8", []string{"LOOPGRID_MCP_REVIEWER_ID=a\xe9b"}, []string{noLine, doLine}},
		{
			"a switch left as a placeholder",
			[]string{"LOOPGRID_MCP_ALLOW_PAYLOAD_EXPORT=${X}"},
			[]string{"warning LOOPGRID_MCP_ALLOW_PAYLOAD_EXPORT: LOOPGRID_MCP_ALLOW_PAYLOAD_EXPORT" + asUnset, doFill},
		},

		{
			"unknown spelling",
			[]string{"LOOPGRID_MCP_TOOL_NAMES=camel"},
			[]string{"warning LOOPGRID_MCP_TOOL_NAMES: LOOPGRID_MCP_TOOL_NAMES is not one of auto, dotted, underscore; the default is used.", doOneOf},
		},
		{
			"unknown level",
			[]string{"LOOPGRID_MCP_LOG_LEVEL=INFO+1"},
			[]string{"warning LOOPGRID_MCP_LOG_LEVEL: LOOPGRID_MCP_LOG_LEVEL is not one of debug, info, warn, error; the default is used.", doOneOf},
		},
		{
			"unknown confirmation",
			[]string{"LOOPGRID_MCP_REVIEW_CONFIRMATION=never"},
			[]string{"problem 2 LOOPGRID_MCP_REVIEW_CONFIRMATION: LOOPGRID_MCP_REVIEW_CONFIRMATION is not one of auto, required, host.", doOneOf},
		},
		{
			"a placeholder is no weaker confirmation than what it stands for",
			[]string{"LOOPGRID_MCP_REVIEW_CONFIRMATION=${CONFIRMATION}"},
			[]string{"problem 2 LOOPGRID_MCP_REVIEW_CONFIRMATION: LOOPGRID_MCP_REVIEW_CONFIRMATION" + unfilled, doFill},
		},
		{
			"names that nobody reads",
			[]string{
				"LOOPGRID_BASE_URI=x", "LOPGRID_WORKSPCE=x", "LOOPGRID_EVIDENCE_DI\x1b=x",
				"LOOPGRID_SERVICE_KEYS=", "LOOPGRID_DATABASE_URL=x", "LOOPGRID_ENV=x", "XLOOPGRID_BASE_URLXX=x",
			},
			[]string{
				"warning LOOPGRID_BASE_URL: LOOPGRID_BASE_URI is set, but this program does not read it.",
				"  → Use LOOPGRID_BASE_URL, if that is what it is meant for.",
				"warning LOOPGRID_EVIDENCE_DIR: LOOPGRID_EVIDENCE_DI is set, but this program does not read it.",
				"  → Use LOOPGRID_EVIDENCE_DIR, if that is what it is meant for.",
				"warning LOOPGRID_WORKSPACE: LOPGRID_WORKSPCE is set, but this program does not read it.",
				"  → Use LOOPGRID_WORKSPACE, if that is what it is meant for.",
			},
		},
		{
			"names of other LoopGrid clients",
			[]string{"LOOPGRID_API_KEY=x", "LOOPGRID_WORKSPACE_ID=x"},
			[]string{
				"warning LOOPGRID_SERVICE_KEY: LOOPGRID_API_KEY is set, but this program does not read it.",
				"  → Use LOOPGRID_SERVICE_KEY, if that is what it is meant for.",
				"warning LOOPGRID_WORKSPACE: LOOPGRID_WORKSPACE_ID is set, but this program does not read it.",
				"  → Use LOOPGRID_WORKSPACE, if that is what it is meant for.",
			},
		},
		{
			"names of other LoopGrid clients besides ours",
			[]string{"LOOPGRID_API_KEY=x", "LOOPGRID_WORKSPACE_ID=x", "LOOPGRID_SERVICE_KEY=1234567890123456", "LOOPGRID_WORKSPACE=x"},
			[]string{},
		},
		{
			"all at once, in the order of the table",
			[]string{"LOOPGRID_MCP_TIMEOUT_SECONDS=x", "LOOPGRID_WORKSPACE=..", "LOOPGRID_BASE_URL=x", "LOOPGRID_MAX_EVIDENCE_BYTES=x"},
			[]string{noAddress, doAddress, noID, doID, noCount, doCount, noNumber, doNumber},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()

			assert.Equal(t, tt.want, lines(load(t, tt.environ...)))
		})
	}
}

func TestLoadFrom_ABrokenSettingIsNeverGuessed(t *testing.T) {
	t.Parallel()

	s := load(
		t, "LOOPGRID_BASE_URL=x", "LOOPGRID_WORKSPACE=/", "LOOPGRID_SERVICE_KEY=a\nb", "LOOPGRID_EVIDENCE_DIR=${a}b",
		"LOOPGRID_MAX_EVIDENCE_BYTES=x", "LOOPGRID_MCP_TIMEOUT_SECONDS=x", "LOOPGRID_MCP_ENABLE_REVIEW_TOOL=x",
		"LOOPGRID_MCP_REVIEWER_ID=a\nb", "LOOPGRID_MCP_REVIEW_CONFIRMATION=x", "LOOPGRID_MCP_ALLOW_PAYLOAD_EXPORT=x", "LOOPGRID_MCP_TOOL_NAMES=x", "LOOPGRID_MCP_LOG_LEVEL=x",
		"LOOPGRID_SERVICE_KEY_FILE=/no/such/file", "LOOPGRID_CA_FILE=/no/such/file", "LOOPGRID_MCP_WRITE_LOCK=x",
	)

	assert.Len(t, s.Problems, 12)
	assert.Len(t, s.Warnings, 3)
	assert.Empty(t, s.Values)
	s.Problems, s.Warnings, s.Set, s.Values = nil, nil, nil, nil
	assert.Equal(t, config.Settings{
		MaxEvidenceBytes: 50 << 20, Timeout: 20 * time.Second, ReviewConfirmation: config.AutoConfirmation, ToolNames: config.AutoNames,
		WriteLock: config.AutoWriteLock,
	}, s)
}

func TestLoadFrom_LoopbackNeedsNoEncryption(t *testing.T) {
	t.Parallel()

	for address, warned := range map[string]bool{
		"http://127.0.0.1:8000":          false,
		"http://0.0.0.0:8000":            false,
		"http://[::]:8000":               false,
		"http://127.8.0.1":               false,
		"http://[::1]:8000":              false,
		"http://[::ffff:127.0.0.1]:8000": false,
		"http://LocalHost":               false,
		"http://loopgrid.localhost.":     false,
		"https://loopgrid.example.com":   false,
		"http://loopgrid.example.com":    true,
		"http://127.0.0.1.example.com":   true,
		"http://notlocalhost":            true,
		"http://[fe80::1%25eth0]":        true,
		"http://host.docker.internal":    true,
	} {
		with := load(t, "LOOPGRID_BASE_URL="+address, "LOOPGRID_SERVICE_KEY=1234567890123456")
		without := load(t, "LOOPGRID_BASE_URL="+address)

		assert.Empty(t, with.Problems, address)
		assert.Equal(t, warned, len(with.Warnings) > 0, address)
		assert.Empty(t, lines(without), address)
	}
}

func TestSettings_ProblemsFor(t *testing.T) {
	t.Parallel()

	s := load(t, "LOOPGRID_WORKSPACE=..", "LOOPGRID_MCP_ENABLE_REVIEW_TOOL=x", "LOOPGRID_MAX_EVIDENCE_BYTES=x", "LOOPGRID_MCP_LOG_LEVEL=x")
	names := func(problems []config.Problem) []string {
		found := []string{}
		for _, p := range problems {
			found = append(found, p.Variable)
		}

		return found
	}

	assert.Equal(t, []string{"LOOPGRID_WORKSPACE"}, names(s.ProblemsFor(config.AllCalls)))
	assert.Equal(t, []string{"LOOPGRID_WORKSPACE", "LOOPGRID_MCP_ENABLE_REVIEW_TOOL"}, names(s.ProblemsFor(config.ReviewCalls)))
	assert.Equal(t, []string{"LOOPGRID_WORKSPACE", "LOOPGRID_MAX_EVIDENCE_BYTES"}, names(s.ProblemsFor(config.EvidenceCalls)))
	assert.Empty(t, load(t).ProblemsFor(config.AllCalls))
}

func TestSettings_KeyNote(t *testing.T) {
	t.Parallel()

	assert.Empty(t, load(t).KeyNote())
	assert.Empty(t, load(t, "LOOPGRID_BASE_URL=http://h", "LOOPGRID_SERVICE_KEY=k").KeyNote())
	assert.Equal(t,
		"LOOPGRID_SERVICE_KEY is a placeholder that the host did not fill in; it counts as not set. "+
			"Write the value itself, or define what the placeholder names where the host starts.",
		load(t, "LOOPGRID_SERVICE_KEY=${K}").KeyNote())
	assert.Equal(t,
		"LOOPGRID_API_KEY is set, but this program does not read it. Use LOOPGRID_SERVICE_KEY, if that is what it is meant for.",
		load(t, "LOOPGRID_API_KEY=k").KeyNote())
	assert.Contains(t, load(t, "LOOPGRID_SERVICE_KEY_FILE=${F}").KeyNote(), "LOOPGRID_SERVICE_KEY_FILE is a placeholder")
	quoted := load(t, `LOOPGRID_SERVICE_KEY="k`)
	assert.Equal(t, `"k`, quoted.ServiceKey.Reveal(), "a key is sent as it was given")
	assert.Equal(t,
		"The service key begins or ends with a quotation mark, which is sent as a part of the key. "+
			"Set LOOPGRID_SERVICE_KEY to the key without it, unless LoopGrid's operator gave it with that mark.",
		quoted.KeyNote())
}

func TestSettings_KeyVariable(t *testing.T) {
	t.Parallel()

	s := load(t, "LOOPGRID_SERVICE_KEY=lg_live_1234567890")
	assert.Equal(t, "LOOPGRID_SERVICE_KEY", s.KeyVariable())
	assert.Equal(t, "set LOOPGRID_SERVICE_KEY to a new key", s.UseKey("a new key"))
	s = load(t, "LOOPGRID_SERVICE_KEY_FILE="+writeFile(t, "key", "lg_live_1234567890"))
	assert.Equal(t, "LOOPGRID_SERVICE_KEY_FILE", s.KeyVariable())
	assert.Equal(t, "write a new key into the file that LOOPGRID_SERVICE_KEY_FILE names", s.UseKey("a new key"))
}

func TestSecret_IsShownNowhere(t *testing.T) {
	t.Parallel()

	const text = "not-to-be-seen"
	secret := config.NewSecret(text)
	type hidden struct{ inner config.Secret }

	var logged bytes.Buffer
	slog.New(slog.NewTextHandler(&logged, nil)).Info("settings", "key", secret, "holder", hidden{secret})
	marshalled, err := json.Marshal(map[string]any{"key": secret, "pointer": &secret})
	require.NoError(t, err)

	assert.Equal(t, text, secret.Reveal())
	assert.JSONEq(t, `{"key":"[set]","pointer":"[set]"}`, string(marshalled))
	assert.Contains(t, logged.String(), "key=[set]")
	shown := []string{logged.String(), string(marshalled), secret.String(), secret.GoString(), fmt.Sprint(secret)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		shown = append(shown, fmt.Sprintf(verb, secret), fmt.Sprintf(verb, hidden{secret}),
			fmt.Sprintf(verb, config.Settings{ServiceKey: secret}), fmt.Sprintf(verb, &config.Settings{ServiceKey: secret}))
	}
	for _, s := range shown {
		assert.NotContains(t, s, text)
		assert.NotContains(t, s, hex.EncodeToString([]byte(text)))
	}
}

func TestSecret_NotSet(t *testing.T) {
	t.Parallel()

	for _, secret := range []config.Secret{{}, config.NewSecret("")} {
		assert.False(t, secret.IsSet())
		assert.Empty(t, secret.Reveal())
		assert.Equal(t, "[not set]", fmt.Sprint(secret))
	}
}

// Whatever an operator writes, it is not repeated: it may be a key in the wrong
// place.
func FuzzLoadFrom_NeverRepeatsAValue(f *testing.F) {
	const mark = "qZ7vKx"

	for i, around := range []string{
		"", "http://@", "http://h?", "${}", "$@", "<YOUR_@>", "~@/", "1@", "\n", "@\x00", "../", "{env:@}", "http://@:a@h", "\xff", "true",
	} {
		f.Add(uint8(i), around, around)
	}
	f.Fuzz(func(t *testing.T, which uint8, before, after string) {
		names := []string{"LOOPGRID_API_KEY", "LOOPGRID_WORKSPACE_ID", "LOOPGRID_BASE_URI"}
		for _, v := range config.Variables() {
			names = append(names, v.Name)
		}
		name := names[int(which)%len(names)]
		if strings.HasSuffix(name, "_FILE") {
			return // Their paths are named.
		}

		s := config.LoadFrom([]string{"HOME=/home/someone", "LOOPGRID_MCP_ENABLE_REVIEW_TOOL=1", name + "=" + before + mark + after})

		for _, line := range lines(s) {
			if strings.HasPrefix(line, "  → Did you mean http") {
				continue // A host and a port without a scheme are no secret.
			}
			require.NotContains(t, line, mark)
			require.NotContains(t, line, "\n")
		}
		if name == "LOOPGRID_SERVICE_KEY" {
			require.NotContains(t, fmt.Sprintf("%+v %#v", s, s), mark)
		}
		for _, p := range s.Problems {
			require.Contains(t, p.Message, p.Variable)
			require.NotEqual(t, config.NoCalls, p.Touches)
		}
		require.Equal(t, s.BaseURL == nil, slices.ContainsFunc(s.Problems, func(p config.Problem) bool { return p.Variable == "LOOPGRID_BASE_URL" }))
		require.Positive(t, s.Timeout)
		require.Positive(t, s.MaxEvidenceBytes+1)
	})
}

func TestVariables_AreToldOnce(t *testing.T) {
	t.Parallel()

	seen := map[string]bool{}
	for _, v := range config.Variables() {
		assert.False(t, seen[v.Name], v.Name)
		seen[v.Name] = true
		assert.NotEmpty(t, v.Description, v.Name)
		assert.NotContains(t, v.Description, "\n", v.Name)
		if v.Choices != nil {
			assert.Contains(t, v.Choices, v.Default, v.Name)
		}

		// The default, written out, is the same as nothing, and every choice works.
		for _, value := range append(slices.Clone(v.Choices), v.Default) {
			assert.Empty(t, lines(load(t, v.Name+"="+value, "LOOPGRID_MCP_REVIEWER_ID=r")), "%s=%s", v.Name, value)
		}
	}
	assert.Len(t, slices.Collect(maps.Keys(seen)), 15)
}

func BenchmarkLoadFrom(b *testing.B) {
	for b.Loop() {
		_ = config.LoadFrom([]string{"HOME=/home/someone", "PATH=/usr/bin", "LOOPGRID_BASE_URL=http://127.0.0.1:8000"})
	}
}
