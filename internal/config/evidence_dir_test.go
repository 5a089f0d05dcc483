package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/config"
)

func TestEvidenceDir(t *testing.T) {
	t.Parallel()

	root := filepath.VolumeName(t.TempDir()) + string(filepath.Separator)
	at := func(elements ...string) string { return filepath.Join(append([]string{root}, elements...)...) }
	const (
		set        = "set by LOOPGRID_EVIDENCE_DIR"
		byDefault  = "the default, in the working directory"
		bySystem   = "the default for this user, because the working directory belongs to the system"
		unwritable = "the default for this user, because the working directory cannot be written to"
	)
	mine := at("home", "ann", "data", "loopgrid-evidence")
	tests := []struct {
		name, given, workingDir string
		writable                []string
		want                    config.EvidenceDir
	}{
		{"absolute", at("var", "evidence"), at("work"), nil, config.EvidenceDir{Path: at("var", "evidence"), Why: set}},
		{"cleaned", at("var") + "//x/../evidence/", at("work"), nil, config.EvidenceDir{Path: at("var", "evidence"), Why: set}},
		{"relative", "evidence", at("work"), nil, config.EvidenceDir{Path: at("work", "evidence"), Why: set}},
		{"relative, in a place that is no default", "./e", at("sys"), nil, config.EvidenceDir{Path: at("sys", "e"), Why: set}},
		{"home", "~", at("work"), nil, config.EvidenceDir{Path: at("home", "ann"), Why: set}},
		{"below home", "~/evidence", "", nil, config.EvidenceDir{Path: at("home", "ann", "evidence"), Why: set}},
		{"another's home", "~bob/evidence", at("work"), nil, config.EvidenceDir{Path: at("home", "bob", "evidence"), Why: set}},
		{"a tilde elsewhere", "a~b", at("work"), nil, config.EvidenceDir{Path: at("work", "a~b"), Why: set}},

		{"default", "", at("work"), []string{at("work")}, config.EvidenceDir{Path: at("work", "loopgrid-evidence"), Why: byDefault, IsDefault: true}},
		{"nothing writable", "", at("work"), nil, config.EvidenceDir{Path: mine, Why: unwritable, IsDefault: true}},
		{
			"a directory for evidence in an unwritable place", "", at("work"),
			[]string{at("work", "loopgrid-evidence")},
			config.EvidenceDir{Path: at("work", "loopgrid-evidence"), Why: byDefault, IsDefault: true},
		},
		{"root", "", root, []string{root}, config.EvidenceDir{Path: mine, Why: bySystem, IsDefault: true}},
		{
			"a mount in the root", "", root,
			[]string{root, at("loopgrid-evidence")},
			config.EvidenceDir{Path: at("loopgrid-evidence"), Why: byDefault, IsDefault: true},
		},
		{"system", "", at("sys"), []string{at("sys")}, config.EvidenceDir{Path: mine, Why: bySystem, IsDefault: true}},
		{"below system", "", at("sys", "x", "y"), []string{at("sys", "x", "y")}, config.EvidenceDir{Path: mine, Why: bySystem, IsDefault: true}},
		{
			"beside system", "", at("system"),
			[]string{at("system")},
			config.EvidenceDir{Path: at("system", "loopgrid-evidence"), Why: byDefault, IsDefault: true},
		},
		{
			"no working directory", "", "",
			[]string{""},
			config.EvidenceDir{Path: mine, Why: "the default for this user, because the working directory is not known", IsDefault: true},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()

			got, message, remedy := config.EvidenceDirAt(config.Place{
				WorkingDir: tt.workingDir,
				DataDir:    at("home", "ann", "data"),
				SystemDirs: []string{"", at("sys")},
				HomeOf: func(name string) (string, error) {
					if name == "" {
						name = "ann"
					}

					return at("home", name), nil
				},
				CanCreateIn: func(dir string) bool { return slices.Contains(tt.writable, dir) },
			}, tt.given)

			assert.Empty(t, message)
			assert.Empty(t, remedy)
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestEvidenceDir_NoPlace(t *testing.T) {
	t.Parallel()

	nowhere := config.Place{
		HomeOf:      func(string) (string, error) { return "", errors.New("no such user") },
		CanCreateIn: func(string) bool { return false },
	}
	_, message, remedy := config.EvidenceDirAt(nowhere, "")
	assert.Equal(t, "is not set, and there is no default because the working directory is not known and the user has no data directory", message)
	assert.Equal(t, "Set it to a directory that this program may write to.", remedy)

	_, message, remedy = config.EvidenceDirAt(nowhere, "evidence")
	assert.Equal(t, "is relative to a working directory that is gone", message)
	assert.Equal(t, "Write the path in full.", remedy)

	_, message, _ = config.EvidenceDirAt(nowhere, "~/evidence")
	assert.Equal(t, "starts with ~, and that home directory is not known", message)
}

func TestLoadFrom_FindsTheDataDirectoryOfTheUser(t *testing.T) {
	t.Chdir(filepath.VolumeName(t.TempDir()) + string(filepath.Separator))
	home := t.TempDir()

	want := map[string]string{
		"windows": filepath.Join(home, "loopgrid-evidence"),
		"darwin":  filepath.Join(home, "Library", "Application Support", "loopgrid-evidence"),
	}[runtime.GOOS]
	if want == "" {
		want = filepath.Join(home, ".local", "share", "loopgrid-evidence")
		s := config.LoadFrom([]string{"HOME=" + home, "XDG_DATA_HOME=" + filepath.Join(home, "xdg")})
		assert.Equal(t, filepath.Join(home, "xdg", "loopgrid-evidence"), s.EvidenceDir.Path)
	}

	s := config.LoadFrom([]string{"HOME=" + home, "USERPROFILE=" + home, "LOCALAPPDATA=" + home, "XDG_DATA_HOME=relative"})
	assert.Equal(t, want, s.EvidenceDir.Path)
	assert.Empty(t, s.Problems)

	// Hosts pass almost no environment: the user database knows the home.
	if runtime.GOOS != "windows" {
		s = config.LoadFrom([]string{"HOME="})
		assert.True(t, filepath.IsAbs(s.EvidenceDir.Path), s.EvidenceDir.Path)
		assert.Empty(t, s.Problems)
	}
}

func TestLoadFrom_LeavesNothingOnDisk(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)

	s := config.LoadFrom(nil)

	// The system may know the directory by another name.
	want, err := os.Getwd()
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(want, "loopgrid-evidence"), s.EvidenceDir.Path)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, entries)
}

func TestCanCreateIn(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))

	assert.True(t, config.CanCreateIn(dir))
	assert.False(t, config.CanCreateIn(file))
	assert.False(t, config.CanCreateIn(filepath.Join(dir, "missing")))
	assert.False(t, config.CanCreateIn("a\x00b"))

	if runtime.GOOS == "windows" || os.Getuid() == 0 {
		return // Modes do not bind there; the system directory below stands for them.
	}
	closed := filepath.Join(dir, "closed")
	require.NoError(t, os.Mkdir(closed, 0o500))
	assert.False(t, config.CanCreateIn(closed))
}
