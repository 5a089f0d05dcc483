package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// installDeb has dpkg install the package into a system of its own, below the folder.
func (t *trial) installDeb(ctx context.Context, folder string) (installation, error) {
	dpkg, err := lookPath("dpkg")
	if err != nil {
		return installation{}, err
	}
	deb, err := t.find("loopgrid-mcp_" + t.version + "_" + system() + ".deb")
	if err != nil {
		return installation{}, err
	}
	database := filepath.Join(folder, "var", "lib", "dpkg")
	for _, empty := range []string{"info", "updates", "triggers"} {
		if err := os.MkdirAll(filepath.Join(database, empty), 0o700); err != nil {
			return installation{}, fmt.Errorf("make a system: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(database, "status"), nil, 0o600); err != nil {
		return installation{}, fmt.Errorf("make a system: %w", err)
	}
	if _, err := command(ctx, folder, nil, []string{dpkg, "--root=" + folder, "--force-not-root", "--log=/dev/null", "-i", deb}); err != nil {
		return installation{}, err
	}
	return installedPackage(folder)
}

// installRPM has rpm install the package into a system of its own, which takes root.
func (t *trial) installRPM(ctx context.Context, folder string) (installation, error) {
	rpm, err := lookPath("rpm")
	if err != nil {
		return installation{}, err
	}
	if os.Geteuid() != 0 {
		return installation{}, fmt.Errorf("rpm for somebody who is not root %w", errMissing)
	}
	file, err := t.find("loopgrid-mcp_" + t.version + "_" + system() + ".rpm")
	if err != nil {
		return installation{}, err
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return installation{}, fmt.Errorf("make a system: %w", err)
	}
	if _, err := command(ctx, folder, nil, []string{rpm, "--root", folder, "--install", file}); err != nil {
		return installation{}, err
	}
	return installedPackage(folder)
}

// installedPackage is what a Linux package has put into a system. Its documents have to be there.
func installedPackage(folder string) (installation, error) {
	for _, document := range []string{"README.md", "CHANGELOG.md", "copyright", "THIRD-PARTY-NOTICES.txt", "loopgrid-mcp.cdx.json"} {
		if _, err := os.Stat(filepath.Join(folder, "usr", "share", "doc", "loopgrid-mcp", document)); err != nil {
			return installation{}, fmt.Errorf("look for the documents: %w", err)
		}
	}
	bin := filepath.Join(folder, "usr", "bin")
	return installation{program: []string{filepath.Join(bin, "loopgrid-mcp")}, doctor: []string{filepath.Join(bin, "loopgrid-mcp-doctor")}}, nil
}

// installForeign unpacks the archive for another platform and has an emulator run its program.
func (t *trial) installForeign(platform string, emulators ...string) func(context.Context, string) (installation, error) {
	return func(ctx context.Context, folder string) (installation, error) {
		emulator, err := lookPath(emulators...)
		if err != nil {
			return installation{}, err
		}
		ending, suffix := ".tar.gz", ""
		if strings.HasPrefix(platform, "windows") {
			ending, suffix = ".zip", ".exe"
		}
		archive, err := t.find("loopgrid-mcp_" + t.version + "_" + platform + ending)
		if err == nil {
			err = unpack(archive, folder)
		}
		if err != nil {
			return installation{}, err
		}
		program := []string{emulator, filepath.Join(folder, "loopgrid-mcp"+suffix)}
		environ := []string{"WINEDEBUG=-all", "WINEPREFIX=" + filepath.Join(folder, "wine")}
		// Wine 8 and older lack a DLL that every Go program needs.
		_, err = command(ctx, folder, environ, append(slices.Clip(program), "version"))
		if err != nil && strings.Contains(err.Error(), "bcryptprimitives.dll") {
			return installation{}, fmt.Errorf("a Wine that is new enough for Go %w", errMissing)
		}
		return installation{program: program, doctor: append(slices.Clip(program), "doctor"), environ: environ}, nil
	}
}

// installImage runs the container image. Its files belong to whoever runs it, so that the evidence can be looked at.
func (t *trial) installImage(engine, image string) func(context.Context, string) (installation, error) {
	return func(_ context.Context, folder string) (installation, error) {
		engine, err := lookPath(engine)
		if err == nil {
			engine, err = filepath.Abs(engine)
		}
		if err != nil {
			return installation{}, err
		}
		evidence := filepath.Join(folder, "evidence")
		if err := os.MkdirAll(evidence, 0o700); err != nil {
			return installation{}, fmt.Errorf("make a folder: %w", err)
		}
		run := []string{engine, "run", "-i", "--rm", "--network", "host", "--user", fmt.Sprintf("%d:%d", os.Geteuid(), os.Getegid()), "--volume", evidence + ":" + evidence}
		for _, setting := range []string{"LOOPGRID_BASE_URL", "LOOPGRID_EVIDENCE_DIR", "LOOPGRID_MCP_ENABLE_REVIEW_TOOL", "LOOPGRID_MCP_REVIEWER_ID"} {
			run = append(run, "--env", setting)
		}
		run = append(run, image)
		return installation{program: run, doctor: append(slices.Clip(run), "doctor")}, nil
	}
}

// system is the part of an archive's name that tells systems apart.
func system() string {
	if runtime.GOOS == "darwin" {
		return "darwin_all"
	}
	return runtime.GOOS + "_" + runtime.GOARCH
}
