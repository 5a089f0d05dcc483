package loopgrid

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// ErrTooLarge means that an evidence bundle is larger than the client's MaxEvidenceBytes.
var ErrTooLarge = errors.New("the evidence bundle is larger than allowed")

// Evidence opens the evidence bundle of a decision: GET /api/v1/decisions/{id}/evidence, scope read. With payloads false the
// service leaves the clear payloads out; what to do is always said, since the service's own default is to disclose them. The
// caller reads the ZIP and closes it.
//
// The time-out bounds the answer's header and each stall while reading, not the whole download. Errors, also of Read, are
// [*APIError], [*AnswerError], [*TransportError], and [ErrTooLarge]. Nothing is asked again after the first byte.
func (c *Client) Evidence(ctx context.Context, decisionID string, payloads bool) (io.ReadCloser, error) {
	if !IsDecisionID(decisionID) {
		return nil, errBadDecisionID
	}
	r := get("/api/v1/decisions/{id}/evidence", decisionPath(decisionID, "/evidence"))
	r.query, r.accept = "include_payloads="+strconv.FormatBool(payloads), "application/zip"
	// One deadline for the header with its repeats; the body is bounded by its stalls, so its context must not end with that.
	ctx, cancel := context.WithCancelCause(ctx)
	headers := time.AfterFunc(c.o.Timeout, func() { cancel(errStalled) })
	var res *http.Response
	err := c.do(ctx, r, func(answered *http.Response) error {
		res = answered
		return nil
	})
	headers.Stop()
	if err != nil {
		cancel(nil)
		return nil, c.stalled(ctx, r, err)
	}
	// The login page of a proxy. The bytes of anything else are looked at by the caller, who knows better than a header.
	if media := mediaType(res); media == "text/html" {
		_ = res.Body.Close()
		cancel(nil)
		return nil, r.unusable("the answer is " + c.describeType(media) + " where a ZIP was expected")
	}
	if res.ContentLength > c.o.MaxEvidenceBytes {
		_ = res.Body.Close()
		cancel(nil)
		return nil, ErrTooLarge
	}
	return &download{c: c, r: r, ctx: ctx, cancel: cancel, body: res.Body, left: c.o.MaxEvidenceBytes, whole: res.ContentLength}, nil
}

// errStalled is the cause of a context that ended because the service sent nothing for as long as the time-out.
var errStalled = errors.New("the service sent nothing for too long")

// stalled turns the error of a request that errStalled cancelled into a time-out.
func (c *Client) stalled(ctx context.Context, r *request, err error) error {
	if f := failureOf(err); (f == failAborted || f == failCancelled) && errors.Is(context.Cause(ctx), errStalled) {
		e := &TransportError{Method: r.method, Route: r.route, failure: failTimedOut, Err: errStalled}
		e.diagnosis = c.diagnose(e)
		return e
	}
	return err
}

// download is the body of an evidence answer.
type download struct {
	c      *Client
	r      *request
	ctx    context.Context //nolint:containedctx // the context of the request, which a Reader has to outlive
	cancel context.CancelCauseFunc
	body   io.ReadCloser
	left   int64
	whole  int64 // as announced, -1 if not
	got    int64
}

// Read reads the next part. It ends with [ErrTooLarge] as soon as more than the allowed size has come.
func (d *download) Read(p []byte) (int, error) {
	stall := time.AfterFunc(d.c.o.Timeout, func() { d.cancel(errStalled) })
	n, err := d.body.Read(p)
	stall.Stop()
	d.got += int64(n)
	if d.left -= int64(n); d.left < 0 {
		return 0, ErrTooLarge
	}
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF):
		if d.whole >= 0 && d.got != d.whole {
			return n, d.r.unusable(fmt.Sprintf("only %d of %d bytes came", d.got, d.whole))
		}
		return n, io.EOF
	default:
		return n, d.c.stalled(d.ctx, d.r, d.c.transportError(d.ctx, d.r, err, true))
	}
}

// Close ends the download.
func (d *download) Close() error {
	d.cancel(nil)
	if err := d.body.Close(); err != nil {
		return fmt.Errorf("close the evidence download: %w", err)
	}
	return nil
}
