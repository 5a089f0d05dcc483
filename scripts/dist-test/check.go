package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/loopgridio/loopgrid-mcp/examples/story"
	"github.com/loopgridio/loopgrid-mcp/scripts/launch"
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
	return t.serve(ctx, folder, i)
}

// serve walks the story of a refund with the program, as a host that shows no forms.
func (t *trial) serve(ctx context.Context, folder string, i installation) (err error) {
	cmd := exec.CommandContext(ctx, i.program[0], i.program[1:]...)
	cmd.Dir = folder
	cmd.Env = launch.Environment(append(slices.Clone(i.environ), "LOOPGRID_BASE_URL="+t.service, "LOOPGRID_EVIDENCE_DIR="+filepath.Join(folder, "evidence"),
		"LOOPGRID_MCP_ENABLE_REVIEW_TOOL=true", "LOOPGRID_MCP_REVIEWER_ID=dist-test")...)
	var log strings.Builder
	cmd.Stderr = &log
	launch.EndGently(cmd)
	defer func() {
		if err != nil && log.Len() > 0 {
			err = fmt.Errorf("%w\nIt logged:\n%s", err, strings.TrimSpace(log.String()))
		}
	}()
	host, err := story.Connect(ctx, cmd, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, host.Close()) }()
	names, err := host.Tools(ctx)
	if i.tools == nil && err != nil {
		return err
	}
	if i.tools != nil && !slices.Equal(slices.Sorted(slices.Values(names)), slices.Sorted(slices.Values(i.tools))) {
		return fmt.Errorf("tools/list has %q, and the manifest %q", names, i.tools)
	}
	return (&story.Story{Caller: host, DecisionType: "dist_test", Agent: "dist-test", Confirmation: "host"}).Walk(ctx, silent{})
}

// silent tells nothing.
type silent struct{}

// Begin does nothing.
func (silent) Begin(story.Step) {}

// End does nothing.
func (silent) End(story.Step, story.Told) {}
