package loopgrid

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/text"
)

// DefaultSpecVersion is the spec_version that LoopGrid 0.8 puts into the payload of decision_created.
const DefaultSpecVersion = "loopgrid/3.0-draft"

// Decision is what POST /api/v1/decisions records. An object that is nil is sent as {}.
type Decision struct {
	DecisionType   string
	ServiceName    string
	Agent          jsontext.Value
	Authority      jsontext.Value
	Model          jsontext.Value
	Context        jsontext.Value
	Input          jsontext.Value
	ProposedAction jsontext.Value
	Metadata       jsontext.Value
	// PrivacyMode is full, redacted or proof_only; empty leaves it to the workspace.
	PrivacyMode string
	// IdempotencyKey is unique in the workspace: a repeat with it returns what is there already. Never empty.
	IdempotencyKey string
	// FreshKey says that nobody has used the key before, so that only a repeat can find something there.
	FreshKey bool
}

// Payload returns the clear payload that the service hashes into payload_commitment of the decision_created event.
func (d *Decision) Payload(specVersion string) jsontext.Value {
	return evidence.Object(append([]evidence.Field{{Name: "spec_version", Value: evidence.Text(specVersion)}}, d.fields()...)...)
}

func (d *Decision) fields() []evidence.Field {
	return []evidence.Field{
		{Name: "decision_type", Value: evidence.Text(d.DecisionType)},
		{Name: "service_name", Value: evidence.Text(d.ServiceName)},
		{Name: "agent", Value: orEmpty(d.Agent)},
		{Name: "authority", Value: orEmpty(d.Authority)},
		{Name: "model", Value: orEmpty(d.Model)},
		{Name: "context", Value: orEmpty(d.Context)},
		{Name: "input", Value: orEmpty(d.Input)},
		{Name: "proposed_action", Value: orEmpty(d.ProposedAction)},
		{Name: "metadata", Value: orEmpty(d.Metadata)},
	}
}

func orEmpty(v jsontext.Value) jsontext.Value {
	if v == nil {
		return jsontext.Value("{}")
	}
	return v
}

// optional returns s as a JSON string, or nil (left out) where it is empty.
func optional(s string) jsontext.Value {
	if s == "" {
		return nil
	}
	return evidence.Text(s)
}

// Event is a signed event as the service answers it. Raw is its whole text; the fields are what was found in it, empty where
// the service did not send one.
type Event struct {
	Raw               jsontext.Value
	EventID           string
	DecisionID        string
	WorkspaceID       string
	EventType         string
	ActorType         string
	ActorID           string
	PrivacyMode       string
	PayloadCommitment string
	// Payload is the clear payload in full mode while it is available, else what the mode shows of it.
	Payload jsontext.Value
	// PayloadAvailable is false where the service says that the clear payload cannot be shown.
	PayloadAvailable bool
}

// parseEvent scans an event once.
func parseEvent(raw jsontext.Value) Event {
	e := Event{Raw: raw, PayloadAvailable: true}
	for name, value := range evidence.Members(raw) {
		switch name {
		case "event_id":
			e.EventID, _ = evidence.Unquote(value)
		case "decision_id":
			e.DecisionID, _ = evidence.Unquote(value)
		case "workspace_id":
			e.WorkspaceID, _ = evidence.Unquote(value)
		case "event_type":
			e.EventType, _ = evidence.Unquote(value)
		case "privacy_mode":
			e.PrivacyMode, _ = evidence.Unquote(value)
		case "payload_commitment":
			e.PayloadCommitment, _ = evidence.Unquote(value)
		case "payload":
			e.Payload = value
		case "payload_available":
			e.PayloadAvailable = value.Kind() != 'f'
		case "actor":
			e.ActorType, e.ActorID = evidence.GetText(value, "type"), evidence.GetText(value, "id")
		}
	}
	return e
}

// Created is the answer to a create.
type Created struct {
	// DecisionID is the decision that the event belongs to: under load the service answers a decision_id that does not exist
	// beside an event of the real decision, so the event's is believed.
	DecisionID string
	// Event is the decision_created event, or on a replay the event that the idempotency key is bound to, of whatever type.
	Event Event
	// Replayed says that the key was in use already: nothing was recorded, and the body was not compared.
	Replayed bool
	// Sandbox says that the answer came from the sandbox of this program, not from LoopGrid.
	Sandbox bool
}

// CreateDecision records a decision: POST /api/v1/decisions, scope ingest. It is repeated under its idempotency key.
// The error is a [*WriteError]; an answer about anything but this decision cannot be used, unless the key was used before.
func (t *Turn) CreateDecision(ctx context.Context, d *Decision) (created Created, err error) {
	fields := append(d.fields(),
		evidence.Field{Name: "workspace_id", Value: evidence.Text(t.c.o.Workspace)},
		evidence.Field{Name: "privacy_mode", Value: optional(d.PrivacyMode)},
		evidence.Field{Name: "idempotency_key", Value: optional(d.IdempotencyKey)})
	err = t.do(ctx, post("/api/v1/decisions", "/api/v1/decisions", kindOf(d.IdempotencyKey), fields...), func(a answer) string {
		created = Created{
			DecisionID: evidence.GetText(a.body, "decision_id"), Event: parseEvent(evidence.Get(a.body, "event")),
			Replayed: evidence.Get(a.body, "idempotent_replay").Kind() == 't', Sandbox: a.sandbox,
		}
		if id := created.Event.DecisionID; id != "" {
			created.DecisionID = id
		}
		if !IsDecisionID(created.DecisionID) {
			return "it names no valid decision_id"
		}
		switch {
		case created.Replayed && !d.FreshKey:
			return "" // of whatever the key was used for
		case created.Replayed && t.tries == 1:
			return "it is the replay of an earlier decision under a key that was never used before"
		}
		return created.Event.otherThan("decision_created", "agent", "", d.fields())
	})
	if err == nil {
		t.decisionID = created.DecisionID
	}
	return created, err
}

// otherThan says what shows that the event is not the one that was sent, empty if nothing does. What the service left out or hides cannot
// differ, nor can what a newer version adds.
func (e *Event) otherThan(eventType, actorType, actorID string, payload []evidence.Field) string {
	differs := func(got, sent string) bool { return got != "" && sent != "" && got != sent }
	switch {
	case differs(e.EventType, eventType):
		return "it is a " + text.Clean(e.EventType, 60) + " event where " + eventType + " was sent"
	case differs(e.ActorType, actorType), differs(e.ActorID, actorID):
		return "it is an event of another actor"
	case e.PrivacyMode == "proof_only", !e.PayloadAvailable:
		return ""
	}
	for name, shown := range evidence.Members(e.Payload) {
		i := slices.IndexFunc(payload, func(f evidence.Field) bool { return f.Name == name })
		if i >= 0 && shownOtherwise(shown, payload[i].Value) {
			return "its " + name + " is not what was sent"
		}
	}
	return ""
}

// shownOtherwise says whether a value that the service shows differs from the one that was sent, but for what it redacted in it.
func shownOtherwise(shown, sent jsontext.Value) bool {
	switch {
	case bytes.Equal(shown, sent), evidence.Get(shown, "redacted").Kind() == 't':
		return false
	case shown.Kind() == '{' && sent.Kind() == '{':
		for name, value := range evidence.Members(shown) {
			if of := evidence.Get(sent, name); of == nil || shownOtherwise(value, of) {
				return true
			}
		}
		return false
	case shown.Kind() == '[' && sent.Kind() == '[':
		all, of := slices.Collect(evidence.Elements(shown)), slices.Collect(evidence.Elements(sent))
		return !slices.EqualFunc(all, of, func(a, b jsontext.Value) bool { return !shownOtherwise(a, b) })
	}
	a, errA := evidence.Commitment(shown)
	b, errB := evidence.Commitment(sent)
	return errA == nil && errB == nil && a != b
}

// kindOf says what a repeat of a POST with this key does.
func kindOf(idempotencyKey string) kind {
	if idempotencyKey == "" {
		return once
	}
	return keyed
}

// NewEvent is what POST /api/v1/decisions/{id}/events appends.
type NewEvent struct {
	EventType string
	ActorType string // agent, human, system, tool, policy or integration
	ActorID   string
	Payload   jsontext.Value
	// IdempotencyKey is unique in the workspace: a repeat with it returns what is there already. Never empty.
	IdempotencyKey string
	// FreshKey says that nobody has used the key for something else.
	FreshKey bool
}

// AppendEvent appends an event to a decision: POST /api/v1/decisions/{id}/events, scope ingest. It is repeated under its
// idempotency key. The error is a [*WriteError]; an [*APIError] of 409 in it carries the lifecycle rule that was broken as Code.
func (t *Turn) AppendEvent(ctx context.Context, decisionID string, e *NewEvent) (event Event, sandbox bool, err error) {
	if !IsDecisionID(decisionID) {
		return Event{}, false, &WriteError{Err: errBadDecisionID}
	}
	r := post("/api/v1/decisions/{id}/events", decisionPath(decisionID, "/events"), kindOf(e.IdempotencyKey),
		evidence.Field{Name: "event_type", Value: evidence.Text(e.EventType)},
		evidence.Field{Name: "actor_type", Value: evidence.Text(e.ActorType)},
		evidence.Field{Name: "actor_id", Value: evidence.Text(e.ActorID)},
		evidence.Field{Name: "payload", Value: orEmpty(e.Payload)},
		evidence.Field{Name: "idempotency_key", Value: optional(e.IdempotencyKey)})
	err = t.do(ctx, r, func(a answer) string {
		event, sandbox = parseEvent(a.body), a.sandbox
		switch {
		case event.EventID == "":
			return "it is not an event"
		case event.DecisionID != "" && event.DecisionID != decisionID:
			return "it is an event of another decision"
		case e.FreshKey:
			var payload []evidence.Field
			for name, value := range evidence.Members(e.Payload) {
				payload = append(payload, evidence.Field{Name: name, Value: value})
			}
			return event.otherThan(e.EventType, e.ActorType, e.ActorID, payload)
		}
		return ""
	})
	return event, sandbox, err
}

// Review is a human's answer to a decision that waits for one.
type Review struct {
	Action   string // approve or reject
	Reviewer string
	Reason   string
}

func (r *Review) eventType() string {
	if r.Action == "approve" {
		return "human_approved"
	}
	return "human_rejected"
}

// Payload returns the clear payload of the human_approved or human_rejected event that the service appends for the review.
func (r *Review) Payload() jsontext.Value {
	approved := jsontext.Value("false")
	if r.Action == "approve" {
		approved = jsontext.Value("true")
	}
	return evidence.Object(
		evidence.Field{Name: "approved", Value: approved},
		evidence.Field{Name: "reviewer", Value: evidence.Text(r.Reviewer)},
		evidence.Field{Name: "reason", Value: evidence.Text(r.Reason)})
}

// Reviewed is the answer to a review; Raw is all of it.
type Reviewed struct {
	Raw     jsontext.Value
	Event   Event
	Sandbox bool
}

// Review records a human's review: POST /api/v1/decisions/{id}/review, scope review. The route takes no idempotency key, so it is
// posted once. The error is a [*WriteError]; an [*APIError] of 409 in it says that the decision does not wait for a review.
func (t *Turn) Review(ctx context.Context, decisionID string, review *Review) (reviewed Reviewed, err error) {
	if !IsDecisionID(decisionID) {
		return Reviewed{}, &WriteError{Err: errBadDecisionID}
	}
	r := post("/api/v1/decisions/{id}/review", decisionPath(decisionID, "/review"), once,
		evidence.Field{Name: "action", Value: evidence.Text(review.Action)},
		evidence.Field{Name: "reviewer", Value: evidence.Text(review.Reviewer)},
		evidence.Field{Name: "reason", Value: evidence.Text(review.Reason)})
	err = t.do(ctx, r, func(a answer) string {
		reviewed = Reviewed{Raw: a.body, Event: parseEvent(evidence.Get(a.body, "review")), Sandbox: a.sandbox}
		switch id := reviewed.Event.DecisionID; {
		case reviewed.Event.EventID == "":
			return "it holds no review event"
		case id != "" && id != decisionID:
			return "it is the review of another decision"
		}
		return reviewed.Event.otherThan(review.eventType(), "human", review.Reviewer, nil)
	})
	return reviewed, err
}

// DecisionRecord is what the service holds of a decision.
type DecisionRecord struct {
	State  string // of the lifecycle: captured, awaiting_human_review, …
	Events []Event
}

// GetDecision reads a decision with all its events: GET /api/v1/decisions/{id}, scope read. The service checks the workspace's
// whole chain for it, so it costs time with the size of the ledger. Errors are [*APIError], [*AnswerError], [*TransportError].
func (c *Client) GetDecision(ctx context.Context, decisionID string) (*DecisionRecord, error) {
	if !IsDecisionID(decisionID) {
		return nil, errBadDecisionID
	}
	r := get("/api/v1/decisions/{id}", decisionPath(decisionID, ""))
	r.limit = maxDecisionAnswer
	var record *DecisionRecord
	err := c.doJSON(ctx, r, func(a answer) (problem string) {
		record, problem = parseRecord(a.body, decisionID)
		return problem
	})
	if err != nil {
		return nil, err
	}
	return record, nil
}

func parseRecord(body jsontext.Value, decisionID string) (record *DecisionRecord, problem string) {
	summary := evidence.Get(body, "summary")
	record = &DecisionRecord{State: evidence.GetText(summary, "lifecycle", "state")}
	ids := []string{evidence.GetText(summary, "decision_id")}
	for event := range evidence.Elements(evidence.Get(body, "events")) {
		parsed := parseEvent(event)
		ids = append(ids, parsed.DecisionID)
		record.Events = append(record.Events, parsed)
	}
	switch {
	case summary.Kind() != '{', len(record.Events) == 0:
		return nil, "it is not a decision with its events"
	case slices.ContainsFunc(ids, func(id string) bool { return id != "" && id != decisionID }):
		return nil, "it is the record of another decision"
	}
	return record, ""
}

// decisionPath returns the path of a decision's route; the id is one escaped segment, whatever it holds.
func decisionPath(id, below string) string { return "/api/v1/decisions/" + url.PathEscape(id) + below }

// IsDecisionID says whether id has the form of a decision's id: 1 to 128 ASCII letters, digits, "-" and "_". Anything else must
// not be put into a path: an empty id, "." or a slash lands on another route.
func IsDecisionID(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for _, b := range []byte(id) {
		if b != '-' && b != '_' && (b < '0' || b > '9') && (b < 'A' || b > 'Z') && (b < 'a' || b > 'z') {
			return false
		}
	}
	return true
}

var errBadDecisionID = errors.New("not a decision id: 1 to 128 letters, digits, - and _")
