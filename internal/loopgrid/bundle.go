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
// The time-out bounds the answer's header and each stall while reading, not the whole download; but after the first one at least 64 KiB
// have to come within each. Errors, also of Read, are [*APIError], [*AnswerError], [*TransportError], and [ErrTooLarge]. Nothing is asked
// again after the first byte.
func (c *Client) Evidence(ctx context.Context, decisionID string, payloads bool) (io.ReadCloser, error) {
	if !IsDecisionID(decisionID) {
		return nil, errBadDecisionID
	}
	r := get("/api/v1/decisions/{id}/evidence", decisionPath(decisionID, "/evidence"))
	r.query, r.accept = "include_payloads="+strconv.FormatBool(payloads), "application/zip"
	r.keepsPlace = true
	if err := c.wait(ctx, r); err != nil {
		return nil, err
	}
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
	d := &download{c: c, r: r, ctx: ctx, cancel: cancel, body: res.Body, left: c.o.MaxEvidenceBytes, whole: res.ContentLength}
	if media := mediaType(res); media == "text/html" {
		_ = d.Close()
		return nil, r.unusable("the answer is " + c.describeType(media) + " where a ZIP was expected")
	}
	if res.ContentLength > c.o.MaxEvidenceBytes {
		_ = d.Close()
		return nil, ErrTooLarge
	}
	return d, nil
}

// floor is how much of a bundle has to arrive within each time-out after the first.
const floor = 64 << 10

var (
	// These are the causes of a context that ended because the service sent nothing, or too little, for as long as the time-out.
	errStalled = errors.New("the service sent nothing for too long")
	errHalted  = errors.New("the rest of the bundle did not come")
	errTooSlow = errors.New("the bundle arrives too slowly")
)

// stalled turns the error of a request that one of these cancelled into a time-out.
func (c *Client) stalled(ctx context.Context, r *request, err error) error {
	cause := context.Cause(ctx)
	if f := failureOf(err); (f == failAborted || f == failCancelled) && (errors.Is(cause, errStalled) || errors.Is(cause, errHalted) || errors.Is(cause, errTooSlow)) {
		return c.timedOut(r, cause)
	}
	return err
}

func (c *Client) timedOut(r *request, cause error) error {
	e := &TransportError{Method: r.method, Route: r.route, failure: failTimedOut, Err: cause}
	e.diagnosis = c.diagnose(e)
	return e
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
	// The floor is checked for windows of one time-out each, counted in the time spent waiting for the service, but not for the first one:
	// LoopGrid may be at work on the bundle still.
	waited  time.Duration
	window  time.Duration // the number of the current one
	arrived int64         // in it
}

// Read reads the next part. It ends with [ErrTooLarge] as soon as more than the allowed size has come.
func (d *download) Read(p []byte) (int, error) {
	limit, cause := d.patience()
	began := time.Now()
	stall := time.AfterFunc(limit, func() { d.cancel(cause) })
	n, err := d.body.Read(p)
	stall.Stop()
	slow := d.isTooSlow(time.Since(began), n)
	d.got += int64(n)
	if d.left -= int64(n); d.left < 0 {
		return 0, ErrTooLarge
	}
	switch {
	case err == nil && slow:
		d.cancel(errTooSlow)
		return 0, d.c.timedOut(d.r, errTooSlow)
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

// patience returns how long the next part may take, and why the download ends if it takes longer: a time-out, or what is left of the
// window in which the floor has to be reached.
func (d *download) patience() (time.Duration, error) {
	timeout := d.c.o.Timeout
	end := (d.window + 1) * timeout
	if d.window == 0 || d.arrived >= floor {
		end += timeout
	}
	if left := end - d.waited; left < timeout {
		return left, errTooSlow
	}
	return timeout, errHalted
}

// isTooSlow notes what came after which wait, and says whether a window has ended below the floor.
func (d *download) isTooSlow(waited time.Duration, n int) bool {
	d.waited += waited
	now, slow := d.waited/d.c.o.Timeout, false
	if now > d.window {
		slow = d.window > 0 && d.arrived < floor
		d.window, d.arrived = now, 0
	}
	d.arrived += int64(n)
	return slow
}

// Close ends the download.
func (d *download) Close() error {
	d.cancel(nil)
	defer d.r.giveBack()
	if err := d.body.Close(); err != nil {
		return fmt.Errorf("close the evidence download: %w", err)
	}
	return nil
}
