package sandbox

import (
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

const defaultWorkspace = "default"

// workspace is one workspace with its chain.
type workspace struct {
	id, name, environment, privacyMode, created string
	retentionDays                               int
	redaction                                   []string
	// order is the place among the workspaces.
	order       int
	events      []*event
	byKey       map[string]*event
	checkpoints []*checkpoint
	turn        turnstile
}

// workspace returns a workspace, which is created on first use. The caller holds mu.
func (s *Server) workspace(id string) *workspace {
	if ws := s.workspaces[id]; ws != nil {
		return ws
	}
	return s.newWorkspace(workspace{id: id, name: "Acme Support", environment: "development", privacyMode: modeFull, retentionDays: 90})
}

// use is workspace for a client, who can fill the memory with workspaces. The caller does not hold mu.
func (s *Server) use(id string) (*workspace, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.workspaces[id] == nil && !s.charge(len(id)) {
		return nil, errFull()
	}
	return s.workspace(id), nil
}

func (s *Server) newWorkspace(ws workspace) *workspace {
	ws.created = isoTime(s.now())
	ws.order = len(s.workspaces)
	ws.byKey = map[string]*event{}
	ws.turn = newTurnstile()
	s.workspaces[ws.id] = &ws
	return &ws
}

func (ws *workspace) answer() jsontext.Value {
	return evidence.Object(
		kv("workspace_id", quoted(ws.id)),
		kv("name", quoted(ws.name)),
		kv("environment", quoted(ws.environment)),
		kv("privacy_mode", quoted(ws.privacyMode)),
		kv("retention_days", number(ws.retentionDays)),
		kv("redaction_fields", texts(ws.redaction)),
		kv("created_at", quoted(ws.created)),
	)
}

// listWorkspaces is GET /api/v1/workspaces, which asks nobody for a credential.
func (s *Server) listWorkspaces(*request) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]jsontext.Value, len(s.workspaces))
	for _, ws := range s.workspaces {
		list[ws.order] = ws.answer()
	}
	return answerJSON(array(list))
}

// createWorkspace is POST /api/v1/workspaces.
func (s *Server) createWorkspace(r *request) (*answer, error) {
	if err := s.authorize(r, "", scopeAdmin); err != nil && (s.auth || r.Header.Get(keyHeader) != "") {
		return nil, err
	}
	f := r.form
	redaction := f.list("redaction_fields")
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.charge(len(strings.Join(redaction, ""))) {
		return nil, errFull()
	}
	return answerJSON(s.newWorkspace(workspace{
		id: "ws_" + randomHex(16), name: f.str("name"), environment: f.str("environment"), privacyMode: f.str("privacy_mode"),
		retentionDays: f.num("retention_days"), redaction: redaction,
	}).answer())
}

// checkpoint is a signed head of a chain.
type checkpoint struct {
	id, workspace, chainHash, signature, keyID, created string
	seq                                                 int
}

// createCheckpoint is POST /api/v1/workspaces/{w}/checkpoint.
func (s *Server) createCheckpoint(r *request) (*answer, error) {
	workspace := r.params[0]
	if err := s.authorize(r, workspace, scopeAdmin); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	events := s.ledger(workspace)
	if len(events) == 0 {
		return answerJSON(evidence.Object(
			kv("workspace_id", quoted(workspace)), kv("status", quoted("empty")), kv("checkpoint_id", null()), kv("ledger_seq", null()),
			kv("chain_hash", null()), kv("signature", null()), kv("key_id", null()), kv("signature_algorithm", null()),
			kv("external_timestamp", boolean(false)), kv("signer", s.signer()),
		))
	}
	if !s.charge(0) {
		return nil, errFull()
	}
	head := events[len(events)-1]
	cp := &checkpoint{
		id: "cp_" + randomHex(20), workspace: workspace, chainHash: head.chainHash, signature: s.sign(head.chainHash), keyID: s.keyID,
		created: isoTime(s.now()), seq: head.seq,
	}
	ws := s.workspaces[workspace]
	ws.checkpoints = append(ws.checkpoints, cp)
	return answerJSON(evidence.Object(
		kv("workspace_id", quoted(workspace)), kv("status", null()), kv("checkpoint_id", quoted(cp.id)), kv("ledger_seq", number(cp.seq)),
		kv("chain_hash", quoted(cp.chainHash)), kv("signature", quoted(cp.signature)), kv("key_id", quoted(cp.keyID)),
		kv("signature_algorithm", quoted(signatureAlgorithm)), kv("external_timestamp", boolean(false)), kv("created_at", quoted(cp.created)),
		kv("timestamp_provider", quoted("not_configured")), kv("timestamp_status", quoted("not_configured")),
		kv("timestamp_detail", evidence.Object(
			kv("configured", boolean(false)), kv("external_timestamp", boolean(false)), kv("provider", quoted("not_configured")),
			kv("note", quoted("The sandbox asks no timestamp authority.")),
		)),
	))
}

// payloadStatus is GET /api/v1/decisions/{id}/payload-status.
func (s *Server) payloadStatus(r *request) (*answer, error) {
	d, err := s.find(r, scopeRead)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []jsontext.Value
	for _, e := range d.events {
		list = append(list, evidence.Object(
			kv("event_id", quoted(e.id)), kv("event_type", quoted(e.kind)), kv("privacy_mode", quoted(e.privacyMode)), kv("payload", e.blob.status())))
	}
	return answerJSON(evidence.Object(kv("decision_id", quoted(d.id)), kv("events", array(list))))
}

// status tells whether a clear payload is still there.
func (b *blob) status() jsontext.Value {
	if b == nil {
		return evidence.Object(kv("mode", quoted("not_vaulted")), kv("available", boolean(false)))
	}
	erasedAt, reason := null(), null()
	if b.erasedAt != "" {
		erasedAt, reason = quoted(b.erasedAt), quoted(b.reason)
	}
	return evidence.Object(
		kv("mode", quoted("encrypted_vault")), kv("payload_id", quoted(b.id)), kv("available", boolean(b.erasedAt == "")),
		kv("sha256", quoted(b.sha256)), kv("expires_at", quoted(b.expires)), kv("erased_at", erasedAt), kv("erasure_reason", reason),
	)
}

// erasePayloads is POST /api/v1/decisions/{id}/payload/erase.
func (s *Server) erasePayloads(r *request) (*answer, error) {
	d, err := s.find(r, scopeAdmin)
	if err != nil {
		return nil, err
	}
	reason := r.form.str("reason")
	return s.write(d.workspace, Write{Method: http.MethodPost, Path: r.URL.Path, DecisionID: d.id, EventType: payloadErased}, func(t *turn) (*answer, error) {
		s.mu.Lock()
		erased := 0
		for _, e := range d.events {
			if e.blob != nil && e.blob.erasedAt == "" {
				e.blob.clear, e.blob.erasedAt, e.blob.reason = nil, isoTime(s.now()), reason
				erased++
			}
		}
		s.mu.Unlock()
		payload := newObject()
		payload.set("erased_payload_count", at(erased))
		payload.set("reason", reason)
		payload.set("proof_preserved", true)
		if _, err := t.append(draft{
			decisionID: d.id, kind: payloadErased, actorType: "system", actorID: "retention-engine", payload: payload, privacyMode: modeRedacted,
		}); err != nil {
			return nil, err
		}
		_, valid, err := s.verification(d.workspace.id, nil)
		if err != nil {
			return nil, err
		}
		return answerJSON(evidence.Object(
			kv("decision_id", quoted(d.id)), kv("erased_payloads", number(erased)), kv("ledger_integrity_valid", boolean(valid))))
	})
}

// covering returns the newest checkpoint at or after a place in the chain, nil where there is none.
func (ws *workspace) covering(seq int) *checkpoint {
	for _, cp := range slices.Backward(ws.checkpoints) {
		if cp.seq >= seq {
			return cp
		}
	}
	return nil
}

// manifest is the checkpoint as a bundle's manifest names it.
func (cp *checkpoint) manifest() jsontext.Value {
	return evidence.Object(
		kv("checkpoint_id", quoted(cp.id)), kv("workspace_id", quoted(cp.workspace)), kv("ledger_seq", number(cp.seq)),
		kv("chain_hash", quoted(cp.chainHash)), kv("created_at", quoted(cp.created)), kv("signature", quoted(cp.signature)),
		kv("key_id", quoted(cp.keyID)), kv("signature_algorithm", quoted(signatureAlgorithm)),
		kv("timestamp_provider", quoted("not_configured")), kv("timestamp_status", quoted("not_configured")),
		kv("external_timestamp", boolean(false)),
	)
}
