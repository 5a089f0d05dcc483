package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// tree is the set of files that would be published.
type tree struct {
	root    *os.Root
	paths   []string // slash-separated, sorted
	ignored []string // the patterns of .gitignore
}

// openTree lists the files below the root: in a git checkout what git knows or
// would add, elsewhere whatever .gitignore does not cover.
func openTree(root *os.Root) (*tree, error) {
	t := &tree{root: root}

	var err error
	if t.ignored, err = t.readIgnored(); err != nil {
		return nil, err
	}
	list := t.walk
	if _, err := root.Stat(".git"); err == nil {
		list = t.listWithGit
	}
	if t.paths, err = list(); err != nil {
		return nil, err
	}
	t.paths = slices.DeleteFunc(t.paths, func(path string) bool {
		info, err := root.Lstat(path)

		return err != nil || !info.Mode().IsRegular() // Deleted and not yet committed, a link, a submodule.
	})
	slices.Sort(t.paths)

	return t, nil
}

// listWithGit returns the tracked files and the untracked ones that nothing
// ignores. A file that is tracked although a pattern covers it is among them.
func (t *tree) listWithGit() ([]string, error) {
	// A checkout that belongs to another user, as in a container, is read all the same.
	git := exec.CommandContext(context.Background(), "git", "-c", "safe.directory=*", "-C", t.root.Name(),
		"ls-files", "-z", "--cached", "--others", "--exclude-standard")
	var stderr bytes.Buffer
	git.Stderr = &stderr
	out, err := git.Output()
	if err != nil {
		return nil, fmt.Errorf("list the files with git: %w: %s", err, strings.TrimSpace(stderr.String()))
	}

	return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 }), nil
}

func (t *tree) walk() ([]string, error) {
	var paths []string
	err := fs.WalkDir(t.root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return nil
		case !t.ignores(path):
			paths = append(paths, path)
		}

		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the files: %w", err)
	}

	return paths, nil
}

func (t *tree) read(path string) ([]byte, error) {
	content, err := t.root.ReadFile(filepath.FromSlash(path))
	if err != nil {
		return nil, fmt.Errorf("read the tree: %w", err)
	}

	return content, nil
}

// readIgnored reads the patterns of .gitignore. Names with * and a slash at the
// start or the end are understood; a pattern of another form is an error, since a
// file that it covers would not be seen.
func (t *tree) readIgnored() ([]string, error) {
	content, err := t.root.ReadFile(".gitignore")
	if err != nil {
		return nil, fmt.Errorf("read .gitignore: %w", err)
	}

	var patterns []string
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if strings.ContainsAny(strings.Trim(line, "/"), `!/\`) || strings.Contains(line, "**") {
			return nil, fmt.Errorf("read .gitignore: %q: only names with * and a slash at the start or the end are understood here", line)
		}
		if _, err := path.Match(line, ""); err != nil {
			return nil, fmt.Errorf("read .gitignore: %q: %w", line, err)
		}
		patterns = append(patterns, line)
	}

	return patterns, nil
}

// ignores says whether a pattern of .gitignore covers the file.
func (t *tree) ignores(file string) bool {
	elements := strings.Split(file, "/")
	for _, pattern := range t.ignored {
		for i, element := range elements {
			isDirectory := i < len(elements)-1
			if (strings.HasPrefix(pattern, "/") && i > 0) || (strings.HasSuffix(pattern, "/") && !isDirectory) {
				continue
			}
			if matches(strings.Trim(pattern, "/"), element) {
				return true
			}
		}
	}

	return false
}

// matches is [path.Match] for a pattern that is known to be well formed.
func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)

	return ok && err == nil
}

// strayNames are kinds of files that a machine or a person leaves behind, with a
// word for each.
func strayNames() [][2]string {
	return [][2]string{
		{".env", "settings with secrets"},
		{".env.local", "settings with secrets"},
		{"*.p12", "a key"},
		{"*.pfx", "a key"},
		{"*.test", "a test binary"},
		{"*.exe", "a binary"},
		{"*.prof", "a profile"},
		{"coverage.out", "a coverage report"},
		{"*.log", "a log"},
		{"*.db", "a database"},
		{"*.sqlite*", "a database"},
		{"*-evidence.zip", "downloaded evidence"},
		{"*-evidence-payloads.zip", "downloaded evidence"},
		{"*.orig", "a left-over of a merge"},
		{"*.rej", "a left-over of a patch"},
		{"*.bak", "a back-up"},
		{"*.swp", "a file of an editor"},
		{"*~", "a file of an editor"},
		{".DS_Store", "a file of the desktop"},
		{"Thumbs.db", "a file of the desktop"},
		{"desktop.ini", "a file of the desktop"},
		{"*.pyc", "compiled Python"},
	}
}

// strayDirectories are directories whose content is made by a tool.
func strayDirectories() []string {
	return []string{"loopgrid-evidence", "node_modules", "__pycache__", ".venv", "venv", ".idea", ".pytest_cache"}
}

// checkName finds files that .gitignore should cover, and those that it covers and
// that were added all the same. What stands below testdata was put there by hand.
func checkName(t *tree, file string) []finding {
	if t.ignores(file) {
		return []finding{{path: file, text: ".gitignore covers this file, but it is in the tree: remove it"}}
	}

	directory, name := path.Split(file)
	elements := strings.Split(directory, "/")
	if slices.Contains(elements, "testdata") {
		return nil
	}
	for _, element := range elements {
		if slices.Contains(strayDirectories(), element) {
			return []finding{{path: file, text: "this was made by a tool: .gitignore should cover " + element + "/"}}
		}
	}
	for _, stray := range strayNames() {
		if matches(stray[0], name) {
			return []finding{{path: file, text: "this looks like " + stray[1] + ": .gitignore should cover " + stray[0]}}
		}
	}

	return nil
}
