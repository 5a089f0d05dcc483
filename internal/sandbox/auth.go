package sandbox

import (
	"net/http"
	"slices"
	"time"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

const keyHeader = "X-LoopGrid-Key"

// Scopes of a service key. Admin includes the others.
const (
	scopeIngest = "ingest"
	scopeRead   = "read"
	scopeReview = "review"
	scopeAdmin  = "admin"
)

// apiKey is a service key. It belongs to one workspace.
type apiKey struct {
	id, secret, workspace string
	scopes                []string
	// expires is zero if the key does not expire.
	expires time.Time
}

// newKey makes a key that expires after some days, 0 meaning never. The caller holds mu.
func (s *Server) newKey(workspace string, scopes []string, days int) *apiKey {
	if len(scopes) == 0 {
		scopes = []string{scopeIngest, scopeRead}
	}
	s.workspace(workspace)
	key := &apiKey{id: "key_" + randomHex(16), secret: randomKey(), workspace: workspace, scopes: sortedScopes(scopes)}
	if days > 0 {
		key.expires = s.now().AddDate(0, 0, days)
	}
	s.apiKeys[key.secret] = key
	return key
}

// authorize checks the credential of a request for a scope. LoopGrid does not compare an empty workspace with the key's, so a key of
// another workspace can write into "default".
func (s *Server) authorize(r *request, workspace, scope string) error {
	secret := r.Header.Get(keyHeader)
	if secret == "" {
		switch {
		case r.Header.Get("Authorization") != "":
			return refuse(http.StatusUnauthorized, "Invalid, expired, or insufficient human session ("+scope+" scope required)")
		case s.auth:
			return refuse(http.StatusUnauthorized, "Missing or insufficient LoopGrid credential ("+scope+" scope required)")
		}
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.apiKeys[secret]
	valid := key != nil && (key.expires.IsZero() || key.expires.After(s.now())) &&
		(slices.Contains(key.scopes, scope) || slices.Contains(key.scopes, scopeAdmin))
	switch {
	case !valid:
		return refuse(http.StatusUnauthorized, "Invalid, revoked, or insufficient LoopGrid API key ("+scope+" scope required)")
	case workspace != "" && key.workspace != workspace:
		return refuse(http.StatusForbidden, "API key does not belong to this workspace")
	}
	return nil
}

// createKey is POST /api/v1/workspaces/{w}/keys.
func (s *Server) createKey(r *request) (*answer, error) {
	workspace := r.params[0]
	if err := s.authorize(r, workspace, scopeAdmin); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.charge(0) {
		return nil, errFull()
	}
	key := s.newKey(workspace, r.form.list("scopes"), r.form.num("expires_in_days"))
	return answerJSON(evidence.Object(
		kv("key_id", key.id), kv("name", r.form.str("name")), kv("workspace_id", workspace), kv("scopes", key.scopes), kv("api_key", key.secret),
		kv("warning", "Keep this key now: it is not shown again."),
	))
}
