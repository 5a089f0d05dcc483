package loopgrid

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
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

// text returns s as a JSON string, or nil (left out) where it is empty.
func text(s string) jsontext.Value {
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
			for name, value := range evidence.Members(value) {
				switch name {
				case "type":
					e.ActorType, _ = evidence.Unquote(value)
				case "id":
					e.ActorID, _ = evidence.Unquote(value)
				}
			}
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
// The error is a [*WriteError].
func (w *Write) CreateDecision(ctx context.Context, d *Decision) (Created, error) {
	fields := d.fields()
	workspace := evidence.Field{Name: "workspace_id", Value: evidence.Text(w.c.o.Workspace)}
	fields = append(fields[:2:2], append([]evidence.Field{workspace}, fields[2:]...)...)
	fields = append(fields,
		evidence.Field{Name: "privacy_mode", Value: text(d.PrivacyMode)},
		evidence.Field{Name: "idempotency_key", Value: text(d.IdempotencyKey)})
	r := &request{
		method: http.MethodPost, route: "/api/v1/decisions", path: "/api/v1/decisions",
		body: evidence.Object(fields...), accept: jsonType, limit: maxJSONAnswer, kind: kindOf(d.IdempotencyKey),
	}
	a, err := w.send(ctx, r)
	if err != nil {
		return Created{}, err
	}
	created := Created{Sandbox: a.sandbox}
	for name, value := range evidence.Members(a.body) {
		switch name {
		case "decision_id":
			created.DecisionID, _ = evidence.Unquote(value)
		case "event":
			if value.Kind() == '{' {
				created.Event = parseEvent(value)
			}
		case "idempotent_replay":
			created.Replayed = value.Kind() == 't'
		}
	}
	if id := created.Event.DecisionID; id != "" {
		created.DecisionID = id
	}
	if !IsDecisionID(created.DecisionID) {
		return Created{}, unusable(r, "it names no valid decision_id")
	}
	return created, nil
}

// kindOf says what a repeat of a POST with this key does.
func kindOf(idempotencyKey string) kind {
	if idempotencyKey == "" {
		return once
	}
	return keyed
}

func unusable(r *request, reason string) error {
	return &WriteError{Outcome: Unknown, Err: &AnswerError{Method: r.method, Route: r.route, Reason: reason}}
}

// NewEvent is what POST /api/v1/decisions/{id}/events appends.
type NewEvent struct {
	EventType string
	ActorType string // agent, human, system, tool, policy or integration
	ActorID   string
	Payload   jsontext.Value
	// IdempotencyKey is unique in the workspace: a repeat with it returns what is there already. Never empty.
	IdempotencyKey string
}

// AppendEvent appends an event to a decision: POST /api/v1/decisions/{id}/events, scope ingest. It is repeated under its
// idempotency key. The error is a [*WriteError]; an [*APIError] of 409 in it carries the lifecycle rule that was broken as Code.
func (w *Write) AppendEvent(ctx context.Context, decisionID string, e *NewEvent) (Event, bool, error) {
	if !IsDecisionID(decisionID) {
		return Event{}, false, &WriteError{Err: errBadDecisionID}
	}
	r := &request{
		method: http.MethodPost, route: "/api/v1/decisions/{id}/events", path: decisionPath(decisionID, "/events"),
		body: evidence.Object(
			evidence.Field{Name: "event_type", Value: evidence.Text(e.EventType)},
			evidence.Field{Name: "actor_type", Value: evidence.Text(e.ActorType)},
			evidence.Field{Name: "actor_id", Value: evidence.Text(e.ActorID)},
			evidence.Field{Name: "payload", Value: orEmpty(e.Payload)},
			evidence.Field{Name: "idempotency_key", Value: text(e.IdempotencyKey)},
		),
		accept: jsonType, limit: maxJSONAnswer, kind: kindOf(e.IdempotencyKey),
	}
	a, err := w.send(ctx, r)
	if err != nil {
		return Event{}, false, err
	}
	event := parseEvent(a.body)
	switch {
	case event.EventID == "":
		return Event{}, false, unusable(r, "it is not an event")
	case event.DecisionID != "" && event.DecisionID != decisionID:
		return Event{}, false, unusable(r, "it is an event of another decision")
	}
	return event, a.sandbox, nil
}

// Review is a human's answer to a decision that waits for one.
type Review struct {
	Action   string // approve or reject
	Reviewer string
	Reason   string
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
func (w *Write) Review(ctx context.Context, decisionID string, review *Review) (Reviewed, error) {
	if !IsDecisionID(decisionID) {
		return Reviewed{}, &WriteError{Err: errBadDecisionID}
	}
	r := &request{
		method: http.MethodPost, route: "/api/v1/decisions/{id}/review", path: decisionPath(decisionID, "/review"),
		body: evidence.Object(
			evidence.Field{Name: "action", Value: evidence.Text(review.Action)},
			evidence.Field{Name: "reviewer", Value: evidence.Text(review.Reviewer)},
			evidence.Field{Name: "reason", Value: evidence.Text(review.Reason)}),
		accept: jsonType, limit: maxJSONAnswer, kind: once,
	}
	a, err := w.send(ctx, r)
	if err != nil {
		return Reviewed{}, err
	}
	reviewed := Reviewed{Raw: a.body, Sandbox: a.sandbox}
	for name, value := range evidence.Members(a.body) {
		if name == "review" && value.Kind() == '{' {
			reviewed.Event = parseEvent(value)
		}
	}
	if reviewed.Event.EventID == "" {
		return Reviewed{}, unusable(r, "it holds no review event")
	}
	if id := reviewed.Event.DecisionID; id != "" && id != decisionID {
		return Reviewed{}, unusable(r, "it is the review of another decision")
	}
	return reviewed, nil
}

// DecisionRecord is what the service holds of a decision. Summary, Lifecycle and the events keep the service's text.
type DecisionRecord struct {
	Summary   jsontext.Value
	Lifecycle jsontext.Value // {state, label, terminal, expected_next}
	State     string         // of the lifecycle: captured, awaiting_human_review, …
	Events    []Event
}

// GetDecision reads a decision with all its events: GET /api/v1/decisions/{id}, scope read. The service checks the workspace's
// whole chain for it, so it costs time with the size of the ledger. Errors are [*APIError], [*AnswerError], [*TransportError].
func (c *Client) GetDecision(ctx context.Context, decisionID string) (*DecisionRecord, error) {
	if !IsDecisionID(decisionID) {
		return nil, errBadDecisionID
	}
	r := &request{
		method: http.MethodGet, route: "/api/v1/decisions/{id}", path: decisionPath(decisionID, ""),
		accept: jsonType, limit: maxDecisionAnswer, kind: read,
	}
	a, err := c.send(ctx, r)
	if err != nil {
		return nil, cause(err)
	}
	record := &DecisionRecord{}
	isOther := false
	check := func(id string) {
		isOther = isOther || id != "" && id != decisionID
	}
	for name, value := range evidence.Members(a.body) {
		switch name {
		case "summary":
			record.Summary = value
			check(Member(value, "decision_id"))
			for name, value := range evidence.Members(value) {
				if name == "lifecycle" && value.Kind() == '{' {
					record.Lifecycle = value
					record.State = Member(value, "state")
				}
			}
		case "events":
			for event := range evidence.Elements(value) {
				parsed := parseEvent(event)
				check(parsed.DecisionID)
				record.Events = append(record.Events, parsed)
			}
		}
	}
	if record.Summary.Kind() != '{' || len(record.Events) == 0 {
		return nil, &AnswerError{Method: r.method, Route: r.route, Reason: "it is not a decision with its events"}
	}
	if isOther {
		return nil, &AnswerError{Method: r.method, Route: r.route, Reason: "it is the record of another decision"}
	}
	return record, nil
}

// Member returns the text of a string member of an object; empty where there is none.
func Member(object jsontext.Value, name string) string {
	for n, value := range evidence.Members(object) {
		if n == name {
			text, _ := evidence.Unquote(value)
			return text
		}
	}
	return ""
}
