// Command licenses checks the licences of every module that is built into the program, for every system it is released for: they
// have to be ones that a binary under Apache-2.0 may contain.
//
//	go run ./scripts/licenses [-notices FILE] [-sbom FILE -program FILE]
//
// -notices writes the licence texts, which go with the binary, into FILE. -sbom writes the bill of materials of a built program:
// its modules with versions and licences, in CycloneDX. It exits 1 for a licence that it does not know.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	mainPackage     = "./cmd/loopgrid-mcp"
	standardLibrary = "Go standard library"
)

func main() {
	notices := flag.String("notices", "", "write the licence texts to this `file`")
	sbom := flag.String("sbom", "", "write the bill of materials of -program to this `file`")
	program := flag.String("program", "", "the built program that -sbom describes, a `file`")
	flag.Parse()
	if err := run(os.Stdout, *notices, *sbom, *program); err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

// run prints a line per module, and writes the files that are named.
func run(out io.Writer, notices, sbom, program string) error {
	folders, err := modules()
	if err != nil {
		return err
	}
	licences := map[string]string{}
	var texts bytes.Buffer
	var unknown error
	for _, module := range slices.Sorted(maps.Keys(folders)) {
		text, err := licenseText(folders[module])
		if err != nil {
			return fmt.Errorf("%s: %w", module, err)
		}
		name := classify(text)
		if name == "" {
			unknown = errors.Join(unknown, fmt.Errorf("%s: its licence is not one of those that are allowed", module))
			name = "unknown"
		}
		licences[module] = name
		fmt.Fprintf(out, "%-12s %s\n", name, module)
		fmt.Fprintf(&texts, "%s\n%s\n\n%s\n\n", module, strings.Repeat("=", len(module)), bytes.TrimSpace(text))
	}
	if unknown != nil {
		return unknown
	}
	if notices != "" {
		if err := os.WriteFile(notices, texts.Bytes(), 0o644); err != nil { //nolint:gosec // it is published
			return fmt.Errorf("write the notices: %w", err)
		}
	}
	if sbom != "" {
		return writeSBOM(sbom, program, licences)
	}
	return nil
}

// modules returns the folder of every module in the program, on each system that it is released for.
func modules() (map[string]string, error) {
	folders := map[string]string{}
	for _, system := range []string{"linux", "darwin", "windows"} {
		list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", mainPackage) //nolint:noctx // ends by itself
		list.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		list.Stderr = os.Stderr
		listed, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("list the modules for %s: %w", system, err)
		}
		for line := range strings.Lines(string(listed)) {
			if module, folder, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
				folders[module] = folder
			}
		}
	}
	if len(folders) == 0 {
		return nil, errors.New("no modules found")
	}
	root, err := exec.Command("go", "env", "GOROOT").Output() //nolint:noctx // ends by itself
	if err != nil {
		return nil, fmt.Errorf("find the Go distribution: %w", err)
	}
	folders[standardLibrary] = strings.TrimSpace(string(root))
	return folders, nil
}

// licenseText returns the texts of the licence files of a module.
func licenseText(folder string) ([]byte, error) {
	var all []byte
	for _, pattern := range []string{"LICENSE*", "LICENCE*", "COPYING*", "NOTICE*"} {
		files, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return nil, fmt.Errorf("look for licence files: %w", err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("read the licence: %w", err)
			}
			all = append(append(all, text...), '\n')
		}
	}
	if len(all) == 0 {
		return nil, errors.New("it has no licence file")
	}
	return all, nil
}

// classify returns the SPDX identifier of a licence text, found by a phrase that no other licence has; empty for one that is not
// allowed.
func classify(text []byte) string {
	words := strings.ToLower(strings.Join(strings.Fields(string(text)), " "))
	for _, refused := range []string{"gnu general public license", "gnu lesser general public license", "gnu affero", "mozilla public license", "server side public license"} {
		if strings.Contains(words, refused) {
			return ""
		}
	}
	switch {
	case strings.Contains(words, "apache license, version 2.0"), strings.Contains(words, "apache license version 2.0"):
		return "Apache-2.0"
	case strings.Contains(words, "permission is hereby granted, free of charge, to any person obtaining a copy"):
		return "MIT"
	case strings.Contains(words, "redistribution and use in source and binary forms"):
		if strings.Contains(words, "neither the name of") {
			return "BSD-3-Clause"
		}
		return "BSD-2-Clause"
	default:
		return ""
	}
}
