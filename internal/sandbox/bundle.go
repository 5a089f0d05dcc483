package sandbox

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// Names and constants of the bundle, as LoopGrid's consumers know them.
const (
	bundleSchema      = "loopgrid/evidence-bundle/2"
	attestationSchema = "loopgrid/bundle-attestation/1"
	attestationFile   = "bundle-attestation.json"
	policyFile        = "policy/policy.json"
	disclosuresFile   = "disclosures.jsonl"

	// verifyCommand is what LoopGrid writes into two fields that programs may read. The report and the readme name the command that a person
	// can install.
	verifyCommand = "python loopgrid_verify.py evidence.zip"
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
	verification, valid, err := s.verification(d.workspace.id, d)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := &export{s: s, decision: d, payloads: f.is("include_payloads"), verification: verification, coverage: story(d.events).coverage(valid)}
	if err := e.read(); err != nil {
		return nil, err
	}
	data, err := e.zip()
	if err != nil {
		return nil, err
	}
	return &answer{
		status: http.StatusOK, contentType: "application/zip", body: data,
		header: [][2]string{{"Content-Disposition", `attachment; filename="loopgrid-evidence-` + d.id + `.zip"`}},
	}, nil
}

// export is one evidence bundle of schema "loopgrid/evidence-bundle/2" while it is made: its manifest comes first, the signed attestation of all
// other files last. It is made while mu is held.
type export struct {
	s        *Server
	decision *decision
	// payloads is the caller's include_payloads.
	payloads               bool
	verification, coverage jsontext.Value
	summary                jsontext.Value
	// shown is the part of the summary that the reader sees: decision.json.
	shown jsontext.Value
	// policy is the disclosed policy result, nil if there is none or payloads are withheld.
	policy      jsontext.Value
	checkpoint  *checkpoint
	witnesses   []jsontext.Value
	disclosures []jsontext.Value
	members     []member
}

// member is one file of the ZIP.
type member struct {
	name string
	data []byte
}

// read collects what goes into the export.
func (e *export) read() error {
	d := e.decision
	summary, err := story(d.events).summary()
	if err != nil {
		return err
	}
	e.summary = evidence.Object(summary...)
	first, last := d.events[0].seq, d.events[len(d.events)-1].seq
	if e.checkpoint = d.workspace.covering(last); e.checkpoint != nil {
		last = max(last, e.checkpoint.seq)
	}
	for _, other := range d.workspace.events {
		if other.decisionID != d.id && other.seq >= first && other.seq <= last {
			e.witnesses = append(e.witnesses, evidence.Object(kv("seq", other.seq), kv("opaque", true), kv("proof", other.proof())))
		}
	}
	if !e.payloads {
		e.shown = evidence.Object(
			kv("decision_id", d.id), kv("workspace_id", d.workspace.id), kv("privacy_mode", d.events[0].privacyMode),
			kv("created_at", d.events[0].occurredAt), kv("event_count", len(d.events)), kv("decision_type", "withheld"),
			kv("payload_disclosure", "withheld_by_export_option"), kv("lifecycle", evidence.Get(e.summary, "lifecycle")),
		)
		return nil
	}
	e.shown = e.summary
	if policy := evidence.Get(e.summary, "policy"); truthy(policy) { // LoopGrid treats an empty result as none.
		e.policy = policy
	}
	for _, event := range d.events {
		if event.blob != nil && event.blob.clear != nil {
			e.disclosures = append(e.disclosures, evidence.Object(
				kv("event_id", event.id), kv("payload_commitment", event.commitment), kv("payload", event.blob.clear)))
		}
	}
	return nil
}

// zip makes all files in their order, and the ZIP.
func (e *export) zip() ([]byte, error) {
	e.object("manifest.json", e.manifest())
	e.object("decision.json", e.shown)
	e.lines("events.jsonl", e.events())
	e.lines("chain-witness.jsonl", e.witnesses)
	e.object("signer.json", evidence.Merge(e.s.signer(), kv("trust_model", trustModel), kv("public_key_file", "public-key.pem")))
	e.object("verification.json", evidence.Object(
		kv("decision_id", e.decision.id), kv("workspace_id", e.decision.workspace.id), kv("verified_at_export", evidence.Get(e.verification, "valid")),
		kv("integrity", e.verification), kv("coverage", e.coverage), kv("lifecycle", evidence.Get(e.summary, "lifecycle")),
		kv("offline_command", verifyCommand),
	))
	e.object("lifecycle.json", evidence.Get(e.summary, "lifecycle"))
	e.add("public-key.pem", e.s.keyPEM)
	e.add("report.html", e.report())
	e.add("README.txt", e.readme())
	if e.policy != nil {
		e.object(policyFile, e.policy)
	}
	if len(e.disclosures) > 0 {
		e.lines(disclosuresFile, e.disclosures)
	}
	e.object(attestationFile, e.attestation())
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, m := range e.members {
		header := &zip.FileHeader{Name: m.name, Method: zip.Deflate, Modified: e.s.now().UTC()}
		header.SetMode(0o600)
		f, err := z.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := f.Write(m.data); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return out.Bytes(), err
}

func (e *export) manifest() jsontext.Value {
	events := e.decision.events
	var decisionType, captureSource, policy, checkpoint any
	if e.payloads {
		decisionType, captureSource = evidence.Get(e.summary, "decision_type"), evidence.Get(e.summary, "metadata", "capture_source")
	}
	if e.policy != nil {
		policy = evidence.Object(
			kv("id", evidence.Get(e.policy, "policy_id")), kv("version", evidence.Get(e.policy, "version")),
			kv("policy_digest", evidence.Get(e.policy, "policy_digest")), kv("input_commitment", evidence.Get(e.policy, "input_commitment")),
		)
	}
	if e.checkpoint != nil {
		checkpoint = e.checkpoint.manifest()
	}
	return evidence.Object(
		kv("format", "LoopGrid Decision Evidence Bundle"),
		kv("bundle_schema", bundleSchema),
		kv("version", profile),
		kv("software_version", Version),
		kv("workspace_id", e.decision.workspace.id),
		kv("privacy_mode", events[0].privacyMode),
		kv("decision_id", e.decision.id),
		kv("decision_type", decisionType),
		kv("capture_source", captureSource),
		kv("policy", policy),
		kv("lifecycle", evidence.Get(e.summary, "lifecycle")),
		kv("event_count", len(events)),
		kv("disclosure_count", len(e.disclosures)),
		kv("payloads_included", e.payloads),
		kv("ledger_span", evidence.Object(
			kv("first_seq", events[0].seq), kv("last_seq", events[len(events)-1].seq), kv("witness_count", len(e.witnesses)),
			kv("scope", "workspace-isolated chain segment"),
		)),
		kv("integrity", e.verification),
		kv("evidence_coverage", e.coverage),
		kv("signer", e.s.signer()),
		kv("checkpoint", checkpoint),
		kv("files", e.files()),
		kv("bundle_integrity", evidence.Object(
			kv("mode", "signed_file_attestation"), kv("attestation_schema", attestationSchema), kv("attestation_file", attestationFile),
			kv("hash_algorithm", "SHA-256"),
		)),
		kv("independent_verification", verifyCommand),
		kv("cryptographic_profile", "LoopGrid Evidence Profile "+profile),
		kv("legal_note", legalNote),
	)
}

// files is the manifest's map from a role to the file that plays it.
func (e *export) files() jsontext.Value {
	var policy, disclosures any
	if e.policy != nil {
		policy = policyFile
	}
	if len(e.disclosures) > 0 {
		disclosures = disclosuresFile
	}
	return evidence.Object(
		kv("decision", "decision.json"), kv("signed_events", "events.jsonl"), kv("chain_witnesses", "chain-witness.jsonl"),
		kv("signer", "signer.json"), kv("verification", "verification.json"), kv("lifecycle", "lifecycle.json"), kv("policy", policy),
		kv("public_key", "public-key.pem"), kv("report", "report.html"), kv("readme", "README.txt"), kv("bundle_attestation", attestationFile),
		kv("disclosures", disclosures),
		kv("timestamp", nil), // The sandbox asks no time stamping authority.
	)
}

// events are the lines of events.jsonl: the signed fields, the proof and the place in the ledger.
func (e *export) events() []jsontext.Value {
	var lines []jsontext.Value
	for _, event := range e.decision.events {
		lines = append(lines, evidence.Merge(event.body(evidence.Text(event.actorID)), kv("proof", event.proof()), kv("seq", event.seq)))
	}
	return lines
}

// attestation signs the digests of all members. Like a signature over a chain hash, it covers the 32 bytes of the digest of the canonical body.
func (e *export) attestation() jsontext.Value {
	digests := make([]evidence.Field, 0, len(e.members))
	for _, m := range e.members {
		sum := sha256.Sum256(m.data)
		digests = append(digests, kv(m.name, hex.EncodeToString(sum[:])))
	}
	body := evidence.Object(
		kv("attestation_schema", attestationSchema), kv("bundle_schema", bundleSchema), kv("decision_id", e.decision.id),
		kv("workspace_id", e.decision.workspace.id), kv("hash_algorithm", "SHA-256"), kv("files", evidence.Object(digests...)),
		kv("signer", evidence.Object(kv("key_id", e.s.keyID), kv("algorithm", signatureAlgorithm))),
	)
	digest, _ := evidence.Commitment(body) // It is made of strings.
	return evidence.Merge(body, kv("attestation_digest", digest), kv("signature", e.s.sign(digest)))
}

func (e *export) add(name string, data []byte) {
	e.members = append(e.members, member{name, data})
}

// object adds a JSON file as Python's json.dumps writes it with indent=2.
func (e *export) object(name string, v jsontext.Value) { e.add(name, indented(v)) }

// lines adds a JSONL file as Python's json.dumps writes each line; it ends without a newline.
func (e *export) lines(name string, lines []jsontext.Value) {
	var data []byte
	for i, line := range lines {
		if i > 0 {
			data = append(data, '\n')
		}
		line = line.Clone()
		_ = line.Format(jsontext.PreserveRawStrings(true), jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true)) // It was made here.
		data = append(data, line...)
	}
	e.add(name, data)
}

// indented returns JSON text with one member or element per line.
func indented(v jsontext.Value) []byte {
	v = v.Clone()
	_ = v.Format(jsontext.PreserveRawStrings(true), jsontext.WithIndent("  ")) // It was made here.
	return v
}
