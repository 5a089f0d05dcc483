package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/loopgridio/loopgrid-mcp/scripts/launch"
)

// Versions of the registries.
const (
	verdaccio  = "verdaccio@4.13.2"
	pypiserver = "pypiserver==2.4.1"
)

// publishNPM has Verdaccio be npm, with one package that somebody has put up by hand, as the first release needs it.
func publishNPM(ctx context.Context, t *trial) error {
	if err := need("npm", "jq", "openssl"); err != nil {
		return err
	}
	home, err := filepath.Abs("bin/registries")
	if err != nil {
		return fmt.Errorf("find a folder: %w", err)
	}
	server := filepath.Join(home, "node_modules", ".bin", "verdaccio")
	if _, err := os.Stat(server); err != nil {
		if err := os.MkdirAll(home, 0o750); err != nil {
			return fmt.Errorf("make a folder: %w", err)
		}
		if _, err := t.command(ctx, "npm", "install", "--prefix", home, "--no-save", "--no-audit", "--no-fund", verdaccio); err != nil {
			return err
		}
	}
	config := "storage: storage\nuplinks: {}\npackages:\n  '**': {access: $all, publish: $all, unpublish: $all}\nmax_body_size: 100mb\nlogs: [{type: stdout, format: pretty, level: warn}]\n"
	if err := os.WriteFile(filepath.Join(t.folder, "verdaccio.yaml"), []byte(config), 0o600); err != nil {
		return fmt.Errorf("write the settings of Verdaccio: %w", err)
	}
	address, stop, err := t.serve(ctx, func(address string) []string {
		return []string{server, "--config", filepath.Join(t.folder, "verdaccio.yaml"), "--listen", address}
	})
	if err != nil {
		return err
	}
	defer stop()
	npmrc := fmt.Sprintf("registry=http://%s/\n//%s/:_authToken=anybody\n", address, address)
	if err := os.WriteFile(filepath.Join(t.folder, "npmrc"), []byte(npmrc), 0o600); err != nil {
		return fmt.Errorf("write the settings of npm: %w", err)
	}
	t.environ = []string{"npm_config_userconfig=" + filepath.Join(t.folder, "npmrc"), "npm_config_cache=" + filepath.Join(t.folder, "cache"), "npm_config_update_notifier=false"}

	byHand := filepath.Join(t.folder, "dist", "loopgridio-mcp-linux-x64-"+t.version+".tgz")
	if _, err := t.command(ctx, "npm", "publish", byHand, "--access", "public"); err != nil {
		return err
	}
	if err := t.twice(ctx, "loopgrid-mcp@"+t.version+" is there already, and is this file", "npm"); err != nil {
		return err
	}
	if err := t.spoil("loopgridio-mcp-darwin-x64-*.tgz", func(gzip []byte) { gzip[4]++ }); err != nil { // Its time.
		return err
	}
	return t.refuse(ctx, "is there already, and is another file", "npm")
}

// publishPyPI has pypiserver be PyPI.
func publishPyPI(ctx context.Context, t *trial) error {
	if err := need("uv", "python3"); err != nil {
		return err
	}
	home, err := filepath.Abs("bin/registries/python")
	if err != nil {
		return fmt.Errorf("find a folder: %w", err)
	}
	server := filepath.Join(home, "bin", "pypi-server")
	if _, err := os.Stat(server); err != nil {
		if _, err := t.command(ctx, "uv", "venv", "--quiet", "--clear", home); err != nil {
			return err
		}
		if _, err := t.command(ctx, "uv", "pip", "install", "--quiet", "--python", home, pypiserver, "setuptools<81"); err != nil {
			return err
		}
	}
	packages := filepath.Join(t.folder, "packages")
	if err := os.Mkdir(packages, 0o700); err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	address, stop, err := t.serve(ctx, func(address string) []string {
		host, port, _ := net.SplitHostPort(address)
		return []string{server, "run", "-i", host, "-p", port, "-P", ".", "-a", ".", "--hash-algo", "sha256", packages}
	})
	if err != nil {
		return err
	}
	defer stop()
	t.environ = []string{"INDEX_URL=http://" + address + "/simple/", "UV_PUBLISH_URL=http://" + address + "/", "UV_PUBLISH_USERNAME=anybody", "UV_PUBLISH_PASSWORD=any"}
	if err := t.twice(ctx, "already exists, skipping", "pypi"); err != nil {
		return err
	}
	if err := t.spoil("*-win_amd64.whl", func(zip []byte) { zip[10] ^= 1 }); err != nil { // The time of its first file.
		return err
	}
	return t.refuse(ctx, "win_amd64.whl", "pypi")
}

// publishGitHub has a folder be GitHub: gh keeps the files of the release in it.
func publishGitHub(ctx context.Context, t *trial) error {
	if err := t.program("gh", `
release="$(dirname "$0")/release"
case "$2" in
view) [[ -e $release ]] || exit 1; if [[ -e $release/draft ]]; then echo true; else echo false; fi ;;
create) [[ ! -e $release ]]; mkdir "$release"; touch "$release/draft"; [[ "$*" == *--draft* && "$*" == *--verify-tag* ]] ;;
upload) [[ -e $release/draft ]]; for file; do [[ ! -f $file ]] || cp "$file" "$release/"; done ;;
edit) rm "$release/draft" ;;
download) cat "$release/checksums.txt" ;;
*) exit 1 ;;
esac
`); err != nil {
		return err
	}
	// An earlier run may have stopped before everything was up.
	if _, err := t.command(ctx, filepath.Join(t.folder, "bin", "gh"), "release", "create", "--draft", "--verify-tag"); err != nil {
		return err
	}
	if err := t.twice(ctx, "is out already, with these files", "github", "v"+t.version); err != nil {
		return err
	}
	published, err := filepath.Glob(filepath.Join(t.folder, "bin", "release", "*"))
	sums, readErr := os.ReadFile(filepath.Join(t.folder, "dist", "checksums.txt"))
	if err := errors.Join(err, readErr); err != nil {
		return fmt.Errorf("look at what was published: %w", err)
	}
	if want := bytes.Count(sums, []byte("\n")) + 1; len(published) != want {
		return fmt.Errorf("the release has %d files, not %d", len(published), want)
	}
	if err := t.spoil("checksums.txt", func(text []byte) { text[0] ^= 1 }); err != nil {
		return err
	}
	return t.refuse(ctx, "is out already, with other files", "github", "v"+t.version)
}

// publishHomebrew has a bare repository be the tap. A cask that differs is a new version's, so it is not refused.
func publishHomebrew(ctx context.Context, t *trial) error {
	if err := need("git"); err != nil {
		return err
	}
	tap := filepath.Join(t.folder, "tap.git")
	if _, err := t.command(ctx, "git", "init", "--quiet", "--bare", tap); err != nil {
		return err
	}
	if err := t.twice(ctx, "has this cask already", "homebrew", tap, "v"+t.version); err != nil {
		return err
	}
	printed, err := t.command(ctx, "git", "--git-dir", tap, "show", "HEAD:Casks/loopgrid-mcp.rb")
	if err != nil {
		return err
	}
	if !strings.Contains(printed, `version "`+t.version+`"`) {
		return fmt.Errorf("the tap has a cask of another version:\n%s", printed)
	}
	return nil
}

// publishRegistry has an HTTP server be the MCP Registry and ghcr.io, where the new package is private at first.
func publishRegistry(ctx context.Context, t *trial) error {
	if err := need("curl", "jq"); err != nil {
		return err
	}
	var lock sync.Mutex
	public := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		defer lock.Unlock()
		published, err := os.ReadFile(filepath.Join(t.folder, "bin", "published.json"))
		switch {
		case r.URL.Path == "/token":
			fmt.Fprint(w, `{"token": "anybody"}`)
		case r.URL.Path == "/v2/loopgridio/loopgrid-mcp/manifests/"+t.version && public && r.Header.Get("Authorization") == "Bearer anybody":
			fmt.Fprint(w, "{}")
		case strings.HasPrefix(r.URL.Path, "/v2/"):
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.EscapedPath() == "/v0.1/servers/io.github.loopgridio%2Floopgrid-mcp/versions/"+t.version && err == nil:
			_ = json.NewEncoder(w).Encode(map[string]any{"server": json.RawMessage(published)}) // Nobody is left to tell.
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	if err := t.program("publisher", `
case "$1" in
login) [[ $2 == github-oidc ]] ;;
publish) [[ ! -e "$(dirname "$0")/published.json" ]]; cp "$2" "$(dirname "$0")/published.json" ;;
*) exit 1 ;;
esac
`); err != nil {
		return err
	}
	t.environ = []string{"GHCR=" + server.URL, "REGISTRY=" + server.URL}
	if err := t.refuse(ctx, "choose Change visibility, Public, then run this job again", "registry"); err != nil {
		return err
	}
	lock.Lock()
	public = true
	lock.Unlock()
	if err := t.twice(ctx, "is in the registry already, with these packages", "registry"); err != nil {
		return err
	}
	if err := t.spoil("server.json", func(text []byte) {
		sum := bytes.Index(text, []byte(`"fileSha256": "`)) + len(`"fileSha256": "`)
		text[sum] ^= 1
	}); err != nil {
		return err
	}
	return t.refuse(ctx, "is in the registry already, with other packages", "registry")
}

// serve starts a server on a free port of the loopback and waits until it answers.
func (t *trial) serve(ctx context.Context, args func(address string) []string) (string, func(), error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("find a port: %w", err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return "", nil, fmt.Errorf("find a port: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	command := args(address)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = t.folder
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	launch.EndGently(cmd)
	if err := cmd.Start(); err != nil {
		cancel()
		return "", nil, fmt.Errorf("start %s: %w", filepath.Base(command[0]), err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stop := func() {
		cancel()
		<-ended //nolint:errcheck // It ends by being stopped.
	}
	ticks := time.NewTicker(100 * time.Millisecond)
	defer ticks.Stop()
	for {
		select {
		case err := <-ended:
			cancel()
			return "", nil, fmt.Errorf("start %s: it ended: %w\n%s", filepath.Base(command[0]), err, log.String())
		case <-ctx.Done():
			stop()
			return "", nil, fmt.Errorf("start %s: %w", filepath.Base(command[0]), ctx.Err())
		case <-ticks.C:
			if connection, err := new(net.Dialer).DialContext(ctx, "tcp", address); err == nil {
				return address, stop, connection.Close()
			}
		}
	}
}
