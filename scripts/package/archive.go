package main

import (
	"fmt"
	"path/filepath"
)

// packArchives makes the archives that GoReleaser would, with the same names and files: .goreleaser.yaml says which.
func (r *release) packArchives() error {
	documents, err := r.licences("")
	if err != nil {
		return err
	}
	more, err := r.sources("", "README.md", "CHANGELOG.md")
	if err != nil {
		return err
	}
	documents = append(documents, more...)
	examples, err := filepath.Glob(filepath.Join(r.root, "examples", "*.*"))
	if err != nil {
		return fmt.Errorf("list the examples: %w", err)
	}
	for _, path := range examples {
		example, err := r.sources("", "examples/"+filepath.Base(path))
		if err != nil {
			return err
		}
		documents = append(documents, example...)
	}
	for _, t := range systems() {
		files, err := r.programs(t, "")
		if err != nil {
			return err
		}
		pack, ending := tarred, ".tar.gz"
		if t.OS == "windows" {
			pack, ending = zipped, ".zip"
		}
		content, err := pack(append(files, documents...))
		if err != nil {
			return err
		}
		if err := r.write(r.label(t)+ending, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
