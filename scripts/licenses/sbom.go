package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/loopgridio/loopgrid-mcp/internal/cli"
)

// bom is a bill of materials in the JSON form of CycloneDX 1.6. It carries no date and no serial number, so that the same program
// always gives the same bytes.
type bom struct {
	Format       string      `json:"bomFormat"`
	Spec         string      `json:"specVersion"`
	Version      int         `json:"version"`
	Metadata     bomMetadata `json:"metadata"`
	Components   []component `json:"components"`
	Dependencies []dependsOn `json:"dependencies"`
}

type bomMetadata struct {
	Component component `json:"component"`
}

type component struct {
	Type     string       `json:"type"`
	Ref      string       `json:"bom-ref"`
	Name     string       `json:"name"`
	Version  string       `json:"version"`
	Hashes   []hash       `json:"hashes,omitempty"`
	Licenses []bomLicense `json:"licenses"`
	PURL     string       `json:"purl"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type bomLicense struct {
	License licenseID `json:"license"`
}

type licenseID struct {
	ID string `json:"id"`
}

type dependsOn struct {
	Ref string   `json:"ref"`
	On  []string `json:"dependsOn"`
}

// writeSBOM writes the bill of materials of a built program. The modules and the toolchain are those the linker wrote into the
// program; their licences, by "path version", come from the module cache.
func writeSBOM(path, program string, licences map[string]string) error {
	content, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("read the program: %w", err)
	}
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("read the modules of %s: %w", program, err)
	}
	digest := sha256.Sum256(content)
	main := newComponent("application", info.Main.Path, cli.Version, "Apache-2.0")
	main.Hashes = []hash{{"SHA-256", hex.EncodeToString(digest[:])}}

	all := []component{newComponent("library", "std", strings.TrimPrefix(info.GoVersion, "go"), licences[standardLibrary])}
	for _, module := range info.Deps {
		licence, ok := licences[module.Path+" "+module.Version]
		if !ok {
			return fmt.Errorf("describe %s: go list does not know %s %s", program, module.Path, module.Version)
		}
		all = append(all, newComponent("library", module.Path, module.Version, licence))
	}
	needs := dependsOn{Ref: main.Ref}
	for _, c := range all {
		needs.On = append(needs.On, c.Ref)
	}
	text, err := json.MarshalIndent(bom{"CycloneDX", "1.6", 1, bomMetadata{main}, all, []dependsOn{needs}}, "", "  ")
	if err != nil {
		return fmt.Errorf("write the bill of materials: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil { //nolint:gosec // It is published.
		return fmt.Errorf("write the bill of materials: %w", err)
	}
	return nil
}

func newComponent(kind, name, version, licence string) component {
	purl := "pkg:golang/" + name + "@" + version
	return component{Type: kind, Ref: purl, Name: name, Version: version, Licenses: []bomLicense{{licenseID{licence}}}, PURL: purl}
}
