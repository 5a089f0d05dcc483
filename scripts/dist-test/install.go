package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// installArchive unpacks the archive of a release.
func (t *trial) installArchive(_ context.Context, folder string) (installation, error) {
	archive, err := t.find("loopgrid-mcp_" + t.version + "_" + system() + archiveEnding())
	if err == nil {
		err = unpack(archive, folder)
	}
	if err != nil {
		return installation{}, err
	}
	for _, document := range []string{"README.md", "LICENSE", "THIRD-PARTY-NOTICES.txt", "CHANGELOG.md", "SECURITY.md", "loopgrid-mcp.cdx.json"} {
		if _, err := os.Stat(filepath.Join(folder, document)); err != nil {
			return installation{}, fmt.Errorf("look for the documents: %w", err)
		}
	}
	return installation{
		program: []string{filepath.Join(folder, "loopgrid-mcp"+executable(".exe"))},
		doctor:  []string{filepath.Join(folder, "loopgrid-mcp-doctor"+executable(".cmd"))},
	}, nil
}

// installPip installs the wheel into a virtual environment. pip chooses it among all wheels in dist, as it does on PyPI.
func (t *trial) installPip(ctx context.Context, folder string) (installation, error) {
	python, err := lookPath("python3", "python")
	if err != nil {
		return installation{}, err
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return installation{}, fmt.Errorf("make a folder: %w", err)
	}
	if _, err := command(ctx, folder, nil, []string{python, "-c", "import venv, ensurepip"}); err != nil {
		return installation{}, fmt.Errorf("venv of Python %w: %w", errMissing, err)
	}
	if _, err := command(ctx, folder, nil, []string{python, "-m", "venv", "venv"}); err != nil {
		return installation{}, err
	}
	bin := filepath.Join(folder, "venv", "bin")
	if windows {
		bin = filepath.Join(folder, "venv", "Scripts")
	}
	pip := []string{
		filepath.Join(bin, "python"+executable(".exe")), "-m", "pip", "--isolated", "--quiet", "--disable-pip-version-check",
		"install", "--no-index", "--only-binary", ":all:", "--no-cache-dir", "--find-links", t.dist, "loopgrid-mcp==" + t.version,
	}
	if _, err := command(ctx, folder, nil, pip); err != nil {
		return installation{}, err
	}
	return installation{
		program: []string{filepath.Join(bin, "loopgrid-mcp"+executable(".exe"))},
		doctor:  []string{filepath.Join(bin, "loopgrid-mcp-doctor"+executable(".cmd"))},
	}, nil
}

// installUvx has uvx install the wheel when it is first used.
func (t *trial) installUvx(_ context.Context, folder string) (installation, error) {
	uvx, err := lookPath("uvx")
	if err != nil {
		return installation{}, err
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return installation{}, fmt.Errorf("make a folder: %w", err)
	}
	from := []string{
		uvx, "--no-config", "--offline", "--no-python-downloads", "--cache-dir", filepath.Join(folder, "cache"), "--no-index", "--no-build", "--find-links", t.dist,
	}
	return installation{
		program: append(append([]string(nil), from...), "loopgrid-mcp"),
		doctor:  append(append([]string(nil), from...), "--from", "loopgrid-mcp", "loopgrid-mcp-doctor"),
	}, nil
}

// installNPX has npx install the npm packages from a registry on the loopback that has only these.
func (t *trial) installNPX(ctx context.Context, folder string) (installation, error) {
	npx, err := lookPath("npx")
	if err != nil {
		return installation{}, err
	}
	registry, err := serveRegistry(ctx, t.dist)
	if err != nil {
		return installation{}, err
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return installation{}, fmt.Errorf("make a folder: %w", err)
	}
	return installation{
		program: []string{npx, "-y", "loopgrid-mcp"},
		doctor:  []string{npx, "-y", "-p", "loopgrid-mcp", "loopgrid-mcp-doctor"},
		environ: []string{
			"npm_config_registry=" + registry, "npm_config_cache=" + filepath.Join(folder, "cache"), "npm_config_userconfig=" + filepath.Join(folder, "npmrc"),
			"npm_config_update_notifier=false", "npm_config_audit=false", "npm_config_fund=false", "npm_config_ignore_scripts=true",
		},
	}, nil
}

// installBundle unpacks the MCP bundle and takes its command from the manifest, as a host does in which the user has filled in nothing.
func (t *trial) installBundle(_ context.Context, folder string) (installation, error) {
	bundle, err := t.find("loopgrid-mcp_" + t.version + "_" + system() + ".mcpb")
	if err == nil {
		err = unpack(bundle, folder)
	}
	if err != nil {
		return installation{}, err
	}
	content, err := os.ReadFile(filepath.Join(folder, "manifest.json"))
	if err != nil {
		return installation{}, fmt.Errorf("read the manifest: %w", err)
	}
	var manifest struct {
		Server struct {
			Config struct {
				Command string            `json:"command"`
				Args    []string          `json:"args"`
				Env     map[string]string `json:"env"`
			} `json:"mcp_config"`
		} `json:"server"`
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
		UserConfig map[string]struct {
			Default any `json:"default"`
		} `json:"user_config"`
	}
	if err := json.Unmarshal(content, &manifest); err != nil {
		return installation{}, fmt.Errorf("read the manifest: %w", err)
	}
	// A field without a default stays a placeholder.
	filled := []string{"${__dirname}", folder}
	for field, config := range manifest.UserConfig {
		if config.Default != nil {
			filled = append(filled, "${user_config."+field+"}", fmt.Sprint(config.Default))
		}
	}
	fill := strings.NewReplacer(filled...)
	i := installation{program: []string{filepath.FromSlash(fill.Replace(manifest.Server.Config.Command))}, tools: []string{}}
	for _, arg := range manifest.Server.Config.Args {
		i.program = append(i.program, fill.Replace(arg))
	}
	for name, value := range manifest.Server.Config.Env {
		i.environ = append(i.environ, name+"="+fill.Replace(value))
	}
	for _, tool := range manifest.Tools {
		i.tools = append(i.tools, tool.Name)
	}
	i.doctor = append(append([]string(nil), i.program...), "doctor")
	return i, nil
}

// unpack writes the files of an archive into a new folder, and nowhere else.
func unpack(archive, folder string) error {
	err := os.Mkdir(folder, 0o700)
	if err != nil {
		return fmt.Errorf("unpack %s: %w", filepath.Base(archive), err)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return fmt.Errorf("unpack %s: %w", filepath.Base(archive), err)
	}
	defer root.Close() //nolint:errcheck // The files are closed by then.
	if strings.HasSuffix(archive, ".tar.gz") {
		err = unpackTar(archive, root)
	} else {
		err = unpackZip(archive, root)
	}
	if err != nil {
		return fmt.Errorf("unpack %s: %w", filepath.Base(archive), err)
	}
	return nil
}

func unpackTar(archive string, root *os.Root) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // Only read.
	plain, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	for r := tar.NewReader(plain); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag == tar.TypeReg {
			if err := unpackFile(root, header.Name, header.FileInfo().Mode(), r); err != nil {
				return err
			}
		}
	}
}

func unpackZip(archive string, root *os.Root) error {
	r, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // Only read.
	for _, entry := range r.File {
		content, err := entry.Open()
		if err != nil {
			return err
		}
		err = unpackFile(root, entry.Name, entry.Mode(), content)
		if err := errors.Join(err, content.Close()); err != nil {
			return err
		}
	}
	return nil
}

func unpackFile(root *os.Root, name string, mode fs.FileMode, content io.Reader) error {
	name = filepath.FromSlash(name)
	if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode.Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}
