package sandbox

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// Event types that have a meaning beyond being recorded.
const (
	decisionCreated  = "decision_created"
	modelCompleted   = "model_completed"
	policyEvaluated  = "policy_evaluated"
	humanApproved    = "human_approved"
	humanRejected    = "human_rejected"
	humanAdjudicated = "human_adjudicated"
	toolRequested    = "tool_requested"
	toolExecuted     = "tool_executed"
	toolResult       = "tool_result"
	mcpToolRequested = "mcp_tool_requested"
	mcpToolResult    = "mcp_tool_result"
	outcomeObserved  = "outcome_observed"
	replayExecuted   = "replay_executed"
	payloadErased    = "payload_erased"
)

const (
	signatureAlgorithm = "Ed25519"
	signerProvider     = "local_ed25519"
)

// genesis is the predecessor of a workspace's first event.
func genesis() string { return strings.Repeat("0", 2*sha256.Size) }

// event is one row of the ledger. Only its blob changes after it is appended.
type event struct {
	seq                                  int
	id, decisionID, workspaceID, kind    string
	occurredAt                           string
	actorType, actorID                   string
	privacyMode, commitment              string
	contentHash, previousHash, chainHash string
	signature, keyID                     string
	payload                              jsontext.Value // as it is signed
	idempotencyKey                       jsontext.Value // a string or null
	blob                                 *blob
}

// blob is the clear payload of an event in full mode.
type blob struct {
	id, sha256, expires string
	// clear is nil once the payload is erased or unreadable.
	clear            jsontext.Value
	erasedAt, reason string
}

// decision is what the events of one decision have in common.
type decision struct {
	id        string
	workspace *workspace
	events    []*event
}

// shown returns the payload as readers see it.
func (e *event) shown() jsontext.Value {
	if e.blob != nil && e.blob.clear != nil {
		return e.blob.clear
	}
	return e.payload
}

// body returns the signed body of an event. The actor's id is the JSON text that was signed, which may differ from what the row keeps:
// LoopGrid's database turns a number into a string, and the event never verifies again.
func (e *event) body(actorID jsontext.Value) jsontext.Value {
	return evidence.Object(e.signedFields(actorID)...)
}

func (e *event) signedFields(actorID jsontext.Value) []evidence.Field {
	return []evidence.Field{
		kv("event_id", e.id), kv("decision_id", e.decisionID), kv("workspace_id", e.workspaceID), kv("event_type", e.kind),
		kv("occurred_at", e.occurredAt), kv("actor", evidence.Object(kv("type", e.actorType), kv("id", actorID))), kv("privacy_mode", e.privacyMode),
		kv("payload_commitment", e.commitment), kv("payload", e.payload),
	}
}

func (e *event) proof() jsontext.Value {
	return evidence.Object(
		kv("content_hash", e.contentHash), kv("previous_chain_hash", e.previousHash), kv("chain_hash", e.chainHash), kv("signature", e.signature),
		kv("key_id", e.keyID), kv("signature_algorithm", signatureAlgorithm),
	)
}

// chain returns the hash that links a content hash to its predecessor.
func chain(previous, content string) (string, error) {
	before, err := hex.DecodeString(previous)
	if err != nil {
		return "", err
	}
	after, err := hex.DecodeString(content)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append(before, after...))
	return hex.EncodeToString(sum[:]), nil
}

// sign returns the signature of a hash.
func (s *Server) sign(hash string) string {
	raw, _ := hex.DecodeString(hash) // The caller made it.
	return base64.StdEncoding.EncodeToString(ed25519.Sign(s.key, raw))
}

// draft is an event before it is appended.
type draft struct {
	decisionID, kind string
	actorType        string
	actorID          jsontext.Value // LoopGrid signs what agent.id is, string or not
	payload          jsontext.Value
	privacyMode      string
	idempotencyKey   jsontext.Value
}

// append signs a draft after the given predecessor and appends it to its workspace. The caller holds mu. If it fails, nothing is appended.
func (s *Server) append(ws *workspace, previous string, d draft) (*event, error) {
	if s.seq >= s.limits.Events {
		return nil, errFull()
	}
	now := s.now()
	e := &event{
		id: "evt_" + randomHex(24), decisionID: d.decisionID, workspaceID: ws.id, kind: d.kind, occurredAt: isoTime(now) + "+00:00",
		actorType: d.actorType, privacyMode: d.privacyMode, keyID: s.keyID, previousHash: previous, idempotencyKey: d.idempotencyKey,
	}
	clear, err := evidence.AppendCanonical(nil, d.payload)
	if err != nil {
		return nil, errInternal
	}
	sum := sha256.Sum256(clear)
	e.commitment = hex.EncodeToString(sum[:])
	e.payload = project(d.payload, d.privacyMode, e.commitment, ws.redaction)
	if d.privacyMode == modeFull {
		e.blob = &blob{id: "pld_" + randomHex(24), sha256: e.commitment, clear: clear, expires: isoTime(now.AddDate(0, 0, ws.retentionDays))}
		e.payload = evidence.Object(
			kv("disclosure", "encrypted"), kv("payload_ref", e.blob.id), kv("payload_sha256", e.commitment))
	}
	var ok bool
	if e.actorID, ok = columnText(d.actorID); !ok {
		return nil, errInternal
	}
	if e.contentHash, err = evidence.Commitment(e.body(d.actorID)); err != nil {
		return nil, errInternal
	}
	if e.chainHash, err = chain(previous, e.contentHash); err != nil {
		return nil, errInternal
	}
	e.signature = s.sign(e.chainHash)
	if ws.byKey[string(e.idempotencyKey)] != nil {
		return nil, errKeyTaken
	}
	if !s.charge(len(e.payload) + len(clear)) {
		return nil, errFull()
	}
	s.seq++
	e.seq = s.seq
	ws.events = append(ws.events, e)
	if e.idempotencyKey.Kind() == '"' {
		ws.byKey[string(e.idempotencyKey)] = e
	}
	dec := s.decisions[e.decisionID]
	if dec == nil {
		dec = &decision{id: e.decisionID, workspace: ws}
		s.decisions[dec.id] = dec
		s.created = append(s.created, dec)
	}
	dec.events = append(dec.events, e)
	s.logEvent(dec, e, now)
	return e, nil
}

// columnText returns how a database without strict types stores an actor's id, and whether it can.
func columnText(id jsontext.Value) (kept string, ok bool) {
	switch id.Kind() {
	case '"':
		return evidence.Unquote(id)
	case 'n':
		return "loopgrid", true // The column's default.
	case 't':
		return "1", true
	case 'f':
		return "0", true
	case '0':
		_, err := strconv.ParseInt(string(id), 10, 64)
		return string(id), err == nil || isFloat(id)
	default:
		return "", false
	}
}

// ledger returns the events of a workspace, "" meaning all workspaces. The caller holds mu; the slice may be read afterwards.
func (s *Server) ledger(workspace string) []*event {
	if ws := s.workspaces[workspace]; ws != nil {
		return slices.Clip(ws.events)
	}
	var all []*event
	if workspace == "" {
		for _, ws := range s.workspaces {
			all = append(all, ws.events...)
		}
		slices.SortFunc(all, func(a, b *event) int { return a.seq - b.seq })
	}
	return all
}

// failure is one event of a chain that does not verify.
type failure struct {
	event   *event
	reasons []string
}

// check verifies a chain. LoopGrid's check fails with an exception at a hash that is not hexadecimal; so does this one.
func (s *Server) check(events []*event) ([]failure, error) {
	var failures []failure
	expected := genesis()
	for _, e := range events {
		content, err := evidence.Commitment(e.body(evidence.Text(e.actorID)))
		if err != nil {
			return nil, errInternal
		}
		linked, err := chain(expected, content)
		if err != nil {
			return nil, errInternal
		}
		var reasons []string
		if e.contentHash != content {
			reasons = append(reasons, "content_hash_mismatch")
		}
		if e.previousHash != expected {
			reasons = append(reasons, "previous_chain_hash_mismatch")
		}
		if e.chainHash != linked {
			reasons = append(reasons, "chain_hash_mismatch")
		}
		if e.keyID != s.keyID {
			reasons = append(reasons, "signing_key_not_loaded")
		} else if !s.signed(e) {
			reasons = append(reasons, "signature_invalid")
		}
		if len(reasons) > 0 {
			failures = append(failures, failure{e, reasons})
		}
		expected = e.chainHash
	}
	return failures, nil
}

func (s *Server) signed(e *event) bool {
	hash, err := hex.DecodeString(e.chainHash)
	if err != nil {
		return false
	}
	signature, err := base64.StdEncoding.DecodeString(e.signature)
	return err == nil && ed25519.Verify(s.PublicKey(), hash, signature)
}

// verification checks a workspace's chain for a request and returns the answer of the verify routes. Checked events are those of the decision,
// or all where it is nil. The caller does not hold mu.
func (s *Server) verification(workspace string, of *decision) (answer jsontext.Value, valid bool, err error) {
	s.mu.Lock()
	events := s.ledger(workspace)
	s.stats.Scans++
	s.mu.Unlock()
	if s.faults.ScanTime > 0 {
		time.Sleep(time.Duration(len(events)) * s.faults.ScanTime)
	}
	failures, err := s.check(events)
	if err != nil {
		return nil, false, err
	}
	checked := len(events)
	if of != nil {
		checked = 0
		for _, e := range events {
			if e.decisionID == of.id {
				checked++
			}
		}
	}
	told := make([]jsontext.Value, len(failures))
	for i, f := range failures {
		told[i] = evidence.Object(
			kv("seq", f.event.seq), kv("event_id", f.event.id), kv("decision_id", f.event.decisionID), kv("reasons", f.reasons))
	}
	return evidence.Object(
		kv("valid", len(failures) == 0), kv("checked_events", checked), kv("total_ledger_events", len(events)), kv("failures", told),
		kv("key_id", s.keyID), kv("signature_algorithm", signatureAlgorithm), kv("signer_provider", signerProvider), kv("workspace_id", workspace),
		kv("algorithm", signatureAlgorithm+" + SHA-256 workspace hash chain"), kv("chain_scope", "workspace"),
	), len(failures) == 0, nil
}

// signer describes the key.
func (s *Server) signer() jsontext.Value {
	return evidence.Object(
		kv("provider", signerProvider), kv("algorithm", signatureAlgorithm), kv("key_id", s.keyID), kv("hardware_backed", false),
		kv("production_recommendation", productionRecommendation),
	)
}

// verifyDecision is GET /api/v1/decisions/{id}/verify.
func (s *Server) verifyDecision(r *request) (*answer, error) {
	d, err := s.find(r, scopeRead)
	if err != nil {
		return nil, err
	}
	verification, _, err := s.verification(d.workspace.id, d)
	if err != nil {
		return nil, err
	}
	return answerJSON(verification)
}

// verifyWorkspace is GET /api/v1/integrity/verify.
func (s *Server) verifyWorkspace(r *request) (*answer, error) {
	workspace := r.workspaceQuery()
	if err := s.authorize(r, workspace, scopeRead); err != nil {
		return nil, err
	}
	verification, _, err := s.verification(workspace, nil)
	if err != nil {
		return nil, err
	}
	return answerJSON(verification)
}
