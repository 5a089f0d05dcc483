package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/cli"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Permission is hereby granted, free of charge,\nto any person obtaining a copy of this software": "MIT",
		"Redistribution and use in source and binary forms, with or without":                             "BSD-2-Clause",
		"Redistribution and use in source and binary forms. Neither the name of Google Inc.":             "BSD-3-Clause",
		"Licensed under the Apache License, Version 2.0 (the \"License\")":                               "Apache-2.0",
		"                      Apache License\n          Version 2.0, January 2004":                      "Apache-2.0",
		"GNU GENERAL PUBLIC LICENSE Version 3. Redistribution and use in source and binary forms":        "",
		"All rights reserved.": "",
		"":                     "",
	} {
		assert.Equal(t, want, classify([]byte(text)), text)
	}
}

func TestAModuleWithoutALicence(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	_, err := licenseText(folder)
	require.ErrorContains(t, err, "no licence file")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "LICENSE.md"), []byte("a"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "NOTICE"), []byte("b"), 0o644))
	text, err := licenseText(folder)
	require.NoError(t, err)
	assert.Equal(t, "a\nb\n", string(text))
}

func TestThisProgram(t *testing.T) {
	t.Chdir("../..")
	notices := filepath.Join(t.TempDir(), "notices")
	var out bytes.Buffer
	require.NoError(t, run(&out, notices, "", ""))
	assert.Contains(t, out.String(), "github.com/modelcontextprotocol/go-sdk v")
	assert.NotContains(t, out.String(), "testify", "tests are not part of the program")
	text, err := os.ReadFile(notices)
	require.NoError(t, err)
	assert.Contains(t, string(text), "golang.org/x/sys")
}

// This test is a program with modules, too.
func TestWriteSBOM(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	require.NoError(t, err)
	info, err := buildinfo.ReadFile(program)
	require.NoError(t, err)
	licences := map[string]string{standardLibrary: "BSD-3-Clause"}
	for _, module := range info.Deps {
		licences[module.Path+" "+module.Version] = "MIT"
	}
	path := filepath.Join(t.TempDir(), "bom.json")
	require.NoError(t, writeSBOM(path, program, licences))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var b bom
	require.NoError(t, json.Unmarshal(text, &b))
	content, err := os.ReadFile(program)
	require.NoError(t, err)
	digest := sha256.Sum256(content)
	assert.Equal(t, []hash{{"SHA-256", hex.EncodeToString(digest[:])}}, b.Metadata.Component.Hashes)
	assert.Equal(t, "pkg:golang/github.com/loopgridio/loopgrid-mcp@"+cli.Version, b.Metadata.Component.PURL)
	require.Len(t, b.Components, len(info.Deps)+1)
	assert.Equal(t, strings.TrimPrefix(runtime.Version(), "go"), b.Components[0].Version)
	for i, module := range info.Deps {
		c := b.Components[i+1]
		assert.Equal(t, component{"library", c.Ref, module.Path, module.Version, nil, []bomLicense{{licenseID{"MIT"}}}, c.Ref}, c)
		assert.Equal(t, "pkg:golang/"+module.Path+"@"+module.Version, c.PURL)
		assert.Contains(t, b.Dependencies[0].On, c.Ref)
	}

	delete(licences, info.Deps[0].Path+" "+info.Deps[0].Version)
	require.ErrorContains(t, writeSBOM(path, program, licences), "go list does not know "+info.Deps[0].Path)
	require.ErrorContains(t, writeSBOM(path, path, licences), "read the modules")
}
