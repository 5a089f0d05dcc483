package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// linked is what a link of a host asks it to start.
type linked struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
}

// followLinks starts what the links in examples/README.md name, as Cursor, VS Code and Goose do after a click.
func (t *trial) followLinks(ctx context.Context, folder string) error {
	archive, err := t.installArchive(ctx, folder)
	if err != nil {
		return err
	}
	readme, err := os.ReadFile(filepath.Join(folder, "examples", "README.md"))
	if err != nil {
		return fmt.Errorf("read the examples: %w", err)
	}
	for scheme, decode := range map[string]func(string) (linked, error){"cursor://": decodeCursor, "vscode:": decodeVSCode, "goose://": decodeGoose} {
		link := regexp.MustCompile(`(?m)^` + scheme + `\S+$`).FindString(string(readme))
		if link == "" {
			return fmt.Errorf("the examples have no link that begins with %s", scheme)
		}
		l, err := decode(link)
		if err != nil {
			return fmt.Errorf("decode %s: %w", link, err)
		}
		i := installation{program: append([]string{l.Command}, l.Args...)}
		switch {
		case strings.Contains(l.Command, "/loopgrid-mcp"):
			i.program[0] = archive.program[0] // Where a reader's program lies is not where this one does.
		case l.Command == "npx":
			npx, err := t.installNPX(ctx, filepath.Join(folder, "npx"))
			if err != nil {
				return err
			}
			i.program[0], i.environ = npx.program[0], npx.environ
		default:
			return fmt.Errorf("%s starts %q, which nobody has", scheme, l.Command)
		}
		for name, value := range l.Env {
			i.environ = append(i.environ, name+"="+value)
		}
		if err := t.serve(ctx, folder, i); err != nil {
			return fmt.Errorf("%s: %w", scheme, err)
		}
	}
	return nil
}

// decodeCursor reads a link of Cursor: JSON in base64.
func decodeCursor(link string) (linked, error) {
	u, err := url.Parse(link)
	if err != nil {
		return linked{}, err
	}
	config, err := base64.StdEncoding.DecodeString(u.Query().Get("config"))
	if err != nil {
		return linked{}, err
	}
	var l linked
	return l, json.Unmarshal(config, &l)
}

// decodeVSCode reads a link of VS Code: escaped JSON.
func decodeVSCode(link string) (linked, error) {
	config, err := url.QueryUnescape(strings.TrimPrefix(link, "vscode:mcp/install?"))
	if err != nil {
		return linked{}, err
	}
	var l linked
	return l, json.Unmarshal([]byte(config), &l)
}

// decodeGoose reads a link of Goose: the command and its arguments one by one. It asks a person for the variables.
func decodeGoose(link string) (linked, error) {
	u, err := url.Parse(link)
	if err != nil {
		return linked{}, err
	}
	return linked{Command: u.Query().Get("cmd"), Args: u.Query()["arg"]}, nil
}
