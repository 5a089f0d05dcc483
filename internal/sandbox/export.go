package sandbox

import "net/http"

// exportEvidence is GET /api/v1/decisions/{id}/evidence.
func (s *Server) exportEvidence(r *request) (*answer, error) {
	f := queryForm(r.URL.Query())
	f.boolean("include_payloads", true)
	if err := f.err(); err != nil {
		return nil, err
	}
	d, err := s.find(r, scopeRead)
	if err != nil {
		return nil, err
	}
	_ = d
	return nil, refuse(http.StatusNotImplemented, "not yet")
}
