package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// inspect has the Inspector list the tools, with its check of their schemas, and call one, in both eras of the protocol.
func inspect(ctx context.Context, t *trial) (string, error) {
	var all []string
	for _, era := range []struct{ name, begins string }{{"legacy", "initialize"}, {"modern", "server/discover"}} {
		id := ""
		methods := [][]string{{"tools/list", "--strict"}}
		for _, step := range t.model.plan {
			methods = append(methods, []string{"tools/call", "--tool-name", "loopgrid." + step.tool, "--tool-args-json", step.arguments})
		}
		for _, method := range methods {
			for i := range method {
				method[i] = strings.ReplaceAll(method[i], "{id}", id)
			}
			args := []string{
				"--cli", "-e", "LOOPGRID_BASE_URL=" + t.ledgerURL, "-e", "LOOPGRID_SERVICE_KEY=" + t.key, t.tapped,
				"--protocol-era", era.name, "--method",
			}
			cmd := t.command(ctx, filepath.Join(t.bin(), t.program), append(args, method...)...)
			out, err := runGroup(cmd)
			if err != nil {
				return "", fmt.Errorf("%s, %s: %w\n%.4000s", era.name, method[0], err, bytes.TrimSpace(out))
			}
			if id == "" {
				id = regexp.MustCompile(`dec_[0-9a-f]{24}`).FindString(string(out))
			}
			if method[0] == "tools/list" {
				// What it has to say of the schemas stands before or after the list.
				if !json.Valid(out) {
					return "", fmt.Errorf("%s: the Inspector does not print the list alone: %.4000s", era.name, out)
				}
			}
		}
		said, err := t.check()
		if err != nil {
			return "", fmt.Errorf("%s: %w", era.name, err)
		}
		if !strings.Contains(said, era.begins) {
			return "", fmt.Errorf("%s: the session did not begin with %s: %s", era.name, era.begins, said)
		}
		if err := forget(t.tapped); err != nil {
			return "", err
		}
		all = append(all, era.name+": "+said)
	}
	return strings.Join(all, "; "), nil
}

// forget deletes the sessions that a tap wrote down.
func forget(tapped string) error {
	for _, pattern := range []string{"*.in", "*.out"} {
		files, err := filepath.Glob(filepath.Join(filepath.Dir(tapped), pattern))
		if err != nil {
			return fmt.Errorf("look for the sessions: %w", err)
		}
		for _, file := range files {
			if err := os.Remove(file); err != nil {
				return fmt.Errorf("forget a session: %w", err)
			}
		}
	}
	return nil
}
