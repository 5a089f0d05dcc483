package loopgrid

import (
	"context"

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

// Verification is the answer of a verify. Raw is all of it.
type Verification struct {
	Raw   jsontext.Value
	Valid bool
}

// Verify has the service check the signed chain of the decision's workspace: GET /api/v1/decisions/{id}/verify, scope read.
// Valid false is an answer, not an error. The cost grows with the ledger, about 0.13 s per 1,000 events. Errors are [*APIError],
// [*AnswerError], [*TransportError].
func (c *Client) Verify(ctx context.Context, decisionID string) (verification Verification, err error) {
	if !IsDecisionID(decisionID) {
		return Verification{}, errBadDecisionID
	}
	err = c.doJSON(ctx, get("/api/v1/decisions/{id}/verify", decisionPath(decisionID, "/verify")), func(a answer) string {
		valid := evidence.Get(a.body, "valid").Kind()
		if valid != 't' && valid != 'f' {
			return "it does not say whether the chain is valid"
		}
		verification = Verification{Raw: a.body, Valid: valid == 't'}
		return ""
	})
	return verification, err
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
	return first, all
}
