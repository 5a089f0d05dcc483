package loopgrid

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// The probes find out what a service key may do without recording anything. Only the status of their answers is looked at, and
// the id of one decision: the bodies hold private data. They are sent once; the service notes when a key was last used, as it
// does for any request.

// Access is what the answer to a probe tells about one scope.
type Access int

// What a probe can find. The zero value goes with an error: it could not be found out.
const (
	AccessUnknown Access = iota
	// AccessGranted means that the request was let through: the key has the scope, or the service asks for no key.
	AccessGranted
	// AccessDenied is a 401. Without a key: one is needed. With one: it is wrong, revoked or expired, or lacks the scope; the
	// service does not tell which.
	AccessDenied
	// AccessElsewhere means that the key is good, and belongs to another workspace.
	AccessElsewhere
)

// impossiblePolicy is the id of a policy that cannot exist: the service takes ids of at most 96 characters for new ones.
const impossiblePolicy = "loopgrid-mcp doctor asks for a policy that cannot exist, because the id of a policy has 96 characters at most"

// ProbeRead finds out whether the key has the scope read, and names the newest decision of the workspace, "" where there is none
// or it cannot be told: GET /api/v1/decisions with limit=1. It records nothing: it is a list. The error is an [*APIError]
// without the service's words, or a [*TransportError].
func (c *Client) ProbeRead(ctx context.Context) (access Access, newest string, err error) {
	query := url.Values{"workspace_id": {c.o.Workspace}, "limit": {"1"}}
	access, err = c.ask(ctx, &request{
		method: http.MethodGet, route: "/api/v1/decisions", path: "/api/v1/decisions", query: query.Encode(),
	}, func(body io.Reader) {
		list, err := io.ReadAll(io.LimitReader(body, maxDecisionAnswer))
		if err != nil || !jsontext.Value(list).IsValid() {
			return
		}
		for decision := range evidence.Elements(list) {
			if id := Member(decision, "decision_id"); IsDecisionID(id) {
				newest = id
			}
			return
		}
	})
	return access, newest, err
}

// ProbeIngest finds out whether the key has the scope ingest: POST /api/v1/workspaces/{w}/policies/evaluate for a policy that
// cannot exist. It records nothing: evaluating appends no event, and here the service stops at the missing policy, which it
// answers with 404 after the key was accepted. That is why it is sent outside the write lock too. Errors are those of
// [Client.ProbeRead].
func (c *Client) ProbeIngest(ctx context.Context) (Access, error) {
	return c.ask(ctx, &request{
		method: http.MethodPost, route: "/api/v1/workspaces/{w}/policies/evaluate", path: c.workspacePath("/policies/evaluate"),
		body: evidence.Object(
			evidence.Field{Name: "policy_id", Value: evidence.Text(impossiblePolicy)},
			evidence.Field{Name: "proposed_action", Value: orEmpty(nil)},
			evidence.Field{Name: "authority", Value: orEmpty(nil)},
			evidence.Field{Name: "context", Value: orEmpty(nil)}),
	}, nil)
}

// ProbeReview finds out whether the key has the scope review: GET /api/v1/reviews. It records nothing: it is the list of the
// decisions that wait for a person. Errors are those of [Client.ProbeRead].
func (c *Client) ProbeReview(ctx context.Context) (Access, error) {
	return c.ask(ctx, &request{
		method: http.MethodGet, route: "/api/v1/reviews", path: "/api/v1/reviews",
		query: url.Values{"workspace_id": {c.o.Workspace}}.Encode(),
	}, nil)
}

// ProbeAdmin finds out whether the key has the scope admin: GET /api/v1/workspaces/{w}/audit with limit=1. It records nothing:
// it is the list of what administrators did. Errors are those of [Client.ProbeRead]; a service that does not have the route
// answers an [*APIError] of 404.
func (c *Client) ProbeAdmin(ctx context.Context) (Access, error) {
	return c.ask(ctx, &request{
		method: http.MethodGet, route: "/api/v1/workspaces/{w}/audit", path: c.workspacePath("/audit"), query: "limit=1",
	}, nil)
}

func (c *Client) workspacePath(below string) string {
	return "/api/v1/workspaces/" + url.PathEscape(c.o.Workspace) + below
}

// ask sends a probe once. A body that read is not given is not read.
func (c *Client) ask(ctx context.Context, r *request, read func(io.Reader)) (Access, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	r.accept = jsonType
	res, err := c.roundTrip(ctx, r)
	var api *APIError
	switch {
	case err == nil:
		defer res.Body.Close()
		if read != nil {
			read(res.Body)
		}
		return AccessGranted, nil
	case !errors.As(err, &api):
		return AccessUnknown, err
	case api.Status == http.StatusNotFound && api.Detail == "Active policy not found":
		return AccessGranted, nil
	case api.Status == http.StatusUnauthorized:
		return AccessDenied, nil
	// In these words only: a firewall refuses with 403 too.
	case api.Status == http.StatusForbidden && api.Detail == "API key does not belong to this workspace":
		return AccessElsewhere, nil
	}
	return AccessUnknown, &APIError{Method: r.method, Route: r.route, Status: api.Status, RetryAfter: api.RetryAfter}
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
func (c *Client) SystemInfo(ctx context.Context) (SystemInfo, error) {
	a, err := c.probe(ctx, "/api/v1/system/info")
	if err != nil {
		return SystemInfo{}, err
	}
	info := SystemInfo{Environment: c.clean(Member(a.body, "environment"), 40)}
	for name, value := range evidence.Members(a.body) {
		switch name {
		case "database":
			info.Database = c.clean(Member(value, "provider"), 40)
		case "lifecycle":
			info.NoLifecycle = isFalse(value, "enforced")
		case "deployment_security":
			// Production asks for a key in any case.
			info.Open = isFalse(value, "human_auth_required") && info.Environment != "production"
		}
	}
	return info, nil
}

func isFalse(object jsontext.Value, name string) bool {
	for n, value := range evidence.Members(object) {
		if n == name {
			return value.Kind() == 'f'
		}
	}
	return false
}

// Events returns how many events the chain has that was checked, "" where the answer does not say.
func (v Verification) Events() string {
	for name, value := range evidence.Members(v.Raw) {
		if name == "total_ledger_events" && value.Kind() == '0' {
			return clean(string(value), 20)
		}
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
	for name, value := range evidence.Members(v.Raw) {
		if name != "failures" {
			continue
		}
		for failure := range evidence.Elements(value) {
			if all++; all > 1 {
				continue
			}
			first.EventID = clean(Member(failure, "event_id"), 60)
			for name, value := range evidence.Members(failure) {
				if name != "reasons" {
					continue
				}
				for reason := range evidence.Elements(value) {
					text, _ := evidence.Unquote(reason)
					first.Reasons = append(first.Reasons, clean(text, 60))
				}
			}
		}
	}
	return first, all
}

// Proxy returns host and port of the proxy that requests to the service take, "" where they take none.
func (c *Client) Proxy() string {
	transport, ok := c.o.Transport.(*http.Transport)
	if !ok || transport.Proxy == nil {
		return ""
	}
	proxy, err := transport.Proxy(&http.Request{URL: c.o.BaseURL})
	if err != nil || proxy == nil {
		return ""
	}
	return clean(proxy.Host, 120) // without its user name and password
}

// Strange is an answer to GET /health that is not LoopGrid's, as far as it tells what answers.
type Strange struct {
	// Location is where a redirect points to, without user name and query; nil where there is none.
	Location *url.URL
	// WantsTLS says that the answer complains of plain http.
	WantsTLS bool
}

// Inspect asks GET /health and returns what answers there, without the key: to be used where [Client.Health] could not use the
// answer. The error is a [*TransportError].
func (c *Client) Inspect(ctx context.Context) (Strange, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	r := &request{method: http.MethodGet, route: "/health", path: "/health"}
	req, err := http.NewRequestWithContext(ctx, r.method, c.address(r), http.NoBody)
	if err != nil {
		return Strange{}, c.transportError(ctx, r, err, false)
	}
	res, err := c.o.Transport.RoundTrip(req)
	if err != nil {
		return Strange{}, c.transportError(ctx, r, err, false)
	}
	defer res.Body.Close()
	var s Strange
	if location, err := res.Location(); err == nil && res.StatusCode < http.StatusBadRequest {
		s.Location = &url.URL{Scheme: location.Scheme, Host: clean(location.Host, 120), Path: location.Path}
	}
	// Servers say so in words of their own; what these have in common is the name of what they want.
	const enough = 4 << 10
	body, _ := io.ReadAll(io.LimitReader(res.Body, enough)) // what was read of it will do
	body = bytes.ToLower(body)
	s.WantsTLS = res.StatusCode == http.StatusBadRequest && strings.EqualFold(c.o.BaseURL.Scheme, "http") &&
		(bytes.Contains(body, []byte("https")) || bytes.Contains(body, []byte("ssl")))
	return s, nil
}
