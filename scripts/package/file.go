package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/loopgridio/loopgrid-mcp/internal/bridge"
)

// file is one in a package.
type file struct {
	name    string
	mode    fs.FileMode
	content []byte
}

// packed is the time of all files in packages: one that says nothing, so that the same content gives the same bytes. ZIP knows none
// before 1980, and some tools take that very day for an error.
func packed() time.Time { return time.Date(1985, time.October, 26, 8, 15, 0, 0, time.UTC) }

// zipped packs the files as a ZIP.
func zipped(files []file) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: packed()}
		header.SetMode(f.mode)
		entry, err := w.CreateHeader(header)
		if err == nil {
			_, err = entry.Write(f.content)
		}
		if err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	return out.Bytes(), nil
}

// tarred packs the files as a compressed tar.
func tarred(files []file) ([]byte, error) {
	var out bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	w := tar.NewWriter(compressed)
	for _, f := range files {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.name, Size: int64(len(f.content)), Mode: int64(f.mode), ModTime: packed(), Format: tar.FormatUSTAR,
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	if err := compressed.Close(); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	return out.Bytes(), nil
}

// source reads a file of the source tree.
func (r *release) source(path string) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(r.root, filepath.FromSlash(path)))
	if err != nil {
		return nil, fmt.Errorf("read the source tree: %w", err)
	}
	return content, nil
}

// sources reads files of the source tree for a package, under names that begin with prefix.
func (r *release) sources(prefix string, paths ...string) ([]file, error) {
	var files []file
	for _, path := range paths {
		content, err := r.source(path)
		if err != nil {
			return nil, err
		}
		files = append(files, file{prefix + path, 0o644, content})
	}
	return files, nil
}

// terms are the files that go with every binary, under names that begin with prefix: the licences.
func (r *release) terms(prefix string) ([]file, error) {
	files, err := r.sources(prefix, "LICENSE")
	if err != nil {
		return nil, err
	}
	notices, err := os.ReadFile(r.notices)
	if err != nil {
		return nil, fmt.Errorf("read the licences of others: %w", err)
	}
	return append(files, file{prefix + noticesName, 0o644, notices}), nil
}

// bill is the bill of materials of a binary, which the build has written, under a name that begins with prefix.
func (r *release) bill(t target, prefix string) (file, error) {
	content, err := os.ReadFile(filepath.Join(r.dist, r.label(t)+".cdx.json"))
	if err != nil {
		return file{}, fmt.Errorf("read the bill of materials for %s/%s: %w", t.OS, t.Arch, err)
	}
	return file{prefix + billName, 0o644, content}, nil
}

// render fills in a template below packaging.
func (r *release) render(path string, t target, more map[string]string) ([]byte, error) {
	text, err := r.source("packaging/" + path)
	if err != nil {
		return nil, err
	}
	functions := template.FuncMap{
		"json": strconv.Quote, // Plain text alone: a test reads what comes of it.
	}
	parsed, err := template.New(path).Option("missingkey=error").Funcs(functions).Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("read a template: %w", err)
	}
	data := map[string]any{
		"Version": r.version, "RegistryName": registryName, "Repository": repository, "Description": description,
		"Target": t, "Targets": platforms(), "Program": t.program(), "Tools": bridge.Document(),
	}
	for key, value := range more {
		data[key] = value
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, data); err != nil {
		return nil, fmt.Errorf("fill in a template: %w", err)
	}
	return out.Bytes(), nil
}

// write writes a file below dist, and makes its directory.
func (r *release) write(path string, content []byte, mode fs.FileMode) error {
	path = filepath.Join(r.dist, path)
	err := os.MkdirAll(filepath.Dir(path), 0o755) //nolint:gosec // For everybody to read, as all that is built.
	if err == nil {
		err = os.WriteFile(path, content, mode)
	}
	if err != nil {
		return fmt.Errorf("write a package: %w", err)
	}
	return nil
}

// writeChecksums writes the SHA-256 of everything in dist that is published, in the form that sha256sum -c reads.
func (r *release) writeChecksums() error {
	entries, err := os.ReadDir(r.dist)
	if err != nil {
		return fmt.Errorf("list what was packed: %w", err)
	}
	var lines strings.Builder
	for _, entry := range entries {
		if entry.IsDir() || !isPublished(entry.Name()) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(r.dist, entry.Name()))
		if err != nil {
			return fmt.Errorf("read what was packed: %w", err)
		}
		fmt.Fprintf(&lines, "%s  %s\n", sum(content), entry.Name())
	}
	return r.write("checksums.txt", []byte(lines.String()), 0o644)
}

// isPublished says whether a file of that name is a part of a release.
func isPublished(name string) bool {
	for _, ending := range []string{".tar.gz", ".zip", ".deb", ".rpm", ".whl", ".tgz", ".mcpb", ".cdx.json"} {
		if strings.HasSuffix(name, ending) {
			return true
		}
	}
	return false
}

func sum(content []byte) string {
	s := sha256.Sum256(content)
	return hex.EncodeToString(s[:])
}
