package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/loopgridio/loopgrid-mcp/internal/bridge"
	"github.com/loopgridio/loopgrid-mcp/scripts/launch"
	"github.com/loopgridio/loopgrid-mcp/scripts/wire"
)

// checkSums compares the artefacts with checksums.txt.
func (t *trial) checkSums() error {
	content, err := os.ReadFile(filepath.Join(t.dist, "checksums.txt"))
	if err != nil {
		return fmt.Errorf("read the checksums, which make dist writes: %w", err)
	}
	for line := range strings.Lines(string(content)) {
		want, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			return fmt.Errorf("read the checksums: %q is not a sum and a name", line)
		}
		artefact, err := os.ReadFile(filepath.Join(t.dist, filepath.Base(name)))
		if err != nil {
			return fmt.Errorf("compare the checksums: %w", err)
		}
		if got := sha256.Sum256(artefact); hex.EncodeToString(got[:]) != want {
			return fmt.Errorf("compare the checksums: %s is not what was packed", name)
		}
	}
	return nil
}

// check tries an installed program in the folder.
func (t *trial) check(ctx context.Context, folder string, i installation) error {
	printed, err := command(ctx, folder, i.environ, append(slices.Clone(i.program), "version"))
	if err != nil {
		return err
	}
	if want := "loopgrid-mcp " + t.version + " "; !strings.HasPrefix(printed, want) || strings.Count(printed, "\n") != 1 {
		return fmt.Errorf("version prints %q, not one line that begins with %q", printed, want)
	}
	if i.doctor != nil {
		printed, err := command(ctx, folder, append(slices.Clone(i.environ), "LOOPGRID_BASE_URL="+t.service), i.doctor)
		if err != nil {
			return err
		}
		if want := "[OK] LoopGrid reachable: " + t.service; !strings.Contains(printed, want) {
			return fmt.Errorf("the doctor does not say %q but %q", want, printed)
		}
	}
	return serve(ctx, folder, i)
}

// serve begins a session, lists the tools and ends it.
func serve(ctx context.Context, folder string, i installation) (err error) {
	cmd := exec.CommandContext(ctx, i.program[0], i.program[1:]...)
	cmd.Dir = folder
	cmd.Env = launch.Environment(i.environ...)
	var log strings.Builder
	cmd.Stderr = &log
	launch.EndGently(cmd)
	session, err := wire.Start(cmd)
	if err != nil {
		return err
	}
	defer func() {
		_, ended := session.Close()
		if err = errors.Join(err, ended); err != nil && log.Len() > 0 {
			err = fmt.Errorf("%w\nIt logged:\n%s", err, strings.TrimSpace(log.String()))
		}
	}()
	if err := session.Initialize("2025-11-25"); err != nil {
		return err
	}
	answer, err := session.Call("tools/list", "{}")
	if err != nil {
		return err
	}
	var list struct {
		Result struct {
			Tools []struct {
				Name string `json:"name"`
			} `json:"tools"`
		} `json:"result"`
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		return fmt.Errorf("read tools/list: %w", err)
	}
	var names []string
	for _, tool := range list.Result.Tools {
		names = append(names, tool.Name)
	}
	want := i.tools
	if want == nil {
		for _, tool := range bridge.Document() {
			want = append(want, tool.Name)
		}
	}
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		return fmt.Errorf("tools/list has %q, not %q", names, want)
	}
	return nil
}
