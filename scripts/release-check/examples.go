package main

import (
	"errors"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// checkExample finds what a reader would paste in vain: a file below examples that
// does not parse, and a JSON block that does not, there or in the README.
func checkExample(file string, content []byte) []finding {
	if !strings.HasPrefix(file, "examples/") && file != readmeFile {
		return nil
	}

	switch path.Ext(file) {
	case ".md":
		return checkBlocks(file, content)
	case ".json":
		return parsed(file, 0, checkJSON(content))
	case ".go":
		_, err := parser.ParseFile(token.NewFileSet(), "", content, parser.SkipObjectResolution)

		return parsed(file, 0, err)
	case ".txt":
		return nil
	default:
		return []finding{{path: file, text: "no parser for this kind of file is in scripts/release-check: add one, so that the example is known to parse"}}
	}
}

// checkBlocks parses the JSON blocks of a Markdown file.
func checkBlocks(file string, content []byte) []finding {
	var found []finding
	blocks := regexp.MustCompile("(?ms)^[ \t]*```json[^\n]*\n(.*?)^[ \t]*```")
	for _, at := range blocks.FindAllSubmatchIndex(content, -1) {
		found = append(found, parsed(file, lineOf(content, at[2]), checkJSON(content[at[2]:at[3]]))...)
	}

	return found
}

// checkJSON accepts one JSON value without duplicate names.
func checkJSON(content []byte) error {
	if !jsontext.Value(content).IsValid() {
		return errors.New("this is not one JSON value")
	}

	return nil
}

func parsed(file string, line int, err error) []finding {
	if err == nil {
		return nil
	}

	return []finding{{file, line, "does not parse: " + err.Error()}}
}
