package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// fetching bounds the installation of one package.
const fetching = 10 * time.Minute

// npmPackage is a package of the npm registry, pinned.
type npmPackage struct{ name, version string }

// node is the Node that runs all hosts: the newest one that each of them asks for, whatever this machine has.
func node() npmPackage { return npmPackage{"node", "22.23.3"} }

// nodePath is the directory of the program node within its package.
func nodePath(installed string) string {
	return filepath.Join(installed, "node_modules", "node", "bin")
}

// install fetches the package into a directory of its own below the cache, if it is not there, and returns the directory.
func (p npmPackage) install(ctx context.Context, r *report, cache string) (string, error) {
	dir := filepath.Join(cache, strings.NewReplacer("@", "", "/", "-").Replace(p.name)+"-"+p.version)
	complete := filepath.Join(dir, "installed")
	if _, err := os.Stat(complete); err == nil {
		return dir, nil
	}
	r.line("INFO", "installing %s@%s", p.name, p.version)
	failed := func(err error) (string, error) { return "", fmt.Errorf("install %s@%s: %w", p.name, p.version, err) }
	// What an earlier run may have left half done.
	if err := os.RemoveAll(dir); err != nil {
		return failed(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return failed(err)
	}
	// Newer versions of npm run only the installation scripts that are named here.
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private":true,"allowScripts":{"`+p.name+`":true}}`), 0o600); err != nil {
		return failed(err)
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return failed(err)
	}
	ctx, cancel := context.WithTimeout(ctx, fetching)
	defer cancel()
	cmd := exec.CommandContext(ctx, npm, "install", "--no-audit", "--no-fund", "--save-exact", p.name+"@"+p.version)
	cmd.Dir = dir
	if out, err := runGroup(cmd); err != nil {
		return failed(fmt.Errorf("%w\n%s", err, bytes.TrimSpace(out)))
	}
	if err := os.WriteFile(complete, nil, 0o600); err != nil {
		return failed(err)
	}
	return dir, nil
}
