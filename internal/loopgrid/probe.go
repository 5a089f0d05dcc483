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
	r := get("/api/v1/decisions", "/api/v1/decisions")
	r.query = url.Values{"workspace_id": {c.o.Workspace}, "limit": {"1"}}.Encode()
	access, err = c.ask(ctx, r, func(body io.Reader) {
		list, err := io.ReadAll(io.LimitReader(body, maxDecisionAnswer))
		if err != nil || !jsontext.Value(list).IsValid() {
			return
		}
		for decision := range evidence.Elements(list) {
			if id := evidence.GetText(decision, "decision_id"); IsDecisionID(id) {
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
	return c.ask(ctx, c.evaluate(probe, impossiblePolicy, nil, nil, nil), nil)
}

// ProbeReview finds out whether the key has the scope review: GET /api/v1/reviews. It records nothing: it is the list of the
// decisions that wait for a person. Errors are those of [Client.ProbeRead].
func (c *Client) ProbeReview(ctx context.Context) (Access, error) {
	r := get("/api/v1/reviews", "/api/v1/reviews")
	r.query = url.Values{"workspace_id": {c.o.Workspace}}.Encode()
	return c.ask(ctx, r, nil)
}

// ProbeAdmin finds out whether the key has the scope admin: GET /api/v1/workspaces/{w}/audit with limit=1. It records nothing:
// it is the list of what administrators did. Errors are those of [Client.ProbeRead]; a service that does not have the route
// answers an [*APIError] of 404.
func (c *Client) ProbeAdmin(ctx context.Context) (Access, error) {
	r := get("/api/v1/workspaces/{w}/audit", c.workspacePath("/audit"))
	r.query = "limit=1"
	return c.ask(ctx, r, nil)
}

// ask sends a probe once. A body that read is not given is not read.
func (c *Client) ask(ctx context.Context, r *request, read func(io.Reader)) (Access, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	r.kind = probe
	err := c.do(ctx, r, func(res *http.Response) error {
		defer res.Body.Close()
		if read != nil {
			read(res.Body)
		}
		return nil
	})
	var api *APIError
	switch {
	case err == nil:
		return AccessGranted, nil
	case !errors.As(err, &api):
		return AccessUnknown, err
	case api.Status == http.StatusNotFound && api.Detail == "Active policy not found":
		return AccessGranted, nil
	case api.Status == http.StatusUnauthorized && !api.InFront:
		return AccessDenied, nil
	// In these words only: a firewall refuses with 403 too.
	case api.Status == http.StatusForbidden && api.Detail == "API key does not belong to this workspace":
		return AccessElsewhere, nil
	}
	return AccessUnknown, &APIError{Method: r.method, Route: r.route, Status: api.Status, InFront: api.InFront, RetryAfter: api.RetryAfter, meaning: api.meaning, proxy: api.proxy}
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
	r := get("/health", "/health")
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
		s.Location = &url.URL{Scheme: location.Scheme, Host: c.clean(location.Host, 120), Path: location.Path}
	}
	// Servers say so in words of their own; what these have in common is the name of what they want.
	if res.StatusCode != http.StatusBadRequest {
		return s, nil
	}
	const enough = 4 << 10
	body, _ := io.ReadAll(io.LimitReader(res.Body, enough)) // what was read of it will do
	body = bytes.ToLower(body)
	s.WantsTLS = strings.EqualFold(c.o.BaseURL.Scheme, "http") &&
		(bytes.Contains(body, []byte("https")) || bytes.Contains(body, []byte("ssl")))
	return s, nil
}
