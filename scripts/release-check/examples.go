package main

import (
	"errors"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// checkExample finds what a reader would paste in vain: a file below examples that
// does not parse, and a block of JSON, TOML or YAML that does not, there or in the README.
func checkExample(file string, content []byte) []finding {
	if !strings.HasPrefix(file, "examples/") && file != readmeFile {
		return nil
	}

	switch path.Ext(file) {
	case ".md":
		return checkBlocks(file, content)
	case ".json", ".toml", ".yaml":
		return parsed(file, 0, checkFormat(path.Ext(file)[1:], content))
	case ".go":
		_, err := parser.ParseFile(token.NewFileSet(), "", content, parser.SkipObjectResolution)

		return parsed(file, 0, err)
	case ".txt":
		return nil
	default:
		return []finding{{path: file, text: "no parser for this kind of file is in scripts/release-check: add one, so that the example is known to parse"}}
	}
}

// checkBlocks parses the blocks of a Markdown file that are in a format of hosts.
func checkBlocks(file string, content []byte) []finding {
	var found []finding
	blocks := regexp.MustCompile("(?ms)^([ \t]*)```(json|toml|yaml)\\b[^\n]*\n(.*?)^[ \t]*```")
	for _, at := range blocks.FindAllSubmatchIndex(content, -1) {
		indent, format, block := content[at[2]:at[3]], content[at[4]:at[5]], content[at[6]:at[7]]
		// In a list a block is indented, and YAML minds.
		block = regexp.MustCompile("(?m)^"+string(indent)).ReplaceAll(block, nil)
		found = append(found, parsed(file, lineOf(content, at[6]), checkFormat(string(format), block))...)
	}

	return found
}

// checkFormat accepts what a reader of the format accepts, without duplicate names.
func checkFormat(format string, content []byte) error {
	switch format {
	case "json":
		return checkJSON(content)
	case "toml":
		return toml.Unmarshal(content, new(map[string]any))
	default:
		return yaml.Unmarshal(content, new(map[string]any))
	}
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
