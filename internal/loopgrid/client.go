// Package loopgrid is a thin typed client of LoopGrid's REST API (v0.8): the routes that the tools of loopgrid-mcp use, and no
// other. It knows the routes, which requests may be repeated, and that only one write at a time may reach a workspace. It must
// not know of MCP, of tools, or of the process environment.
//
// Free-form JSON goes out as the text it was given as, and answers come back as the text that LoopGrid sent.
package loopgrid

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/writelock"
)

const (
	maxJSONAnswer     = 4 << 20  // bytes of a JSON answer; of an error too, since a 422 repeats what was sent
	maxDecisionAnswer = 32 << 20 // of GET /decisions/{id}, which repeats everything that was sent
	idleConnection    = 4 * time.Second

	// maxAnswerDepth is how deep an answer may nest. LoopGrid answers none beyond 255 levels, and the JSON readers of hosts give up,
	// some with the whole message, at about 1,000.
	maxAnswerDepth = 500
)

// Options configure a [Client].
type Options struct {
	// BaseURL is the address of the service, with the path it is mounted under, if any. Required.
	BaseURL *url.URL
	// Workspace is the workspace that decisions are recorded in. Required: the service skips its check of the key for an empty one.
	Workspace string
	// ServiceKey is sent as X-LoopGrid-Key. Empty: no key is sent.
	ServiceKey string
	// UserAgent names the program and its version.
	UserAgent string
	// Timeout bounds one request with its repeats. A write call has twice that for all its requests.
	Timeout time.Duration
	// MaxEvidenceBytes bounds the size of an evidence bundle.
	MaxEvidenceBytes int64
	// LockDir is the folder of the lock files that exclude other processes: see [writelock.DefaultDir]. Empty: this process alone.
	LockDir string
	// Transport carries the requests. Nil: [NewTransport].
	Transport http.RoundTripper
	// Log gets a line per request at debug level and the warnings of the write lock. Nil: none.
	Log *slog.Logger
}

// Client talks to one workspace of one LoopGrid service. It is safe for concurrent use; reads run side by side, writes one
// after the other (see [Client.NewWrite]). Nothing is contacted before the first call.
type Client struct {
	o    Options
	log  *slog.Logger
	lock *writelock.Lock
}

// New returns a client. BaseURL and Workspace have to be set.
func New(o Options) *Client {
	if o.Transport == nil {
		o.Transport = NewTransport()
	}
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Client{
		o:   o,
		log: log,
		lock: writelock.New(writelock.Options{
			Dir:  o.LockDir,
			Name: writelock.Name(o.BaseURL, o.Workspace),
			Warn: func(msg string) { log.Warn("write lock", "problem", msg) },
		}),
	}
}

// NewTransport returns the HTTP transport that suits LoopGrid: it keeps connections for less time than the service does (5 s), so
// that no request is lost on a connection that is being closed, never decompresses, and uses HTTP_PROXY except for loopback. It
// speaks HTTP/1.1 alone: HTTP/2 would repeat a write by itself when a connection ends.
func NewTransport() *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		MaxIdleConns:        64,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     idleConnection,
		DisableCompression:  true, // evidence is hashed as it is sent
		Protocols:           &protocols,
	}
}

// Workspace returns the workspace that the client records in.
func (c *Client) Workspace() string { return c.o.Workspace }

// Timeout returns the time that one request with its repeats may take.
func (c *Client) Timeout() time.Duration { return c.o.Timeout }

type requestIDKey struct{}

// WithRequestID returns a context whose requests carry id as X-Request-ID, which LoopGrid echoes and logs.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

// NewRequestID returns a fresh id for [WithRequestID].
func NewRequestID() string {
	var b [10]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return "lgm_" + hex.EncodeToString(b[:])
}

// request is one call of a route, to be sent once or more often.
type request struct {
	method string
	route  string // as in the API's documentation, for messages: no id of the caller in it
	path   string // escaped, below the base URL
	query  string
	body   []byte
	accept string
	limit  int64 // bytes of the answer
	kind   kind
	// posting and ended enclose every try of a request that appends to the ledger. An error of posting keeps it from being sent.
	posting func() error
	ended   func(failure)
}

// kind says what a repeat of a request can do.
type kind int

const (
	read     kind = iota // appends nothing
	evaluate             // a POST that appends nothing
	keyed                // a POST with an idempotency key: a repeat returns what the first one appended
	once                 // a POST without a key: a repeat could append a second time
)

const jsonType = "application/json"

// roundTrip sends r once and returns the answer if it is a 2xx; the body is still to be read.
func (c *Client) roundTrip(ctx context.Context, r *request) (*http.Response, error) {
	// GotConn tells a request that never left from one whose fate is unknown, whatever the error looks like.
	connected := false
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected = true }})
	req, err := http.NewRequestWithContext(traced, r.method, c.address(r), bytes.NewReader(r.body))
	if err != nil {
		return nil, &TransportError{Method: r.method, Route: r.route, failure: failUnreached, Err: err}
	}
	if r.body == nil {
		req.Body = http.NoBody
	} else {
		req.Header.Set("Content-Type", jsonType)
	}
	req.Header.Set("Accept", r.accept)
	if c.o.UserAgent != "" {
		req.Header.Set("User-Agent", c.o.UserAgent)
	}
	if c.o.ServiceKey != "" {
		req.Header.Set("X-Loopgrid-Key", c.o.ServiceKey)
	}
	if id, ok := ctx.Value(requestIDKey{}).(string); ok {
		req.Header.Set("X-Request-Id", id)
	}
	// Not by an http.Client: it follows redirects, which could carry the key to another host, and fails on those it cannot read.
	res, err := c.o.Transport.RoundTrip(req)
	if err != nil {
		return nil, c.transportError(ctx, r, err, connected)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		defer res.Body.Close()
		return nil, c.apiError(r, res)
	}
	if encoding := res.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		_ = res.Body.Close()
		return nil, &AnswerError{Method: r.method, Route: r.route, Reason: "the answer is compressed although that was not asked for"}
	}
	return res, nil
}

func (c *Client) address(r *request) string {
	address := strings.TrimRight(c.o.BaseURL.String(), "/") + r.path
	if r.query != "" {
		address += "?" + r.query
	}
	return address
}

// exchange sends r once and returns the JSON object that a 2xx answer consists of.
func (c *Client) exchange(ctx context.Context, r *request) (answer, error) {
	res, err := c.roundTrip(ctx, r)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	if media, _, err := mime.ParseMediaType(res.Header.Get("Content-Type")); err != nil || media != jsonType {
		return answer{}, &AnswerError{Method: r.method, Route: r.route, Reason: "the answer is " + c.describeType(media) + " where JSON was expected"}
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, r.limit+1))
	if err != nil {
		return answer{}, c.transportError(ctx, r, err, true)
	}
	if int64(len(body)) > r.limit {
		return answer{}, &AnswerError{Method: r.method, Route: r.route, Reason: fmt.Sprintf("the answer is longer than %d bytes", r.limit)}
	}
	value := jsontext.Value(body)
	if evidence.NestsDeeper(body, maxAnswerDepth) {
		return answer{}, &AnswerError{Method: r.method, Route: r.route, Reason: fmt.Sprintf("the answer nests deeper than %d levels", maxAnswerDepth)}
	}
	if !value.IsValid() {
		return answer{}, &AnswerError{Method: r.method, Route: r.route, Reason: "the answer is not valid JSON"}
	}
	if value.Kind() != '{' {
		return answer{}, &AnswerError{Method: r.method, Route: r.route, Reason: "the answer is not a JSON object"}
	}
	return answer{body: bytes.TrimSpace(body), sandbox: res.Header.Get("X-Loopgrid-Sandbox") != ""}, nil
}

// answer is the body of a 2xx answer, which is one JSON object.
type answer struct {
	body    jsontext.Value
	sandbox bool
}

// describeType names a media type, which is in lower case: a service that put the key there would otherwise show it that way.
func (c *Client) describeType(media string) string {
	switch {
	case media == "":
		return "of no named type"
	case media == "text/html":
		return "a web page (text/html)"
	case c.o.ServiceKey != "" && strings.Contains(media, strings.ToLower(c.o.ServiceKey)):
		return "of another type"
	default:
		return clean(media, 60)
	}
}

// send sends r and repeats it as far as [repeatAfter] allows. The context bounds all of it, as does the client's time-out.
func (c *Client) send(ctx context.Context, r *request) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	end, _ := ctx.Deadline()
	var a answer
	err := c.repeat(ctx, r, end, func() (err error) {
		a, err = c.exchange(ctx, r)
		return err
	})
	return a, err
}

// repeat calls try until it succeeds, its failure is one that a repeat does not mend, or the next try would begin after end. The error is a [*WriteError], which for
// a read means no more than its cause.
func (c *Client) repeat(ctx context.Context, r *request, end time.Time, try func() error) error {
	var history attempts
	for {
		if r.posting != nil {
			if err := r.posting(); err != nil {
				return &WriteError{Err: err}
			}
		}
		began := time.Now()
		err := try()
		f := failureOf(err)
		history.add(began, f, err)
		if r.ended != nil {
			r.ended(f)
		}
		c.log.LogAttrs(ctx, slog.LevelDebug, "request", slog.String("method", r.method), slog.String("route", r.route),
			slog.String("result", f.String()), slog.Int("try", history.tries), slog.Duration("took", time.Since(began)))
		if err == nil {
			return nil
		}
		wait, again := repeatAfter(r.kind, &history)
		if !again || time.Until(end) <= wait || pause(ctx, wait) != nil {
			return history.wrap(err)
		}
	}
}

// pause waits for d, or until ctx ends, which is its error.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// decisionPath returns the path of a decision's route; the id is one escaped segment, whatever it holds.
func decisionPath(id, below string) string { return "/api/v1/decisions/" + url.PathEscape(id) + below }

// IsDecisionID says whether id has the form of a decision's id: 1 to 128 ASCII letters, digits, "-" and "_". Anything else must
// not be put into a path: an empty id, "." or a slash lands on another route.
func IsDecisionID(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for _, b := range []byte(id) {
		if b != '-' && b != '_' && (b < '0' || b > '9') && (b < 'A' || b > 'Z') && (b < 'a' || b > 'z') {
			return false
		}
	}
	return true
}

var errBadDecisionID = errors.New("not a decision id: 1 to 128 letters, digits, - and _")
