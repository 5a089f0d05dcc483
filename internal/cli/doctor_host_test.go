package cli_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/cli"
)

// local runs the doctor without a service: what is tested is this machine.
func local(t *testing.T, executable string) string {
	t.Helper()
	t.Setenv("LOOPGRID_BASE_URL", "http://127.0.0.1:1")
	var out bytes.Buffer
	cli.Run(t.Context(), cli.Process{Args: []string{"loopgrid-mcp", "doctor"}, Stdout: &out, Stderr: io.Discard, Executable: executable})
	return out.String()
}

// install puts a program named loopgrid-mcp into a directory of its own.
func install(t *testing.T, content string) string {
	t.Helper()
	name := "loopgrid-mcp"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o755))
	return path
}

func TestDoctorFindsWhatHostsStart(t *testing.T) {
	for name, tt := range map[string]struct{ content, kind string }{
		"pip":            {"#!/usr/bin/python3.12\n# -*- coding: utf-8 -*-\nimport re\n", "a Python script: the Python bridge, version 0.1"},
		"pip, long path": {"#!/bin/sh\n'''exec' \"/a long/venv/bin/python\" \"$0\" \"$@\"\n", "a Python script: the Python bridge, version 0.1"},
		"pyenv":          {"#!/usr/bin/env bash\nset -e\nexec \"/opt/pyenv/libexec/pyenv\" exec \"$program\" \"$@\"\n", "a Python script: the Python bridge, version 0.1"},
		"pip on Windows": {"MZ\x90\x00...PK\x03\x04__main__.py...", "it starts Python: the Python bridge, version 0.1"},
		"another build":  {"\x7fELF...path\tgithub.com/loopgridio/loopgrid-mcp/cmd/loopgrid-mcp\n", "another build of this program"},
		"something else": {"#!/bin/sh\necho hello\n", "not a build of this program"},
		"an empty file":  {"", "not a build of this program"},
	} {
		t.Run(name, func(t *testing.T) {
			quiet(t)
			path := install(t, tt.content)
			t.Setenv("PATH", filepath.Dir(path))
			out := local(t, filepath.Join(t.TempDir(), "loopgrid-mcp"))
			assert.Contains(t, out, "[WARN] loopgrid-mcp on PATH: another one, "+path+" ("+tt.kind+")\n  → Hosts that start it by name run that one: ")
		})
	}
}

func TestDoctorFindsItself(t *testing.T) {
	quiet(t)
	path := install(t, "#!/bin/sh\nexit 1\n")
	t.Setenv("PATH", filepath.Dir(path))
	assert.Contains(t, local(t, path), "[INFO] program: "+path+", version "+cli.Version+"\n[OK] loopgrid-mcp on PATH: this program\n")

	t.Setenv("PATH", t.TempDir())
	assert.Contains(t, local(t, path), "[INFO] loopgrid-mcp on PATH: none, so give hosts the full path of the program\n")

	if runtime.GOOS == "windows" {
		return // links need rights there
	}
	bin := t.TempDir()
	require.NoError(t, os.Symlink(path, filepath.Join(bin, "loopgrid-mcp")))
	t.Setenv("PATH", bin)
	assert.Contains(t, local(t, path), "[OK] loopgrid-mcp on PATH: this program\n", "a link to it is it")
}

func TestDoctorNamesVariables(t *testing.T) {
	quiet(t)
	t.Setenv("LOOPGRID_SERVICE_KEY", "lg_live_private")
	t.Setenv("LOOPGRID_DATABASE_URL", "postgresql://private")
	out := local(t, "")
	assert.Contains(t, out, "[INFO] settings from the environment: LOOPGRID_BASE_URL, LOOPGRID_SERVICE_KEY, LOOPGRID_EVIDENCE_DIR\n"+
		"[INFO] variables that this program does not read: LOOPGRID_DATABASE_URL\n")
	assert.NotContains(t, out, "private")
}

// filesIn returns everything below a directory.
func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestDoctorEvidenceDirectory(t *testing.T) {
	quiet(t)
	base := t.TempDir()
	dir := filepath.Join(base, "a", "b")
	t.Setenv("LOOPGRID_EVIDENCE_DIR", dir)
	out := local(t, "")
	assert.Regexp(t, regexp.QuoteMeta("[INFO] evidence directory: "+dir+" (set by LOOPGRID_EVIDENCE_DIR)\n"+
		"[OK] evidence directory writable: yes, it will be created on first use\n[OK] evidence directory free space: ")+`\d+\.\d [KMGT]iB\n\[`, out)
	assert.NotContains(t, out, "evidence directory mode")
	assert.Empty(t, filesIn(t, base), "nothing is made")

	require.NoError(t, os.MkdirAll(dir, 0o700))
	out = local(t, "")
	assert.Contains(t, out, "[OK] evidence directory writable: yes\n")
	assert.Empty(t, filesIn(t, dir), "nothing is left")
	if runtime.GOOS == "windows" {
		assert.Contains(t, out, "[INFO] evidence directory mode: not applicable on Windows (folder permissions apply)")
	} else {
		assert.Contains(t, out, "[OK] evidence directory mode: 0700 (files are written with 0600)\n")
		for _, mode := range []os.FileMode{0o720, 0o702, 0o777} {
			require.NoError(t, os.Chmod(dir, mode))
			assert.Contains(t, local(t, ""), fmt.Sprintf("[WARN] evidence directory mode: %#o, so other users can add and replace files\n  → chmod 700 %q\n", mode, dir))
		}
	}

	t.Setenv("LOOPGRID_MAX_EVIDENCE_BYTES", "9000000000000000000")
	assert.Regexp(t, `\[WARN\] evidence directory free space: \d+\.\d [KMGT]iB, less than one evidence file may have \(8185452\.3 TiB\)\n  → Free some space`, local(t, ""))

	file := filepath.Join(base, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	t.Setenv("LOOPGRID_EVIDENCE_DIR", file)
	assert.Contains(t, local(t, ""), "[FAIL] evidence directory writable: no, it is a file\n  → Move it away")
	t.Setenv("LOOPGRID_EVIDENCE_DIR", filepath.Join(file, "below"))
	assert.Contains(t, local(t, ""), "[FAIL] evidence directory writable: no, ")
}

func TestDoctorEvidenceDirectoryThatCannotBeWritten(t *testing.T) {
	if runtime.GOOS == "windows" || os.Geteuid() == 0 {
		t.Skip("modes keep nobody out here")
	}
	quiet(t)
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o500)) //nolint:gosec // a directory
	t.Setenv("LOOPGRID_EVIDENCE_DIR", dir)
	assert.Contains(t, local(t, ""), "[FAIL] evidence directory writable: no, permission denied\n  → Give this user the right to write there")
	t.Setenv("LOOPGRID_EVIDENCE_DIR", filepath.Join(dir, "new"))
	assert.Contains(t, local(t, ""), "[FAIL] evidence directory writable: no, it cannot be created in "+dir+": permission denied\n")
}

func TestDoctorFindsALockFolderThatCannotBeUsed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes mean nothing there")
	}
	quiet(t)
	t.Setenv("LOOPGRID_BASE_URL", "http://127.0.0.1:1")
	dir := filepath.Join(t.TempDir(), "locks")
	examine := func() string {
		var out bytes.Buffer
		cli.Run(t.Context(), cli.Process{Args: []string{"loopgrid-mcp", "doctor"}, Stdout: &out, Stderr: io.Discard, LockDir: dir})
		return out.String()
	}
	const ok = "[OK] write lock: shared by all processes of this user on this machine\n"
	assert.Contains(t, examine(), ok)
	assert.NoDirExists(t, dir)
	require.NoError(t, os.Mkdir(dir, 0o700))
	assert.Contains(t, examine(), ok)
	require.NoError(t, os.Chmod(dir, 0o777)) //nolint:gosec // what is refused
	assert.Contains(t, examine(), "[WARN] write lock: other processes of this user are not excluded, "+dir+" has mode -rwxrwxrwx instead of 0700\n"+
		"  → Remove "+dir+"; it will be created again as a private folder of this user (mode 0700). If another user owns it, ask them or an administrator to remove it. "+
		"Until then, do not let two hosts write at once on SQLite.\n")
}
