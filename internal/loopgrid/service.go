package loopgrid

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/text"
)

// Health is the answer of GET /health; fields are on one line without control characters and the key, and
// empty where the service does not send them.
type Health struct {
	Service         string
	Version         string
	EvidenceProfile string
	Sandbox         bool
}

// Health asks whether the service runs: GET /health, no key needed. It is sent once. Errors are [*APIError], [*AnswerError],
// [*TransportError].
func (c *Client) Health(ctx context.Context) (health Health, err error) {
	err = c.probe(ctx, "/health", func(a answer) string {
		health = Health{
			Service: c.plain(a, "service"), Version: c.plain(a, "version"), EvidenceProfile: c.plain(a, "evidence_profile"), Sandbox: a.sandbox,
		}
		return ""
	})
	return health, err
}

// Ready is the answer of GET /ready; fields are on one line without control characters and the key, and
// empty where the service does not send them.
type Ready struct {
	Database string
	Signer   string
}

// Ready asks whether the service can record: GET /ready, no key needed. It is sent once. Errors are those of [Client.Health];
// an [*APIError] of 503 means that the database is down.
func (c *Client) Ready(ctx context.Context) (ready Ready, err error) {
	err = c.probe(ctx, "/ready", func(a answer) string {
		ready = Ready{Database: c.plain(a, "database"), Signer: c.plain(a, "signer")}
		return ""
	})
	return ready, err
}

// SystemInfo is what the service says of its own set-up; fields are empty where it does not.
type SystemInfo struct {
	Environment string // production, …
	Database    string // sqlite or postgresql
	// NoLifecycle says that the service does not enforce the order of events: it records actions that it should refuse.
	NoLifecycle bool
	// Open says that requests without a key are let through.
	Open bool
}

// SystemInfo asks for the set-up of the service: GET /api/v1/system/info, no key needed. It records nothing. Errors are those of
// [Client.Health].
func (c *Client) SystemInfo(ctx context.Context) (info SystemInfo, err error) {
	err = c.probe(ctx, "/api/v1/system/info", func(a answer) string {
		info = SystemInfo{
			Environment: c.plain(a, "environment"), Database: c.plain(a, "database", "provider"),
			NoLifecycle: evidence.Get(a.body, "lifecycle", "enforced").Kind() == 'f',
		}
		// Production asks for a key in any case.
		info.Open = info.Environment != "production" && evidence.Get(a.body, "deployment_security", "human_auth_required").Kind() == 'f'
		return ""
	})
	return info, err
}

// plain is a member of an answer, fit for a person.
func (c *Client) plain(a answer, path ...string) string {
	const longest = 120
	return c.clean(evidence.GetText(a.body, path...), longest)
}

func (c *Client) probe(ctx context.Context, path string, use func(answer) string) error {
	r := get(path, path)
	r.kind = probe
	return c.doJSON(ctx, r, use)
}

// maxFailures is how many failures of a verification are kept: a broken ledger has one for each event.
const maxFailures = 20

// Verification is the answer of a verify. Raw is all of it but for the failures beyond the first 20, which FailuresOmitted counts.
type Verification struct {
	Raw             jsontext.Value
	Valid           bool
	FailuresOmitted int
}

// Verify has the service check the signed chain of the decision's workspace: GET /api/v1/decisions/{id}/verify, scope read.
// Valid false is an answer, not an error. The cost grows with the ledger, about 0.13 s per 1,000 events. Errors are [*APIError],
// [*AnswerError], [*TransportError], and [ErrBusy].
func (c *Client) Verify(ctx context.Context, decisionID string) (verification Verification, err error) {
	if !IsDecisionID(decisionID) {
		return Verification{}, errBadDecisionID
	}
	r := get("/api/v1/decisions/{id}/verify", decisionPath(decisionID, "/verify"))
	err = c.doWithin(ctx, r, func(ctx context.Context, res *http.Response) error {
		verification, err = c.readVerification(ctx, r, res)
		return err
	})
	if err != nil {
		return Verification{}, err
	}
	return verification, nil
}

// readVerification reads a verify answer and cuts its failures while they come: they can be megabytes, and a reader needs the first few.
func (c *Client) readVerification(ctx context.Context, r *request, res *http.Response) (v Verification, err error) {
	if media := mediaType(res); media != jsonType {
		return v, r.unusable("the answer is " + c.describeType(media) + " where JSON was expected")
	}
	wire := &failingReader{Reader: res.Body}
	body := &io.LimitedReader{R: wire, N: r.limit + 1}
	decoder := jsontext.NewDecoder(body)
	fields, err := v.readMembers(decoder)
	if err == nil {
		if _, err = decoder.ReadToken(); errors.Is(err, io.EOF) {
			err = nil
		} else if err == nil {
			err = errTwoValues
		}
	}
	switch {
	case wire.failed != nil:
		return v, c.transportError(ctx, r, wire.failed, true)
	case body.N == 0:
		return v, r.unusable(fmt.Sprintf("the answer is longer than %d bytes", r.limit))
	case errors.Is(err, errNoObject):
		return v, r.unusable("the answer is not a JSON object")
	case errors.Is(err, errTooDeep), err != nil && strings.Contains(err.Error(), "exceeded max depth"): // jsontext names no error for its own limit
		return v, r.unusable(fmt.Sprintf("the answer nests deeper than %d levels", maxAnswerDepth))
	case err != nil:
		return v, r.unusable("the answer is not valid JSON")
	}
	v.Raw = evidence.Object(fields...)
	valid := evidence.Get(v.Raw, "valid").Kind()
	if valid != 't' && valid != 'f' {
		return v, r.unusable("it does not say whether the chain is valid")
	}
	v.Valid = valid == 't'
	return v, nil
}

var (
	errNoObject  = errors.New("not a JSON object")
	errTooDeep   = errors.New("nested too deep")
	errTwoValues = errors.New("more than one JSON value")
)

// failingReader remembers why reading failed: to a decoder, an answer that is cut short and a broken connection look the same.
type failingReader struct {
	io.Reader
	failed error
}

func (r *failingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.failed = err
	}
	return n, err
}

// readMembers reads the members of an object, all but the failures that are not kept.
func (v *Verification) readMembers(decoder *jsontext.Decoder) (fields []evidence.Field, err error) {
	if decoder.PeekKind() != '{' {
		if _, err := decoder.ReadValue(); err != nil {
			return nil, err
		}
		return nil, errNoObject
	}
	if _, err := decoder.ReadToken(); err != nil {
		return nil, err
	}
	for decoder.PeekKind() == '"' {
		name, err := decoder.ReadToken()
		if err != nil {
			return nil, err
		}
		field := evidence.Field{Name: name.String()}
		if field.Name == "failures" && decoder.PeekKind() == '[' {
			field.Value, err = v.readFailures(decoder)
		} else {
			field.Value, err = readShallow(decoder, maxAnswerDepth-1)
		}
		if err != nil {
			return nil, err
		}
		fields = append(fields, field)
	}
	_, err = decoder.ReadToken()
	return fields, err
}

func (v *Verification) readFailures(decoder *jsontext.Decoder) (jsontext.Value, error) {
	if _, err := decoder.ReadToken(); err != nil {
		return nil, err
	}
	var kept []jsontext.Value
	for decoder.PeekKind() != ']' {
		failure, err := readShallow(decoder, maxAnswerDepth-2)
		if err != nil {
			return nil, err
		}
		if len(kept) == maxFailures {
			v.FailuresOmitted++
			continue
		}
		kept = append(kept, failure)
	}
	_, err := decoder.ReadToken()
	return evidence.Array(kept...), err
}

// readShallow reads a value of at most that many levels.
func readShallow(decoder *jsontext.Decoder, levels int) (jsontext.Value, error) {
	value, err := decoder.ReadValue()
	if err != nil {
		return nil, err
	}
	if evidence.NestsDeeper(value, levels) {
		return nil, errTooDeep
	}
	return value.Clone(), nil
}

// Events returns how many events the chain has that was checked, "" where the answer does not say.
func (v Verification) Events() string {
	if events := evidence.Get(v.Raw, "total_ledger_events"); events.Kind() == '0' {
		return text.Clean(string(events), 20)
	}
	return ""
}

// ChainFailure is one event at which a chain is broken.
type ChainFailure struct {
	EventID string
	Reasons []string // LoopGrid's words, such as content_hash_mismatch
}

// FirstFailure returns where the chain is broken first, and at how many events in all.
func (v Verification) FirstFailure() (first ChainFailure, all int) {
	for failure := range evidence.Elements(evidence.Get(v.Raw, "failures")) {
		if all++; all > 1 {
			continue
		}
		first.EventID = text.Clean(evidence.GetText(failure, "event_id"), 60)
		for reason := range evidence.Elements(evidence.Get(failure, "reasons")) {
			word, _ := evidence.Unquote(reason)
			first.Reasons = append(first.Reasons, text.Clean(word, 60))
		}
	}
	return first, all + v.FailuresOmitted
}
