// Package bundle keeps an evidence bundle: it proves that a ZIP is whole, of the decision that was asked for and discloses no more
// than was asked, and then puts it on disk. It knows ZIP and files. It must not know where the bytes come from, HTTP or MCP.
package bundle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// The kinds of failure of [Save], for errors.Is: a caller adds the remedy. Each ends the error's first clause; what follows names the
// path or what is wrong. An error of the source of the bytes is of none of these kinds.
var (
	// ErrDir: the directory cannot be made, opened or written in, or was moved during the download.
	ErrDir = errors.New("the evidence directory cannot be used")
	// ErrNoRoom: the disk, the quota or the file size limit is full.
	ErrNoRoom = errors.New("there is no room for the evidence bundle")
	// ErrTarget: what has the name of the file is no file that may be replaced, or another program holds it.
	ErrTarget = errors.New("the evidence file cannot be replaced")
	// ErrNotWhole: the bytes are not a ZIP that every reader reads in the same way, or lack a part of a bundle, or differ from what its attestation lists.
	ErrNotWhole = errors.New("the evidence bundle is not whole")
	// ErrOtherDecision: the manifest does not name the decision that was asked for.
	ErrOtherDecision = errors.New("the evidence bundle is not of this decision")
	// ErrDisclosure: payloads are in the bundle and were not asked for, or the reverse.
	ErrDisclosure = errors.New("the evidence bundle does not disclose what was asked")
)

const (
	tempPrefix = ".loopgrid-evidence-"
	tempSuffix = ".tmp"
	// tempRandom is the length of the random part of a temporary name, in bytes; it is written in hex.
	tempRandom = 16
	// tempAge is how old a temporary file is when it cannot belong to a running download any more.
	tempAge = 24 * time.Hour
	// tempScan is how many names of the directory are looked at for old temporary files in one save.
	tempScan = 4096

	// renamePatience is how long a rename is tried again while another program holds the target. That happens on Windows
	// only, where virus scanners and viewers open files without leave to replace them.
	renamePatience = 2 * time.Second
)

// Options say which bundle [Save] expects and where it goes.
type Options struct {
	// Dir is the absolute path of the directory. It may be a symbolic link, and is made, with its parents, where it is missing.
	Dir string
	// DecisionID names the decision: ASCII letters, digits, '_' and '-'.
	DecisionID string
	// Payloads says whether the clear payloads belong in the bundle.
	Payloads bool
	// MaxBytes is the largest bundle that is downloaded. The source enforces it; here it bounds what the entries may unpack to, which is
	// eight times as much.
	MaxBytes int64
}

// Saved is an evidence ZIP on disk and what it says of itself.
type Saved struct {
	Path   string // in Options.Dir as it was given
	Size   int64  // in bytes
	SHA256 string // lower-case hex

	Content
}

// Save writes what src yields to the directory under the name of the decision, all or nothing: after an error, a panic of src or the
// end of ctx there is no new file, and a file that was there is as it was. A directory that was made stays.
//
// The bytes are kept as they come, once they have proven to be a whole bundle of this decision that discloses what was asked. The src
// bounds its length and the time it takes itself; its errors can be had with errors.Is and errors.As. Saves of one decision may run
// at once, in one process or in several: one of the files stays, whole.
func Save(ctx context.Context, o Options, src io.Reader) (Saved, error) {
	return save(ctx, o, src, (*os.File).Sync)
}

func save(ctx context.Context, o Options, src io.Reader, sync func(*os.File) error) (Saved, error) {
	name, err := fileName(o.DecisionID, o.Payloads)
	if err != nil {
		return Saved{}, err
	}
	d, err := openFolder(o.Dir)
	if err != nil {
		return Saved{}, err
	}
	defer d.close()
	d.removeOldTemporaries(time.Now())
	if err := d.checkTarget(name); err != nil { // before the bytes are fetched for nothing
		return Saved{}, err
	}

	temp, tempName, err := d.createTemporary()
	if err != nil {
		return Saved{}, err
	}
	// On every way out, a panic of src too. After the rename there is nothing of that name to remove.
	defer func() {
		_ = temp.Close()
		d.remove(tempName)
	}()

	saved := Saved{Path: filepath.Join(o.Dir, name)}
	if saved.Size, saved.SHA256, err = d.receive(ctx, temp, src); err != nil {
		return Saved{}, err
	}
	if saved.Content, err = readContent(ctx, temp, saved.Size, o); err != nil {
		return Saved{}, err
	}
	if err := sync(temp); err != nil {
		return Saved{}, d.writeError("sync", err)
	}
	if err := temp.Close(); err != nil { // Windows renames no open file
		return Saved{}, d.writeError("close", err)
	}
	if err := d.place(ctx, tempName, name); err != nil {
		return Saved{}, err
	}
	return saved, nil
}

// fileName returns the file name of a decision's bundle. Bundles with and without payloads have different names, so that
// neither replaces the other. File systems of Windows and macOS take names that differ in case only for one: an id with
// capitals carries a part of its hash. The suffix also keeps ids such as CON and NUL from naming a device of Windows.
func fileName(decisionID string, payloads bool) (string, error) {
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
