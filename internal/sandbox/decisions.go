package sandbox

import (
	"errors"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// find returns the decision that a route names. LoopGrid looks it up before it checks the credential.
func (s *Server) find(r *request, scope string) (*decision, error) {
	s.mu.Lock()
	d := s.decisions[r.params[0]]
	s.mu.Unlock()
	if d == nil {
		return nil, refuse(http.StatusNotFound, "Decision not found")
	}
	return d, s.authorize(r, d.workspace.id, scope)
}

// workspaceQuery returns the workspace that a query names.
func (r *request) workspaceQuery() string {
	f := queryForm(r.URL.Query())
	f.text("workspace_id", defaultWorkspace, 0, 0)
	return f.str("workspace_id")
}

// createDecision is POST /api/v1/decisions.
func (s *Server) createDecision(r *request) (*answer, error) {
	f := r.form
	if err := s.authorize(r, f.str("workspace_id"), scopeIngest); err != nil {
		return nil, err
	}
	workspaceID := f.str("workspace_id")
	if workspaceID == "" {
		workspaceID = defaultWorkspace
	}
	ws, err := s.use(workspaceID)
	if err != nil {
		return nil, err
	}
	payload := []evidence.Field{kv("spec_version", "loopgrid/"+profile)}
	for _, name := range append([]string{"decision_type", "service_name"}, capturedObjects()...) {
		payload = append(payload, kv(name, f.values[name]))
	}
	actor := evidence.Get(f.values["agent"], "id")
	if actor == nil {
		actor = evidence.Text("unknown-agent")
	}
	d := draft{
		decisionID: "dec_" + randomHex(24), kind: decisionCreated, actorType: "agent", actorID: actor, payload: evidence.Object(payload...),
		privacyMode: f.str("privacy_mode"), idempotencyKey: f.values["idempotency_key"],
	}
	if d.privacyMode == "" {
		d.privacyMode = ws.privacyMode
	}
	write := Write{Method: r.Method, Path: r.URL.Path, EventType: d.kind, IdempotencyKey: f.str("idempotency_key")}
	return s.write(ws, write, func(t *turn) (*answer, error) {
		if bound := s.bound(ws, d.idempotencyKey); bound != nil {
			return s.replayed(bound, d.decisionID)
		}
		e, err := t.append(d)
		if bound := s.bound(ws, d.idempotencyKey); bound != nil && errors.Is(err, errKeyTaken) && (s.postgres || s.faults.PhantomIDs) {
			return s.createdAnswer(d.decisionID, bound, nil)
		}
		if err != nil {
			return nil, err
		}
		return s.createdAnswer(d.decisionID, e, nil)
	})
}

// bound returns the event of a workspace that a key is bound to. An empty key is none.
func (s *Server) bound(ws *workspace, key jsontext.Value) *event {
	if !truthy(key) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return ws.byKey[string(key)]
}

// replayed answers a create whose key is bound with the decision of the bound event, whatever that event and the new body are.
func (s *Server) replayed(bound *event, phantom string) (*answer, error) {
	if s.faults.PhantomIDs {
		return s.createdAnswer(phantom, bound, nil)
	}
	return s.createdAnswer(bound.decisionID, bound, true)
}

func (s *Server) createdAnswer(decisionID string, e *event, replay any) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return answerJSON(evidence.Object(kv("decision_id", decisionID), kv("event", e.answer()), kv("idempotent_replay", replay)), e.shown())
}

// answer is an event as the API nests it in an answer.
func (e *event) answer() jsontext.Value {
	fields := e.signedFields(evidence.Text(e.actorID))
	fields[len(fields)-1] = kv("payload", e.shown())
	fields = append(fields, kv("proof", e.proof()), kv("seq", e.seq))
	return evidence.Object(append(fields, e.disclosure()...)...)
}

// disclosure returns the fields that only an event in full mode has.
func (e *event) disclosure() []evidence.Field {
	if e.blob == nil {
		return nil
	}
	var fields []evidence.Field
	if e.blob.clear != nil {
		fields = append(fields, kv("signed_payload", e.payload))
	}
	return append(fields, kv("payload_available", e.blob.clear != nil), kv("payload_status", e.blob.status()))
}

// answerAlone is an event as the answer of the events route, which puts its known fields first.
func (e *event) answerAlone() jsontext.Value {
	fields := e.signedFields(evidence.Text(e.actorID))
	fields[len(fields)-1] = kv("payload", e.shown())
	fields = slices.Insert(fields, 3, kv("seq", e.seq))
	fields = append(fields, kv("proof", e.proof()))
	return evidence.Object(append(fields, e.disclosure()...)...)
}

// appendEvent is POST /api/v1/decisions/{id}/events.
func (s *Server) appendEvent(r *request) (*answer, error) {
	d, err := s.find(r, scopeIngest)
	if err != nil {
		return nil, err
	}
	f := r.form
	return s.appendTo(r, d, draft{
		decisionID: d.id, kind: f.str("event_type"), actorType: f.str("actor_type"), actorID: f.values["actor_id"], payload: f.values["payload"],
		privacyMode: f.str("privacy_mode"), idempotencyKey: f.values["idempotency_key"],
	}, nil, func(e *event) (*answer, error) {
		return answerJSON(e.answerAlone(), e.shown())
	})
}

// appendTo appends an event to a decision if the lifecycle allows it, and answers with tell. A key that is already bound to the decision is
// answered with its event before any rule is checked. before, which may be nil, runs first.
func (s *Server) appendTo(
	r *request, d *decision, next draft, before func() error, tell func(*event) (*answer, error),
) (*answer, error) {
	write := Write{
		Method: r.Method, Path: r.URL.Path, DecisionID: d.id, EventType: next.kind, IdempotencyKey: r.form.str("idempotency_key"),
	}
	return s.write(d.workspace, write, func(t *turn) (*answer, error) {
		told := func(e *event) (*answer, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return tell(e)
		}
		if before != nil {
			if err := before(); err != nil {
				return nil, err
			}
		}
		if bound := s.bound(d.workspace, next.idempotencyKey); bound != nil {
			if bound.decisionID != d.id {
				return nil, conflict("idempotency_conflict", "Idempotency key is already bound to another decision in this workspace")
			}
			return told(bound)
		}
		s.mu.Lock()
		err := story(d.events).allows(next.kind)
		if next.privacyMode == "" {
			next.privacyMode = d.events[0].privacyMode
		}
		s.mu.Unlock()
		if err != nil {
			return nil, err
		}
		e, err := t.append(next)
		if bound := s.bound(d.workspace, next.idempotencyKey); bound != nil && errors.Is(err, errKeyTaken) && s.postgres {
			return told(bound)
		}
		if err != nil {
			return nil, err
		}
		return told(e)
	})
}

// review is POST /api/v1/decisions/{id}/review.
func (s *Server) review(r *request) (*answer, error) {
	d, err := s.find(r, scopeReview)
	if err != nil {
		return nil, err
	}
	f := r.form
	action := f.str("action")
	kind := humanRejected
	if action == "approve" {
		kind = humanApproved
	}
	payload := evidence.Object(kv("approved", action == "approve"), kv("reviewer", f.str("reviewer")), kv("reason", f.str("reason")))
	awaiting := func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch result, err := story(d.events).policyResult(); {
		case err != nil:
			return err
		case truthy(story(d.events).approval()):
			return refuse(http.StatusConflict, "Decision already reviewed")
		case result != approvalRequired:
			return refuse(http.StatusConflict, "Decision is not awaiting human approval")
		}
		return nil
	}
	next := draft{decisionID: d.id, kind: kind, actorType: "human", actorID: f.values["reviewer"], payload: payload}
	return s.appendTo(r, d, next, awaiting, func(e *event) (*answer, error) {
		return answerJSON(evidence.Object(kv("decision_id", d.id), kv("review", e.answer()), kv("state", action)), e.shown())
	})
}

// getDecision is GET /api/v1/decisions/{id}.
func (s *Server) getDecision(r *request) (*answer, error) {
	d, err := s.find(r, scopeRead)
	if err != nil {
		return nil, err
	}
	verification, valid, err := s.verification(d.workspace.id, d)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	summary, err := story(d.events).summary()
	if err != nil {
		return nil, err
	}
	var events, payloads []jsontext.Value
	for _, e := range d.events {
		events, payloads = append(events, e.answer()), append(payloads, e.shown())
	}
	return answerJSON(evidence.Object(
		kv("summary", evidence.Object(summary...)), kv("events", events), kv("verification", verification),
		kv("coverage", story(d.events).coverage(valid)),
	), payloads...)
}

// newest returns the decisions of a workspace ("" for all), the newest first. The caller holds mu.
func (s *Server) newest(workspace string, limit int) []*decision {
	var list []*decision
	for _, d := range slices.Backward(s.created) {
		if len(list) == limit {
			break
		}
		if workspace == "" || d.workspace.id == workspace {
			list = append(list, d)
		}
	}
	return list
}

// listDecisions is GET /api/v1/decisions.
func (s *Server) listDecisions(r *request) (*answer, error) {
	f := queryForm(r.URL.Query())
	f.whole("limit", 100, 1, 500)
	if err := f.err(); err != nil {
		return nil, err
	}
	workspace := r.workspaceQuery()
	if err := s.authorize(r, workspace, scopeRead); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []jsontext.Value
	for _, d := range s.newest(workspace, f.num("limit")) {
		item, err := story(d.events).item()
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return answerJSON(evidence.Array(list...))
}

// listReviews is GET /api/v1/reviews: the decisions waiting for a person.
func (s *Server) listReviews(r *request) (*answer, error) {
	workspace := r.workspaceQuery()
	if err := s.authorize(r, workspace, scopeReview); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []jsontext.Value
	for _, d := range s.newest(workspace, 500) {
		story := story(d.events)
		result, err := story.policyResult()
		if err != nil {
			return nil, err
		}
		if result != approvalRequired || truthy(story.approval()) {
			continue
		}
		if story.decisionType().Kind() != '"' {
			return nil, errInternal
		}
		list = append(list, evidence.Object(
			kv("decision_id", d.id), kv("decision_type", story.decisionType()), kv("created_at", d.events[0].occurredAt),
			kv("agent", story.captured("agent")), kv("action", story.captured("proposed_action")), kv("policy", story.payload(policyEvaluated)),
		))
	}
	return answerJSON(evidence.Array(list...))
}
