package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Largest program, in bytes: a stripped one stays small enough to start at once and to be fetched by npx and uvx.
const (
	largestLinuxAMD64 = 10_500_000
	largest           = 11_000_000
)

// checkArtefacts looks into everything that holds a program: it may not be too large, and its bill of materials lies beside it.
func (t *trial) checkArtefacts(_ context.Context, _ string) error {
	found, err := filepath.Glob(filepath.Join(t.dist, "loopgrid*"))
	if err != nil {
		return fmt.Errorf("list the artefacts: %w", err)
	}
	var looked int
	var faults error
	for _, file := range found {
		name := filepath.Base(file)
		files := map[string][]byte{}
		switch {
		case strings.HasSuffix(name, ".whl"), strings.HasSuffix(name, ".zip"), strings.HasSuffix(name, ".mcpb"):
			files, err = readZip(file)
		case strings.HasSuffix(name, ".tar.gz"), strings.HasSuffix(name, ".tgz"):
			files, err = readTar(file)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if program := files["loopgrid-mcp"]; program != nil {
			looked++
			faults = errors.Join(faults, checkProgram(name, program, files["loopgrid-mcp.cdx.json"]))
		}
	}
	if looked == 0 {
		return fmt.Errorf("no artefact in %s holds a program", t.dist)
	}
	return faults
}

// checkProgram checks a program from the artefact of that name.
func checkProgram(artefact string, program, bill []byte) error {
	limit := largest
	switch {
	case strings.Contains(artefact, "linux_amd64"), strings.Contains(artefact, "linux-x64"), strings.Contains(artefact, "manylinux_2_17_x86_64"):
		limit = largestLinuxAMD64
	case strings.Contains(artefact, "darwin_all"):
		limit = 2 * largest // One for each processor.
	}
	if len(program) > limit {
		return fmt.Errorf("%s: the program has %d bytes, more than %d", artefact, len(program), limit)
	}
	var described struct {
		Metadata struct {
			Component struct {
				Hashes []struct {
					Content string `json:"content"`
				} `json:"hashes"`
			} `json:"component"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(bill, &described); err != nil {
		return fmt.Errorf("%s: read loopgrid-mcp.cdx.json: %w", artefact, err)
	}
	sum := sha256.Sum256(program)
	if hashes := described.Metadata.Component.Hashes; len(hashes) != 1 || hashes[0].Content != hex.EncodeToString(sum[:]) {
		return fmt.Errorf("%s: loopgrid-mcp.cdx.json is about another program", artefact)
	}
	return nil
}

// baseName is the name of a file without its folder and without the ending of Windows programs.
func baseName(name string) string { return strings.TrimSuffix(path.Base(name), ".exe") }

// readZip returns the files of a ZIP by their base names.
func readZip(file string) (map[string][]byte, error) {
	r, err := zip.OpenReader(file)
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // Only read.
	files := map[string][]byte{}
	for _, entry := range r.File {
		content, err := entry.Open()
		if err != nil {
			return nil, err
		}
		files[baseName(entry.Name)], err = io.ReadAll(content)
		if err := errors.Join(err, content.Close()); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// readTar returns the files of a compressed tar by their base names.
func readTar(file string) (map[string][]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // Only read.
	plain, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for r := tar.NewReader(plain); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if files[baseName(header.Name)], err = io.ReadAll(r); err != nil {
			return nil, err
		}
	}
}
