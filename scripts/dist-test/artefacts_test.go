package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// billOf is the bill of materials of a program, as far as it is looked at.
func billOf(program []byte) string {
	sum := sha256.Sum256(program)
	return `{"metadata": {"component": {"hashes": [{"alg": "SHA-256", "content": "` + hex.EncodeToString(sum[:]) + `"}]}}}`
}

func TestCheckProgram(t *testing.T) {
	t.Parallel()
	small, fits, large := []byte("program"), make([]byte, largestLinuxAMD64), make([]byte, largestLinuxAMD64+1)
	const amd64, arm64, both = "loopgrid-mcp_1.2.3_linux_amd64.tar.gz", "loopgridio-mcp-linux-arm64-1.2.3.tgz", "loopgrid-mcp_1.2.3_darwin_all.mcpb"
	for name, c := range map[string]struct {
		artefact string
		program  []byte
		bill     string
		want     string // "" is success
	}{
		"small":                  {amd64, small, billOf(small), ""},
		"as large as it may be":  {amd64, fits, billOf(fits), ""},
		"too large":              {amd64, large, billOf(large), "has 10500001 bytes, more than 10500000"},
		"too large in a wheel":   {"loopgrid_mcp-1.2.3-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.musllinux_1_1_x86_64.whl", large, billOf(large), "more than 10500000"},
		"elsewhere it may be":    {arm64, large, billOf(large), ""},
		"two in one":             {both, bytes.Repeat(large, 2), billOf(bytes.Repeat(large, 2)), ""},
		"no bill":                {amd64, small, "", "read loopgrid-mcp.cdx.json"},
		"bill of another":        {amd64, small, billOf(fits), "is about another program"},
		"bill without a program": {amd64, small, "{}", "is about another program"},
	} {
		err := checkProgram(c.artefact, c.program, []byte(c.bill))
		if c.want == "" {
			assert.NoError(t, err, name)
		} else {
			assert.ErrorContains(t, err, c.want, name)
		}
	}
}

func TestCheckArtefacts(t *testing.T) {
	t.Parallel()
	tried := &trial{dist: t.TempDir()}
	require.ErrorContains(t, tried.checkArtefacts(t.Context(), ""), "no artefact")
	tarball(t, tried.dist, "loopgridio-mcp-linux-x64-1.2.3.tgz", "package/bin/loopgrid-mcp", "content")
	zipFile(t, tried.dist, "loopgrid-mcp_1.2.3_windows_amd64.mcpb", "server/loopgrid-mcp.exe", "content")
	zipFile(t, tried.dist, "loopgrid_mcp-1.2.3-py3-none-win_amd64.whl", "other", "content")
	err := tried.checkArtefacts(t.Context(), "")
	require.ErrorContains(t, err, "loopgridio-mcp-linux-x64-1.2.3.tgz: read loopgrid-mcp.cdx.json")
	require.ErrorContains(t, err, "loopgrid-mcp_1.2.3_windows_amd64.mcpb: read loopgrid-mcp.cdx.json")
	assert.NotContains(t, err.Error(), ".whl")
}

// The links of the examples, as they are in the source tree.
func TestDecodeLinks(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join("..", "..", "examples", "README.md"))
	require.NoError(t, err)
	link := func(scheme string) string {
		found := regexp.MustCompile(`(?m)^` + scheme + `\S+$`).FindString(string(readme))
		require.NotEmpty(t, found, scheme)
		return found
	}
	for scheme, decode := range map[string]func(string) (linked, error){"cursor://": decodeCursor, "vscode:": decodeVSCode} {
		l, err := decode(link(scheme))
		require.NoError(t, err, scheme)
		assert.Equal(t, "/usr/local/bin/loopgrid-mcp", l.Command, scheme)
		assert.Equal(t, "http://127.0.0.1:8000", l.Env["LOOPGRID_BASE_URL"], scheme)
	}
	l, err := decodeGoose(link("goose://"))
	require.NoError(t, err)
	assert.Equal(t, linked{Command: "npx", Args: []string{"-y", "loopgrid-mcp"}}, l)
}

func TestInstallersThatAreMissing(t *testing.T) {
	t.Parallel()
	tried := &trial{dist: t.TempDir(), version: "1.2.3"}
	_, err := tried.installForeign("linux_arm64", "no-such-emulator")(t.Context(), t.TempDir())
	require.ErrorIs(t, err, errMissing)
	_, err = tried.installImage("no-such-engine", "image")(t.Context(), t.TempDir())
	require.ErrorIs(t, err, errMissing)
}
