package sandbox

import (
	"archive/zip"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// bundle is what one evidence export is made of, read from the ledger in one piece: nothing in it may change while [writeBundle] runs.
// Every JSON text in it is valid, without duplicate names. Spelling and blanks do not matter, the order of names does: the bundle keeps it.
type bundle struct {
	// SoftwareVersion is the version that manifest and report name, for example "0.8.1-sandbox".
	SoftwareVersion string
	// EvidenceProfile is the profile of the events, for example "3.0-draft".
	EvidenceProfile string
	// IncludePayloads is the caller's include_payloads.
	IncludePayloads bool
	// Summary is the decision's summary as GET /api/v1/decisions/{id} answers it: payloads in clear where they are available. Decision id and
	// type, workspace, privacy mode, policy result and lifecycle are read from it.
	Summary jsontext.Value
	// Events are the decision's events in the order of the ledger, at least one.
	Events []bundleEvent
	// Witnesses are the workspace's other events between the decision's first event and its last, or the event the checkpoint seals where
	// that is later, in the order of the ledger.
	Witnesses []bundleWitness
	// Verification is the answer of GET /api/v1/decisions/{id}/verify at this moment.
	Verification jsontext.Value
	// Coverage is the coverage part of GET /api/v1/decisions/{id}.
	Coverage jsontext.Value
	// Checkpoint is the manifest's "checkpoint" object of the newest checkpoint that covers the decision's last event, nil where there is none.
	Checkpoint jsontext.Value
	// Key signs the bundle's attestation; it is the key that signed the events.
	Key ed25519.PrivateKey
	// KeyID is the id of Key, "ed25519:" and 16 hexadecimal digits.
	KeyID string
	// PublicKeyPEM is what GET /api/v1/public-key.pem answers.
	PublicKeyPEM []byte
	// Now is the time of the export. It becomes the time of the ZIP's members.
	Now time.Time
}

// bundleEvent is one event of the decision.
type bundleEvent struct {
	// Signed holds the nine signed fields, "proof" and "seq", in this order; "payload" is the signed one (in full mode the descriptor).
	Signed jsontext.Value
	// Clear is the clear payload of a full-mode event, nil in the other privacy modes and where it is no longer available.
	Clear jsontext.Value
}

// bundleWitness is the proof of another decision's event, which links two events of this one.
type bundleWitness struct {
	Seq   int64
	Proof jsontext.Value
}

// Names and constants of the bundle, as LoopGrid's consumers know them.
const (
	bundleSchema      = "loopgrid/evidence-bundle/2"
	attestationSchema = "loopgrid/bundle-attestation/1"
	attestationFile   = "bundle-attestation.json"
	policyFile        = "policy/policy.json"
	disclosuresFile   = "disclosures.jsonl"

	// verifyCommand is LoopGrid's own value of the two fields that programs may read. The report and the readme name the command that a person
	// can install.
	verifyCommand = "python loopgrid_verify.py evidence.zip"
)

// writeBundle writes the decision's evidence as LoopGrid exports it: a ZIP of schema "loopgrid/evidence-bundle/2" whose manifest comes first and
// whose signed attestation of every other member comes last. It buffers the members, not the ZIP. An error is w's, or says which text of b is
// not what it should be; w has then part of a ZIP, so a caller that answers a request writes into memory first.
func writeBundle(w io.Writer, b bundle) error {
	e, err := newExport(b)
	if err != nil {
		return fmt.Errorf("write evidence bundle: %w", err)
	}
	members, err := e.members()
	if err != nil {
		return fmt.Errorf("write evidence bundle: %w", err)
	}
	z := zip.NewWriter(w)
	for _, m := range members {
		header := &zip.FileHeader{Name: m.name, Method: zip.Deflate, Modified: b.Now.UTC()}
		header.SetMode(0o600)
		f, err := z.CreateHeader(header)
		if err != nil {
			return fmt.Errorf("write evidence bundle: %s: %w", m.name, err)
		}
		if _, err := f.Write(m.data); err != nil {
			return fmt.Errorf("write evidence bundle: %s: %w", m.name, err)
		}
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("write evidence bundle: %w", err)
	}
	return nil
}

// member is one file of the ZIP.
type member struct {
	name string
	data []byte
}

// export is a bundle with what is worked out from it.
type export struct {
	bundle
	// summary holds the members of Summary.
	summary map[string]jsontext.Value
	// shown is what the reader gets to see of the summary: decision.json.
	shown jsontext.Value
	// policy is the disclosed policy result, nil where there is none or payloads are withheld.
	policy jsontext.Value
	// events holds the members of each event's signed text.
	events []map[string]jsontext.Value
	// disclosures are the lines of disclosures.jsonl.
	disclosures []jsontext.Value
}

func newExport(b bundle) (*export, error) {
	if len(b.Events) == 0 {
		return nil, errors.New("a decision without events")
	}
	e := &export{bundle: b, summary: maps.Collect(evidence.Members(b.Summary))}
	for _, event := range b.Events {
		e.events = append(e.events, maps.Collect(evidence.Members(event.Signed)))
	}
	e.shown = b.Summary
	if !b.IncludePayloads {
		e.shown = evidence.Object(
			kv("decision_id", e.summary["decision_id"]),
			kv("workspace_id", e.summary["workspace_id"]),
			kv("privacy_mode", e.summary["privacy_mode"]),
			kv("created_at", e.summary["created_at"]),
			kv("event_count", e.summary["event_count"]),
			kv("decision_type", quoted("withheld")),
			kv("payload_disclosure", quoted("withheld_by_export_option")),
			kv("lifecycle", e.summary["lifecycle"]),
		)
		return e, nil
	}
	for range evidence.Members(e.summary["policy"]) { // LoopGrid treats an empty result as none.
		e.policy = e.summary["policy"]
		break
	}
	for i, event := range b.Events {
		if event.Clear == nil {
			continue
		}
		// The vault keeps payloads in canonical form, so their names come out sorted, whatever order they were sent in.
		payload, err := evidence.AppendCanonical(nil, event.Clear)
		if err != nil {
			return nil, fmt.Errorf("clear payload of event %d: %w", i, err)
		}
		e.disclosures = append(e.disclosures, evidence.Object(
			kv("event_id", e.events[i]["event_id"]),
			kv("payload_commitment", e.events[i]["payload_commitment"]),
			kv("payload", payload),
		))
	}
	return e, nil
}

// members builds every file of the ZIP in its order, the attestation of all the others last.
func (e *export) members() ([]member, error) {
	var a archive
	a.object("manifest.json", e.manifest())
	a.object("decision.json", e.shown)
	a.lines("events.jsonl", e.eventLines())
	a.lines("chain-witness.jsonl", e.witnessLines())
	a.object("signer.json", e.signer(
		kv("trust_model", quoted(trustModel)),
		kv("public_key_file", quoted("public-key.pem")),
	))
	a.object("verification.json", e.verification())
	a.object("lifecycle.json", e.summary["lifecycle"])
	a.add("public-key.pem", e.PublicKeyPEM)
	report, err := e.report()
	if err != nil {
		return nil, fmt.Errorf("report.html: %w", err)
	}
	a.add("report.html", report)
	a.add("README.txt", e.readme())
	if e.policy != nil {
		a.object(policyFile, e.policy)
	}
	if len(e.disclosures) > 0 {
		a.lines(disclosuresFile, e.disclosures)
	}
	if a.err != nil {
		return nil, a.err
	}
	attestation, err := e.attestation(a.members)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", attestationFile, err)
	}
	a.object(attestationFile, attestation)
	return a.members, a.err
}

func (e *export) manifest() jsontext.Value {
	decisionType, captureSource, policy := null(), null(), null()
	if e.IncludePayloads {
		decisionType = orNull(e.summary["decision_type"])
		captureSource = orNull(memberOf(e.summary["metadata"], "capture_source"))
	}
	if e.policy != nil {
		policy = evidence.Object(
			kv("id", orNull(memberOf(e.policy, "policy_id"))),
			kv("version", orNull(memberOf(e.policy, "version"))),
			kv("policy_digest", orNull(memberOf(e.policy, "policy_digest"))),
			kv("input_commitment", orNull(memberOf(e.policy, "input_commitment"))),
		)
	}
	return evidence.Object(
		kv("format", quoted("LoopGrid Decision Evidence Bundle")),
		kv("bundle_schema", quoted(bundleSchema)),
		kv("version", quoted(e.EvidenceProfile)),
		kv("software_version", quoted(e.SoftwareVersion)),
		kv("workspace_id", e.summary["workspace_id"]),
		kv("privacy_mode", e.summary["privacy_mode"]),
		kv("decision_id", e.summary["decision_id"]),
		kv("decision_type", decisionType),
		kv("capture_source", captureSource),
		kv("policy", policy),
		kv("lifecycle", e.summary["lifecycle"]),
		kv("event_count", number(len(e.Events))),
		kv("disclosure_count", number(len(e.disclosures))),
		kv("payloads_included", boolean(e.IncludePayloads)),
		evidence.Field{Name: "ledger_span", Value: evidence.Object(
			kv("first_seq", e.events[0]["seq"]),
			kv("last_seq", e.events[len(e.events)-1]["seq"]),
			kv("witness_count", number(len(e.Witnesses))),
			kv("scope", quoted("workspace-isolated chain segment")),
		)},
		kv("integrity", e.Verification),
		kv("evidence_coverage", e.Coverage),
		kv("signer", e.signer()),
		kv("checkpoint", orNull(e.Checkpoint)),
		kv("files", e.files()),
		evidence.Field{Name: "bundle_integrity", Value: evidence.Object(
			kv("mode", quoted("signed_file_attestation")),
			kv("attestation_schema", quoted(attestationSchema)),
			kv("attestation_file", quoted(attestationFile)),
			kv("hash_algorithm", quoted("SHA-256")),
		)},
		kv("independent_verification", quoted(verifyCommand)),
		kv("cryptographic_profile", quoted("LoopGrid Evidence Profile "+e.EvidenceProfile)),
		kv("legal_note", quoted(legalNote)),
	)
}

// files is the manifest's map from a role to the file that plays it.
func (e *export) files() jsontext.Value {
	policy, disclosures := null(), null()
	if e.policy != nil {
		policy = quoted(policyFile)
	}
	if len(e.disclosures) > 0 {
		disclosures = quoted(disclosuresFile)
	}
	return evidence.Object(
		kv("decision", quoted("decision.json")),
		kv("signed_events", quoted("events.jsonl")),
		kv("chain_witnesses", quoted("chain-witness.jsonl")),
		kv("signer", quoted("signer.json")),
		kv("verification", quoted("verification.json")),
		kv("lifecycle", quoted("lifecycle.json")),
		kv("policy", policy),
		kv("public_key", quoted("public-key.pem")),
		kv("report", quoted("report.html")),
		kv("readme", quoted("README.txt")),
		kv("bundle_attestation", quoted(attestationFile)),
		kv("disclosures", disclosures),
		kv("timestamp", null()), // No time stamping authority answers to a sandbox.
	)
}

// signer describes the signer; the manifest and signer.json both begin with it.
func (e *export) signer(more ...evidence.Field) jsontext.Value {
	return evidence.Object(append([]evidence.Field{
		kv("provider", quoted("local_ed25519")),
		kv("algorithm", quoted("Ed25519")),
		kv("key_id", quoted(e.KeyID)),
		kv("hardware_backed", boolean(false)),
		kv("production_recommendation", quoted(productionRecommendation)),
	}, more...)...)
}

func (e *export) verification() jsontext.Value {
	return evidence.Object(
		kv("decision_id", e.summary["decision_id"]),
		kv("workspace_id", e.summary["workspace_id"]),
		kv("verified_at_export", orNull(memberOf(e.Verification, "valid"))),
		kv("integrity", e.Verification),
		kv("coverage", e.Coverage),
		kv("lifecycle", e.summary["lifecycle"]),
		kv("offline_command", quoted(verifyCommand)),
	)
}

func (e *export) eventLines() []jsontext.Value {
	lines := make([]jsontext.Value, 0, len(e.Events))
	for _, event := range e.Events {
		lines = append(lines, event.Signed)
	}
	return lines
}

func (e *export) witnessLines() []jsontext.Value {
	lines := make([]jsontext.Value, 0, len(e.Witnesses))
	for _, w := range e.Witnesses {
		lines = append(lines, evidence.Object(
			kv("seq", jsontext.Value(strconv.FormatInt(w.Seq, 10))),
			kv("opaque", boolean(true)),
			kv("proof", w.Proof),
		))
	}
	return lines
}

// attestation signs the digest of every member. The signature is made like one over a chain hash: over the 32 bytes of the digest of the
// canonical body.
func (e *export) attestation(members []member) (jsontext.Value, error) {
	digests := make([]evidence.Field, 0, len(members))
	for _, m := range members {
		sum := sha256.Sum256(m.data)
		digests = append(digests, kv(m.name, quoted(hex.EncodeToString(sum[:]))))
	}
	body := evidence.Object(
		kv("attestation_schema", quoted(attestationSchema)),
		kv("bundle_schema", quoted(bundleSchema)),
		kv("decision_id", e.summary["decision_id"]),
		kv("workspace_id", e.summary["workspace_id"]),
		kv("hash_algorithm", quoted("SHA-256")),
		kv("files", evidence.Object(digests...)),
		evidence.Field{Name: "signer", Value: evidence.Object(
			kv("key_id", quoted(e.KeyID)),
			kv("algorithm", quoted("Ed25519")),
		)},
	)
	canonical, err := evidence.AppendCanonical(nil, body)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(canonical)
	return evidence.Merge(body,
		kv("attestation_digest", quoted(hex.EncodeToString(digest[:]))),
		kv("signature", quoted(base64.StdEncoding.EncodeToString(ed25519.Sign(e.Key, digest[:])))),
	), nil
}

// archive collects members and keeps the first error.
type archive struct {
	members []member
	err     error
}

func (a *archive) add(name string, data []byte) {
	a.members = append(a.members, member{name, data})
}

// object adds a JSON file, indented by two.
func (a *archive) object(name string, v jsontext.Value) {
	data, err := appendPython(nil, v, true)
	a.fail(name, err)
	a.add(name, data)
}

// lines adds a JSONL file; it ends without a newline.
func (a *archive) lines(name string, lines []jsontext.Value) {
	var data []byte
	for i, line := range lines {
		if i > 0 {
			data = append(data, '\n')
		}
		var err error
		data, err = appendPython(data, line, false)
		a.fail(name, err)
	}
	a.add(name, data)
}

func (a *archive) fail(name string, err error) {
	if err != nil && a.err == nil {
		a.err = fmt.Errorf("%s: %w", name, err)
	}
}
