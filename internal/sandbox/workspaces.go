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
	id, privacyMode string
	retentionDays   int
	redaction       []string
	events          []*event
	// byKey holds the events by their idempotency keys, which are JSON strings.
	byKey       map[string]*event
	checkpoints []*checkpoint
	turn        turnstile
}

// workspace returns a workspace and creates it on first use. The caller holds mu.
func (s *Server) workspace(id string) *workspace {
	if ws := s.workspaces[id]; ws != nil {
		return ws
	}
	return s.newWorkspace(workspace{id: id, privacyMode: modeFull, retentionDays: 90})
}

// use is workspace for a client, whose workspaces count against the memory bound. The caller does not hold mu.
func (s *Server) use(id string) (*workspace, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.workspaces[id] == nil && !s.charge(len(id)) {
		return nil, errFull()
	}
	return s.workspace(id), nil
}

func (s *Server) newWorkspace(ws workspace) *workspace {
	ws.byKey = map[string]*event{}
	ws.turn = newTurnstile()
	s.workspaces[ws.id] = &ws
	return &ws
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
	ws := s.newWorkspace(workspace{
		id: "ws_" + randomHex(16), privacyMode: f.str("privacy_mode"), retentionDays: f.num("retention_days"), redaction: redaction,
	})
	return answerJSON(evidence.Object(
		kv("workspace_id", ws.id), kv("name", f.str("name")), kv("environment", f.str("environment")), kv("privacy_mode", ws.privacyMode),
		kv("retention_days", ws.retentionDays), kv("redaction_fields", ws.redaction), kv("created_at", isoTime(s.now())),
	))
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
			kv("workspace_id", workspace), kv("status", "empty"), kv("checkpoint_id", nil), kv("ledger_seq", nil), kv("chain_hash", nil),
			kv("signature", nil), kv("key_id", nil), kv("signature_algorithm", nil), kv("external_timestamp", false), kv("signer", s.signer()),
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
		kv("workspace_id", workspace), kv("status", nil), kv("checkpoint_id", cp.id), kv("ledger_seq", cp.seq), kv("chain_hash", cp.chainHash),
		kv("signature", cp.signature), kv("key_id", cp.keyID), kv("signature_algorithm", signatureAlgorithm), kv("external_timestamp", false),
		kv("created_at", cp.created), kv("timestamp_provider", "not_configured"), kv("timestamp_status", "not_configured"),
		kv("timestamp_detail", evidence.Object(
			kv("configured", false), kv("external_timestamp", false), kv("provider", "not_configured"),
			kv("note", "The sandbox asks no timestamp authority."),
		)),
	))
}

// audit is GET /api/v1/workspaces/{w}/audit. The sandbox keeps no audit log; clients use the route to find out whether a key has the scope admin.
func (s *Server) audit(r *request) (*answer, error) {
	if err := s.authorize(r, r.params[0], scopeAdmin); err != nil {
		return nil, err
	}
	return answerJSON(evidence.Array())
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
			kv("event_id", e.id), kv("event_type", e.kind), kv("privacy_mode", e.privacyMode), kv("payload", e.blob.status())))
	}
	return answerJSON(evidence.Object(kv("decision_id", d.id), kv("events", list)))
}

// status says whether a clear payload is still available.
func (b *blob) status() jsontext.Value {
	if b == nil {
		return evidence.Object(kv("mode", "not_vaulted"), kv("available", false))
	}
	var erasedAt, reason any
	if b.erasedAt != "" {
		erasedAt, reason = b.erasedAt, b.reason
	}
	return evidence.Object(
		kv("mode", "encrypted_vault"), kv("payload_id", b.id), kv("available", b.erasedAt == ""),
		kv("sha256", b.sha256), kv("expires_at", b.expires), kv("erased_at", erasedAt), kv("erasure_reason", reason),
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
		payload := evidence.Object(kv("erased_payload_count", erased), kv("reason", reason), kv("proof_preserved", true))
		if _, err := t.append(draft{
			decisionID: d.id, kind: payloadErased, actorType: "system", actorID: evidence.Text("retention-engine"), payload: payload, privacyMode: modeRedacted,
		}); err != nil {
			return nil, err
		}
		_, valid, err := s.verification(d.workspace.id, nil)
		if err != nil {
			return nil, err
		}
		return answerJSON(evidence.Object(
			kv("decision_id", d.id), kv("erased_payloads", erased), kv("ledger_integrity_valid", valid)))
	})
}

// covering returns the newest checkpoint at or after a place in the chain, nil if there is none.
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
		kv("checkpoint_id", cp.id), kv("workspace_id", cp.workspace), kv("ledger_seq", cp.seq),
		kv("chain_hash", cp.chainHash), kv("created_at", cp.created), kv("signature", cp.signature),
		kv("key_id", cp.keyID), kv("signature_algorithm", signatureAlgorithm),
		kv("timestamp_provider", "not_configured"), kv("timestamp_status", "not_configured"),
		kv("external_timestamp", false),
	)
}
