// Package loopgrid is a thin typed client of LoopGrid's REST API (v0.8): the routes that the tools of loopgrid-mcp use, and no
// other. It knows the routes, which requests may be repeated, and that only one write at a time may reach the service. It must
// not know of MCP, of tools, or of the process environment.
//
// Free-form JSON goes out as the text it was given as, and answers come back as the text that LoopGrid sent.
package loopgrid

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/loopgridio/loopgrid-mcp/internal/text"
	"github.com/loopgridio/loopgrid-mcp/internal/writelock"
)

// Options configure a [Client].
type Options struct {
	// BaseURL is the address of the service, with the path it is mounted under, if any. Required.
	BaseURL *url.URL
	// Workspace is the workspace that decisions are recorded in. Required: the service skips its check of the key for an empty one.
	Workspace string
	// ServiceKey is sent as X-LoopGrid-Key. Empty: no key is sent.
	ServiceKey string
	// RereadKey reads the service key again, from its file, after LoopGrid refused it. Nil: the key never changes.
	RereadKey func() (string, error)
	// UserAgent names the program and its version.
	UserAgent string
	// Timeout bounds one request with its repeats. A write call has twice that for all its requests.
	Timeout time.Duration
	// MaxEvidenceBytes bounds the size of an evidence bundle.
	MaxEvidenceBytes int64
	// LockDir is the folder of the lock files that exclude other processes: see [writelock.DefaultDir]. Empty: this process alone.
	LockDir string
	// CACertificates is PEM text with authorities to trust in addition to the system's. Nil: none.
	CACertificates []byte
	// WriteLock says whether writes take turns. The zero value is [LockOn].
	WriteLock WriteLock
	// Transport carries the requests. Nil: HTTP/1.1 by the proxy of the environment, if any.
	Transport http.RoundTripper
	// Log gets a line per request at debug level and the warnings of the write lock. Nil: none.
	Log *slog.Logger
}

// Client talks to one workspace of one LoopGrid service. It is safe for concurrent use; reads run side by side, writes one
// after the other (see [Client.NewTurn]). Nothing is contacted before the first call.
type Client struct {
	o        Options
	log      *slog.Logger
	lock     *writelock.Lock
	database database
	key      *serviceKey
	lanes    lanes
	// askedForCertificate says that the service asked for a client certificate in a handshake.
	askedForCertificate atomic.Bool
}

// New returns a client. BaseURL and Workspace have to be set.
func New(o Options) *Client {
	c := &Client{o: o, log: o.Log, key: newServiceKey(o.ServiceKey, o.RereadKey), lanes: newLanes(descriptorLimit()), database: database{asking: make(chan struct{}, 1)}}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if o.Transport == nil {
		c.o.Transport = newTransport(o, &c.askedForCertificate)
	}
	c.lock = writelock.New(writelock.Options{
		Dir:   o.LockDir,
		Name:  writelock.Name(o.BaseURL),
		Warn:  func(msg string) { c.log.Warn("write lock", "problem", msg) },
		Probe: c.signOfLife,
	})
	return c
}

// clean makes what the service says fit for one line of a message. The service key goes before the text is cut, or a part of it would
// stay.
func (c *Client) clean(s string, limit int) string {
	for _, key := range c.Keys() {
		s = strings.ReplaceAll(s, key, "[service key]")
	}
	return text.Clean(s, limit)
}
