package loopgrid_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

const (
	// In two parts, so that no scanner takes it for the key of a real service.
	serviceKey = "lg_" + "live_0123456789abcdefghijklmnopqrstuvwxyzAB"
	decisionID = "dec_0123456789abcdef01234567"
)

// seen is a request as the service got it.
type seen struct {
	method, uri, body string
	header            http.Header
}

// mounted is a client of a service under /base, which answers every request alike. A request to anywhere else fails the test.
type mounted struct {
	*loopgrid.Client

	mu   sync.Mutex
	seen []seen
}

// mount starts a service that answers with answer, and makes a client for it with changed options.
func mount(t *testing.T, answer http.HandlerFunc, changes ...func(*loopgrid.Options)) *mounted {
	t.Helper()
	m := &mounted{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		if !strings.HasPrefix(r.RequestURI, "/base/") {
			t.Errorf("a request outside of the base path: %s %s", r.Method, r.RequestURI)
		}
		m.mu.Lock()
		m.seen = append(m.seen, seen{r.Method, r.RequestURI, string(body), r.Header.Clone()})
		m.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	o := options(t, server.URL+"/base/")
	for _, change := range changes {
		change(&o)
	}
	m.Client = loopgrid.New(o)
	return m
}

// options are those of a client with everything set but the folder of the locks.
func options(t *testing.T, base string) loopgrid.Options {
	t.Helper()
	address, err := url.Parse(base)
	require.NoError(t, err)
	return loopgrid.Options{
		BaseURL: address, Workspace: "team a", ServiceKey: serviceKey, UserAgent: "loopgrid-mcp/test", Timeout: 20 * time.Second, MaxEvidenceBytes: 1 << 20,
	}
}

// only returns the one request that the service got, but for those for a sign of life.
func (m *mounted) only(t *testing.T) seen {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := slices.DeleteFunc(slices.Clone(m.seen), func(s seen) bool { return strings.HasSuffix(s.uri, "/dec_000000000000000000000000") })
	require.Len(t, seen, 1)
	return seen[0]
}

// writing runs one write call.
func writing(ctx context.Context, c *loopgrid.Client, requests func(*loopgrid.Turn) error) error {
	w := c.NewTurn()
	defer w.End()
	if err := w.Begin(ctx, loopgrid.Subject{}); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	return requests(w)
}

func answerJSON(body string) http.HandlerFunc {
	return answerTyped(http.StatusOK, "application/json", body)
}

func answerTyped(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{contentType}
		if contentType == "" {
			w.Header()["Content-Type"] = nil // Or the server would guess one.
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// The answers have what a parser could lose: blanks, big numbers, the spelling of floats and escapes.
const (
	eventStart = `{"event_id" : "evt_1", "decision_id":"` + decisionID + `","workspace_id":"team a","event_type":`
	eventEnd   = `"privacy_mode":"full","payload_commitment":"` + "c0ffee" + `","payload": {"amount":720.0,"n":9007199254740993,"s":"\u00e9<&>"},` +
		`"payload_available":true,"proof":{"content_hash":"00"},"seq":1.0e1}`
	eventText      = eventStart + `"tool_executed","actor":{"type":"tool","id":"stripe"},` + eventEnd
	createdEvent   = eventStart + `"decision_created","actor":{"type":"agent","id":"a-1"},` + eventEnd
	reviewEvent    = eventStart + `"human_approved","actor":{"type":"human","id":"alice@acme.example"},` + eventEnd
	createdText    = "\n {\"decision_id\":\"" + decisionID + "\", \"event\":" + createdEvent + ",\"idempotent_replay\":null} \n"
	reviewedText   = `{"decision_id":"` + decisionID + `","review":` + reviewEvent + `,"state":"approve"}`
	evaluationText = `{"policy_id":"refund-policy","decision":"blocked","reason":"too \u0068igh","rule":{"max":500.0,"n":1E2},"extra":[1, 2]}`
	verifyText     = `{"valid":false,"checked_events":12345678901234567890,"failures":[{"seq":1}]}`
	recordText     = `{"summary":{"decision_id":"` + decisionID + `","lifecycle":{"state":"captured" ,"terminal":false}},"events":[` + eventText + `,` + eventText + `]}`
)

func fullDecision() *loopgrid.Decision {
	return &loopgrid.Decision{
		DecisionType: "a <b> & \"c\" é \u2028 \x01", ServiceName: "support",
		Agent:          jsontext.Value(`{"id":"a-1", "version":"1"}`),
		Authority:      jsontext.Value(`{"limit_usd":1500.0}`),
		Model:          jsontext.Value(`{"t":0.10}`),
		Context:        jsontext.Value(`{"z":1,"a":9007199254740993}`),
		Input:          jsontext.Value(`{"html":"<a href=\"x\">&\u00e9\/"}`),
		ProposedAction: jsontext.Value(`{"amount":7.20e2,"big":123456789012345678901234567890}`),
		Metadata:       jsontext.Value(`{"source":"loopgrid-mcp"}`),
		PrivacyMode:    "redacted", IdempotencyKey: "key-1",
	}
}

// route is one method of the client: what it sends, and what it makes of an answer.
type route struct {
	name              string
	call              func(ctx context.Context, c *loopgrid.Client) (any, error)
	method, uri, body string
	accept, answer    string
	check             func(t *testing.T, got any)
}

func routes() []route {
	const read, write, acceptJSON = http.MethodGet, http.MethodPost, "application/json"
	return []route{
		{
			name: "create", method: write, uri: "/base/api/v1/decisions", accept: acceptJSON, answer: createdText,
			body: `{"decision_type":"a <b> & \"c\" é ` + "\u2028" + ` \u0001","service_name":"support",` +
				`"agent":{"id":"a-1", "version":"1"},"authority":{"limit_usd":1500.0},"model":{"t":0.10},"context":{"z":1,"a":9007199254740993},` +
				`"input":{"html":"<a href=\"x\">&\u00e9\/"},"proposed_action":{"amount":7.20e2,"big":123456789012345678901234567890},` +
				`"metadata":{"source":"loopgrid-mcp"},"workspace_id":"team a","privacy_mode":"redacted","idempotency_key":"key-1"}`,
			call: func(ctx context.Context, c *loopgrid.Client) (got any, err error) {
				return got, writing(ctx, c, func(w *loopgrid.Turn) error { got, err = w.CreateDecision(ctx, fullDecision()); return err })
			},
			check: func(t *testing.T, got any) {
				t.Helper()
				requireEvent(t, got.(loopgrid.Created).Event, "decision_created", "agent", "a-1", createdEvent)
				assert.Equal(t, decisionID, got.(loopgrid.Created).DecisionID)
				assert.False(t, got.(loopgrid.Created).Replayed)
				assert.False(t, got.(loopgrid.Created).Sandbox)
			},
		},
		{
			name: "create with nothing optional", method: write, uri: "/base/api/v1/decisions", accept: acceptJSON, answer: createdText,
			body: `{"decision_type":"t","service_name":"s","agent":{},"authority":{},"model":{},"context":{},"input":{},` +
				`"proposed_action":{},"metadata":{},"workspace_id":"team a"}`,
			call: func(ctx context.Context, c *loopgrid.Client) (got any, err error) {
				return got, writing(ctx, c, func(w *loopgrid.Turn) error {
					got, err = w.CreateDecision(ctx, &loopgrid.Decision{DecisionType: "t", ServiceName: "s"})
					return err
				})
			},
		},
		{
			name: "append", method: write, uri: "/base/api/v1/decisions/" + decisionID + "/events", accept: acceptJSON, answer: eventText,
			body: `{"event_type":"tool_executed","actor_type":"tool","actor_id":"s & t","payload":{"amount":720.0},"idempotency_key":"k"}`,
			call: func(ctx context.Context, c *loopgrid.Client) (got any, err error) {
				return got, writing(ctx, c, func(w *loopgrid.Turn) error {
					got, _, err = w.AppendEvent(ctx, decisionID, &loopgrid.NewEvent{
						EventType: "tool_executed", ActorType: "tool", ActorID: "s & t", Payload: jsontext.Value(`{"amount":720.0}`), IdempotencyKey: "k",
					})
					return err
				})
			},
			check: func(t *testing.T, got any) {
				t.Helper()
				requireEvent(t, got.(loopgrid.Event), "tool_executed", "tool", "stripe", eventText)
			},
		},
		{
			name: "append with nothing optional", method: write, uri: "/base/api/v1/decisions/" + decisionID + "/events", accept: acceptJSON, answer: eventText,
			body: `{"event_type":"t","actor_type":"agent","actor_id":"a","payload":{}}`,
			call: func(ctx context.Context, c *loopgrid.Client) (got any, err error) {
				return got, writing(ctx, c, func(w *loopgrid.Turn) error {
					got, _, err = w.AppendEvent(ctx, decisionID, &loopgrid.NewEvent{EventType: "t", ActorType: "agent", ActorID: "a"})
					return err
				})
			},
		},
		{
			name: "review", method: write, uri: "/base/api/v1/decisions/" + decisionID + "/review", accept: acceptJSON, answer: reviewedText,
			body: `{"action":"approve","reviewer":"alice@acme.example","reason":"<ok> & \"good\""}`,
			call: func(ctx context.Context, c *loopgrid.Client) (got any, err error) {
				return got, writing(ctx, c, func(w *loopgrid.Turn) error {
					got, err = w.Review(ctx, decisionID, &loopgrid.Review{Action: "approve", Reviewer: "alice@acme.example", Reason: `<ok> & "good"`})
					return err
				})
			},
			check: func(t *testing.T, got any) {
				t.Helper()
				requireEvent(t, got.(loopgrid.Reviewed).Event, "human_approved", "human", "alice@acme.example", reviewEvent)
				assert.Equal(t, reviewedText, string(got.(loopgrid.Reviewed).Raw))
			},
		},
		{
			name: "evaluate", method: write, uri: "/base/api/v1/workspaces/team%20a/policies/evaluate", accept: acceptJSON, answer: evaluationText + "\n",
			body: `{"policy_id":"refund-policy","proposed_action":{"amount":1e2},"authority":{},"context":{"a":"b"}}`,
			call: func(ctx context.Context, c *loopgrid.Client) (got any, err error) {
				return got, writing(ctx, c, func(w *loopgrid.Turn) error {
					got, err = w.EvaluatePolicy(ctx, "refund-policy", jsontext.Value(`{"amount":1e2}`), nil, jsontext.Value(`{"a":"b"}`))
					return err
				})
			},
			check: func(t *testing.T, got any) {
				t.Helper()
				assert.Equal(t, loopgrid.Evaluation{Raw: jsontext.Value(evaluationText), Decision: "blocked"}, got)
			},
		},
		{
			name: "get", method: read, uri: "/base/api/v1/decisions/" + decisionID, accept: acceptJSON, answer: recordText,
			call: func(ctx context.Context, c *loopgrid.Client) (any, error) { return c.GetDecision(ctx, decisionID) },
			check: func(t *testing.T, got any) {
				t.Helper()
				record := got.(*loopgrid.DecisionRecord)
				assert.Equal(t, "captured", record.State)
				require.Len(t, record.Events, 2)
				requireEvent(t, record.Events[0], "tool_executed", "tool", "stripe", eventText)
				requireEvent(t, record.Events[1], "tool_executed", "tool", "stripe", eventText)
			},
		},
		{
			name: "verify", method: read, uri: "/base/api/v1/decisions/" + decisionID + "/verify", accept: acceptJSON, answer: verifyText,
			call: func(ctx context.Context, c *loopgrid.Client) (any, error) { return c.Verify(ctx, decisionID) },
			check: func(t *testing.T, got any) {
				t.Helper()
				assert.Equal(t, loopgrid.Verification{Raw: jsontext.Value(verifyText), Valid: false}, got)
			},
		},
		{
			name: "health", method: read, uri: "/base/health", accept: acceptJSON,
			answer: `{"ok":true,"service":"loopgrid","version":"0.8.1","evidence_profile":"3.0-draft"}`,
			call:   func(ctx context.Context, c *loopgrid.Client) (any, error) { return c.Health(ctx) },
			check: func(t *testing.T, got any) {
				t.Helper()
				assert.Equal(t, loopgrid.Health{Service: "loopgrid", Version: "0.8.1", EvidenceProfile: "3.0-draft"}, got)
			},
		},
		{
			name: "ready", method: read, uri: "/base/ready", accept: acceptJSON,
			answer: `{"ready":true,"database":"ok","signer":"local_ed25519","payload_vault":"aes-256-gcm","timestamping":"not_configured"}`,
			call:   func(ctx context.Context, c *loopgrid.Client) (any, error) { return c.Ready(ctx) },
			check: func(t *testing.T, got any) {
				t.Helper()
				assert.Equal(t, loopgrid.Ready{Database: "ok", Signer: "local_ed25519"}, got)
			},
		},
		evidenceRoute(false), evidenceRoute(true),
	}
}

// evidenceRoute always says which payloads are wanted: the service's own default is to disclose them.
func evidenceRoute(payloads bool) route {
	return route{
		name: fmt.Sprintf("evidence %t", payloads), method: http.MethodGet, accept: "application/zip", answer: "PK\x03\x04\x00\xff \n",
		uri: fmt.Sprintf("/base/api/v1/decisions/%s/evidence?include_payloads=%t", decisionID, payloads),
		call: func(ctx context.Context, c *loopgrid.Client) (any, error) {
			body, err := c.Evidence(ctx, decisionID, payloads)
			if err != nil {
				return nil, err
			}
			defer func() { _ = body.Close() }()
			return io.ReadAll(body)
		},
		check: func(t *testing.T, got any) {
			t.Helper()
			assert.Equal(t, "PK\x03\x04\x00\xff \n", string(got.([]byte)), "byte for byte")
		},
	}
}

func requireEvent(t *testing.T, got loopgrid.Event, eventType, actorType, actorID, raw string) {
	t.Helper()
	assert.Equal(t, raw, string(got.Raw), "byte for byte")
	got.Raw = nil
	assert.Equal(t, loopgrid.Event{
		EventID: "evt_1", DecisionID: decisionID, WorkspaceID: "team a", EventType: eventType, ActorType: actorType, ActorID: actorID,
		PrivacyMode: "full", PayloadCommitment: "c0ffee", Payload: jsontext.Value(`{"amount":720.0,"n":9007199254740993,"s":"\u00e9<&>"}`),
		PayloadAvailable: true,
	}, got)
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	for _, r := range routes() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			m := mount(t, answerJSON(r.answer))
			got, err := r.call(loopgrid.WithRequestID(t.Context(), "lgm_1"), m.Client)
			require.NoError(t, err)
			if r.check != nil {
				r.check(t, got)
			}
			sent := m.only(t)
			assert.Equal(t, r.method, sent.method)
			assert.Equal(t, r.uri, sent.uri)
			assert.Equal(t, r.body, sent.body)
			want := http.Header{
				"Accept": {r.accept}, "User-Agent": {"loopgrid-mcp/test"}, "X-Loopgrid-Key": {serviceKey}, "X-Request-Id": {"lgm_1"},
			}
			if r.body != "" {
				want["Content-Type"] = []string{"application/json"}
				want["Content-Length"] = []string{strconv.Itoa(len(r.body))}
			}
			// Nothing else: no Authorization, no Cookie, no Referer, no Accept-Encoding, no Idempotency-Key, which makes Go's transport repeat a POST.
			assert.Equal(t, want, sent.header)
		})
	}
}

func TestHeadersThatAreNotSet(t *testing.T) {
	t.Parallel()
	m := mount(t, answerJSON(`{"ok":true}`), func(o *loopgrid.Options) { o.ServiceKey = "" })
	_, err := m.Health(t.Context())
	require.NoError(t, err)
	assert.Equal(t, http.Header{"Accept": {"application/json"}, "User-Agent": {"loopgrid-mcp/test"}}, m.only(t).header)
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	one, other := loopgrid.NewRequestID(), loopgrid.NewRequestID()
	assert.Regexp(t, "^lgm_[0-9a-f]{20}$", one)
	assert.NotEqual(t, one, other)
}

// A workspace is one segment of the path, whatever it holds, and stands in the body as it is.
func TestWorkspaceIsOneSegment(t *testing.T) {
	t.Parallel()
	for workspace, segment := range map[string]string{
		"default": "default", "a b": "a%20b", "a/b": "a%2Fb", "..": "..", "a?b#c": "a%3Fb%23c", "50%": "50%25", "é": "%C3%A9", "a;b": "a%3Bb", `a"\`: "a%22%5C",
	} {
		t.Run(workspace, func(t *testing.T) {
			t.Parallel()
			m := mount(t, answerJSON(evaluationText), func(o *loopgrid.Options) { o.Workspace = workspace })
			require.NoError(t, writing(t.Context(), m.Client, func(w *loopgrid.Turn) error {
				_, err := w.EvaluatePolicy(t.Context(), "refund-policy", nil, nil, nil)
				return err
			}))
			assert.Equal(t, "/base/api/v1/workspaces/"+segment+"/policies/evaluate", m.only(t).uri)
		})
	}
}

// The path that the service is mounted under keeps its escapes, and a slash at its end makes no difference.
func TestBasePath(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{
		"": "/health", "/": "/health", "/base": "/base/health", "/base/": "/base/health", "/a%2Fb/c%20d/": "/a%2Fb/c%20d/health",
	} {
		got := ""
		o := options(t, "http://service.example"+base)
		o.Transport = transport(func(r *http.Request) (*http.Response, error) {
			got = r.URL.RequestURI()
			return jsonResponse(r, `{}`), nil
		})
		_, err := loopgrid.New(o).Health(t.Context())
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}

// transport is a transport of one function.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func jsonResponse(r *http.Request, body string) *http.Response {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
		ContentLength: int64(len(body)), Request: r,
	}
}

func TestSandboxIsSeen(t *testing.T) {
	t.Parallel()
	m := mount(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-LoopGrid-Sandbox", "1")
		switch {
		case strings.HasSuffix(r.URL.Path, "/events"):
			answerJSON(eventText)(w, r)
		case strings.HasSuffix(r.URL.Path, "/review"):
			answerJSON(reviewedText)(w, r)
		default:
			answerJSON(createdText)(w, r)
		}
	})
	require.NoError(t, writing(t.Context(), m.Client, func(w *loopgrid.Turn) error {
		created, err := w.CreateDecision(t.Context(), fullDecision())
		require.NoError(t, err)
		assert.True(t, created.Sandbox)
		_, sandbox, err := w.AppendEvent(t.Context(), decisionID, &loopgrid.NewEvent{EventType: "t", IdempotencyKey: "k"})
		require.NoError(t, err)
		assert.True(t, sandbox)
		reviewed, err := w.Review(t.Context(), decisionID, &loopgrid.Review{Action: "approve"})
		require.NoError(t, err)
		assert.True(t, reviewed.Sandbox)
		return nil
	}))
	health, err := m.Health(t.Context())
	require.NoError(t, err)
	assert.True(t, health.Sandbox)
}

func TestPayloads(t *testing.T) {
	t.Parallel()
	d := loopgrid.Decision{DecisionType: "t", ServiceName: "s", Input: jsontext.Value(`{"n":720.0}`), PrivacyMode: "full", IdempotencyKey: "k"}
	assert.Equal(t, `{"spec_version":"loopgrid/4","decision_type":"t","service_name":"s","agent":{},"authority":{},"model":{},"context":{},`+
		`"input":{"n":720.0},"proposed_action":{},"metadata":{}}`, string(d.Payload("loopgrid/4")))
	review := loopgrid.Review{Action: "approve", Reviewer: "a", Reason: "<b>"}
	assert.Equal(t, `{"approved":true,"reviewer":"a","reason":"<b>"}`, string(review.Payload()))
	review.Action = "reject"
	assert.Equal(t, `{"approved":false,"reviewer":"a","reason":"<b>"}`, string(review.Payload()))
}

// A redirect would carry the key to wherever it points.
func TestRedirectsAreRefused(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a redirect was followed: %s %s", r.Method, r.URL)
	}))
	t.Cleanup(elsewhere.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, location := range []string{elsewhere.URL + "/health", "/base/elsewhere", "http://[::1", ""} {
			for _, r := range routes() {
				t.Run(fmt.Sprintf("%d %s %s", status, location, r.name), func(t *testing.T) {
					t.Parallel()
					m := mount(t, func(w http.ResponseWriter, _ *http.Request) {
						w.Header().Set("Location", location)
						w.WriteHeader(status)
					})
					_, err := r.call(t.Context(), m.Client)
					var api *loopgrid.APIError
					require.ErrorAs(t, err, &api)
					assert.Equal(t, status, api.Status)
					assert.Contains(t, err.Error(), "(a redirect, which is never followed)")
					want := loopgrid.NotRecorded
					if r.appends() && (status < 307 || location == "") {
						want = loopgrid.Unknown // an error page or a login, perhaps after the request was passed on
					}
					assert.Equal(t, want, loopgrid.OutcomeOf(err))
					m.only(t)
				})
			}
		}
	}
}

func (r route) appends() bool { return r.method == http.MethodPost && r.name != "evaluate" }

// jsonRoutes are the routes that answer JSON.
func jsonRoutes() []route {
	all := routes()
	return all[:len(all)-2]
}

// requireUnusable asserts that err is about an answer that cannot be used: of a write that appends it is not known whether it is
// recorded.
func requireUnusable(t *testing.T, r route, err error, reason string) {
	t.Helper()
	var unusable *loopgrid.AnswerError
	require.ErrorAs(t, err, &unusable)
	assert.Contains(t, unusable.Error(), reason)
	assert.Equal(t, r.method, unusable.Method)
	want := loopgrid.NotRecorded
	if r.method == http.MethodPost && r.name != "evaluate" {
		want = loopgrid.Unknown
	}
	assert.Equal(t, want, loopgrid.OutcomeOf(err))
}

func TestAnswersThatAreNotJSON(t *testing.T) {
	t.Parallel()
	for _, answer := range []struct{ contentType, body, reason string }{
		{"text/html; charset=utf-8", "<html>Log in</html>", "a web page (text/html)"},
		{"text/html", `{"looks":"like JSON"}`, "a web page (text/html)"},
		{"text/plain", `{}`, "text/plain"},
		{"", `{}`, "of no named type"},
		{";;;", `{}`, "of no named type"},
		{"application/x-\u202eevil", `{}`, "of no named type"},
		{"application/" + strings.Repeat("long", 50), `{}`, "application/longlonglonglonglonglonglonglonglonglonglonglong…"},
		{"application/json", ``, "not valid JSON"},
		{"application/json", `{"a":`, "not valid JSON"},
		{"application/json", `{"a":1}{"a":1}`, "not valid JSON"},
		{"application/json", `{"a":1,"a":2}`, "not valid JSON"},
		{"application/json", "{\"a\":\"\xff\"}", "not valid JSON"},
		{"application/json", "<html></html>", "not valid JSON"},
		{"application/json", `[]`, "not a JSON object"},
		{"application/json", `null`, "not a JSON object"},
		{"application/json", `"text"`, "not a JSON object"},
		{"application/json", `12`, "not a JSON object"},
	} {
		for _, r := range jsonRoutes() {
			t.Run(answer.contentType+" "+answer.body+" "+r.name, func(t *testing.T) {
				t.Parallel()
				m := mount(t, answerTyped(http.StatusOK, answer.contentType, answer.body))
				_, err := r.call(t.Context(), m.Client)
				requireUnusable(t, r, err, answer.reason)
				m.only(t)
			})
		}
	}
}

func TestJSONContentTypes(t *testing.T) {
	t.Parallel()
	for _, contentType := range []string{"application/json", "application/json; charset=utf-8", "Application/JSON"} {
		m := mount(t, answerTyped(http.StatusOK, contentType, verifyText))
		_, err := m.Verify(t.Context(), decisionID)
		require.NoError(t, err)
	}
}

// Evidence is hashed as it is sent: a compressed answer was not asked for and is not unpacked.
func TestCompressedAnswersAreRefused(t *testing.T) {
	t.Parallel()
	for _, r := range routes() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			for _, encoding := range []string{"gzip", "br", "deflate"} {
				m := mount(t, func(w http.ResponseWriter, q *http.Request) {
					w.Header().Set("Content-Encoding", encoding)
					answerJSON(r.answer)(w, q)
				})
				_, err := r.call(t.Context(), m.Client)
				requireUnusable(t, r, err, "compressed")
			}
			m := mount(t, func(w http.ResponseWriter, q *http.Request) {
				w.Header().Set("Content-Encoding", "identity")
				answerJSON(r.answer)(w, q)
			})
			_, err := r.call(t.Context(), m.Client)
			require.NoError(t, err)
		})
	}
}

// padded is a JSON object of exactly n bytes that begins with the members of object.
func padded(object string, n int) string {
	head := strings.TrimSuffix(strings.TrimSpace(object), "}") + `,"padding":"`
	return head + strings.Repeat("x", n-len(head)-2) + `"}`
}

func TestAnswersAreCapped(t *testing.T) {
	t.Parallel()
	for _, r := range jsonRoutes() {
		limit := 4 << 20
		if r.name == "get" {
			limit = 32 << 20
		}
		answering := func(t *testing.T, body string) error {
			t.Helper()
			o := options(t, "http://service.example/base")
			o.Transport = transport(func(q *http.Request) (*http.Response, error) { return jsonResponse(q, body), nil })
			_, err := r.call(t.Context(), loopgrid.New(o))
			return err
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, answering(t, padded(r.answer, limit)))
			requireUnusable(t, r, answering(t, padded(r.answer, limit+1)), fmt.Sprintf("longer than %d bytes", limit))
		})
	}
}

// endless is a body that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte{' '}, len(p))), nil }

func TestEndlessAnswersEnd(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 404} {
		o := options(t, "http://service.example")
		o.Transport = transport(func(r *http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(endless{}), ContentLength: -1, Request: r,
			}, nil
		})
		_, err := loopgrid.New(o).Health(t.Context())
		require.Error(t, err)
	}
}

// What is JSON and yet not the route's answer.
func TestAnswersOfAnotherShape(t *testing.T) {
	t.Parallel()
	const badCreated, badEvent, badReview, badRecord, badVerify = "names no valid decision_id", "not an event", "holds no review event",
		"not a decision with its events", "does not say whether the chain is valid"
	shapes := map[string][]struct{ body, reason string }{
		"create": {
			{`{}`, badCreated},
			{`{"decision_id":null,"event":null}`, badCreated},
			{`{"decision_id":17}`, badCreated},
			{`{"decision_id":""}`, badCreated},
			{`{"decision_id":{"a":"b"},"event":[]}`, badCreated},
			{`{"detail":"something else"}`, badCreated},
		},
		"append": {
			{`{}`, badEvent},
			{`{"event_id":null}`, badEvent},
			{`{"event_id":1}`, badEvent},
			{`{"event":` + eventText + `}`, badEvent},
		},
		"review": {
			{`{}`, badReview},
			{`{"review":null}`, badReview},
			{`{"review":[` + eventText + `]}`, badReview},
			{`{"review":{}}`, badReview},
			{eventText, badReview},
		},
		"get": {
			{`{}`, badRecord},
			{`{"summary":{},"events":[]}`, badRecord},
			{`{"summary":null,"events":[{}]}`, badRecord},
			{`{"events":[{}]}`, badRecord},
			{`{"summary":{},"events":{}}`, badRecord},
			{`{"summary":{},"events":"x"}`, badRecord},
		},
		"verify": {
			{`{}`, badVerify},
			{`{"valid":null}`, badVerify},
			{`{"valid":"true"}`, badVerify},
			{`{"valid":1}`, badVerify},
		},
	}
	for _, r := range jsonRoutes() {
		for _, shape := range shapes[r.name] {
			t.Run(r.name+" "+shape.body, func(t *testing.T) {
				t.Parallel()
				m := mount(t, answerJSON(shape.body))
				_, err := r.call(t.Context(), m.Client)
				requireUnusable(t, r, err, shape.reason)
			})
		}
	}
}

// creating returns what the client makes of an answer to a create.
func creating(t *testing.T, answer string) (loopgrid.Created, error) {
	t.Helper()
	m := mount(t, answerJSON(answer))
	var created loopgrid.Created
	err := writing(t.Context(), m.Client, func(w *loopgrid.Turn) (err error) {
		created, err = w.CreateDecision(t.Context(), fullDecision())
		return err
	})
	return created, err
}

// Under load LoopGrid answers a decision_id that does not exist; the one in the event does.
func TestPhantomDecisionID(t *testing.T) {
	t.Parallel()
	created, err := creating(t, `{"decision_id":"dec_phantom","event":`+createdEvent+`,"idempotent_replay":null}`)
	require.NoError(t, err)
	assert.Equal(t, decisionID, created.DecisionID)

	created, err = creating(t, `{"event":`+createdEvent+`}`)
	require.NoError(t, err)
	assert.Equal(t, decisionID, created.DecisionID)

	created, err = creating(t, `{"decision_id":"`+decisionID+`","event":{"event_id":"evt_1"},"idempotent_replay":true}`)
	require.NoError(t, err)
	assert.Equal(t, decisionID, created.DecisionID)
	assert.True(t, created.Replayed)

	for _, replay := range []string{"null", "false", `"true"`, "1"} {
		created, err = creating(t, `{"decision_id":"`+decisionID+`","idempotent_replay":`+replay+`}`)
		require.NoError(t, err)
		assert.False(t, created.Replayed, replay)
	}
}

func badIDs() []string {
	return []string{
		"", ".", "..", "../workspaces", "dec/1", "dec%2F1", "dec 1", "dec\n1", "dec\x001", "dec?x", "dec#x", "dec_é", "dec.1", "dec:1", "dec;1",
		strings.Repeat("a", 129),
	}
}

// Neither the service nor a caller can lead a later request to another route.
func TestDecisionIDsAreChecked(t *testing.T) {
	t.Parallel()
	assert.True(t, loopgrid.IsDecisionID(strings.Repeat("aZ09-_", 21)+"aa"))
	for _, id := range badIDs() {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			assert.False(t, loopgrid.IsDecisionID(id))
			quoted, err := jsontext.AppendQuote(nil, id)
			require.NoError(t, err)
			_, err = creating(t, `{"decision_id":`+string(quoted)+`}`)
			requireUnusable(t, route{method: http.MethodPost}, err, "names no valid decision_id")
			if id != "" {
				_, err = creating(t, `{"decision_id":"`+decisionID+`","event":{"event_id":"evt_1","decision_id":`+string(quoted)+`}}`)
				requireUnusable(t, route{method: http.MethodPost}, err, "names no valid decision_id")
			}

			m := mount(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
			_, err = m.GetDecision(t.Context(), id)
			require.ErrorContains(t, err, "not a decision id")
			_, err = m.Verify(t.Context(), id)
			require.ErrorContains(t, err, "not a decision id")
			_, err = m.Evidence(t.Context(), id, false)
			require.ErrorContains(t, err, "not a decision id")
			require.NoError(t, writing(t.Context(), m.Client, func(w *loopgrid.Turn) error {
				_, _, err = w.AppendEvent(t.Context(), id, &loopgrid.NewEvent{EventType: "t", IdempotencyKey: "k"})
				require.ErrorContains(t, err, "not a decision id")
				assert.Equal(t, loopgrid.NotRecorded, loopgrid.OutcomeOf(err))
				_, err = w.Review(t.Context(), id, &loopgrid.Review{})
				require.ErrorContains(t, err, "not a decision id")
				assert.Equal(t, loopgrid.NotRecorded, loopgrid.OutcomeOf(err))
				assert.False(t, w.Sent())
				return nil
			}))
		})
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	got := func(event string) loopgrid.Event {
		m := mount(t, answerJSON(event))
		var e loopgrid.Event
		require.NoError(t, writing(t.Context(), m.Client, func(w *loopgrid.Turn) (err error) {
			e, _, err = w.AppendEvent(t.Context(), decisionID, &loopgrid.NewEvent{EventType: "t", IdempotencyKey: "k"})
			return err
		}))
		return e
	}
	assert.False(t, got(`{"event_id":"e","payload_available":false}`).PayloadAvailable)
	assert.True(t, got(`{"event_id":"e"}`).PayloadAvailable, "only full mode says so")
	odd := got(`{"event_id":"e","event_type":7,"actor":"x","payload":null,"payload_commitment":[],"decision_id":{}}`)
	assert.Equal(t, loopgrid.Event{Raw: odd.Raw, EventID: "e", Payload: jsontext.Value("null"), PayloadAvailable: true}, odd)
}
