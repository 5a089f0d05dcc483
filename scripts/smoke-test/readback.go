package main

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/scripts/exact"
)

// readBack compares what the service holds of a decision, and what the evidence file discloses, with what was sent.
func (r *rest) readBack(ctx context.Context, to *report, id string) error {
	record, err := r.client.GetDecision(ctx, id)
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	if len(record.Events) != len(r.recorded) {
		return fmt.Errorf("read back: the decision has %d events, not %d", len(record.Events), len(r.recorded))
	}
	disclosed, err := r.disclosed(id)
	if err != nil {
		return fmt.Errorf("evidence: %w", err)
	}
	for i, sent := range r.recorded {
		event := record.Events[i]
		if event.EventID != sent.event.EventID {
			return fmt.Errorf("read back: event %d is %s, not %s", i+1, event.EventID, sent.event.EventID)
		}
		if err := exact.Same(event.Payload, sent.sent); err != nil {
			return fmt.Errorf("read back: the payload of %s: %w", event.EventType, err)
		}
		if err := exact.Same(disclosed[event.EventID], sent.sent); err != nil {
			return fmt.Errorf("evidence: the payload of %s in disclosures.jsonl: %w", event.EventType, err)
		}
	}
	to.line("PASS", "read back: %d events, state %s, every number as it was sent, in the evidence file too", len(record.Events), record.State)
	return nil
}

// disclosed returns the payloads in the evidence file, by event.
func (r *rest) disclosed(id string) (map[string]jsontext.Value, error) {
	archive, err := zip.OpenReader(filepath.Join(r.dir, id+"-evidence.zip"))
	if err != nil {
		return nil, fmt.Errorf("open the ZIP: %w", err)
	}
	defer archive.Close() //nolint:errcheck // Only read.
	manifest, err := entry(&archive.Reader, "manifest.json")
	if err != nil {
		return nil, err
	}
	if named := evidence.GetText(manifest, "decision_id"); named != id {
		return nil, fmt.Errorf("the manifest names decision %q, not %s", named, id)
	}
	lines, err := entry(&archive.Reader, "disclosures.jsonl")
	if err != nil {
		return nil, err
	}
	payloads := map[string]jsontext.Value{}
	for line := range strings.Lines(string(lines)) {
		payloads[evidence.GetText(jsontext.Value(line), "event_id")] = evidence.Get(jsontext.Value(line), "payload")
	}
	return payloads, nil
}

func entry(archive *zip.Reader, name string) (jsontext.Value, error) {
	file, err := archive.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open %s in the ZIP: %w", name, err)
	}
	content, err := io.ReadAll(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("read %s in the ZIP: %w", name, err)
	}
	return content, nil
}
