package loopgrid_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

// readers are the requests that record nothing.
func readers(id string) map[string]func(context.Context, *loopgrid.Client) error {
	return map[string]func(context.Context, *loopgrid.Client) error{
		"verify": func(ctx context.Context, c *loopgrid.Client) error { _, err := c.Verify(ctx, id); return err },
		"get":    func(ctx context.Context, c *loopgrid.Client) error { _, err := c.GetDecision(ctx, id); return err },
		"evidence": func(ctx context.Context, c *loopgrid.Client) error {
			body, err := c.Evidence(ctx, id, false)
			if err == nil {
				_ = body.Close()
			}
			return err
		},
	}
}

// writers are the requests that record something in a decision.
func writers(id string) map[string]func(context.Context, *loopgrid.Turn) error {
	return map[string]func(context.Context, *loopgrid.Turn) error{
		"append": func(ctx context.Context, w *loopgrid.Turn) error {
			_, _, err := w.AppendEvent(ctx, id, &loopgrid.NewEvent{EventType: "tool_executed", ActorType: "tool", ActorID: "a", IdempotencyKey: "k"})
			return err
		},
		"review": func(ctx context.Context, w *loopgrid.Turn) error {
			_, err := w.Review(ctx, id, &loopgrid.Review{Action: "approve", Reviewer: "r"})
			return err
		},
	}
}

func TestAnswersThatNestTooDeepAreRefused(t *testing.T) {
	t.Parallel()
	nested := func(levels int) string {
		return `{"valid":true,"x":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + "}"
	}
	verify := func(levels int) error {
		_, err := mount(t, answerJSON(nested(levels))).Verify(t.Context(), decisionID)
		return err
	}
	require.NoError(t, verify(500))
	for _, levels := range []int{501, 9_999, 20_000} {
		var unusable *loopgrid.AnswerError
		require.ErrorAs(t, verify(levels), &unusable)
		assert.Equal(t, "the answer nests deeper than 500 levels", unusable.Reason)
	}
}

func TestTheKeyInAMediaTypeIsNotShown(t *testing.T) {
	t.Parallel()
	_, err := mount(t, answerTyped(http.StatusOK, serviceKey+"/x", "{}")).Verify(t.Context(), decisionID)
	require.Error(t, err)
	assert.NotContains(t, strings.ToLower(err.Error()), strings.ToLower(serviceKey))
	assert.ErrorContains(t, err, "the answer is of another type where JSON was expected")
}

func TestALoginPageIsNoBundle(t *testing.T) {
	t.Parallel()
	_, err := mount(t, answerTyped(http.StatusOK, "text/html; charset=utf-8", "<html>Sign in")).Evidence(t.Context(), decisionID, false)
	assert.ErrorContains(t, err, "the answer is a web page (text/html) where a ZIP was expected")
}

func TestAnEventOfAnotherDecisionIsNotOurs(t *testing.T) {
	t.Parallel()
	c := mount(t, answerJSON(strings.Replace(eventText, decisionID, "dec_other", 1)))
	err := writing(t.Context(), c.Client, func(w *loopgrid.Turn) error { return writers(decisionID)["append"](t.Context(), w) })
	require.ErrorContains(t, err, "it is an event of another decision")
	assert.Equal(t, loopgrid.Unknown, loopgrid.OutcomeOf(err))
}

func TestAReviewOfAnotherDecisionIsNotOurs(t *testing.T) {
	t.Parallel()
	c := mount(t, answerJSON(`{"decision_id":"`+decisionID+`","state":"approve","review":`+strings.Replace(reviewEvent, decisionID, "dec_other", 1)+`}`))
	err := writing(t.Context(), c.Client, func(w *loopgrid.Turn) error { return writers(decisionID)["review"](t.Context(), w) })
	require.ErrorContains(t, err, "it is the review of another decision")
	assert.Equal(t, loopgrid.Unknown, loopgrid.OutcomeOf(err))
}

func TestARecordOfAnotherDecisionIsNotTheOneAskedFor(t *testing.T) {
	t.Parallel()
	other := strings.Replace(eventText, decisionID, "dec_other", 1)
	for name, answer := range map[string]string{
		"summary":    `{"summary":{"decision_id":"dec_other"},"events":[` + eventText + `]}`,
		"event":      `{"summary":{"decision_id":"` + decisionID + `"},"events":[` + other + `]}`,
		"last event": `{"summary":{},"events":[` + eventText + `,` + other + `]}`,
	} {
		_, err := mount(t, answerJSON(answer)).GetDecision(t.Context(), decisionID)
		var unusable *loopgrid.AnswerError
		require.ErrorAs(t, err, &unusable, name)
		assert.Equal(t, "it is the record of another decision", unusable.Reason, name)
	}
	_, err := mount(t, answerJSON(`{"summary":{"decision_id":"`+decisionID+`"},"events":[`+eventText+`]}`)).GetDecision(t.Context(), decisionID)
	require.NoError(t, err)
}

// What the service says of itself is shown to people, by doctor.
func TestWhatTheServiceSaysOfItselfIsPlainText(t *testing.T) {
	t.Parallel()
	const hostile = `"a\u001b[31m\n\u202e` + serviceKey + `"`
	const plain = "a [31m [service key]"
	m := mount(t, answerJSON(`{"service":`+hostile+`,"version":`+hostile+`,"evidence_profile":`+hostile+`,"database":`+hostile+
		`,"signer":"`+strings.Repeat("x", 1000)+`"}`))
	health, err := m.Health(t.Context())
	require.NoError(t, err)
	assert.Equal(t, loopgrid.Health{Service: plain, Version: plain, EvidenceProfile: plain}, health)
	ready, err := m.Ready(t.Context())
	require.NoError(t, err)
	assert.Equal(t, loopgrid.Ready{Database: plain, Signer: strings.Repeat("x", 120) + "…"}, ready)
}

func TestRetryAfterIsNeverLongerThanADay(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{
		"5": 5 * time.Second, " 5 ": 5 * time.Second, "-5": 0, "5.5": 0, "": 0, "soon": 0,
		"86401": 24 * time.Hour, "4294967296": 24 * time.Hour, "99999999999999999999": 24 * time.Hour,
		"Wed, 21 Oct 2099 07:28:00 GMT": 24 * time.Hour, "Wed, 21 Oct 2015 07:28:00 GMT": 0,
	} {
		m := mount(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", header)
			w.WriteHeader(http.StatusTooManyRequests)
		})
		_, err := m.Health(t.Context()) // which is not repeated
		var api *loopgrid.APIError
		require.ErrorAs(t, err, &api, header)
		assert.Equal(t, want, api.RetryAfter, header)
	}
}

// A content delivery network that gives up on the service says nothing about what the service still does: a repeat right after would
// overlap with it, and break the chain.
func TestAStatusOfANetworkInBetweenUnsettles(t *testing.T) {
	t.Parallel()
	for status, unsettles := range map[int]bool{500: true, 501: true, 507: true, 403: true, 404: false, 413: false, 502: true, 504: true, 520: true, 522: true, 524: true, 530: true, 599: true} {
		m := mount(t, answerTyped(status, "text/html", "<html>"), func(o *loopgrid.Options) { o.Timeout = 400 * time.Millisecond })
		err := writing(t.Context(), m.Client, func(w *loopgrid.Turn) error {
			return writers(decisionID)["append"](t.Context(), w)
		})
		require.Error(t, err)
		assert.Equal(t, unsettles, loopgrid.OutcomeOf(err) == loopgrid.Unknown, status)
		next := m.NewTurn()
		if err := next.Begin(t.Context(), loopgrid.Subject{}); unsettles {
			require.ErrorContains(t, err, "an earlier write got no answer and may still be running in LoopGrid, which has not answered anything since", status)
		} else {
			require.NoError(t, err, status)
		}
		next.End()
		if unsettles {
			m.only(t) // the first repeat comes after a second
		}
	}
}

func TestCauseHoldsNothingOfTheService(t *testing.T) {
	t.Parallel()
	for want, answer := range map[string]http.HandlerFunc{
		"status 401": answerTyped(http.StatusUnauthorized, "application/json", `{"detail":"PRIVATE"}`),
		"unusable":   answerTyped(http.StatusOK, "PRIVATE/x", ""),
	} {
		_, err := mount(t, answer).Verify(t.Context(), decisionID)
		require.Error(t, err)
		assert.Equal(t, want, loopgrid.Cause(err))
	}
	assert.Empty(t, loopgrid.Cause(errors.New("PRIVATE")))
	assert.Empty(t, loopgrid.Cause(nil))
}

// paths is a transport that keeps where requests went, and answers all of them alike.
type paths struct {
	mu   sync.Mutex
	seen []*url.URL
	host []string
}

func (p *paths) RoundTrip(r *http.Request) (*http.Response, error) {
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen, p.host = append(p.seen, r.URL), append(p.host, r.Host)
	return &http.Response{
		StatusCode: http.StatusNotFound, Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: -1,
		Body: io.NopCloser(strings.NewReader(`{"detail":"Not Found"}`)),
	}, nil
}

// FuzzDecisionID: whatever an id holds, it becomes one segment of a path below the base of the same host, or nothing is sent.
func FuzzDecisionID(f *testing.F) {
	for _, id := range []string{
		decisionID, "", ".", "..", "../x", "a/b", `a\b`, "a%2Fb", "%2e%2e", "a?b", "a#b", "a b", "a\x00", "a\nb", "é", "//evil.test", "http://evil.test/", "@evil.test",
		":1", "a;b", strings.Repeat("a", 128), strings.Repeat("a", 129), "\xff", "-", "_",
	} {
		f.Add(id)
	}
	base, _ := url.Parse("http://loopgrid.test:8000/ba%2Fse")
	f.Fuzz(func(t *testing.T, id string) {
		seen := &paths{}
		o := loopgrid.Options{BaseURL: base, Workspace: "w", Timeout: time.Second, MaxEvidenceBytes: 1, Transport: seen}
		c := loopgrid.New(o)
		sent := 0
		check := func(name string) {
			t.Helper()
			if !loopgrid.IsDecisionID(id) {
				if len(seen.seen) != 0 {
					t.Fatalf("%s sent a request for %q: %s", name, id, seen.seen[0])
				}
				return
			}
			sent++
			if len(seen.seen) != sent {
				t.Fatalf("%s sent %d requests for %q", name, len(seen.seen)-sent+1, id)
			}
			u := seen.seen[sent-1]
			rest, below := strings.CutPrefix(u.EscapedPath(), "/ba%2Fse/api/v1/decisions/")
			segment, _, _ := strings.Cut(rest, "/")
			if u.Host != base.Host || u.Scheme != base.Scheme || seen.host[sent-1] != "" && seen.host[sent-1] != base.Host || !below || segment != id || u.Fragment != "" {
				t.Fatalf("%s of %q went to %s", name, id, u)
			}
			again, err := url.Parse(u.String())
			if err != nil || again.EscapedPath() != u.EscapedPath() || again.Host != base.Host {
				t.Fatalf("%s of %q is read as %s", name, id, again)
			}
		}
		for name, read := range readers(id) {
			_ = read(t.Context(), c)
			check(name)
		}
		for name, write := range writers(id) {
			_ = writing(t.Context(), c, func(w *loopgrid.Turn) error { return write(t.Context(), w) })
			check(name)
		}
	})
}
