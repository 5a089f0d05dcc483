package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// eventLine is an event as a bundle has it.
func eventLine(seq int, kind, payload string) string {
	return fmt.Sprintf(`{"event_id": "evt_%d", "event_type": %q, "occurred_at": "2026-11-30T06:18:52.139325+00:00", "actor": {"type": "agent", "id": "caf\u00e9"}, "payload": %s, "seq": %d}`,
		seq, kind, payload, seq)
}

func TestSaveListsTheEventsWithoutTheirPayloads(t *testing.T) {
	t.Parallel()
	const listed = `{"seq":%d,"event_type":%q,"actor":{"type":"agent","id":"caf\u00e9"},"occurred_at":"2026-11-30T06:18:52.139325+00:00"}`
	evaluated := eventLine(2, "policy_evaluated", `{"disclosure": "encrypted"}`)
	for name, test := range map[string]struct {
		payloads bool
		events   string
		policy   string // the text of policy/policy.json
		want     string
		omitted  int
		result   string
	}{
		"one":               {false, eventLine(1, "decision_created", `{"secret": [1, {"decision": "x"}]}`), "", "[" + fmt.Sprintf(listed, 1, "decision_created") + "]", 0, ""},
		"none":              {false, "", "", "[]", 0, ""},
		"a hidden policy":   {false, evaluated, "", "[" + fmt.Sprintf(listed, 2, "policy_evaluated") + "]", 0, NotDisclosed},
		"a policy in clear": {false, eventLine(2, "policy_evaluated", `{"rule": {"decision": 1}, "decision": "blocked", "x": 1}`), "", "[" + fmt.Sprintf(listed, 2, "policy_evaluated") + "]", 0, "blocked"},
		"a disclosed one":   {true, evaluated, `{"decision": "auto_allowed"}`, "[" + fmt.Sprintf(listed, 2, "policy_evaluated") + "]", 0, "auto_allowed"},
		"proof only":        {true, evaluated, `{"proof_only": true}`, "[" + fmt.Sprintf(listed, 2, "policy_evaluated") + "]", 0, NotDisclosed},
		"broken":            {false, evaluated + "\n{", "", "", 0, ""},
		"not objects":       {false, evaluated + "\n[1]", "", "", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entries := withEntry(bundleEntries(testDecision, test.payloads), eventsName, test.events)
			if test.policy != "" {
				entries = withEntry(entries, policyFolder+"policy.json", test.policy)
			}
			got, err := keep(t, t.TempDir(), test.payloads, zipOf(t, entries...))
			require.NoError(t, err)
			assert.Equal(t, test.want, string(got.Events))
			assert.Equal(t, test.omitted, got.EventsOmitted)
			assert.Equal(t, test.result, got.PolicyResult)
		})
	}
}

func TestSaveListsAHundredEvents(t *testing.T) {
	t.Parallel()
	var lines []string
	for i := range 103 {
		lines = append(lines, eventLine(i, "telemetry_ingested", "{}"))
	}
	lines = append(lines, eventLine(103, "policy_evaluated", `{"decision": "blocked"}`))
	got, err := keep(t, t.TempDir(), false, zipOf(t, withEntry(bundleEntries(testDecision, false), eventsName, strings.Join(lines, "\n"))...))
	require.NoError(t, err)
	assert.Equal(t, 100, strings.Count(string(got.Events), `"seq"`))
	assert.Contains(t, string(got.Events), `"seq":99,`)
	assert.Equal(t, 4, got.EventsOmitted)
	assert.Equal(t, "blocked", got.PolicyResult, "an event that is not listed counts too")
}

func TestSaveReadsTheCoverage(t *testing.T) {
	t.Parallel()
	got, err := keep(t, t.TempDir(), false, wholeBundle(t, testDecision, false))
	require.NoError(t, err)
	assert.Equal(t, "{}", string(got.Coverage), "that of verification.json, where the manifest has none")
}

// What was not synced may be empty after a power cut, under a name that promises evidence.
func TestSaveSyncsBeforeTheFileHasItsName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synced := 0
	content := wholeBundle(t, testDecision, false)
	got, err := save(t.Context(), optionsFor(dir, false), bytes.NewReader(content), func(file *os.File) error {
		synced++
		assert.NoFileExists(t, filepath.Join(dir, testDecision+"-evidence.zip"))
		written, err := os.ReadFile(file.Name())
		require.NoError(t, err)
		assert.Equal(t, content, written)
		return file.Sync()
	})
	require.NoError(t, err)
	assert.Equal(t, 1, synced)
	require.NoError(t, os.Remove(got.Path))

	_, err = save(t.Context(), optionsFor(dir, false), bytes.NewReader(content), func(*os.File) error { return errors.New("input/output error") })
	require.ErrorIs(t, err, ErrDir)
	require.ErrorContains(t, err, "input/output error")
	assert.Empty(t, filesIn(t, dir))
}

// A directory that is moved, removed or replaced during the download gets nothing, and so does what stands in its place.
func TestSaveIntoADirectoryThatMoves(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not move a directory that is open")
	}
	for name, move := range map[string]func(t *testing.T, dir string){
		"moved": func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.Rename(dir, dir+"-moved"))
		},
		"replaced by another": func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.Rename(dir, dir+"-moved"))
			require.NoError(t, os.Mkdir(dir, 0o700))
		},
		"replaced by a link": func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.Mkdir(dir+"-other", 0o700))
			require.NoError(t, os.Rename(dir, dir+"-moved"))
			require.NoError(t, os.Symlink(dir+"-other", dir))
		},
		"replaced by a file": func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.Rename(dir, dir+"-moved"))
			require.NoError(t, os.WriteFile(dir, nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := t.TempDir()
			dir := filepath.Join(base, "evidence")
			var before map[string]string
			src := io.MultiReader(bytes.NewReader(wholeBundle(t, testDecision, false)), readerFunc(func([]byte) (int, error) {
				move(t, dir)
				before = map[string]string{}
				for path, content := range filesIn(t, base) {
					if !isTemporaryName(filepath.Base(path)) {
						before[path] = content
					}
				}
				return 0, io.EOF
			}))
			_, err := Save(t.Context(), optionsFor(dir, false), src)
			require.ErrorIs(t, err, ErrDir)
			require.ErrorContains(t, err, "was moved or replaced during the download")
			assert.Equal(t, before, filesIn(t, base))
		})
	}
}

func TestSaveRefusesADirectoryThatCannotBeNamed(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	_, err := Save(t.Context(), optionsFor(filepath.Join(base, "\xff"), false), bytes.NewReader(wholeBundle(t, testDecision, false)))
	require.ErrorIs(t, err, ErrDir)
	require.ErrorContains(t, err, "not valid UTF-8")
	assert.Empty(t, filesIn(t, base))
}
