package loopgrid

import (
	"context"
	"net/http"
	"net/url"
)

// ReviewScope asks whether the key may record reviews: GET /api/v1/reviews, scope review. Nothing is recorded, and of the answer, which
// lists decisions, nothing is read. The error is an [*APIError] of 401 where the key is wrong, revoked or expired or lacks the
// scope (the service does not tell which), and one of 403 where it belongs to another workspace; others say nothing about the key.
func (c *Client) ReviewScope(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	r := &request{
		method: http.MethodGet, route: "/api/v1/reviews", path: "/api/v1/reviews",
		query: url.Values{"workspace_id": {c.o.Workspace}}.Encode(), accept: jsonType, kind: read,
	}
	return cause(c.repeat(ctx, r, func() error {
		res, err := c.roundTrip(ctx, r)
		if err != nil {
			return err
		}
		return res.Body.Close()
	}))
}
