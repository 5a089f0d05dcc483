package loopgrid

import (
	"context"
	"errors"
	"fmt"
)

// impossibleDecision is the id of a decision that cannot exist: those of LoopGrid are random.
const impossibleDecision = "dec_000000000000000000000000"

var errNoSignOfLife = errors.New("look for a sign of life: the answer does not come from LoopGrid itself")

// signOfLife asks LoopGrid for a decision that cannot exist: GET /api/v1/decisions/{id}. That goes the way of a POST and as far as the
// database, where a gateway may hide or cache /ready. Only an answer that LoopGrid itself has just given shows that it is running, and
// LoopGrid limits no reads; it needs no scope for that. A 500 may mean that the database is still busy.
func (c *Client) signOfLife(ctx context.Context) error {
	id := NewRequestID()
	r := get("/api/v1/decisions/{id}", decisionPath(impossibleDecision, ""))
	req, err := c.newRequest(WithRequestID(ctx, id), r, c.key.current())
	if err != nil {
		return err
	}
	req.Header.Set("Cache-Control", "no-cache")
	res, err := c.o.Transport.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("look for a sign of life: %w", err)
	}
	defer res.Body.Close()
	// LoopGrid echoes the request id, so with another one, or an age, the answer was kept from an earlier request.
	echo, age := res.Header.Get("X-Request-Id"), res.Header.Get("Age")
	if failure := failureOf(c.apiError(r, res)); failure != failRejected || echo != "" && echo != id || age != "" && age != "0" {
		return errNoSignOfLife
	}
	return nil
}
