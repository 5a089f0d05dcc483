// Package bundle keeps an evidence bundle: it proves that a ZIP is whole, of the decision that was asked for and discloses no more
// than was asked, and then puts it on disk. It knows ZIP and files. It must not know where the bytes come from, HTTP or MCP.
package bundle

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// The kinds of failure of [Save], for errors.Is: a caller adds the remedy. Each ends the error's first clause; what
// follows names the path or what is wrong. An error of the source of the bytes is of none of these kinds.
var (
	// ErrDir: the directory cannot be made, opened or written in.
	ErrDir = errors.New("the evidence directory cannot be used")
	// ErrNoRoom: the disk, the quota or the file size limit is full.
	ErrNoRoom = errors.New("there is no room for the evidence bundle")
	// ErrTarget: what has the name of the file is no file that may be replaced, or another program holds it.
	ErrTarget = errors.New("the evidence file cannot be replaced")
	// ErrNotWhole: the bytes are no ZIP, a damaged one, or one without a readable manifest.
	ErrNotWhole = errors.New("the evidence bundle is not whole")
	// ErrOtherDecision: the manifest does not name the decision that was asked for.
	ErrOtherDecision = errors.New("the evidence bundle is not of this decision")
	// ErrDisclosure: payloads are in the bundle and were not asked for, or the reverse.
	ErrDisclosure = errors.New("the evidence bundle does not disclose what was asked")
)

// How much of a bundle is read before it is kept. LoopGrid's own have 11 to 14 entries and documents of 2 to 5 KB.
const (
	maxBundleEntries = 10_000
	// maxBundleListing bounds the bytes read to list the entries. The number of entries alone cannot: archive/zip keeps
	// reading headers for as long as they come, whatever number the ZIP claims.
	maxBundleListing = 2 << 20
	// maxBundleDocument bounds manifest.json, verification.json and lifecycle.json, each.
	maxBundleDocument = 1 << 20
	// maxBundleUnpacked bounds how much is unpacked to prove the checksums: a tenth of a second of work.
	maxBundleUnpacked = 16 << 20
)

const (
	bundleTempPrefix = ".loopgrid-evidence-"
	bundleTempSuffix = ".tmp"
	// bundleTempRandom is the length of the random part of a temporary name, in bytes; it is written in hex.
	bundleTempRandom = 16
	// bundleTempAge is how old a temporary file is when it cannot belong to a running download any more.
	bundleTempAge = 24 * time.Hour
	// bundleTempScan is how many names of the directory are looked at for old temporary files in one save.
	bundleTempScan = 4096

	// renamePatience is how long a rename is tried again while another program holds the target. That happens on Windows
	// only, where virus scanners and viewers open files without leave to replace them.
	renamePatience = 2 * time.Second
)

// Saved is an evidence ZIP on disk and what it says of itself.
type Saved struct {
	Path   string // in the directory as it was given
	Size   int64
	SHA256 string // lower-case hex
	// Verification is the service's verify answer at the time of the export, one object without blanks; nil where the
	// bundle has none that can be read.
	Verification jsontext.Value
	// Lifecycle is the state of the decision at the time of the export, one object without blanks; nil as above.
	Lifecycle jsontext.Value
}

// Save writes what src yields to dir under the name of the decision, all or nothing: after an error, a panic of src or
// the end of ctx there is no new file, and a file that was there is as it was. A directory that was made stays.
//
// The bytes are kept as they come, once they have proven to be a whole bundle of this decision that discloses what was asked:
// payloads says whether the clear payloads belong in it. The dir is absolute, and may be a symbolic link; it is made, with its
// parents, where it is missing. The decisionID consists of ASCII letters, digits, '_' and '-'. The src bounds its length and
// the time it takes itself; its errors can be had with errors.Is and errors.As. Saves of one decision may run at once, in one
// process or in several: one of the files stays, whole.
func Save(ctx context.Context, dir, decisionID string, payloads bool, src io.Reader) (Saved, error) {
	name, err := bundleName(decisionID, payloads)
	if err != nil {
		return Saved{}, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Saved{}, bundleDirError(err)
	}
	removeOldTemporaries(dir, time.Now())
	path := filepath.Join(dir, name)
	if err := checkBundleTarget(path); err != nil { // before the bytes are fetched for nothing
		return Saved{}, err
	}

	temp, err := createTemporary(filepath.Join(dir, newTemporaryName()))
	if err != nil {
		return Saved{}, err
	}
	// On every way out, a panic of src too. After the rename there is nothing of that name to remove.
	defer func() {
		_ = temp.Close()
		_ = os.Remove(temp.Name())
	}()

	saved := Saved{Path: path}
	if saved.Size, saved.SHA256, err = receiveBundle(ctx, temp, src); err != nil {
		return Saved{}, err
	}
	saved.Verification, saved.Lifecycle, err = readBundle(ctx, temp, saved.Size, decisionID, payloads)
	if err != nil {
		return Saved{}, err
	}
	if err := temp.Sync(); err != nil {
		return Saved{}, bundleWriteError("sync", dir, err)
	}
	if err := temp.Close(); err != nil { // Windows renames no open file
		return Saved{}, bundleWriteError("close", dir, err)
	}
	if err := placeBundle(ctx, temp.Name(), path); err != nil {
		return Saved{}, err
	}
	syncEvidenceDir(dir)
	return saved, nil
}

// bundleName returns the file name of a decision's bundle. Bundles with and without payloads have different names, so that
// neither replaces the other. File systems of Windows and macOS take names that differ in case only for one: an id with
// capitals carries a part of its hash. The suffix also keeps ids such as CON and NUL from naming a device of Windows.
func bundleName(decisionID string, payloads bool) (string, error) {
	capitals, legal := false, decisionID != ""
	for _, c := range []byte(decisionID) {
		switch {
		case 'A' <= c && c <= 'Z':
			capitals = true
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			legal = false
		}
	}
	if !legal {
		return "", fmt.Errorf("name the evidence file: %.80q is no decision id", decisionID)
	}
	name := decisionID
	if capitals {
		sum := sha256.Sum256([]byte(decisionID))
		name += "-" + hex.EncodeToString(sum[:4])
	}
	if payloads {
		return name + "-evidence-payloads.zip", nil
	}
	return name + "-evidence.zip", nil
}

// bundleDirError tells that the directory cannot be made; err names the path.
func bundleDirError(err error) error {
	if isNoRoom(err) {
		return fmt.Errorf("%w: %w", ErrNoRoom, err)
	}
	return fmt.Errorf("%w: %w", ErrDir, err)
}

// bundleWriteError tells that an operation on a temporary file in dir failed. The name of that file says nothing to anyone
// and is left out.
func bundleWriteError(operation, dir string, err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		err = path.Err
	case errors.As(err, &link):
		err = link.Err
	}
	kind := ErrDir
	if isNoRoom(err) {
		kind = ErrNoRoom
	}
	return fmt.Errorf("%w: %s in %s: %w", kind, operation, dir, err)
}

// checkBundleTarget refuses to replace anything but a regular file, and leaves it alone.
func checkBundleTarget(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return bundleWriteError("look up "+filepath.Base(path), filepath.Dir(path), err)
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%w: %s is a symbolic link", ErrTarget, path)
	case info.IsDir():
		return fmt.Errorf("%w: %s is a directory", ErrTarget, path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: %s is not a regular file", ErrTarget, path)
	}
	return nil
}

func newTemporaryName() string {
	var random [bundleTempRandom]byte
	_, _ = rand.Read(random[:]) // never fails
	return bundleTempPrefix + hex.EncodeToString(random[:]) + bundleTempSuffix
}

func isTemporaryName(name string) bool {
	random, ok := strings.CutPrefix(name, bundleTempPrefix)
	if !ok {
		return false
	}
	random, ok = strings.CutSuffix(random, bundleTempSuffix)
	return ok && len(random) == 2*bundleTempRandom && strings.Trim(random, "0123456789abcdef") == ""
}

// createTemporary makes a file that was not there; whatever has the name already, a link too, is an error.
func createTemporary(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // in the operator's directory
	if err != nil {
		return nil, bundleWriteError("create a file", filepath.Dir(path), err)
	}
	return file, nil
}

// removeOldTemporaries removes the temporary files that killed processes left behind. It takes regular files with exactly such
// a name only, looks at a bounded number of names, and leaves for the next save what it cannot remove now.
func removeOldTemporaries(path string, now time.Time) {
	dir, err := os.Open(path) //nolint:gosec // the operator's directory
	if err != nil {
		return
	}
	names, _ := dir.Readdirnames(bundleTempScan) // with an error too, the names that could be read
	_ = dir.Close()
	for _, name := range names {
		if !isTemporaryName(name) {
			continue
		}
		old := filepath.Join(path, name)
		info, err := os.Lstat(old)
		if err == nil && info.Mode().IsRegular() && now.Sub(info.ModTime()) > bundleTempAge {
			_ = os.Remove(old)
		}
	}
}

// receiveBundle copies src into file and returns the length and the SHA-256 of what came.
func receiveBundle(ctx context.Context, file *os.File, src io.Reader) (int64, string, error) {
	sum := sha256.New()
	var size int64
	buf := make([]byte, 64<<10)
	for {
		if err := ctx.Err(); err != nil {
			return 0, "", fmt.Errorf("receive the evidence bundle: %w", err)
		}
		n, readErr := src.Read(buf)
		if _, err := file.Write(buf[:n]); err != nil {
			return 0, "", bundleWriteError("write", filepath.Dir(file.Name()), err)
		}
		sum.Write(buf[:n])
		size += int64(n)
		if readErr == io.EOF {
			return size, hex.EncodeToString(sum.Sum(nil)), nil
		}
		if readErr != nil {
			return 0, "", fmt.Errorf("receive the evidence bundle: %w", readErr)
		}
	}
}

// placeBundle gives the temporary file its name, unless something that is not a regular file has taken the name meanwhile.
func placeBundle(ctx context.Context, tempPath, path string) error {
	if err := checkBundleTarget(path); err != nil {
		return err
	}
	err := renamePatiently(ctx, func() error { return os.Rename(tempPath, path) }, isHeldByOther)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("name the evidence file: %w", ctx.Err())
	case isHeldByOther(err):
		return fmt.Errorf("%w: %s is read-only or held by another program", ErrTarget, path)
	}
	return bundleWriteError("rename", filepath.Dir(path), err)
}

// renamePatiently calls rename until it succeeds, fails for good, or ctx or the patience ends. It returns the last error.
func renamePatiently(ctx context.Context, rename func() error, held func(error) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	patience := time.NewTimer(renamePatience)
	defer patience.Stop()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 250*time.Millisecond) {
		err := rename()
		if err == nil || !held(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-patience.C:
			return err
		case <-time.After(wait):
		}
	}
}

// readBundle tells what a ZIP says of itself, or why it must not be kept.
func readBundle(
	ctx context.Context, file io.ReaderAt, size int64, decisionID string, payloads bool,
) (verification, lifecycle jsontext.Value, err error) {
	archive, err := openBundle(file, size)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrNotWhole, err)
	}
	entries := make(map[string]*zip.File, len(archive.File))
	for _, entry := range archive.File {
		// In lower case, because one of two such files would be lost where the bundle is unpacked on Windows or macOS.
		key := strings.ToLower(entry.Name)
		if entries[key] != nil {
			return nil, nil, fmt.Errorf("%w: it holds two entries %.80q", ErrNotWhole, entry.Name)
		}
		entries[key] = entry
		if !payloads && strings.HasSuffix(key, "disclosures.jsonl") {
			return nil, nil, fmt.Errorf("%w: payloads were not asked for, but it holds %.80q", ErrDisclosure, entry.Name)
		}
	}
	if err := proveEntries(ctx, archive, size); err != nil {
		return nil, nil, err
	}

	manifest, err := readDocument(entries, "manifest.json")
	if err != nil {
		return nil, nil, fmt.Errorf("%w: manifest.json: %w", ErrNotWhole, err)
	}
	if err := checkManifest(manifest, decisionID, payloads); err != nil {
		return nil, nil, err
	}

	// The bundle holds both twice. A copy that cannot be read does not lose the file.
	report, _ := readDocument(entries, "verification.json")
	if verification = objectMember(report, "integrity"); verification == nil {
		verification = objectMember(manifest, "integrity")
	}
	if lifecycle, _ = readDocument(entries, "lifecycle.json"); lifecycle == nil {
		lifecycle = objectMember(manifest, "lifecycle")
	}
	return evidence.Compact(verification), evidence.Compact(lifecycle), nil
}

// openBundle lists the entries of a ZIP without reading more of it than a bundle can need.
func openBundle(file io.ReaderAt, size int64) (*zip.Reader, error) {
	metered := &meteredReaderAt{ReaderAt: file, left: maxBundleListing}
	archive, err := zip.NewReader(metered, size)
	if err != nil {
		return nil, err
	}
	metered.left = math.MaxInt // the rest is bounded entry by entry
	if n := len(archive.File); n > maxBundleEntries {
		return nil, fmt.Errorf("it holds %d entries, more than %d", n, maxBundleEntries)
	}
	return archive, nil
}

// meteredReaderAt fails once more bytes are asked of it than it has left, and where a list of entries points before the start.
type meteredReaderAt struct {
	io.ReaderAt

	left int
}

func (m *meteredReaderAt) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, zip.ErrFormat
	}
	if m.left -= len(p); m.left < 0 {
		return 0, fmt.Errorf("its list of entries is longer than %d bytes", maxBundleListing)
	}
	return m.ReaderAt.ReadAt(p, offset)
}

// proveEntries checks that each entry lies where the list of entries says, and the checksums of as much as may be unpacked.
func proveEntries(ctx context.Context, archive *zip.Reader, size int64) error {
	left := int64(maxBundleUnpacked)
	for _, entry := range archive.File {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("check the evidence bundle: %w", err)
		}
		start, err := entry.DataOffset()
		if err == nil && (start > size || entry.CompressedSize64 > uint64(size-start)) { //nolint:gosec // not negative
			err = zip.ErrFormat
		}
		if err == nil && left > 0 {
			var n int64
			n, err = unpack(io.Discard, entry, left)
			left -= n
		}
		if err != nil {
			return fmt.Errorf("%w: entry %.80q: %w", ErrNotWhole, entry.Name, err)
		}
	}
	return nil
}

// unpack writes up to limit bytes of an entry to dst. The checksum is proven only where the entry ends before the limit.
func unpack(dst io.Writer, entry *zip.File, limit int64) (int64, error) {
	content, err := entry.Open()
	if err != nil {
		return 0, err
	}
	defer func() { _ = content.Close() }()
	return io.Copy(dst, io.LimitReader(content, limit))
}

// readDocument returns the entry of exactly that name if it is one strict JSON object. The entries are by name in lower case.
func readDocument(entries map[string]*zip.File, name string) (jsontext.Value, error) {
	entry := entries[name]
	if entry == nil || entry.Name != name {
		return nil, errors.New("it is missing")
	}
	var text bytes.Buffer
	n, err := unpack(&text, entry, maxBundleDocument+1)
	if err != nil {
		return nil, err
	}
	if n > maxBundleDocument {
		return nil, fmt.Errorf("it is longer than %d bytes", maxBundleDocument)
	}
	document := jsontext.Value(text.Bytes())
	if err := evidence.CheckObject(document); err != nil {
		return nil, err
	}
	return document, nil
}

// checkManifest checks that a bundle is of the decision and discloses what was asked. The service says payloads_included in
// every privacy mode, true where they were asked for even if there is nothing to disclose (redacted, proof_only).
func checkManifest(manifest jsontext.Value, decisionID string, payloads bool) error {
	var named, included jsontext.Value
	for name, value := range evidence.Members(manifest) {
		switch name {
		case "decision_id":
			named = value
		case "payloads_included":
			included = value
		}
	}
	switch id, ok := evidence.Unquote(named); {
	case !ok:
		return fmt.Errorf("%w: its manifest names no decision, not %s", ErrOtherDecision, decisionID)
	case id != decisionID:
		return fmt.Errorf("%w: its manifest names %.80q, not %s", ErrOtherDecision, id, decisionID)
	}
	switch kind := included.Kind(); {
	case kind != 't' && kind != 'f':
		return fmt.Errorf("%w: its manifest does not say whether payloads are included", ErrDisclosure)
	case kind == 't' && !payloads:
		return fmt.Errorf("%w: payloads were not asked for, but its manifest says that they are included", ErrDisclosure)
	case kind == 'f' && payloads:
		return fmt.Errorf("%w: payloads were asked for, but its manifest says that they are not included", ErrDisclosure)
	}
	return nil
}

// objectMember returns the member of that name if it is an object, else nil.
func objectMember(object jsontext.Value, name string) jsontext.Value {
	for member, value := range evidence.Members(object) {
		if member == name && value.Kind() == '{' {
			return value
		}
	}
	return nil
}
