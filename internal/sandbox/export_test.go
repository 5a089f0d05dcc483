package sandbox

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Row is a row of the ledger that a test may tamper with, as somebody with access to LoopGrid's database could.
type Row struct{ e *event }

// Fields of a row that can be changed.
func (r Row) Payload() *jsontext.Value { return &r.e.payload }
func (r Row) ActorID() *string         { return &r.e.actorID }
func (r Row) OccurredAt() *string      { return &r.e.occurredAt }
func (r Row) EventType() *string       { return &r.e.kind }
func (r Row) ContentHash() *string     { return &r.e.contentHash }
func (r Row) ChainHash() *string       { return &r.e.chainHash }
func (r Row) PreviousHash() *string    { return &r.e.previousHash }
func (r Row) Signature() *string       { return &r.e.signature }
func (r Row) KeyID() *string           { return &r.e.keyID }

// DestroyClear makes the clear payload unreadable without erasing it.
func (r Row) DestroyClear() { r.e.blob.clear = nil }

// Row returns the i-th row of a workspace.
func (s *Server) Row(workspace string, i int) Row { return Row{s.workspaces[workspace].events[i]} }

// Restore puts rows back as they were when Keep was called.
func (s *Server) Keep(workspace string) (restore func()) {
	ws, seq := s.workspaces[workspace], s.seq
	rows, kept := slices.Clone(ws.events), []event{}
	for _, e := range rows {
		kept = append(kept, *e)
	}
	return func() {
		ws.events, s.seq = slices.Clone(rows), seq
		for i := range rows {
			*rows[i] = kept[i]
		}
	}
}

// DeleteRow deletes a row from the ledger and from its decision.
func (s *Server) DeleteRow(workspace string, i int) {
	ws := s.workspaces[workspace]
	e := ws.events[i]
	d := s.decisions[e.decisionID]
	gone := func(other *event) bool { return other == e }
	d.events = slices.DeleteFunc(slices.Clone(d.events), gone)
	ws.events = slices.DeleteFunc(slices.Clone(ws.events), gone)
	// SQLite gives a deleted number to the next row.
	s.seq = ws.events[len(ws.events)-1].seq
}

// ReplaceKey gives the server another signing key, as a restart without the key file does.
func (s *Server) ReplaceKey() {
	_, s.key, _ = ed25519.GenerateKey(rand.Reader)
	sum := sha256.Sum256(s.PublicKey())
	s.keyID = "ed25519:" + hex.EncodeToString(sum[:8])
}

// Revoke makes a service key worthless.
func (s *Server) Revoke(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.apiKeys, key)
}

// Workspaces is how many workspaces there are.
func (s *Server) Workspaces() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.workspaces)
}

// RateClients is how many clients the rate limiter remembers.
func (s *Server) RateClients() int {
	s.rates.mu.Lock()
	defer s.rates.mu.Unlock()
	return len(s.rates.hits)
}

// Held is how many bytes of request bodies are in memory.
func (s *Server) Held() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}
