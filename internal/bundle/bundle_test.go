package bundle

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const testDecision = "dec_0123456789abcdef01234567"

// zipEntry is one file of a ZIP that a test builds.
type zipEntry struct{ name, text string }

const (
	testIntegrity = `{"valid": true, "checked_events": 9007199254740993, "failures": [], "key_id": "ed25519:\u00e9\/"}`
	testLifecycle = "{\n  \"state\": \"evidence_complete\",\n  \"expected_next\": []\n}"
)

// bundleEntries are the entries of a small bundle as LoopGrid exports it.
func bundleEntries(decisionID string, payloads bool) []zipEntry {
	entries := []zipEntry{
		{"manifest.json", fmt.Sprintf(`{"bundle_schema": "loopgrid/evidence-bundle/2", "decision_id": %q, "payloads_included": %t,
  "lifecycle": {"state": "from the manifest"}, "integrity": {"valid": "from the manifest"}}`, decisionID, payloads)},
		{"events.jsonl", strings.Repeat(`{"event_id": "evt_1"}`+"\n", 50)},
		{"chain-witness.jsonl", ""},
		{"verification.json", `{"decision_id": "` + decisionID + `", "integrity": ` + testIntegrity + `, "coverage": {}}`},
		{"lifecycle.json", testLifecycle},
	}
	if payloads {
		entries = append(entries, zipEntry{"disclosures.jsonl", `{"event_id": "evt_1", "payload": {}}`})
	}
	return append(entries, zipEntry{attestationName, attested})
}

// attested stands for an attestation that lists the other entries of its ZIP.
const attested = "(attested)"

// withEntry replaces the text of an entry, or adds the entry at the end.
func withEntry(entries []zipEntry, name, text string) []zipEntry {
	for i := range entries {
		if entries[i].name == name {
			entries[i].text = text
			return entries
		}
	}
	last := entries[len(entries)-1] // the attestation
	return append(entries[:len(entries)-1], zipEntry{name, text}, last)
}

func withoutEntry(entries []zipEntry, name string) []zipEntry {
	kept := entries[:0]
	for _, e := range entries {
		if e.name != name {
			kept = append(kept, e)
		}
	}
	return kept
}

func zipOf(tb testing.TB, entries ...zipEntry) []byte {
	tb.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, e := range entries {
		if e.text == attested {
			e.text = attestationOf(entries)
		}
		method := zip.Deflate
		if e.text == "" || e.name == "large" {
			method = zip.Store
		}
		f, err := w.CreateHeader(&zip.FileHeader{Name: e.name, Method: method})
		require.NoError(tb, err)
		_, err = io.WriteString(f, e.text)
		require.NoError(tb, err)
	}
	require.NoError(tb, w.Close())
	return out.Bytes()
}

func attestationOf(entries []zipEntry) string {
	files := map[string]string{}
	for _, e := range entries {
		if e.name != attestationName {
			sum := sha256.Sum256([]byte(e.text))
			files[e.name] = hex.EncodeToString(sum[:])
		}
	}
	text, _ := json.Marshal(map[string]any{"files": files}) // of strings
	return string(text)
}

func wholeBundle(tb testing.TB, decisionID string, payloads bool) []byte {
	tb.Helper()
	return zipOf(tb, bundleEntries(decisionID, payloads)...)
}

// filesIn lists what is below dir but directories: path to content, or to the target of a link.
func filesIn(tb testing.TB, dir string) map[string]string {
	tb.Helper()
	files := map[string]string{}
	require.NoError(tb, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			files[path] = "-> " + target
			return err
		case entry.IsDir():
			return nil
		default:
			content, err := os.ReadFile(path) //nolint:gosec // below the test's own directory
			files[path] = string(content)
			return err
		}
	}))
	return files
}

func symlink(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Skipf("this system makes no symbolic links here: %v", err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Skip("this system makes something else of symbolic links") // Wine
	}
}

// optionsFor has the limit of the operator's default.
func optionsFor(dir string, payloads bool) Options {
	return Options{Dir: dir, DecisionID: testDecision, Payloads: payloads, MaxBytes: 50 << 20}
}

func keep(t *testing.T, dir string, payloads bool, content []byte) (Saved, error) {
	t.Helper()
	return Save(t.Context(), optionsFor(dir, payloads), bytes.NewReader(content))
}

func TestSaveKeepsTheBytesAndReadsWhatTheySay(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		payloads bool
		file     string
	}{
		{false, testDecision + "-evidence.zip"},
		{true, testDecision + "-evidence-payloads.zip"},
	} {
		t.Run(test.file, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "missing", "evidence")
			content := wholeBundle(t, testDecision, test.payloads)

			// A byte at a time: no read of the source is like another.
			got, err := Save(t.Context(), optionsFor(dir, test.payloads), iotest.OneByteReader(bytes.NewReader(content)))

			require.NoError(t, err)
			sum := sha256.Sum256(content)
			assert.Equal(t, filepath.Join(dir, test.file), got.Path)
			assert.Equal(t, int64(len(content)), got.Size)
			assert.Equal(t, hex.EncodeToString(sum[:]), got.SHA256)
			assert.Equal(t, `{"valid":true,"checked_events":9007199254740993,"failures":[],"key_id":"ed25519:\u00e9\/"}`,
				string(got.Verification), "numbers and strings keep their spelling")
			assert.Equal(t, `{"state":"evidence_complete","expected_next":[]}`, string(got.Lifecycle))
			assert.Equal(t, map[string]string{got.Path: string(content)}, filesIn(t, dir), "the file alone, byte for byte")
			if runtime.GOOS != "windows" { // where modes mean nothing
				for path, mode := range map[string]fs.FileMode{
					got.Path: 0o600, dir: fs.ModeDir | 0o700, filepath.Dir(dir): fs.ModeDir | 0o700,
				} {
					info, err := os.Stat(path)
					require.NoError(t, err)
					assert.Equal(t, mode, info.Mode(), path)
				}
			}
		})
	}
}

func TestSaveReplacesTheOldFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, testDecision+"-evidence.zip")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o644))
	content := wholeBundle(t, testDecision, false)

	_, err := keep(t, dir, false, content)

	require.NoError(t, err)
	assert.Equal(t, map[string]string{path: string(content)}, filesIn(t, dir))
	if runtime.GOOS != "windows" {
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, fs.FileMode(0o600), info.Mode())
	}
}

// A redacted or proof_only decision discloses nothing, and its manifest says payloads_included as it was asked all the same.
func TestSaveAcceptsABundleThatHasNothingToDisclose(t *testing.T) {
	t.Parallel()
	entries := withoutEntry(bundleEntries(testDecision, true), "disclosures.jsonl")
	got, err := keep(t, t.TempDir(), true, zipOf(t, entries...))
	require.NoError(t, err)
	assert.FileExists(t, got.Path)
}

func TestFileName(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		id       string
		payloads bool
		want     string
	}{
		{"dec_1", false, "dec_1-evidence.zip"},
		{"dec_1", true, "dec_1-evidence-payloads.zip"},
		{"Dec_1", false, "Dec_1-72b917a4-evidence.zip"},
		{"DEC_1", false, "DEC_1-c5d98a41-evidence.zip"},
		{"DEC_1", true, "DEC_1-c5d98a41-evidence-payloads.zip"},
		// Windows gives CON and CON.zip to a device, but not CON-.
		{"CON", false, "CON-a3dbc4b6-evidence.zip"},
		{"nul", false, "nul-evidence.zip"},
		{"-", false, "--evidence.zip"},
	} {
		got, err := fileName(test.id, test.payloads)
		require.NoError(t, err)
		assert.Equal(t, test.want, got)
	}
}

func TestSaveRefusesAnIDThatIsNoFileName(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", ".", "..", "../x", "a/b", `a\b`, "a:b", "a b", "a\x00b", "ä", "/etc/x", "x\n"} {
		base := t.TempDir()
		_, err := Save(t.Context(), Options{Dir: filepath.Join(base, "dir"), DecisionID: id, MaxBytes: 1 << 20}, iotest.ErrReader(errors.New("was read")))
		require.ErrorContains(t, err, "is no decision id", "%q", id)
		left, err := os.ReadDir(base)
		require.NoError(t, err)
		assert.Empty(t, left, "%q", id)
	}
}

func TestSaveOnHostileFileSystems(t *testing.T) {
	t.Parallel()
	const file = testDecision + "-evidence.zip"
	for _, test := range []struct {
		name    string
		prepare func(t *testing.T, base string) (dir string)
		want    error  // nil: the bundle is saved
		text    string // part of the error
	}{
		{"the directory is a file", func(t *testing.T, base string) string {
			t.Helper()
			require.NoError(t, os.WriteFile(filepath.Join(base, "dir"), []byte("mine"), 0o600))
			return filepath.Join(base, "dir")
		}, ErrDir, "dir"},
		{"a parent is a file", func(t *testing.T, base string) string {
			t.Helper()
			require.NoError(t, os.WriteFile(filepath.Join(base, "parent"), []byte("mine"), 0o600))
			return filepath.Join(base, "parent", "a", "dir")
		}, ErrDir, "parent"},
		{"the directory is a link", func(t *testing.T, base string) string {
			t.Helper()
			require.NoError(t, os.Mkdir(filepath.Join(base, "real"), 0o700))
			symlink(t, filepath.Join(base, "real"), filepath.Join(base, "dir"))
			return filepath.Join(base, "dir")
		}, nil, ""},
		{"the directory is below a link", func(t *testing.T, base string) string {
			t.Helper()
			require.NoError(t, os.Mkdir(filepath.Join(base, "real"), 0o700))
			symlink(t, "real", filepath.Join(base, "link"))
			return filepath.Join(base, "link", "a", "dir")
		}, nil, ""},
		{"the directory is a link to nowhere", func(t *testing.T, base string) string {
			t.Helper()
			symlink(t, filepath.Join(base, "nowhere"), filepath.Join(base, "dir"))
			return filepath.Join(base, "dir")
		}, ErrDir, "dir"},
		{"the directory is a link to itself", func(t *testing.T, base string) string {
			t.Helper()
			symlink(t, filepath.Join(base, "dir"), filepath.Join(base, "dir"))
			return filepath.Join(base, "dir")
		}, ErrDir, "dir"},
		{"the target is a link to a file", func(t *testing.T, base string) string {
			t.Helper()
			require.NoError(t, os.WriteFile(filepath.Join(base, "precious"), []byte("mine"), 0o600))
			symlink(t, filepath.Join(base, "precious"), filepath.Join(base, file))
			return base
		}, ErrTarget, file + " is a symbolic link"},
		{"the target is a link to nowhere", func(t *testing.T, base string) string {
			t.Helper()
			symlink(t, filepath.Join(base, "nowhere"), filepath.Join(base, file))
			return base
		}, ErrTarget, file + " is a symbolic link"},
		{"the target is a directory", func(t *testing.T, base string) string {
			t.Helper()
			require.NoError(t, os.Mkdir(filepath.Join(base, file), 0o700))
			return base
		}, ErrTarget, file + " is a directory"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			base := t.TempDir()
			dir := test.prepare(t, base)
			before := filesIn(t, base)
			content := wholeBundle(t, testDecision, false)

			src := bytes.NewReader(content)
			got, err := Save(t.Context(), optionsFor(dir, false), src)

			if test.want == nil {
				require.NoError(t, err)
				kept, err := os.ReadFile(got.Path)
				require.NoError(t, err)
				assert.Equal(t, content, kept)
				return
			}
			require.ErrorIs(t, err, test.want)
			require.ErrorContains(t, err, test.text)
			assert.NotContains(t, err.Error(), "\n")
			assert.Equal(t, before, filesIn(t, base), "nothing is new, nothing is changed")
			assert.Equal(t, len(content), src.Len(), "nothing was fetched for nothing")
			assert.Zero(t, got)
		})
	}
}

// What takes the name of the file while the bundle comes is left alone as well.
func TestSaveLeavesATargetThatAppearsMeanwhile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	precious := filepath.Join(t.TempDir(), "precious")
	require.NoError(t, os.WriteFile(precious, []byte("mine"), 0o600))
	path := filepath.Join(dir, testDecision+"-evidence.zip")
	content := wholeBundle(t, testDecision, false)
	src := io.MultiReader(bytes.NewReader(content), readerFunc(func([]byte) (int, error) {
		symlink(t, precious, path)
		return 0, io.EOF
	}))

	_, err := Save(t.Context(), optionsFor(dir, false), src)

	require.ErrorIs(t, err, ErrTarget)
	assert.Equal(t, map[string]string{path: "-> " + precious}, filesIn(t, dir))
	assert.Equal(t, map[string]string{precious: "mine"}, filesIn(t, filepath.Dir(precious)))
}

func TestCreateTemporaryFollowsNoLink(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	precious := filepath.Join(base, "precious")
	require.NoError(t, os.WriteFile(precious, []byte("mine"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(base, "dir"), 0o700))
	for name, target := range map[string]string{"out": precious, "nowhere": "gone", "in": "other"} {
		symlink(t, target, filepath.Join(base, "dir", name))
	}
	require.NoError(t, os.WriteFile(filepath.Join(base, "dir", "file"), []byte("mine"), 0o600))
	before := filesIn(t, base)

	d, err := openFolder(filepath.Join(base, "dir"))
	require.NoError(t, err)
	defer d.close()
	for _, name := range []string{"out", "nowhere", "in", "file"} {
		_, err := d.create(name)
		require.ErrorIs(t, err, fs.ErrExist, name)
		require.ErrorIs(t, err, ErrDir, name)
		require.ErrorContains(t, err, filepath.Join(base, "dir"), name)
	}

	assert.Equal(t, before, filesIn(t, base))
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// Whatever goes wrong while the bytes come: nothing new, and the old file as it was.
func TestSaveKeepsNothingOfABrokenSource(t *testing.T) {
	t.Parallel()
	content := wholeBundle(t, testDecision, false)
	half := func() io.Reader { return bytes.NewReader(content[:len(content)/2]) }
	errLost := errors.New("connection lost")
	for _, test := range []struct {
		name string
		run  func(t *testing.T, dir string)
	}{
		{"an error at once", func(t *testing.T, dir string) {
			t.Helper()
			_, err := Save(t.Context(), optionsFor(dir, false), iotest.ErrReader(errLost))
			require.ErrorIs(t, err, errLost)
		}},
		{"an error in the middle", func(t *testing.T, dir string) {
			t.Helper()
			src := io.MultiReader(half(), iotest.ErrReader(fmt.Errorf("read: %w", errLost)))
			_, err := Save(t.Context(), optionsFor(dir, false), src)
			require.ErrorIs(t, err, errLost)
		}},
		{"an error with the last bytes", func(t *testing.T, dir string) {
			t.Helper()
			src := bytes.NewReader(content)
			_, err := Save(t.Context(), optionsFor(dir, false), readerFunc(func(p []byte) (int, error) {
				n, _ := src.Read(p)
				return n, errLost
			}))
			require.ErrorIs(t, err, errLost)
		}},
		{"an end that is an error", func(t *testing.T, dir string) { // as net/http tells of a body that ends early
			t.Helper()
			src := io.MultiReader(bytes.NewReader(content), iotest.ErrReader(io.ErrUnexpectedEOF))
			_, err := Save(t.Context(), optionsFor(dir, false), src)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		}},
		{"a wrapped end", func(t *testing.T, dir string) {
			t.Helper()
			src := io.MultiReader(bytes.NewReader(content), iotest.ErrReader(fmt.Errorf("cut off: %w", io.EOF)))
			_, err := Save(t.Context(), optionsFor(dir, false), src)
			require.ErrorContains(t, err, "cut off")
		}},
		{"cancelled before", func(t *testing.T, dir string) {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := Save(ctx, optionsFor(dir, false), bytes.NewReader(content))
			require.ErrorIs(t, err, context.Canceled)
		}},
		{"cancelled in the middle", func(t *testing.T, dir string) {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			src := io.MultiReader(half(), readerFunc(func(p []byte) (int, error) {
				cancel()
				return copy(p, "more"), nil // for ever, were it not for ctx
			}))
			_, err := Save(ctx, optionsFor(dir, false), src)
			require.ErrorIs(t, err, context.Canceled)
		}},
		{"cancelled with the last byte", func(t *testing.T, dir string) {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			src := io.MultiReader(bytes.NewReader(content), readerFunc(func([]byte) (int, error) {
				cancel()
				return 0, io.EOF
			}))
			_, err := Save(ctx, optionsFor(dir, false), src)
			require.ErrorIs(t, err, context.Canceled)
		}},
		{"a panic in the middle", func(t *testing.T, dir string) {
			t.Helper()
			src := io.MultiReader(half(), readerFunc(func([]byte) (int, error) { panic("boom") }))
			assert.PanicsWithValue(t, "boom", func() {
				_, _ = Save(t.Context(), optionsFor(dir, false), src)
			})
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			fresh, used := t.TempDir(), t.TempDir()
			old := filepath.Join(used, testDecision+"-evidence.zip")
			require.NoError(t, os.WriteFile(old, []byte("old"), 0o600))

			test.run(t, fresh)
			test.run(t, used)

			assert.Empty(t, filesIn(t, fresh))
			assert.Equal(t, map[string]string{old: "old"}, filesIn(t, used))
		})
	}
}

func TestSaveRefusesWhatIsNotTheBundle(t *testing.T) {
	t.Parallel()
	whole := wholeBundle(t, testDecision, false)
	manifest := func(text string) []byte {
		return zipOf(t, withEntry(bundleEntries(testDecision, false), "manifest.json", text)...)
	}
	with := func(name, text string) []byte {
		return zipOf(t, withEntry(bundleEntries(testDecision, false), name, text)...)
	}
	// The same bytes with one of them changed at the first place of what, moved by offset.
	damaged := func(zipped []byte, what string, offset int) []byte {
		at := bytes.Index(zipped, []byte(what))
		require.Positive(t, at)
		changed := bytes.Clone(zipped)
		changed[at+offset] ^= 0x55
		return changed
	}
	for _, test := range []struct {
		name     string
		payloads bool
		content  []byte
		want     error
		text     string
	}{
		{"nothing", false, nil, ErrNotWhole, "not a valid zip file"},
		{"one blank", false, []byte(" "), ErrNotWhole, "not a valid zip file"},
		{"a login page", false, []byte("<!DOCTYPE html><title>Sign in</title>"), ErrNotWhole, "not a valid zip file"},
		{"JSON", false, []byte(`{"detail":"Decision not found"}`), ErrNotWhole, "not a valid zip file"},
		{"zeros", false, make([]byte, 1<<16), ErrNotWhole, "not a valid zip file"},
		{"cut at the end", false, whole[:len(whole)-1], ErrNotWhole, "not a valid zip file"},
		{"cut in the middle", false, whole[:len(whole)/2], ErrNotWhole, "not a valid zip file"},
		{"cut at the front", false, whole[40:], ErrNotWhole, "not a valid zip file"},
		{"a hole", false, append(bytes.Clone(whole[:300]), whole[310:]...), ErrNotWhole, "not a valid zip file"},
		{"a changed byte of the events", false, damaged(whole, "events.jsonl", 14), ErrNotWhole, `"events.jsonl"`},
		{"a changed byte of the verification", false, damaged(whole, "verification.json", 20), ErrNotWhole, `"verification.json"`},
		{"no entries", false, zipOf(t), ErrNotWhole, "manifest.json: it is missing"},
		{
			"no manifest", false, zipOf(t, withoutEntry(bundleEntries(testDecision, false), "manifest.json")...),
			ErrNotWhole, "manifest.json: it is missing",
		},
		{
			"a manifest in capitals", false,
			zipOf(t, zipEntry{"MANIFEST.JSON", bundleEntries(testDecision, false)[0].text}),
			ErrNotWhole, "manifest.json: it is missing",
		},
		{
			"two manifests", false,
			zipOf(t, append(bundleEntries(testDecision, false), zipEntry{"manifest.json", "{}"})...),
			ErrNotWhole, `two entries "manifest.json"`,
		},
		{
			"two manifests to Windows", false,
			zipOf(t, append(bundleEntries(testDecision, false), zipEntry{"Manifest.json", "{}"})...),
			ErrNotWhole, `two entries "Manifest.json"`,
		},
		{
			"two of another name", false,
			zipOf(t, append(bundleEntries(testDecision, false), zipEntry{"events.jsonl", ""})...),
			ErrNotWhole, `two entries "events.jsonl"`,
		},
		{"an empty manifest", false, manifest(""), ErrNotWhole, "manifest.json: "},
		{"a manifest that is no object", false, manifest(`["` + testDecision + `"]`), ErrNotWhole, "must be a JSON object"},
		{
			"a manifest with a name twice", false,
			manifest(`{"decision_id":"` + testDecision + `","payloads_included":true,"payloads_included":false}`),
			ErrNotWhole, "payloads_included",
		},
		{"two values in a manifest", false, manifest(bundleEntries(testDecision, false)[0].text + "{}"), ErrNotWhole, "manifest.json: "},
		{"a manifest with bad UTF-8", false, manifest("{\"decision_id\":\"\xff\"}"), ErrNotWhole, "UTF-8"},
		{"a manifest too deep", false, manifest(strings.Repeat(`{"a":`, 5000)), ErrNotWhole, "levels"},
		{
			"a huge manifest", false,
			manifest(`{"decision_id":"` + testDecision + `","payloads_included":false}` + strings.Repeat(" ", maxDocument)),
			ErrNotWhole, "manifest.json: it is longer than",
		},
		{"too many entries", false, manyEntries(t, maxEntries+1), ErrNotWhole, "10001 entries"},
		{"entries without end", false, uncountedEntries(t), ErrNotWhole, "list of entries is longer than"},
		{
			"an entry that is not attested", false,
			zipOf(t, append(bundleEntries(testDecision, false)[:1:1], zipEntry{"extra.txt", "x"}, zipEntry{attestationName, attestationOf(bundleEntries(testDecision, false)[:1])})...),
			ErrNotWhole, `does not list its entry "extra.txt"`,
		},
		{
			"an attested entry that is missing", false, with(attestationName, `{"files":{"manifest.json":"","gone.txt":""}}`),
			ErrNotWhole, `lists "gone.txt", which is missing`,
		},
		{
			"an entry that is not as attested", false,
			with(attestationName, strings.Replace(attestationOf(bundleEntries(testDecision, false)), `"manifest.json":"`, `"manifest.json":"0`, 1)),
			ErrNotWhole, `entry "manifest.json": its SHA-256 is not the one that bundle-attestation.json lists`,
		},
		{"an attestation without files", false, with(attestationName, `{"files":[]}`), ErrNotWhole, "it lists no files"},
		{
			"no attestation", false, zipOf(t, withoutEntry(bundleEntries(testDecision, false), attestationName)...),
			ErrNotWhole, "bundle-attestation.json: it is missing",
		},
		{"a policy against the gate", false, with("policy/policy.json", "{}"), ErrDisclosure, `"policy/policy.json"`},
		{"any file of the policy against the gate", false, with("Policy/other", ""), ErrDisclosure, `"Policy/other"`},
		{
			"a disclosure that is only counted", false,
			manifest(`{"decision_id":"` + testDecision + `","payloads_included":false,"disclosure_count":1}`), ErrDisclosure, "counts disclosures",
		},
		{"another decision", false, wholeBundle(t, "dec_other", false), ErrOtherDecision, `"dec_other"`},
		{"another case", false, wholeBundle(t, strings.ToUpper(testDecision), false), ErrOtherDecision, "DEC_"},
		{"no decision", false, manifest(`{"payloads_included":false}`), ErrOtherDecision, "names no decision"},
		{"a decision that is null", false, manifest(`{"decision_id":null}`), ErrOtherDecision, "names no decision"},
		{
			"a decision with a line break", false, manifest(`{"decision_id":"` + strings.Repeat(`\n`, 500) + `"}`),
			ErrOtherDecision, `"\n`,
		},
		{"payloads against the gate", false, wholeBundle(t, testDecision, true), ErrDisclosure, "disclosures.jsonl"},
		{
			"payloads_included against the gate", false,
			zipOf(t, withoutEntry(bundleEntries(testDecision, true), "disclosures.jsonl")...), ErrDisclosure, "not asked for",
		},
		{"a disclosure against the gate", false, with("disclosures.jsonl", ""), ErrDisclosure, "disclosures.jsonl"},
		{"a disclosure elsewhere", false, with("a/Disclosures.JSONL", "{}"), ErrDisclosure, "Disclosures.JSONL"},
		{"payloads asked for and not included", true, wholeBundle(t, testDecision, false), ErrDisclosure, "not included"},
		{
			"no word of payloads, not asked for", false, manifest(`{"decision_id":"` + testDecision + `"}`),
			ErrDisclosure, "does not say",
		},
		{
			"no word of payloads, asked for", true, manifest(`{"decision_id":"` + testDecision + `","payloads_included":"true"}`),
			ErrDisclosure, "does not say",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			fresh, used := t.TempDir(), t.TempDir()
			name, err := fileName(testDecision, test.payloads)
			require.NoError(t, err)
			old := filepath.Join(used, name)
			require.NoError(t, os.WriteFile(old, []byte("old"), 0o600))

			for _, dir := range []string{fresh, used} {
				got, err := keep(t, dir, test.payloads, test.content)
				require.ErrorIs(t, err, test.want)
				require.ErrorContains(t, err, test.text)
				assert.NotContains(t, err.Error(), "\n", "one line")
				assert.Less(t, len(err.Error()), 400)
				assert.Zero(t, got)
			}

			assert.Empty(t, filesIn(t, fresh))
			assert.Equal(t, map[string]string{old: "old"}, filesIn(t, used))
		})
	}
}

// manyEntries is a whole bundle with n entries.
func manyEntries(tb testing.TB, n int) []byte {
	tb.Helper()
	entries := bundleEntries(testDecision, false)
	for i := len(entries); i < n; i++ {
		entries = append(entries, zipEntry{name: fmt.Sprintf("%x", i)})
	}
	return zipOf(tb, entries...)
}

// uncountedEntries is a ZIP that claims one entry and lists 65,537: the number is a 16-bit one, and archive/zip reads on.
func uncountedEntries(tb testing.TB) []byte {
	tb.Helper()
	one := zipOf(tb, zipEntry{name: "a"})
	end := len(one) - 22 // the end record without a comment
	start := int(binary.LittleEndian.Uint32(one[end+16:]))
	list := bytes.Repeat(one[start:end], 1<<16+1)
	out := append(bytes.Clone(one[:start]), list...)
	out = append(out, one[end:]...)
	binary.LittleEndian.PutUint32(out[len(out)-22+12:], uint32(len(list))) //nolint:gosec // 3 MB
	return out
}

func TestSaveTakesManyEntries(t *testing.T) {
	t.Parallel()
	_, err := keep(t, t.TempDir(), false, manyEntries(t, maxEntries))
	require.NoError(t, err)
}

// A bundle proves itself by its signatures; what the bridge shows of it besides may be missing.
func TestSaveReadsWhatThereIs(t *testing.T) {
	t.Parallel()
	bare := fmt.Sprintf(`{"decision_id":%q,"payloads_included":false}`, testDecision)
	const unread = `{"valid":"from the manifest"}`
	blanks := strings.Repeat(" ", maxDocument)
	for _, test := range []struct {
		name                    string
		entries                 []zipEntry
		verification, lifecycle string // empty for nil
	}{
		{"nothing but a manifest", []zipEntry{{"manifest.json", bare}, {attestationName, attested}}, "", ""},
		{
			"the manifest alone says it", withoutEntry(withoutEntry(bundleEntries(testDecision, false), "verification.json"), "lifecycle.json"),
			unread, `{"state":"from the manifest"}`,
		},
		{
			"verification.json is no JSON", withEntry(bundleEntries(testDecision, false), "verification.json", "?"),
			unread, `{"state":"evidence_complete","expected_next":[]}`,
		},
		{
			"verification.json is too long", withEntry(bundleEntries(testDecision, false), "verification.json", `{"integrity":{}}`+blanks),
			unread, `{"state":"evidence_complete","expected_next":[]}`,
		},
		{
			"verification.json has no integrity", withEntry(bundleEntries(testDecision, false), "verification.json", `{"integrity":null}`),
			unread, `{"state":"evidence_complete","expected_next":[]}`,
		},
		{
			"nothing that can be read",
			[]zipEntry{
				{"manifest.json", strings.TrimSuffix(bare, "}") + `,"integrity":"yes","lifecycle":[]}`},
				{"verification.json", `{"integrity":{"valid":true,"valid":false}}`},
				{"lifecycle.json", `"done"` + blanks},
				{attestationName, attested},
			},
			"", "",
		},
		{
			"a bomb in the place of both",
			[]zipEntry{
				{"manifest.json", bare},
				{"verification.json", strings.Repeat("[", 20<<20)},
				{"lifecycle.json", strings.Repeat(" ", 4*maxDocument) + "{}"},
				{attestationName, attested},
			},
			"", "",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			content := zipOf(t, test.entries...)

			got, err := keep(t, t.TempDir(), false, content)

			require.NoError(t, err)
			assert.Equal(t, test.verification, string(got.Verification))
			assert.Equal(t, test.lifecycle, string(got.Lifecycle))
			assert.Equal(t, test.verification == "", got.Verification == nil)
			assert.Equal(t, test.lifecycle == "", got.Lifecycle == nil)
			kept, err := os.ReadFile(got.Path)
			require.NoError(t, err)
			assert.Equal(t, content, kept)
		})
	}
}

// Every byte of a large bundle is proven; what unpacks to more than eight times the largest bundle is refused before it is unpacked.
func TestSaveProvesAllOfIt(t *testing.T) {
	t.Parallel()
	content := zipOf(t, append(bundleEntries(testDecision, false)[:5:5], zipEntry{"last", strings.Repeat("x", 40<<20)}, zipEntry{attestationName, attested})...)
	_, err := keep(t, t.TempDir(), false, content)
	require.NoError(t, err)

	o := optionsFor(t.TempDir(), false)
	o.MaxBytes = 4 << 20
	_, err = Save(t.Context(), o, bytes.NewReader(content))
	require.ErrorIs(t, err, ErrNotWhole)
	require.ErrorContains(t, err, "unpacks to more than 33554432 bytes")

	// Its checksum in both headers, which only its last byte can disprove.
	binary.LittleEndian.PutUint32(content[bytes.LastIndex(content, []byte("last"))-46+16:], 1)
	at := bytes.LastIndex(content, []byte(descriptorSignature))
	at = bytes.LastIndex(content[:at], []byte(descriptorSignature)) // the attestation's is the last
	binary.LittleEndian.PutUint32(content[at+4:], 1)
	_, err = keep(t, t.TempDir(), false, content)
	require.ErrorIs(t, err, ErrNotWhole)
	require.ErrorContains(t, err, `entry "last": its checksum is wrong`)
}

// A file of one of two saves at once stays, and it is whole.
func TestSaveAtOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "by", "either")
	const savers, rounds = 4, 8
	contents := make([][]byte, savers)
	var group sync.WaitGroup
	for i := range contents {
		contents[i] = zipOf(t, withEntry(bundleEntries(testDecision, false), "README.txt", strings.Repeat("x", 1000*i))...)
		group.Go(func() {
			for range rounds {
				got, err := Save(t.Context(), optionsFor(dir, false), bytes.NewReader(contents[i]))
				if assert.NoError(t, err) {
					assert.Equal(t, int64(len(contents[i])), got.Size)
				}
			}
		})
	}
	group.Wait()

	files := filesIn(t, dir)
	require.Len(t, files, 1)
	kept := files[filepath.Join(dir, testDecision+"-evidence.zip")]
	assert.True(t, slices.ContainsFunc(contents, func(content []byte) bool { return string(content) == kept }),
		"the file is none of those that were saved")
}

func TestSaveRemovesWhatKilledProcessesLeft(t *testing.T) {
	t.Parallel()
	dir, elsewhere := t.TempDir(), t.TempDir()
	const random = "0123456789abcdef0123456789abcdef"
	old := time.Now().Add(-25 * time.Hour)
	write := func(name string, modified time.Time) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
		require.NoError(t, os.Chtimes(path, modified, modified))
		return path
	}
	gone := write(".loopgrid-evidence-"+random+".tmp", old)
	stay := []string{
		write(".loopgrid-evidence-1123456789abcdef0123456789abcdef.tmp", time.Now().Add(-23*time.Hour)),
		write(".loopgrid-evidence-"+random+"0.tmp", old),
		write(".loopgrid-evidence-"+random[1:]+".tmp", old),
		write(".loopgrid-evidence-ABCDEF6789abcdef0123456789abcdef.tmp", old),
		write(".loopgrid-evidence-"+random, old),
		write("loopgrid-evidence-"+random+".tmp", old),
		write("x.loopgrid-evidence-"+random+".tmp", old),
		write("dec_1-evidence.zip", old),
	}
	asDir := filepath.Join(dir, ".loopgrid-evidence-2123456789abcdef0123456789abcdef.tmp")
	require.NoError(t, os.Mkdir(asDir, 0o700))
	require.NoError(t, os.Chtimes(asDir, old, old))
	precious := filepath.Join(elsewhere, "precious")
	require.NoError(t, os.WriteFile(precious, []byte("mine"), 0o600))
	require.NoError(t, os.Chtimes(precious, old, old))
	link := filepath.Join(dir, ".loopgrid-evidence-3123456789abcdef0123456789abcdef.tmp")
	symlink(t, precious, link)

	_, err := keep(t, dir, false, wholeBundle(t, testDecision, false))

	require.NoError(t, err)
	assert.NoFileExists(t, gone)
	for _, path := range stay {
		assert.FileExists(t, path)
	}
	assert.DirExists(t, asDir)
	assert.FileExists(t, link)
	assert.FileExists(t, precious)
}

func TestTemporaryNamesAreRecognised(t *testing.T) {
	t.Parallel()
	name := newTemporaryName()
	assert.True(t, isTemporaryName(name), name)
	assert.NotEqual(t, name, newTemporaryName())
}

func TestRenamePatiently(t *testing.T) {
	t.Parallel()
	errHeld, errOther := errors.New("sharing violation"), errors.New("no such file")
	held := func(err error) bool { return errors.Is(err, errHeld) }
	for _, test := range []struct {
		name   string
		rename func(since time.Duration) error
		cancel time.Duration // 0: never
		want   error
		took   time.Duration // at most
	}{
		{"at once", func(time.Duration) error { return nil }, 0, nil, 0},
		{"another error at once", func(time.Duration) error { return errOther }, 0, errOther, 0},
		{"held for a while", func(since time.Duration) error {
			if since < time.Second {
				return errHeld
			}
			return nil
		}, 0, nil, 1250 * time.Millisecond},
		{"held, then another error", func(since time.Duration) error {
			if since == 0 {
				return errHeld
			}
			return errOther
		}, 0, errOther, 10 * time.Millisecond},
		{"held for ever", func(time.Duration) error { return errHeld }, 0, errHeld, renamePatience},
		{"cancelled", func(time.Duration) error { return errHeld }, 500 * time.Millisecond, errHeld, 500 * time.Millisecond},
		{"cancelled before", func(time.Duration) error { panic("renamed") }, -1, context.Canceled, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				switch {
				case test.cancel < 0:
					cancel()
				case test.cancel > 0:
					time.AfterFunc(test.cancel, cancel)
				}
				start := time.Now()
				err := renamePatiently(ctx, func() error { return test.rename(time.Since(start)) }, held)
				require.ErrorIs(t, err, test.want)
				assert.LessOrEqual(t, time.Since(start), test.took)
			})
		})
	}
}

// A bundle of the largest size is never held in memory.
//
//nolint:paralleltest // it counts the memory that is allocated in the process
func TestSaveNeedsLittleMemory(t *testing.T) {
	dir := t.TempDir()
	const size = 50 << 20
	chunk := make([]byte, 1<<20)
	pr, pw := io.Pipe()
	go func() {
		w := zip.NewWriter(pw)
		entries := append(bundleEntries(testDecision, false), zipEntry{name: "large"})
		for _, e := range entries[:len(entries)-1] {
			if e.text == attested {
				empty, large := sha256.Sum256(nil), sha256.New()
				for range size / len(chunk) {
					_, _ = large.Write(chunk)
				}
				e.text = strings.Replace(attestationOf(entries), `"large":"`+hex.EncodeToString(empty[:]), `"large":"`+hex.EncodeToString(large.Sum(nil)), 1)
			}
			f, _ := w.Create(e.name)
			_, _ = io.WriteString(f, e.text)
		}
		f, _ := w.CreateHeader(&zip.FileHeader{Name: "large", Method: zip.Store})
		for range size / len(chunk) {
			_, _ = f.Write(chunk)
		}
		_ = pw.CloseWithError(w.Close())
	}()

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := Save(t.Context(), optionsFor(dir, false), pr)
	runtime.ReadMemStats(&after)

	require.NoError(t, err)
	assert.Greater(t, got.Size, int64(size))
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20), "bytes allocated, the test's own ZIP writer included")
}

// Whatever the bytes are: no panic, little work, and a bundle is believed only if a manifest that can be read names the decision.
func FuzzReadBundle(f *testing.F) {
	f.Add(wholeBundle(f, testDecision, false), false)
	f.Add(wholeBundle(f, testDecision, true), true)
	f.Add(uncountedEntries(f)[:4096], false)
	f.Add(zipOf(f), true)
	f.Fuzz(func(t *testing.T, content []byte, payloads bool) {
		told, err := readContent(t.Context(), bytes.NewReader(content), int64(len(content)), optionsFor("", payloads))
		if err != nil {
			assert.Zero(t, told)
			return
		}
		archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
		require.NoError(t, err)
		at := slices.IndexFunc(archive.File, func(entry *zip.File) bool { return entry.Name == "manifest.json" })
		require.GreaterOrEqual(t, at, 0)
		manifest, err := archive.File[at].Open()
		require.NoError(t, err)
		var said struct {
			DecisionID string `json:"decision_id"`
			Payloads   *bool  `json:"payloads_included"`
		}
		require.NoError(t, json.NewDecoder(manifest).Decode(&said))
		assert.Equal(t, testDecision, said.DecisionID)
		assert.Equal(t, &payloads, said.Payloads)
		for _, value := range [][]byte{told.Verification, told.Lifecycle, told.Coverage} {
			assert.True(t, value == nil || value[0] == '{')
		}
	})
}
