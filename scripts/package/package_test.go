package main

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/textproto"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/bridge"
	"github.com/loopgridio/loopgrid-mcp/internal/cli"
	"github.com/loopgridio/loopgrid-mcp/internal/config"
)

const root = "../.."

// fake is the content of a binary that was not built.
func fake(t target) string { return "binary for " + t.OS + "/" + t.Arch }

// bill is the bill of materials of a binary that was not built.
func bill(t target) string { return "bill for " + t.OS + "/" + t.Arch }

// fakeDist is a dist with a fake binary for each target, where GoReleaser puts them.
func fakeDist(t *testing.T) *release {
	t.Helper()
	notices := filepath.Join(t.TempDir(), "notices")
	require.NoError(t, os.WriteFile(notices, []byte("terms of others"), 0o600))
	r, err := newRelease(root, t.TempDir(), notices, cli.Version)
	require.NoError(t, err)
	for _, target := range append(platforms(), systems()[0]) {
		require.NoError(t, r.write(r.label(target)+".cdx.json", []byte(bill(target)), 0o644))
		level := map[string]string{"amd64": "_v1", "arm64": "_v8.0"}[target.Arch]
		require.NoError(t, r.write(target.directory()+level+"/"+target.program(), []byte(fake(target)), 0o755))
	}
	return r
}

// packFake is what was packed from fake binaries.
func packFake(t *testing.T) *release {
	t.Helper()
	r := fakeDist(t)
	require.NoError(t, r.pack())
	return r
}

// entry is a file of a package.
type entry struct {
	mode    fs.FileMode
	content string
}

func readZip(t *testing.T, path string) map[string]entry {
	t.Helper()
	r, err := zip.OpenReader(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	files := map[string]entry{}
	for _, f := range r.File {
		content, err := f.Open()
		require.NoError(t, err)
		all, err := io.ReadAll(content)
		require.NoError(t, err)
		assert.NotContains(t, files, f.Name, "twice")
		files[f.Name] = entry{f.Mode(), string(all)}
	}
	return files
}

func readTar(t *testing.T, path string) map[string]entry {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	plain, err := gzip.NewReader(bytes.NewReader(content))
	require.NoError(t, err)
	files := map[string]entry{}
	for r := tar.NewReader(plain); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		all, err := io.ReadAll(r)
		require.NoError(t, err)
		assert.NotContains(t, files, header.Name, "twice")
		files[header.Name] = entry{header.FileInfo().Mode(), string(all)}
	}
}

// source is a file of the source tree.
func source(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, path))
	require.NoError(t, err)
	return string(content)
}

// checkLicences looks for the terms that have to go with a binary.
func checkLicences(t *testing.T, files map[string]entry, prefix string) {
	t.Helper()
	assert.Equal(t, entry{0o644, source(t, "LICENSE")}, files[prefix+"LICENSE"])
	assert.Equal(t, entry{0o644, "terms of others"}, files[prefix+noticesName])
}

func TestWheels(t *testing.T) {
	t.Parallel()
	r := packFake(t)
	base := "loopgrid_mcp-" + r.version
	for _, target := range platforms() {
		files := readZip(t, filepath.Join(r.dist, base+"-py3-none-"+strings.Join(target.wheelTags, ".")+".whl"))

		scripts, info := base+".data/scripts/", base+".dist-info/"
		assert.Equal(t, entry{0o755, fake(target)}, files[scripts+target.program()])
		assert.Equal(t, fs.FileMode(0o755), files[scripts+target.doctorName()].mode)
		checkLicences(t, files, info+"licenses/")
		assert.Equal(t, entry{0o644, bill(target)}, files[info+"sboms/loopgrid-mcp.cdx.json"])
		assert.True(t, slices.IsSorted(target.wheelTags), "tools compare names of wheels by their text")

		wheel := textHeader(t, files[info+"WHEEL"].content)
		assert.Equal(t, "false", wheel.Get("Root-Is-Purelib"))
		var tags []string
		for _, tag := range target.wheelTags {
			tags = append(tags, "py3-none-"+tag)
		}
		assert.Equal(t, tags, wheel["Tag"])

		metadata := textHeader(t, files[info+"METADATA"].content)
		assert.Equal(t, "loopgrid-mcp", metadata.Get("Name"))
		assert.Equal(t, r.version, metadata.Get("Version"))
		assert.Equal(t, "Apache-2.0", metadata.Get("License-Expression"))
		assert.Equal(t, []string{"LICENSE", noticesName}, metadata["License-File"])
		assert.Equal(t, "text/markdown", metadata.Get("Description-Content-Type"))
		_, readme, _ := strings.Cut(files[info+"METADATA"].content, "\n\n")
		assert.True(t, strings.HasPrefix(readme, "# loopgrid-mcp\n"))
		assert.Contains(t, readme, "<!-- mcp-name: "+registryName+" -->", "the registry looks for it")
		assert.Contains(t, readme, "]("+repository+"/blob/v"+r.version+"/SECURITY.md)")

		checkRecord(t, files, info+"RECORD")
	}
}

// textHeader reads the fields before the first empty line.
func textHeader(t *testing.T, text string) textproto.MIMEHeader {
	t.Helper()
	header, err := textproto.NewReader(bufio.NewReader(strings.NewReader(text + "\n\n"))).ReadMIMEHeader()
	require.NoError(t, err)
	return header
}

// checkRecord holds the list of a wheel's files against the files, as an installer does.
func checkRecord(t *testing.T, files map[string]entry, name string) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(files[name].content)).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, len(files))
	for _, row := range rows {
		f, ok := files[row[0]]
		require.True(t, ok, row[0])
		if row[0] == name {
			assert.Equal(t, []string{name, "", ""}, row)
			continue
		}
		digest := sha256.Sum256([]byte(f.content))
		assert.Equal(t, []string{row[0], "sha256=" + base64.RawURLEncoding.EncodeToString(digest[:]), fmt.Sprint(len(f.content))}, row) //nolint:perfsprint // one line
	}
}

func TestAbsoluteLinks(t *testing.T) {
	t.Parallel()
	const blob = repository + "/blob/v1.2.3/"
	for in, want := range map[string]string{
		"[a](CHANGELOG.md)":          "[a](" + blob + "CHANGELOG.md)",
		"[a](examples/README.md#b)":  "[a](" + blob + "examples/README.md#b)",
		"[a](.env.example)":          "[a](" + blob + ".env.example)",
		"[a](#settings)":             "[a](#settings)",
		"[a](https://a.example/b.c)": "[a](https://a.example/b.c)",
		"[a](mailto:b)":              "[a](mailto:b)",
		"![a picture](docs/a.svg)":   "![a picture](" + repository + "/raw/v1.2.3/docs/a.svg)",
		"f(CHANGELOG.md)":            "f(CHANGELOG.md)",
	} {
		assert.Equal(t, want, absoluteLinks(in, "1.2.3"))
	}
}

// npmManifest is package.json.
type npmManifest struct {
	Name                 string            `json:"name"`
	Version              string            `json:"version"`
	MCPName              string            `json:"mcpName"`
	Bin                  map[string]string `json:"bin"`
	Scripts              map[string]string `json:"scripts"`
	Engines              map[string]string `json:"engines"`
	Repository           map[string]string `json:"repository"`
	OS                   []string          `json:"os"`
	CPU                  []string          `json:"cpu"`
	Dependencies         map[string]string `json:"dependencies"`
	OptionalDependencies map[string]string `json:"optionalDependencies"`
}

func TestNPM(t *testing.T) {
	t.Parallel()
	r := packFake(t)
	read := func(name string) (npmManifest, map[string]entry) {
		files := readTar(t, filepath.Join(r.dist, name+"-"+r.version+".tgz"))
		for path := range files {
			assert.True(t, strings.HasPrefix(path, "package/"), path)
		}
		var m npmManifest
		require.NoError(t, json.Unmarshal([]byte(files["package/package.json"].content), &m))
		assert.Equal(t, r.version, m.Version)
		assert.Equal(t, "git+"+repository+".git", m.Repository["url"], "trusted publishing compares it with the workflow's repository")
		assert.Empty(t, m.Scripts)
		assert.Empty(t, m.Dependencies)
		return m, files
	}

	m, files := read("loopgrid-mcp")
	assert.Equal(t, "loopgrid-mcp", m.Name)
	assert.Equal(t, registryName, m.MCPName)
	assert.Equal(t, ">=18", m.Engines["node"])
	assert.Len(t, m.Bin, 2)
	for _, command := range []string{"loopgrid-mcp", "loopgrid-mcp-doctor"} {
		f := files["package/"+m.Bin[command]]
		assert.Equal(t, fs.FileMode(0o755), f.mode, command)
		assert.True(t, strings.HasPrefix(f.content, "#!/usr/bin/env node\n"), command)
	}
	assert.Contains(t, files, "package/run.js")
	assert.Equal(t, source(t, "LICENSE"), files["package/LICENSE"].content)
	assert.Contains(t, files, "package/README.md")
	for path, f := range files {
		assert.NotContains(t, f.content, "console."+"log(", path+": stdout belongs to the protocol")
	}

	optional := map[string]string{}
	for _, target := range platforms() {
		m, files := read("loopgridio-mcp-" + target.NodeOS + "-" + target.NodeCPU)
		assert.Equal(t, "@loopgridio/mcp-"+target.NodeOS+"-"+target.NodeCPU, m.Name)
		assert.Equal(t, []string{target.NodeOS}, m.OS)
		assert.Equal(t, []string{target.NodeCPU}, m.CPU)
		assert.Equal(t, entry{0o755, fake(target)}, files["package/bin/"+target.program()])
		checkLicences(t, files, "package/")
		assert.Equal(t, entry{0o644, bill(target)}, files["package/loopgrid-mcp.cdx.json"])
		optional[m.Name] = m.Version
	}
	assert.Equal(t, optional, m.OptionalDependencies)
}

func TestBundles(t *testing.T) {
	t.Parallel()
	r := packFake(t)
	known := map[string]bool{}
	for _, v := range config.Variables() {
		known[v.Name] = true
	}
	var tools []string
	for _, tool := range bridge.Document() {
		tools = append(tools, strings.ReplaceAll(tool.Name, ".", "_"))
	}
	for _, target := range systems() {
		files := readZip(t, filepath.Join(r.dist, r.bundleName(target)))
		var m struct {
			ManifestVersion string `json:"manifest_version"`
			Version         string `json:"version"`
			Server          struct {
				EntryPoint string `json:"entry_point"`
				Config     struct {
					Command string            `json:"command"`
					Env     map[string]string `json:"env"`
				} `json:"mcp_config"`
			} `json:"server"`
			Tools []struct {
				Name string `json:"name"`
			} `json:"tools"`
			UserConfig map[string]struct {
				Type      string `json:"type"`
				Default   any    `json:"default"`
				Sensitive bool   `json:"sensitive"`
				Required  bool   `json:"required"`
			} `json:"user_config"`
			Compatibility struct {
				Platforms []string `json:"platforms"`
			} `json:"compatibility"`
		}
		require.NoError(t, json.Unmarshal([]byte(files["manifest.json"].content), &m))
		checkLicences(t, files, "")
		assert.Equal(t, "0.3", m.ManifestVersion)
		assert.Equal(t, r.version, m.Version)
		assert.Equal(t, entry{0o755, fake(target)}, files[m.Server.EntryPoint])
		assert.Equal(t, "${__dirname}/"+m.Server.EntryPoint, m.Server.Config.Command)
		assert.Equal(t, []string{target.NodeOS}, m.Compatibility.Platforms)
		for _, name := range []string{"LOOPGRID_MCP_ENABLE_REVIEW_TOOL", "LOOPGRID_MCP_REVIEWER_ID", "LOOPGRID_MCP_ALLOW_PAYLOAD_EXPORT"} {
			assert.Contains(t, m.Server.Config.Env, name, "Claude Desktop has no other place to switch it on")
		}
		assert.Equal(t, "underscore", m.Server.Config.Env["LOOPGRID_MCP_TOOL_NAMES"])
		var names []string
		for _, tool := range m.Tools {
			names = append(names, tool.Name)
		}
		assert.Equal(t, tools, names)

		// What a person is asked goes into the settings of the program, and stands there as the program would have it.
		placeholder := regexp.MustCompile(`^\$\{user_config\.(\w+)\}$`)
		asked := map[string]bool{}
		for name, value := range m.Server.Config.Env {
			assert.True(t, known[name], name)
			if found := placeholder.FindStringSubmatch(value); found != nil {
				require.Contains(t, m.UserConfig, found[1])
				asked[found[1]] = true
				for _, v := range config.Variables() {
					if v.Name == name {
						assert.Equal(t, v.Default, filledIn(m.UserConfig[found[1]].Default), name)
						assert.Equal(t, slices.Equal(v.Choices, []string{"true", "false"}) || v.Default == "false", m.UserConfig[found[1]].Type == "boolean", name)
						assert.Equal(t, v.Secret, m.UserConfig[found[1]].Sensitive, name)
					}
				}
			}
		}
		for name, c := range m.UserConfig {
			assert.True(t, asked[name], name)
			assert.Equal(t, c.Default != nil, c.Required, "what is left empty may come as a placeholder, which is an error in the address and the workspace")
		}
	}
}

// filledIn is what a host puts for a default.
func filledIn(value any) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

// Without a source distribution, pip and uv take 0.1.0 where no wheel fits.
func TestSourceDistribution(t *testing.T) {
	t.Parallel()
	r := packFake(t)
	base := "loopgrid_mcp-" + r.version + "/"
	files := readTar(t, filepath.Join(r.dist, "loopgrid_mcp-"+r.version+".tar.gz"))
	metadata := textHeader(t, files[base+"PKG-INFO"].content)
	assert.Equal(t, r.version, metadata.Get("Version"))
	for _, name := range metadata["License-File"] {
		assert.Contains(t, files, base+name)
	}
	assert.Contains(t, files[base+"pyproject.toml"].content, "\nversion = \""+r.version+"\"\n")
	assert.Contains(t, files[base+"no_wheel.py"].content, "go install github.com/loopgridio/loopgrid-mcp/cmd/loopgrid-mcp@v"+r.version)
}

func TestPack_GivesTheSameBytes(t *testing.T) {
	t.Parallel()
	first, err := os.ReadFile(filepath.Join(packFake(t).dist, "checksums.txt"))
	require.NoError(t, err)
	second, err := os.ReadFile(filepath.Join(packFake(t).dist, "checksums.txt"))
	require.NoError(t, err)
	assert.Equal(t, string(first), string(second))
}

func TestChecksums(t *testing.T) {
	t.Parallel()
	r := fakeDist(t)
	for _, name := range []string{"a.tar.gz", "a.deb", "artifacts.json", "config.yaml"} {
		require.NoError(t, r.write(name, []byte(name), 0o644))
	}
	require.NoError(t, r.pack())
	content, err := os.ReadFile(filepath.Join(r.dist, "checksums.txt"))
	require.NoError(t, err)
	names := map[string]bool{}
	for line := range strings.Lines(string(content)) {
		want, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		require.True(t, ok)
		file, err := os.ReadFile(filepath.Join(r.dist, name))
		require.NoError(t, err)
		assert.Equal(t, want, sum(file))
		names[name] = true
	}
	assert.Len(t, names, 2+3*len(platforms())+len(systems())+3, "those two; wheels, npm packages and bills; bundles; three that no platform has its own of")
	assert.True(t, names["a.tar.gz"])
	assert.True(t, names["a.deb"])
	assert.False(t, names["artifacts.json"])
}

func TestPack_SaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	r := fakeDist(t)
	windows := platforms()[4]
	require.NoError(t, os.RemoveAll(filepath.Join(r.dist, windows.directory()+"_v1")))
	require.ErrorContains(t, r.pack(), "find the binary for windows/amd64: there are 0 in "+r.dist)

	r = fakeDist(t)
	require.NoError(t, r.write(windows.directory()+"/"+windows.program(), nil, 0o755))
	require.ErrorContains(t, r.pack(), "find the binary for windows/amd64: there are 2 in "+r.dist)
}

func TestNewRelease_RefusesWhatPyPIAndNPMSpellDifferently(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"", "1.2", "1.2.3-rc.1", "1.2.3.dev0", "v1.2.3"} {
		_, err := newRelease(root, "dist", "notices", version)
		assert.Error(t, err, version)
	}
}

func TestRun_WrongUsage(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	assert.Equal(t, 2, run([]string{"x"}, &out))
	assert.Equal(t, 2, run([]string{"-x"}, &out))
	assert.Equal(t, 0, run([]string{"-h"}, &out))
	out.Reset()
	assert.Equal(t, 1, run([]string{"-root", root, "-dist", t.TempDir()}, &out))
	assert.Contains(t, out.String(), "package: find the binary for linux/amd64")
}
