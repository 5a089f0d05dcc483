package loopgrid

import (
	"context"
	"errors"
	"net/http"
	"net/url"
)

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

// ProbeReview finds out whether the key has the scope review: GET /api/v1/reviews. It records nothing, and only the status of the
// answer is looked at: the body lists private data. It is sent once. The error is an [*APIError] without the service's words,
// or a [*TransportError].
func (c *Client) ProbeReview(ctx context.Context) (Access, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	r := &request{
		method: http.MethodGet, route: "/api/v1/reviews", path: "/api/v1/reviews",
		query: url.Values{"workspace_id": {c.o.Workspace}}.Encode(), accept: jsonType,
	}
	res, err := c.roundTrip(ctx, r)
	var api *APIError
	switch {
	case err == nil:
		_ = res.Body.Close()
		return AccessGranted, nil
	case !errors.As(err, &api):
		return AccessUnknown, err
	case api.Status == http.StatusUnauthorized:
		return AccessDenied, nil
	// In these words only: a firewall refuses with 403 too.
	case api.Status == http.StatusForbidden && api.Detail == "API key does not belong to this workspace":
		return AccessElsewhere, nil
	}
	return AccessUnknown, &APIError{Method: r.method, Route: r.route, Status: api.Status, RetryAfter: api.RetryAfter}
}
