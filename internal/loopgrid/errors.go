package loopgrid

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// APIError is an answer that is not a 2xx.
type APIError struct {
	Method string
	Route  string // as in the API's documentation: {id} stands for the id
	Status int
	// InFront says that the answer is not LoopGrid's: a gateway, proxy, firewall or another web server gave it.
	InFront bool
	// Code is LoopGrid's code of a lifecycle conflict, such as action_blocked; empty elsewhere.
	Code string
	// Detail is the reason that LoopGrid gave, on one line, shortened, without what the caller sent.
	Detail string
	// RetryAfter is how long to wait before the next request (429, 503); 0 where the answer does not say.
	RetryAfter time.Duration

	meaning meaning
	proxy   string // the proxy of the environment that may have given the answer; empty if there is none
}

// Summary tells who answered with which status to what, in words of ours alone.
func (e *APIError) Summary() string {
	who := "LoopGrid"
	switch {
	case e.InFront && e.Status == http.StatusProxyAuthRequired && e.proxy != "":
		return fmt.Sprintf("LoopGrid is not reachable: the proxy %s asks for a user name and a password (407)", e.proxy)
	case e.InFront && e.proxy != "":
		who = "the proxy " + e.proxy + ", or something behind it,"
	case e.InFront:
		who = "something in front of LoopGrid"
	}
	text := fmt.Sprintf("%s answered %d to %s %s", who, e.Status, e.Method, e.Route)
	if e.Status >= http.StatusMultipleChoices && e.Status < http.StatusBadRequest {
		text += " (a redirect, which is never followed)"
	}
	return text
}

// Error is the summary with the reason that LoopGrid gave.
func (e *APIError) Error() string {
	text := e.Summary()
	if e.Code != "" {
		text += ": " + e.Code
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// Remedy says in a sentence or two who can do what about an answer that does not come from LoopGrid. It is empty for LoopGrid's own
// answers, whose remedy depends on what was asked.
func (e *APIError) Remedy() string {
	if e.meaning.remedy != "" && e.RetryAfter > 0 {
		return fmt.Sprintf("%s Call again in %d s.", e.meaning.remedy, int(e.RetryAfter.Seconds())+1)
	}
	return e.meaning.remedy
}

// AnswerError is a 2xx answer that is not what the route answers.
type AnswerError struct {
	Method string
	Route  string
	Reason string
}

// Error tells the route and what is wrong with the answer.
func (e *AnswerError) Error() string {
	return fmt.Sprintf("the answer to %s %s cannot be used: %s", e.Method, e.Route, e.Reason)
}

// TransportError is a request without an answer.
type TransportError struct {
	Method string
	Route  string
	Err    error

	failure   failure
	diagnosis diagnosis
}

// Error tells what happened and names the host and port that were tried; no path, no user name and no key.
func (e *TransportError) Error() string { return e.diagnosis.problem }

// Remedy says in a sentence or two what the operator can do; empty for a request that was cancelled.
func (e *TransportError) Remedy() string { return e.diagnosis.remedy }

// Unwrap returns the error of the transport.
func (e *TransportError) Unwrap() error { return e.Err }

// Sent says whether the request, or a part of it, may have reached the service.
func (e *TransportError) Sent() bool { return e.failure.mayHaveLanded }

// TimedOut says whether the service did not answer in time.
func (e *TransportError) TimedOut() bool { return e.failure == failTimedOut }

// Outcome says what became of a write that did not succeed.
type Outcome int

const (
	// NotRecorded means that the service refused the write or never got it.
	NotRecorded Outcome = iota
	// Unknown means that the write may be in the ledger: no answer came, or one that does not tell.
	Unknown
)

// String returns the words that users see.
func (o Outcome) String() string {
	if o == Unknown {
		return "outcome unknown"
	}
	return "not recorded"
}

// WriteError is the error of every method of [Turn].
type WriteError struct {
	Outcome Outcome
	Err     error // an *APIError, *AnswerError or *TransportError, or why nothing was sent
}

// Error returns the text of the cause.
func (e *WriteError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *WriteError) Unwrap() error { return e.Err }

// OutcomeOf returns what an error of a [Turn] means. Any other error counts as not recorded: nothing was sent.
func OutcomeOf(err error) Outcome {
	if w, ok := errors.AsType[*WriteError](err); ok {
		return w.Outcome
	}
	return NotRecorded
}

// failure is one way for a try to end: its name in the log, and what it means for a write.
type failure struct {
	name          string
	mayHaveLanded bool // the service may have recorded the request nevertheless
	unsettles     bool // the service may still be at work on it
}

//nolint:gochecknoglobals // Constants, which Go has not for structs.
var (
	failNone       = failure{name: "ok"}
	failRejected   = failure{name: "rejected"}    // LoopGrid refused, and recorded nothing
	failTurnedAway = failure{name: "turned_away"} // something in front refused, and passed nothing on
	failLimited    = failure{name: "limited"}     // 429: too many requests, nothing was recorded
	failUnreached  = failure{name: "unreached"}   // never left: no name, no route, no TLS
	failRefused    = failure{name: "refused"}     // never left: nothing listens there, perhaps only for a moment
	failCancelled  = failure{name: "cancelled"}   // cancelled before anything was sent

	failServer   = failure{name: "server_error", mayHaveLanded: true}                   // LoopGrid failed, and has ended its work
	failAnswer   = failure{name: "unusable", mayHaveLanded: true, unsettles: true}      // a 2xx that is not what the route answers
	failUnclear  = failure{name: "unclear", mayHaveLanded: true, unsettles: true}       // something in front refused, perhaps the answer
	failInFront  = failure{name: "front_error", mayHaveLanded: true, unsettles: true}   // something in front failed
	failGateway  = failure{name: "gateway_error", mayHaveLanded: true, unsettles: true} // something in front gave up
	failLost     = failure{name: "lost", mayHaveLanded: true, unsettles: true}          // the connection ended
	failAborted  = failure{name: "aborted", mayHaveLanded: true, unsettles: true}       // cancelled after it had been sent
	failTimedOut = failure{name: "timed_out", mayHaveLanded: true, unsettles: true}     // no answer in time
)

func failureOf(err error) failure {
	var api *APIError
	var transport *TransportError
	var unusable *AnswerError
	switch {
	case err == nil:
		return failNone
	case errors.As(err, &transport):
		return transport.failure
	case errors.As(err, &unusable):
		return failAnswer
	case errors.As(err, &api):
		return api.meaning.failure
	default:
		return failRejected
	}
}

// Cause names in a word or two what ended a request, for a log: it holds nothing of what was sent, and no text of the service. It is
// empty for an error that is not one of a request.
func Cause(err error) string {
	var api *APIError
	var transport *TransportError
	var unusable *AnswerError
	switch {
	case errors.As(err, &api):
		return "status " + strconv.Itoa(api.Status)
	case errors.As(err, &transport), errors.As(err, &unusable):
		return failureOf(err).name
	default:
		return ""
	}
}

func (c *Client) transportError(ctx context.Context, r *request, err error, connected bool) error {
	e := &TransportError{Method: r.method, Route: r.route, Err: err}
	cause := ctx.Err()
	switch {
	case connected && (errors.Is(cause, context.DeadlineExceeded) || isTimeout(err)):
		e.failure = failTimedOut
	case connected && cause != nil:
		e.failure = failAborted
	case connected && !asksForCertificate(err):
		e.failure = failLost
	case errors.Is(cause, context.Canceled):
		e.failure = failCancelled
	case isRefused(err) && !isProxyError(err):
		e.failure = failRefused
	default:
		e.failure = failUnreached
	}
	e.diagnosis = c.diagnose(e)
	return e
}

// apiError reads an answer that is not a 2xx. The body of an informational answer never ends, since 101 turns the connection over.
func (c *Client) apiError(r *request, res *http.Response) error {
	e := &APIError{Method: r.method, Route: r.route, Status: res.StatusCode, InFront: true, RetryAfter: retryAfter(res.Header)}
	var body []byte
	if res.StatusCode >= http.StatusBadRequest {
		// What came of a body that is cut will do: without its detail it is not LoopGrid's.
		body, _ = io.ReadAll(io.LimitReader(res.Body, maxJSONAnswer))
		if !jsontext.Value(body).IsValid() && mediaType(res) == jsonType {
			body = nil
		}
		if e.InFront = isInFront(res, body); !e.InFront {
			code, detail := c.errorDetail(body)
			e.Code, e.Detail = c.clean(code, 60), c.clean(detail, 300)
		}
	}
	e.meaning = meaningOf(e.Status, e.InFront)
	if c.o.BaseURL.Scheme == "http" { // in a tunnel it has no say
		e.proxy = c.Proxy()
	}
	if e.Status == http.StatusProxyAuthRequired && e.proxy != "" {
		e.meaning.remedy = c.logInRemedy()
	}
	if e.Status == http.StatusBadRequest && e.InFront && bytes.Contains(bytes.ToLower(body), []byte("required ssl certificate")) {
		e.meaning.remedy = clientCertificateRemedy
	}
	if e.meaning.failure == failTurnedAway && e.Status < http.StatusBadRequest && pointsElsewhere(res, c.address(r)) {
		e.meaning.failure = failUnclear
	}
	return e
}

// errorDetail reads the three forms that LoopGrid's errors have. What the caller sent (input) is left out. A body in another
// form, such as a proxy's page, is not shown: it says more about the proxy than about the problem.
func (c *Client) errorDetail(body []byte) (code, detail string) {
	switch value := evidence.Get(body, "detail"); value.Kind() {
	case '"':
		detail, _ = evidence.Unquote(value)
	case '{':
		return evidence.GetText(value, "code"), evidence.GetText(value, "message")
	case '[':
		detail = c.validationDetail(value)
	default:
	}
	return "", detail
}

// validationDetail renders the list of a 422 as "field: message; field: message".
func (c *Client) validationDetail(list jsontext.Value) string {
	var all []string
	for problem := range evidence.Elements(list) {
		if len(all) == 5 {
			all = append(all, "…")
			break
		}
		var where []string
		for step := range evidence.Elements(evidence.Get(problem, "loc")) {
			name, ok := evidence.Unquote(step)
			if !ok {
				name = string(step)
			}
			where = append(where, c.clean(name, 40))
		}
		if len(where) > 1 {
			where = where[1:] // "body" or "query"
		}
		all = append(all, strings.Join(where, ".")+": "+c.clean(evidence.GetText(problem, "msg"), 120))
	}
	return strings.Join(all, "; ")
}

// longestRetryAfter is the longest wait that a Retry-After header is believed to mean.
const longestRetryAfter = 24 * time.Hour

// retryAfter reads a Retry-After header, which holds seconds or a date. A date is that of the answer's clock, which may not be ours.
func retryAfter(header http.Header) time.Duration {
	after := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(after, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, longestRetryAfter)
	} else if errors.Is(err, strconv.ErrRange) {
		return longestRetryAfter
	}
	date, err := http.ParseTime(after)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return min(max(0, date.Sub(now)), longestRetryAfter)
}
