package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/cli"
	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
)

// mode has this test binary be the program that is tried.
const mode = "LOOPGRID_DIST_TEST_MODE"

// thisVersion is what this test binary calls itself: it is no release.
const thisVersion = cli.Version + "-dev"

func TestMain(m *testing.M) {
	behaviour := os.Getenv(mode)
	if behaviour == "" {
		os.Exit(m.Run())
	}
	if behaviour == "noisy" {
		_, _ = os.Stdout.WriteString("Hello\n")
	}
	code := cli.Run(context.Background(), cli.Process{Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr})
	if behaviour == "failing" {
		code = 3
	}
	os.Exit(code)
}

// program is this binary as an installed program, which does as the mode says.
func program(behaviour string) installation {
	return installation{program: []string{os.Args[0]}, doctor: []string{os.Args[0], "doctor"}, environ: []string{mode + "=" + behaviour}}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(sandbox.New(sandbox.Options{}))
	t.Cleanup(service.Close)
	gone := httptest.NewServer(nil)
	gone.Close()
	good := program("good")
	underscored := program("good")
	underscored.environ = append(underscored.environ, "LOOPGRID_MCP_TOOL_NAMES=underscore")
	noDoctor := program("failing")
	noDoctor.doctor = nil
	absent := program("good")
	absent.program = []string{filepath.Join(t.TempDir(), "absent")}
	for name, c := range map[string]struct {
		installation     installation
		version, service string
		want             string // "" is success
	}{
		"good":            {good, thisVersion, service.URL, ""},
		"another version": {good, "9.9.9", service.URL, "version prints"},
		"noise":           {program("noisy"), thisVersion, service.URL, "version prints"},
		"no service":      {good, thisVersion, gone.URL, "doctor: exit status 1"},
		"other tools":     {underscored, thisVersion, service.URL, "the tools are"},
		"failure":         {noDoctor, thisVersion, service.URL, "version: exit status 3"},
		"not there":       {absent, thisVersion, service.URL, "absent"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tried := &trial{version: c.version, service: c.service}
			err := tried.check(t.Context(), t.TempDir(), c.installation)
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
		})
	}
}

func TestServe_FailsWhenTheProgramDoes(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(sandbox.New(sandbox.Options{}))
	t.Cleanup(service.Close)
	tried := &trial{service: service.URL}
	require.NoError(t, tried.serve(t.Context(), t.TempDir(), program("good")))
	require.ErrorContains(t, tried.serve(t.Context(), t.TempDir(), program("failing")), "exit status 3")
	require.ErrorContains(t, tried.serve(t.Context(), t.TempDir(), program("noisy")), "connect to loopgrid-mcp")
}

func TestCheckSums(t *testing.T) {
	t.Parallel()
	tried := &trial{dist: t.TempDir()}
	write := func(name, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(tried.dist, name), []byte(content), 0o600))
	}
	require.ErrorContains(t, tried.checkSums(), "which make dist writes")

	write("a", "")
	write("checksums.txt", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  a\n")
	require.NoError(t, tried.checkSums())
	write("a", "changed")
	require.ErrorContains(t, tried.checkSums(), "a is not what was packed")
	write("checksums.txt", "a\n")
	require.ErrorContains(t, tried.checkSums(), "not a sum and a name")
}

// tarball is a .tar.gz with one file.
func tarball(t *testing.T, dir, base, name, content string) string {
	t.Helper()
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	w := tar.NewWriter(compressed)
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(content))}))
	_, err := io.WriteString(w, content)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, compressed.Close())
	path := filepath.Join(dir, base)
	require.NoError(t, os.WriteFile(path, out.Bytes(), 0o600))
	return path
}

// zipFile is a ZIP with one file.
func zipFile(t *testing.T, dir, base, name, content string) string {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	header := &zip.FileHeader{Name: name}
	header.SetMode(0o755)
	f, err := w.CreateHeader(header)
	require.NoError(t, err)
	_, err = io.WriteString(f, content)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	path := filepath.Join(dir, base)
	require.NoError(t, os.WriteFile(path, out.Bytes(), 0o600))
	return path
}

func TestUnpack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, archive := range map[string]string{
		"tar": tarball(t, dir, "a.tar.gz", "bin/program", "content"), "zip": zipFile(t, dir, "a.zip", "bin/program", "content"),
	} {
		folder := filepath.Join(dir, name)
		require.NoError(t, unpack(archive, folder))
		path := filepath.Join(folder, "bin", "program")
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, "content", string(content))
		info, err := os.Stat(path)
		require.NoError(t, err)
		if !windows {
			assert.Equal(t, fs.FileMode(0o755), info.Mode().Perm(), "it can be run")
		}
		require.ErrorContains(t, unpack(archive, folder), "exist", "only into a new folder")
	}
	for name, archive := range map[string]string{
		"out-tar": tarball(t, dir, "b.tar.gz", "../out", "content"), "out-zip": zipFile(t, dir, "b.zip", "../out", "content"),
	} {
		require.Error(t, unpack(archive, filepath.Join(dir, name)))
		assert.NoFileExists(t, filepath.Join(dir, "out"))
	}
}

func TestServeRegistry(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := tarball(t, dir, "scope-name-1.2.3.tgz", "package/package.json", `{"name":"@scope/name","version":"1.2.3","cpu":["x64"]}`)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	address, err := serveRegistry(t.Context(), dir)
	require.NoError(t, err)
	get := func(url string) (int, []byte) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		require.NoError(t, err)
		answer, err := new(http.Client).Do(request)
		require.NoError(t, err)
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, body
	}

	status, document := get(address + "@scope%2fname")
	require.Equal(t, http.StatusOK, status)
	var described struct {
		Tags     map[string]string `json:"dist-tags"`
		Versions map[string]struct {
			CPU  []string          `json:"cpu"`
			Dist map[string]string `json:"dist"`
		} `json:"versions"`
	}
	require.NoError(t, json.Unmarshal(document, &described))
	assert.Equal(t, "1.2.3", described.Tags["latest"])
	version := described.Versions["1.2.3"]
	assert.Equal(t, []string{"x64"}, version.CPU)
	digest := sha512.Sum512(content)
	assert.Equal(t, "sha512-"+base64.StdEncoding.EncodeToString(digest[:]), version.Dist["integrity"])
	_, got := get(version.Dist["tarball"])
	assert.Equal(t, content, got)
	status, _ = get(address + "other")
	assert.Equal(t, http.StatusNotFound, status)
}

func TestInstallBundle_FillsInTheManifest(t *testing.T) {
	t.Parallel()
	tried := &trial{dist: t.TempDir(), version: "1.2.3"}
	zipFile(t, tried.dist, "loopgrid-mcp_1.2.3_"+system()+".mcpb", "manifest.json", `{
		"server": {"mcp_config": {"command": "${__dirname}/server/x", "args": ["-a"], "env": {"A": "${user_config.a}", "B": "${user_config.b}"}}},
		"tools": [{"name": "t"}],
		"user_config": {"a": {"default": "1"}, "b": {"sensitive": true}}
	}`)
	folder := filepath.Join(t.TempDir(), "bundle")
	i, err := tried.installBundle(t.Context(), folder)
	require.NoError(t, err)
	assert.Equal(t, []string{filepath.Join(folder, "server", "x"), "-a"}, i.program)
	assert.Equal(t, []string{filepath.Join(folder, "server", "x"), "-a", "doctor"}, i.doctor)
	assert.ElementsMatch(t, []string{"A=1", "B=${user_config.b}"}, i.environ)
	assert.Equal(t, []string{"t"}, i.tools)
}

func TestRun_WrongUsageAndNoArtefacts(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	assert.Equal(t, 2, run(t.Context(), []string{"x"}, &out))
	assert.Equal(t, 2, run(t.Context(), []string{"-x"}, &out))
	assert.Equal(t, 0, run(t.Context(), []string{"-h"}, &out))
	out.Reset()
	assert.Equal(t, 1, run(t.Context(), []string{"-dist", t.TempDir()}, &out))
	assert.Contains(t, out.String(), "[FAIL] read the checksums, which make dist writes")
}
