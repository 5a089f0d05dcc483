package config

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"unicode/utf8"
)

// evidenceName is the directory for evidence where the operator names none.
const evidenceName = "loopgrid-evidence"

// EvidenceDir is the directory that evidence files go to, and how it was found.
type EvidenceDir struct {
	// Path is absolute and clean; the directory need not exist. It is empty where
	// a problem says that the variable cannot be used.
	Path string
	// Why says how the directory was chosen, as the end of a line such as
	// "evidence directory: /x (set by LOOPGRID_EVIDENCE_DIR)".
	Why string
	// IsDefault says that the operator named no directory.
	IsDefault bool
}

// place is what the choice of a directory depends on besides the variable.
type place struct {
	workingDir  string                       // "" where it is not known
	dataDir     string                       // the user's directory for data, "" where it is not known
	systemDirs  []string                     // no place for evidence, nor is anything below
	homeOf      func(string) (string, error) // home of the named user; "" is the user of this process
	canCreateIn func(string) bool            // whether it is a directory in which this process may create files
}

// placeOf describes where this process runs. It reads the disk and changes nothing
// on it.
func placeOf(environ map[string]string) place {
	p := place{
		systemDirs:  []string{"/bin", "/sbin", "/lib", "/etc", "/usr/bin", "/usr/sbin", "/usr/lib", "/System", "/Library", "/Applications"},
		canCreateIn: canCreateIn,
		homeOf: func(name string) (string, error) {
			return homeOf(name, environ)
		},
	}
	p.workingDir, _ = os.Getwd() // "" says that it is not known.

	switch runtime.GOOS {
	case "windows":
		p.systemDirs = []string{environ["SYSTEMROOT"], environ["PROGRAMFILES"], environ["PROGRAMFILES(X86)"]}
		p.dataDir = environ["LOCALAPPDATA"]
	case "darwin":
		if home, err := p.homeOf(""); err == nil {
			p.dataDir = filepath.Join(home, "Library", "Application Support")
		}
	default:
		p.dataDir = environ["XDG_DATA_HOME"]
		// The XDG rules say that a relative path there does not count.
		if home, err := p.homeOf(""); err == nil && !filepath.IsAbs(p.dataDir) {
			p.dataDir = filepath.Join(home, ".local", "share")
		}
	}
	if !filepath.IsAbs(p.dataDir) {
		p.dataDir = ""
	}

	return p
}

// homeOf returns the home of the named user. Hosts may start a server without
// HOME, so the user database answers where the environment does not.
func homeOf(name string, environ map[string]string) (string, error) {
	variable := "HOME"
	if runtime.GOOS == "windows" {
		variable = "USERPROFILE"
	}

	home := environ[variable]
	if name != "" || home == "" {
		who, err := lookUpUser(name)
		if err != nil {
			return "", err
		}
		home = who.HomeDir
	}
	if !filepath.IsAbs(home) {
		return "", errors.New("the home directory is not an absolute path")
	}

	return home, nil
}

// lookUpUser returns the named user; "" is the user of this process.
func lookUpUser(name string) (*user.User, error) {
	if name == "" {
		return user.Current()
	}

	return user.Lookup(name)
}

// evidenceDir applies the rules to what the operator gave; "" is nothing.
func (p place) evidenceDir(given string) (EvidenceDir, *fault) {
	found, wrong := p.defaultEvidenceDir()
	if given != "" {
		found = EvidenceDir{Why: "set by " + evidenceDir}
		found.Path, wrong = p.path(given)
	}
	switch {
	case wrong != nil:
		return EvidenceDir{}, wrong
	case !utf8.ValidString(found.Path):
		// A result is JSON: it could not tell where the file is.
		return EvidenceDir{}, &fault{"leads to a directory whose path is not UTF-8, so no result could name it", "Set it to another directory."}
	}

	return found, nil
}

// file applies the rules to the path of a file; "" is none.
func (p place) file(given string) (file, *fault) {
	if given == "" {
		return file{}, nil
	}
	path, wrong := p.path(given)
	if wrong != nil {
		return file{}, wrong
	}
	f := file{path: path, shown: shown(path)}
	if !strings.ContainsAny(given, `/\`) {
		f.shown = "a file in the working directory" // It may be a key instead of its file.
	}

	return f, nil
}

// path makes a path absolute and clean; ~ is a home directory.
func (p place) path(given string) (string, *fault) {
	const marks = "\"'\u201c\u201d\u201e\u2018\u2019"
	switch {
	case strings.ContainsRune(given, 0):
		return "", &fault{"is not a path", "Set it to a path."}
	case strings.Trim(given, marks) != given:
		return "", &fault{"begins or ends with a quotation mark", "Write the path without quotation marks."}
	}
	path := given
	if rest, ok := strings.CutPrefix(given, "~"); ok {
		name, below, _ := strings.Cut(filepath.ToSlash(rest), "/")
		home, err := p.homeOf(name)
		if err != nil {
			return "", &fault{"starts with ~, and that home directory is not known", "Write the path in full."}
		}
		path = filepath.Join(home, below)
	}
	if !filepath.IsAbs(path) {
		if p.workingDir == "" {
			return "", &fault{"is relative to a working directory that is gone", "Write the path in full."}
		}
		path = filepath.Join(p.workingDir, path)
	}

	return filepath.Clean(path), nil
}

// defaultEvidenceDir prefers the working directory, as 0.1.0 did. Graphical hosts
// start servers in / or System32, where evidence would fail or be lost.
func (p place) defaultEvidenceDir() (EvidenceDir, *fault) {
	here := filepath.Join(p.workingDir, evidenceName)

	var why string
	switch {
	case p.workingDir == "":
		why = "the working directory is not known"
	case p.canCreateIn(here): // Made earlier, or mounted there on purpose.
	case p.isSystemDir(p.workingDir):
		why = "the working directory belongs to the system"
	case !p.canCreateIn(p.workingDir):
		why = "the working directory cannot be written to"
	}

	switch {
	case why == "":
		return EvidenceDir{Path: here, Why: "the default, in the working directory", IsDefault: true}, nil
	case p.dataDir == "":
		return EvidenceDir{}, &fault{
			"is not set, and there is no default because " + why + " and the user has no data directory",
			"Set it to a directory that this program may write to.",
		}
	}

	return EvidenceDir{
		Path:      filepath.Join(p.dataDir, evidenceName),
		Why:       "the default for this user, because " + why,
		IsDefault: true,
	}, nil
}

// isSystemDir says whether a directory is a root, a system directory or below one.
func (p place) isSystemDir(dir string) bool {
	if filepath.Dir(dir) == dir {
		return true
	}
	for _, system := range p.systemDirs {
		if system == "" {
			continue
		}
		if below, err := filepath.Rel(system, dir); err == nil && filepath.IsLocal(below) {
			return true
		}
	}

	return false
}
