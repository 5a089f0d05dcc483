package sandbox

import (
	"bytes"
	"net/http"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

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
	b, err := s.bundle(d)
	if err != nil {
		return nil, err
	}
	b.IncludePayloads = f.values["include_payloads"] == true
	var zip bytes.Buffer
	if err := writeBundle(&zip, b); err != nil {
		return nil, err
	}
	return &answer{
		status: http.StatusOK, contentType: "application/zip", body: zip.Bytes(),
		header: [][2]string{{"Content-Disposition", `attachment; filename="loopgrid-evidence-` + d.id + `.zip"`}},
	}, nil
}

// bundle reads what an export of a decision is made of, at the price of one check of the chain.
func (s *Server) bundle(d *decision) (bundle, error) {
	verification, valid, err := s.verification(d.workspace.id, d)
	if err != nil {
		return bundle{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	story := d.story()
	summary, err := story.summary()
	if err != nil {
		return bundle{}, err
	}
	b := bundle{
		SoftwareVersion: Version, EvidenceProfile: profile, Summary: evidence.Object(summary...), Verification: verification,
		Coverage: story.coverage(valid), Key: s.key, KeyID: s.keyID, PublicKeyPEM: s.keyPEM, Now: s.now(),
	}
	for _, e := range d.events {
		exported := bundleEvent{Signed: evidence.Object(append(e.signedFields(quoted(e.actorID)), kv("proof", e.proof()), kv("seq", number(e.seq)))...)}
		if e.blob != nil {
			exported.Clear = e.blob.clear
		}
		b.Events = append(b.Events, exported)
	}
	first, last := d.events[0].seq, d.events[len(d.events)-1].seq
	if cp := d.workspace.covering(last); cp != nil {
		b.Checkpoint, last = cp.manifest(), max(last, cp.seq)
	}
	for _, e := range d.workspace.events {
		if e.decisionID != d.id && e.seq >= first && e.seq <= last {
			b.Witnesses = append(b.Witnesses, bundleWitness{Seq: int64(e.seq), Proof: e.proof()})
		}
	}
	return b, nil
}
