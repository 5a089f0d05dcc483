package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Permission is hereby granted, free of charge,\nto any person obtaining a copy of this software": "MIT",
		"Redistribution and use in source and binary forms, with or without":                             "BSD",
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
	require.NoError(t, run(&out, notices))
	assert.Contains(t, out.String(), "github.com/modelcontextprotocol/go-sdk v")
	assert.NotContains(t, out.String(), "testify", "tests are not part of the program")
	text, err := os.ReadFile(notices)
	require.NoError(t, err)
	assert.Contains(t, string(text), "golang.org/x/sys")
}
