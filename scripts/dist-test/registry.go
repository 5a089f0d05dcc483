package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// serveRegistry serves the npm packages in a directory as a registry does, on the loopback until the context ends, and returns its
// address. It knows the two requests that an installation needs: what versions there are, and a tarball.
func serveRegistry(ctx context.Context, dist string) (string, error) {
	tarballs, err := filepath.Glob(filepath.Join(dist, "*.tgz"))
	if err != nil {
		return "", fmt.Errorf("find the npm packages: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("serve the npm packages: %w", err)
	}
	address := "http://" + listener.Addr().String() + "/"
	packages := map[string][]byte{}
	for _, path := range tarballs {
		name, document, err := describePackage(path, address)
		if err != nil {
			return "", errors.Join(err, listener.Close())
		}
		packages["/"+name] = document
	}
	server := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if document, ok := packages[r.URL.Path]; ok {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write(document) // Nobody is left to tell.
				return
			}
			http.ServeFileFS(w, r, os.DirFS(dist), filepath.Base(r.URL.Path))
		}),
	}
	go func() { _ = server.Serve(listener) }()            // It ends by being closed.
	context.AfterFunc(ctx, func() { _ = server.Close() }) // With the trial.
	return address, nil
}

// describePackage returns the name of a package, and what a registry says of its versions.
func describePackage(path, address string) (string, []byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", nil, fmt.Errorf("read an npm package: %w", err)
	}
	manifest, err := readManifest(path)
	if err != nil {
		return "", nil, fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	name, _ := manifest["name"].(string)
	version, _ := manifest["version"].(string)
	integrity := sha512.Sum512(content)
	manifest["dist"] = map[string]string{
		"tarball":   address + filepath.Base(path),
		"integrity": "sha512-" + base64.StdEncoding.EncodeToString(integrity[:]),
	}
	document, err := json.Marshal(map[string]any{
		"name": name, "dist-tags": map[string]string{"latest": version}, "versions": map[string]any{version: manifest},
	})
	if err != nil {
		return "", nil, fmt.Errorf("describe %s: %w", filepath.Base(path), err)
	}
	return name, document, nil
}

// readManifest returns the package.json of a package.
func readManifest(path string) (map[string]any, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // Only read.
	plain, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	for r := tar.NewReader(plain); ; {
		header, err := r.Next()
		if err != nil {
			return nil, err
		}
		if header.Name == "package/package.json" {
			var manifest map[string]any
			err := json.NewDecoder(r).Decode(&manifest)
			return manifest, err
		}
	}
}
