package loopgrid

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
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
func (c *Client) Health(ctx context.Context) (Health, error) {
	a, err := c.probe(ctx, "/health")
	if err != nil {
		return Health{}, err
	}
	return Health{
		Service: c.said(a, "service"), Version: c.said(a, "version"),
		EvidenceProfile: c.said(a, "evidence_profile"), Sandbox: a.sandbox,
	}, nil
}

// Ready is the answer of GET /ready; fields are on one line without control characters and the key, and
// empty where the service does not send them.
type Ready struct {
	Database     string
	Signer       string
	PayloadVault string
	Timestamping string
}

// Ready asks whether the service can record: GET /ready, no key needed. It is sent once. Errors are those of [Client.Health];
// an [*APIError] of 503 means that the database is down.
func (c *Client) Ready(ctx context.Context) (Ready, error) {
	a, err := c.probe(ctx, "/ready")
	if err != nil {
		return Ready{}, err
	}
	return Ready{
		Database: c.said(a, "database"), Signer: c.said(a, "signer"),
		PayloadVault: c.said(a, "payload_vault"), Timestamping: c.said(a, "timestamping"),
	}, nil
}

// said is a member of what the service tells of itself, fit for a person.
func (c *Client) said(a answer, name string) string {
	const longest = 120
	return c.clean(Member(a.body, name), longest)
}

func (c *Client) probe(ctx context.Context, path string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	return c.exchange(ctx, &request{method: http.MethodGet, route: path, path: path, accept: jsonType, limit: maxJSONAnswer, kind: read})
}

// Verification is the answer of a verify. Raw is all of it.
type Verification struct {
	Raw   jsontext.Value
	Valid bool
}

// Verify has the service check the signed chain of the decision's workspace: GET /api/v1/decisions/{id}/verify, scope read.
// Valid false is an answer, not an error. The cost grows with the ledger, about 0.13 s per 1,000 events. Errors are [*APIError],
// [*AnswerError], [*TransportError].
func (c *Client) Verify(ctx context.Context, decisionID string) (Verification, error) {
	if !IsDecisionID(decisionID) {
		return Verification{}, errBadDecisionID
	}
	r := &request{
		method: http.MethodGet, route: "/api/v1/decisions/{id}/verify", path: decisionPath(decisionID, "/verify"),
		accept: jsonType, limit: maxJSONAnswer, kind: read,
	}
	a, err := c.send(ctx, r)
	if err != nil {
		return Verification{}, cause(err)
	}
	for name, value := range evidence.Members(a.body) {
		if kind := value.Kind(); name == "valid" && (kind == 't' || kind == 'f') {
			return Verification{Raw: a.body, Valid: kind == 't'}, nil
		}
	}
	return Verification{}, &AnswerError{Method: r.method, Route: r.route, Reason: "it does not say whether the chain is valid"}
}
