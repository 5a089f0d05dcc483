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
			evidence.Field{Name: "decision_id", Value: e.summary["decision_id"]},
			evidence.Field{Name: "workspace_id", Value: e.summary["workspace_id"]},
			evidence.Field{Name: "privacy_mode", Value: e.summary["privacy_mode"]},
			evidence.Field{Name: "created_at", Value: e.summary["created_at"]},
			evidence.Field{Name: "event_count", Value: e.summary["event_count"]},
			evidence.Field{Name: "decision_type", Value: evidence.Text("withheld")},
			evidence.Field{Name: "payload_disclosure", Value: evidence.Text("withheld_by_export_option")},
			evidence.Field{Name: "lifecycle", Value: e.summary["lifecycle"]},
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
			evidence.Field{Name: "event_id", Value: e.events[i]["event_id"]},
			evidence.Field{Name: "payload_commitment", Value: e.events[i]["payload_commitment"]},
			evidence.Field{Name: "payload", Value: payload},
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
		evidence.Field{Name: "trust_model", Value: evidence.Text(trustModel)},
		evidence.Field{Name: "public_key_file", Value: evidence.Text("public-key.pem")},
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
			evidence.Field{Name: "id", Value: orNull(memberOf(e.policy, "policy_id"))},
			evidence.Field{Name: "version", Value: orNull(memberOf(e.policy, "version"))},
			evidence.Field{Name: "policy_digest", Value: orNull(memberOf(e.policy, "policy_digest"))},
			evidence.Field{Name: "input_commitment", Value: orNull(memberOf(e.policy, "input_commitment"))},
		)
	}
	return evidence.Object(
		evidence.Field{Name: "format", Value: evidence.Text("LoopGrid Decision Evidence Bundle")},
		evidence.Field{Name: "bundle_schema", Value: evidence.Text(bundleSchema)},
		evidence.Field{Name: "version", Value: evidence.Text(e.EvidenceProfile)},
		evidence.Field{Name: "software_version", Value: evidence.Text(e.SoftwareVersion)},
		evidence.Field{Name: "workspace_id", Value: e.summary["workspace_id"]},
		evidence.Field{Name: "privacy_mode", Value: e.summary["privacy_mode"]},
		evidence.Field{Name: "decision_id", Value: e.summary["decision_id"]},
		evidence.Field{Name: "decision_type", Value: decisionType},
		evidence.Field{Name: "capture_source", Value: captureSource},
		evidence.Field{Name: "policy", Value: policy},
		evidence.Field{Name: "lifecycle", Value: e.summary["lifecycle"]},
		evidence.Field{Name: "event_count", Value: number(len(e.Events))},
		evidence.Field{Name: "disclosure_count", Value: number(len(e.disclosures))},
		evidence.Field{Name: "payloads_included", Value: boolean(e.IncludePayloads)},
		evidence.Field{Name: "ledger_span", Value: evidence.Object(
			evidence.Field{Name: "first_seq", Value: e.events[0]["seq"]},
			evidence.Field{Name: "last_seq", Value: e.events[len(e.events)-1]["seq"]},
			evidence.Field{Name: "witness_count", Value: number(len(e.Witnesses))},
			evidence.Field{Name: "scope", Value: evidence.Text("workspace-isolated chain segment")},
		)},
		evidence.Field{Name: "integrity", Value: e.Verification},
		evidence.Field{Name: "evidence_coverage", Value: e.Coverage},
		evidence.Field{Name: "signer", Value: e.signer()},
		evidence.Field{Name: "checkpoint", Value: orNull(e.Checkpoint)},
		evidence.Field{Name: "files", Value: e.files()},
		evidence.Field{Name: "bundle_integrity", Value: evidence.Object(
			evidence.Field{Name: "mode", Value: evidence.Text("signed_file_attestation")},
			evidence.Field{Name: "attestation_schema", Value: evidence.Text(attestationSchema)},
			evidence.Field{Name: "attestation_file", Value: evidence.Text(attestationFile)},
			evidence.Field{Name: "hash_algorithm", Value: evidence.Text("SHA-256")},
		)},
		evidence.Field{Name: "independent_verification", Value: evidence.Text(verifyCommand)},
		evidence.Field{Name: "cryptographic_profile", Value: evidence.Text("LoopGrid Evidence Profile " + e.EvidenceProfile)},
		evidence.Field{Name: "legal_note", Value: evidence.Text(legalNote)},
	)
}

// files is the manifest's map from a role to the file that plays it.
func (e *export) files() jsontext.Value {
	policy, disclosures := null(), null()
	if e.policy != nil {
		policy = evidence.Text(policyFile)
	}
	if len(e.disclosures) > 0 {
		disclosures = evidence.Text(disclosuresFile)
	}
	return evidence.Object(
		evidence.Field{Name: "decision", Value: evidence.Text("decision.json")},
		evidence.Field{Name: "signed_events", Value: evidence.Text("events.jsonl")},
		evidence.Field{Name: "chain_witnesses", Value: evidence.Text("chain-witness.jsonl")},
		evidence.Field{Name: "signer", Value: evidence.Text("signer.json")},
		evidence.Field{Name: "verification", Value: evidence.Text("verification.json")},
		evidence.Field{Name: "lifecycle", Value: evidence.Text("lifecycle.json")},
		evidence.Field{Name: "policy", Value: policy},
		evidence.Field{Name: "public_key", Value: evidence.Text("public-key.pem")},
		evidence.Field{Name: "report", Value: evidence.Text("report.html")},
		evidence.Field{Name: "readme", Value: evidence.Text("README.txt")},
		evidence.Field{Name: "bundle_attestation", Value: evidence.Text(attestationFile)},
		evidence.Field{Name: "disclosures", Value: disclosures},
		evidence.Field{Name: "timestamp", Value: null()}, // No time stamping authority answers to a sandbox.
	)
}

// signer describes the signer; the manifest and signer.json both begin with it.
func (e *export) signer(more ...evidence.Field) jsontext.Value {
	return evidence.Object(append([]evidence.Field{
		{Name: "provider", Value: evidence.Text("local_ed25519")},
		{Name: "algorithm", Value: evidence.Text("Ed25519")},
		{Name: "key_id", Value: evidence.Text(e.KeyID)},
		{Name: "hardware_backed", Value: boolean(false)},
		{Name: "production_recommendation", Value: evidence.Text(productionRecommendation)},
	}, more...)...)
}

func (e *export) verification() jsontext.Value {
	return evidence.Object(
		evidence.Field{Name: "decision_id", Value: e.summary["decision_id"]},
		evidence.Field{Name: "workspace_id", Value: e.summary["workspace_id"]},
		evidence.Field{Name: "verified_at_export", Value: orNull(memberOf(e.Verification, "valid"))},
		evidence.Field{Name: "integrity", Value: e.Verification},
		evidence.Field{Name: "coverage", Value: e.Coverage},
		evidence.Field{Name: "lifecycle", Value: e.summary["lifecycle"]},
		evidence.Field{Name: "offline_command", Value: evidence.Text(verifyCommand)},
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
			evidence.Field{Name: "seq", Value: jsontext.Value(strconv.FormatInt(w.Seq, 10))},
			evidence.Field{Name: "opaque", Value: boolean(true)},
			evidence.Field{Name: "proof", Value: w.Proof},
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
		digests = append(digests, evidence.Field{Name: m.name, Value: evidence.Text(hex.EncodeToString(sum[:]))})
	}
	body := evidence.Object(
		evidence.Field{Name: "attestation_schema", Value: evidence.Text(attestationSchema)},
		evidence.Field{Name: "bundle_schema", Value: evidence.Text(bundleSchema)},
		evidence.Field{Name: "decision_id", Value: e.summary["decision_id"]},
		evidence.Field{Name: "workspace_id", Value: e.summary["workspace_id"]},
		evidence.Field{Name: "hash_algorithm", Value: evidence.Text("SHA-256")},
		evidence.Field{Name: "files", Value: evidence.Object(digests...)},
		evidence.Field{Name: "signer", Value: evidence.Object(
			evidence.Field{Name: "key_id", Value: evidence.Text(e.KeyID)},
			evidence.Field{Name: "algorithm", Value: evidence.Text("Ed25519")},
		)},
	)
	canonical, err := evidence.AppendCanonical(nil, body)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(canonical)
	return evidence.Merge(body,
		evidence.Field{Name: "attestation_digest", Value: evidence.Text(hex.EncodeToString(digest[:]))},
		evidence.Field{Name: "signature", Value: evidence.Text(base64.StdEncoding.EncodeToString(ed25519.Sign(e.Key, digest[:])))},
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
