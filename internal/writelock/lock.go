// Package writelock lets one writer at a time into a LoopGrid service, within this process and between the processes of one user, and
// remembers the write that went unanswered. It knows no route, no HTTP and no MCP: a client says when a POST is sent and how it ended, and
// brings the request that finds out whether the service is alive.
package writelock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"

	"github.com/loopgridio/loopgrid-mcp/internal/address"
)

// Lock lets one writer at a time into a service, since two writes at once break LoopGrid's chain for good on SQLite, its default. Within
// this process writers are served in the order of their arrival. The processes of this user on this machine are kept apart by an advisory
// file lock, in turns where two want it (see [fileLock]); one that is killed lets go of it. Where the service orders writes itself, a call
// may ask to go side by side with others, see [Claim].
//
// A write that got no answer may still be running in the service, for as long as the service is stopped, starved or hidden behind a
// proxy: the ledger is unsettled. Nobody writes before the service has answered requests that were sent after the write was given up, for
// long enough to finish the write, or before the same POST, repeated with its key, is answered. This process remembers it in
// memory, the others find it in the lock file, and so does who comes after a process that was killed in the middle of a POST.
//
// # What it does not cover
//
//   - Containers that do not share the folder, other users of the machine, other machines.
//   - Other clients of LoopGrid: they do not know this lock.
//   - One service under two names (its host name here, its address there): two locks. Only the spellings of one host and port count as
//     one, see [Name].
//   - A lock file that is deleted while somebody holds its lock: the next process makes a new one and is not kept out. At any other time
//     it may be deleted.
//   - A folder that cannot be trusted or written: then the writers of this process alone are ordered, and Options.Warn is called.
//   - Loss of power: the file is not synced to the disk, it only has to outlive the process.
//
// LoopGrid on PostgreSQL does not break when writes overlap: use it where one of these matters.
type Lock struct {
	probe  func(context.Context) error
	warn   func(msg string)
	warned sync.Once
	file   *fileLock // nil: the writers of this process alone

	mu    sync.Mutex
	queue []*Ticket // in the order of arrival

	doubt doubt // about the last write that got no answer
	// noted is what the lock file says as far as this process knows; only who holds the file lock uses it.
	noted note
}

// Options are the options of New.
type Options struct {
	// Dir is the folder of the lock file, see DefaultDir. Empty: order the writers of this process only. Tests in a
	// synctest bubble leave it empty: a goroutine that waits for a file lock is never durably blocked.
	Dir string
	// Name is the name of the lock file without its extension, see Name.
	Name string
	// Warn, if not nil, is called at most once, when other processes cannot be kept out or cannot be told of an
	// unanswered write.
	Warn func(msg string)
	// Probe asks the service for a sign of life, and returns nil once the service itself has answered. It goes the way that a write goes.
	// It is called after a write went unanswered, again and again where it fails, also by two calls at once. Nil: the service is always
	// alive.
	Probe func(context.Context) error
}

// New returns a lock that nobody holds. It touches no file: the first [Ticket.Lock] does.
func New(o Options) *Lock {
	l := &Lock{warn: o.Warn, probe: o.Probe}
	if l.probe == nil {
		l.probe = func(context.Context) error { return nil }
	}
	if o.Dir != "" {
		l.file = &fileLock{dir: o.Dir, name: o.Name}
	}
	return l
}

// Name returns the name under which the service at base is locked: the hexadecimal SHA-256 of its host, port and base path. It is one lock
// for all workspaces: on SQLite they share a database, and a service without keys takes a decision of any of them. Every spelling of
// loopback is the same host, the unspecified address included, since dialling it ends there too; [address.HostPort] has the rest. Two
// spellings of one service with two names would not exclude each other; two services with one name only wait for each other.
//
// Names must stay what they are: a process of an older version may still run beside one of this version.
func Name(base *url.URL) string {
	host := address.HostPort(base)
	if address.IsLoopback(base.Hostname()) {
		_, port, _ := net.SplitHostPort(host) // HostPort has joined them
		host = "loopback:" + port
	}
	// NUL cannot be part of a host, and config lets none into a path: no two pairs read the same.
	sum := sha256.Sum256([]byte(host + "\x00" + strings.TrimRight(base.Path, "/")))
	return hex.EncodeToString(sum[:])
}

// warnOnce reports what is not covered, the first time.
func (l *Lock) warnOnce(what string, err error) {
	l.warned.Do(func() {
		if l.warn != nil {
			l.warn(fmt.Sprintf("write lock: %s: %v", what, err))
		}
	})
}

// CheckDir finds out whether the lock files may be kept in dir, as it is now; it makes and changes nothing, and never blocks, whatever dir
// is. The error says why not: dir is no folder or a link, belongs to another user, or is open to one. A folder that is missing is made
// with the first write.
func CheckDir(dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	root, err := openTrusted(dir)
	if err != nil {
		return err
	}
	return root.Close()
}
