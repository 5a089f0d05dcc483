package loopgrid

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

const (
	maxJSONAnswer     = 4 << 20  // bytes of a JSON answer; of an error too, since a 422 repeats what was sent
	maxDecisionAnswer = 32 << 20 // of GET /decisions/{id}, which repeats everything that was sent

	// maxAnswerDepth is how deep an answer may nest. LoopGrid answers none beyond 255 levels, and the JSON readers of hosts give up,
	// some with the whole message, at about 1,000.
	maxAnswerDepth = 500

	jsonType = "application/json"
)

// request is one call of a route, to be sent once or more often.
type request struct {
	method string
	route  string // as in the API's documentation, for messages: no id of the caller in it
	path   string // escaped, below the base URL
	query  string
	body   []byte
	accept string
	limit  int64 // bytes of a JSON answer
	kind   kind
	// beforeTry and afterTry enclose every try of a request that appends to the ledger. If beforeTry fails, nothing is sent.
	beforeTry func(context.Context) error
	afterTry  func(failure)
	// leave gives back the request's place in its lane; keepsPlace says that the answer goes on to need it.
	leave      func()
	keepsPlace bool
	// pause waits before a repeat; nil is [pause].
	pause func(context.Context, failure, time.Duration) error
}

// kind says what a repeat of a request can do.
type kind int

const (
	read     kind = iota // appends nothing
	probe                // a read that is sent once: whoever asks wants to see the first answer
	evaluate             // a POST that appends nothing
	keyed                // a POST with an idempotency key: a repeat returns what the first one appended
	once                 // a POST without a key: a repeat could append a second time
)

func get(route, path string) *request {
	return &request{method: http.MethodGet, route: route, path: path, accept: jsonType, limit: maxJSONAnswer, kind: read}
}

func post(route, path string, k kind, fields ...evidence.Field) *request {
	return &request{
		method: http.MethodPost, route: route, path: path, body: evidence.Object(fields...), accept: jsonType, limit: maxJSONAnswer, kind: k,
	}
}

// doJSON does r, whose answer is a JSON object that use reads; use returns what makes the answer unusable, "" if nothing does.
func (c *Client) doJSON(ctx context.Context, r *request, use func(answer) string) error {
	return c.doWithin(ctx, r, func(ctx context.Context, res *http.Response) error {
		leave, err := c.enterLarge(ctx, r, res)
		if err != nil {
			return err
		}
		defer leave()
		a, err := c.readJSON(ctx, r, res)
		if err != nil {
			return err
		}
		if reason := use(a); reason != "" {
			return r.unusable(reason)
		}
		return nil
	})
}

// doWithin does r within the client's time-out, counted from its place in its lane, for which it waits at most as long. It closes the
// answer.
func (c *Client) doWithin(ctx context.Context, r *request, use func(context.Context, *http.Response) error) error {
	if err := c.wait(ctx, r); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	return c.do(ctx, r, func(res *http.Response) error {
		defer res.Body.Close()
		return use(ctx, res)
	})
}

// wait waits for the place of r, for a time-out at most. Like that of do, the error of a POST is a [*WriteError].
func (c *Client) wait(ctx context.Context, r *request) (err error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	if r.leave, err = c.enter(ctx, r); err != nil && r.method == http.MethodPost {
		return &WriteError{Err: err}
	}
	return err
}

// do sends r until use accepts its answer, which is a 2xx, and repeats it as [repeatAfter] allows within the client's time-out. It is
// the one place where requests are sent and repeated and where the outcome of a write is decided. The error of a POST is a
// [*WriteError], the error of a read its cause.
func (c *Client) do(ctx context.Context, r *request, use func(*http.Response) error) (err error) {
	defer func() {
		if err != nil || !r.keepsPlace { // also where use panics
			r.giveBack()
		}
	}()
	end := time.Now().Add(c.o.Timeout)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
		end = deadline
	}
	var tries attempts
	var before error
	rekeyed := false // the request was repeated with a key that was read again
	for {
		if err := c.admit(ctx, r); err != nil && before != nil {
			return tries.outcome(r.kind, before)
		} else if err != nil {
			return &WriteError{Err: err}
		}
		began, key := time.Now(), c.key.current()
		res, err := c.send(ctx, r, key) //nolint:bodyclose // use closes it, or hands it on
		if err == nil {
			err = use(res)
		}
		ended := failureOf(err)
		tries.add(began, ended, err)
		if r.afterTry != nil {
			r.afterTry(ended)
		}
		c.database.ended(ended)
		c.log.LogAttrs(ctx, slog.LevelDebug, "request", slog.String("method", r.method), slog.String("route", r.route),
			slog.String("result", ended.name), slog.Int("try", tries.n), slog.Duration("took", time.Since(began)))
		if err == nil {
			return nil
		}
		r.giveBack()
		if !rekeyed && c.key.replacedAfter(err, key) {
			rekeyed, before = true, err
			continue
		}
		if ctx.Err() != nil && !ended.mayHaveLanded && tries.n > 1 {
			return tries.outcome(r.kind, before) // a repeat for which there was no time says less than the try before it
		}
		before = err
		wait, again := repeatAfter(r.kind, &tries)
		if !again || time.Until(end) <= wait || r.wait(ctx, ended, wait) != nil {
			return tries.outcome(r.kind, err)
		}
	}
}

// admit waits until r may be sent: it has a place in its lane, and beforeTry agrees. In this order a POST is announced only once it can
// be sent.
func (c *Client) admit(ctx context.Context, r *request) (err error) {
	if r.leave == nil {
		if r.leave, err = c.enter(ctx, r); err != nil {
			return err
		}
	}
	if r.beforeTry == nil {
		return nil
	}
	return r.beforeTry(ctx)
}

// send sends r once and returns the answer if it is a 2xx; the body is still to be read.
func (c *Client) send(ctx context.Context, r *request, key string) (*http.Response, error) {
	// GotConn tells a request that never left from one whose fate is unknown, whatever the error looks like.
	connected := false
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected = true }})
	req, err := c.newRequest(traced, r, key)
	if err != nil {
		return nil, c.transportError(ctx, r, err, false)
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
		return nil, r.unusable("the answer is compressed although that was not asked for")
	}
	return res, nil
}

func (c *Client) newRequest(ctx context.Context, r *request, key string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, c.address(r), bytes.NewReader(r.body))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
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
	if key != "" {
		req.Header.Set("X-Loopgrid-Key", key)
	}
	setTrace(ctx, req.Header)
	if id, ok := ctx.Value(requestIDKey{}).(string); ok {
		req.Header.Set("X-Request-Id", id)
	}
	return req, nil
}

func (c *Client) address(r *request) string {
	address := strings.TrimRight(c.o.BaseURL.String(), "/") + r.path
	if r.query != "" {
		address += "?" + r.query
	}
	return address
}

// answer is the body of a 2xx answer, which is one JSON object.
type answer struct {
	body    jsontext.Value
	sandbox bool
}

func (c *Client) readJSON(ctx context.Context, r *request, res *http.Response) (answer, error) {
	if media := mediaType(res); media != jsonType {
		return answer{}, r.unusable("the answer is " + c.describeType(media) + " where JSON was expected")
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, r.limit+1))
	if err != nil {
		return answer{}, c.transportError(ctx, r, err, true)
	}
	value := jsontext.Value(body)
	switch {
	case int64(len(body)) > r.limit:
		return answer{}, r.unusable(fmt.Sprintf("the answer is longer than %d bytes", r.limit))
	case evidence.NestsDeeper(body, maxAnswerDepth):
		return answer{}, r.unusable(fmt.Sprintf("the answer nests deeper than %d levels", maxAnswerDepth))
	case !value.IsValid():
		return answer{}, r.unusable("the answer is not valid JSON")
	case value.Kind() != '{':
		return answer{}, r.unusable("the answer is not a JSON object")
	}
	return answer{body: bytes.TrimSpace(body), sandbox: res.Header.Get("X-Loopgrid-Sandbox") != ""}, nil
}

func (r *request) unusable(reason string) error {
	return &AnswerError{Method: r.method, Route: r.route, Reason: reason}
}

// describeType names a media type, which is in lower case: a service that put the key there would otherwise show it that way.
func (c *Client) describeType(media string) string {
	switch {
	case media == "":
		return "of no named type"
	case media == "text/html":
		return "a web page (text/html)"
	case slices.ContainsFunc(c.Keys(), func(key string) bool { return strings.Contains(media, strings.ToLower(key)) }):
		return "of another type"
	default:
		return c.clean(media, 60)
	}
}

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

// wait waits before a repeat of r.
func (r *request) wait(ctx context.Context, after failure, d time.Duration) error {
	if r.pause != nil {
		return r.pause(ctx, after, d)
	}
	return pause(ctx, d)
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
