package sandbox

import (
	"archive/zip"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// eventNames are the names of an exported event in their order; the first nine are signed.
//
//nolint:gochecknoglobals // A fact that two files of tests share.
var eventNames = []string{
	"event_id", "decision_id", "workspace_id", "event_type", "occurred_at", "actor", "privacy_mode", "payload_commitment", "payload", "proof", "seq",
}

// testLedger is the smallest ledger that signs real events: one workspace, one key.
type testLedger struct {
	t    *testing.T
	key  ed25519.PrivateKey
	id   string
	seq  int64
	prev string
}

func newTestLedger(t *testing.T) *testLedger {
	t.Helper()
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	sum := sha256.Sum256(key.Public().(ed25519.PublicKey)) //nolint:forcetypeassert // It is one by its documentation.
	return &testLedger{t: t, key: key, id: "ed25519:" + hex.EncodeToString(sum[:])[:16], seq: 1, prev: strings.Repeat("0", 64)}
}

func (l *testLedger) sign(digest string) string {
	raw, err := hex.DecodeString(digest)
	require.NoError(l.t, err)
	return base64.StdEncoding.EncodeToString(ed25519.Sign(l.key, raw))
}

func (l *testLedger) commitment(v jsontext.Value) string {
	digest, err := evidence.Commitment(v)
	require.NoError(l.t, err)
	return digest
}

// append signs an event. The view is what redacted mode shows of the clear payload.
func (l *testLedger) append(decision, mode, kind, clear, view string) bundleEvent {
	l.seq++
	commitment := l.commitment(jsontext.Value(clear))
	var event bundleEvent
	var payload string
	switch mode {
	case "full":
		payload = fmt.Sprintf(`{"disclosure":"encrypted","payload_ref":"pld_%024d","payload_sha256":"%s"}`, l.seq, commitment)
		event.Clear = jsontext.Value(clear)
	case "proof_only":
		payload = fmt.Sprintf(`{"proof_only":true,"payload_sha256":"%s"}`, commitment)
	default:
		payload = view
	}
	body := jsontext.Value(fmt.Sprintf(`{"event_id":"evt_%024d","decision_id":"%s","workspace_id":"default","event_type":"%s",`+
		`"occurred_at":"2026-09-19T10:00:%02d.123456+00:00","actor":{"type":"agent","id":"агент-1"},"privacy_mode":"%s","payload_commitment":"%s","payload":%s}`,
		l.seq, decision, kind, l.seq, mode, commitment, payload))
	content := l.commitment(body)
	chain := chainHash(l.prev, content)
	event.Signed = evidence.Merge(body,
		evidence.Field{Name: "proof", Value: jsontext.Value(fmt.Sprintf(`{"content_hash":"%s","previous_chain_hash":"%s","chain_hash":"%s",`+
			`"signature":"%s","key_id":"%s","signature_algorithm":"Ed25519"}`, content, l.prev, chain, l.sign(chain), l.id))},
		evidence.Field{Name: "seq", Value: jsontext.Value(strconv.FormatInt(l.seq, 10))},
	)
	l.prev = chain
	return event
}

// other appends an event of another decision and returns what a bundle may say of it.
func (l *testLedger) other() bundleWitness {
	event := l.append("dec_other", "full", "tool_executed", `{"secret":"of another decision"}`, "")
	return bundleWitness{l.seq, memberOf(event.Signed, "proof")}
}

// checkpoint seals the newest event.
func (l *testLedger) checkpoint() jsontext.Value {
	return jsontext.Value(fmt.Sprintf(`{"checkpoint_id":"cp_0123456789abcdef0123","workspace_id":"default","ledger_seq":%d,"chain_hash":"%s",`+
		`"created_at":"2026-09-19T10:01:00.000001","signature":"%s","key_id":"%s","signature_algorithm":"Ed25519",`+
		`"timestamp_provider":"not_configured","timestamp_status":"not_configured","external_timestamp":false}`, l.seq, l.prev, l.sign(l.prev), l.id))
}

const (
	testDecision = "dec_0123456789abcdef01234567"

	// Numbers in spellings that are not the canonical ones, names beyond ASCII, characters that HTML and JSON escape.
	testCreated = `{"spec_version":"loopgrid/3.0-draft","decision_type":"возврат","service_name":"support",` +
		`"agent":{"id":"агент-1","version":"1"},"authority":{"limit_usd":1500},"model":{},"context":{"tiny":1E-5,"list":[[],{}]},` +
		`"input":{"порядок":9007199254740993,"a":0.00001,"text":"<b>&\u0022\n"},` +
		`"proposed_action":{"tool":"<stripe>.refunds","amount":7.2e2,"currency":"USD"},"metadata":{"capture_source":"tests"}}`
	testCreatedView = `{"spec_version":"loopgrid/3.0-draft","decision_type":"возврат",` +
		`"service_name":{"redacted":true,"sha256":"` + testDigest + `","type":"str"},` +
		`"agent":{"id":"агент-1","version":"1"},"authority":{"limit_usd":1500},"model":{},"context":{"tiny":1E-5,"list":[[],{}]},` +
		`"input":{"порядок":9007199254740993,"a":0.00001,"text":{"redacted":true,"sha256":"` + testDigest + `","type":"str"}},` +
		`"proposed_action":{"tool":"<stripe>.refunds","amount":7.2e2,"currency":"USD"},"metadata":{"capture_source":"tests"}}`
	testDigest = "9dba0263c364b3798ffdd289621b8365e9af56296e3054097f5cd55411d12aef"
	testRule   = `{"type":"amount_threshold","field":"amount","auto_approve_max":500,"hard_limit":1500,"currency":"USD"}`
	testReview = `{"approved":true,"reviewer":"alice","reason":"fine"}`
	testTool   = `{"tool":"<stripe>.refunds","external_reference":"re_1"}`
	testResult = `{"status":"succeeded","verified_against":"stripe"}`

	testLifecycle = `{"state":"evidence_complete","label":"Evidence complete","terminal":true,"expected_next":["replay_executed"]}`
	testCoverage  = `{"score":100,"passed":9,"total":9,"pending":0,"missing":0,"complete":true,"state":"complete","label":"Evidence complete",` +
		`"checks":[{"id":"model","label":"Model provenance","present":false,"status":"not_applicable"}]}`
)

// bundleCase is one way to export a decision.
type bundleCase struct {
	mode       string
	payloads   bool
	policy     bool
	checkpoint bool
}

func (c bundleCase) String() string {
	return fmt.Sprintf("%s payloads=%t policy=%t checkpoint=%t", c.mode, c.payloads, c.policy, c.checkpoint)
}

func bundleCases() []bundleCase {
	var cases []bundleCase
	for _, mode := range []string{"full", "redacted", "proof_only"} {
		for _, payloads := range []bool{true, false} {
			for _, policy := range []bool{true, false} {
				cases = append(cases, bundleCase{mode, payloads, policy, false})
			}
			cases = append(cases, bundleCase{mode, payloads, true, true})
		}
	}
	return cases
}

// testBundle builds a ledger with two decisions and the bundle of one of them.
func testBundle(t *testing.T, c bundleCase) bundle {
	t.Helper()
	l := newTestLedger(t)
	b := bundle{
		SoftwareVersion: "0.8.1-sandbox", EvidenceProfile: "3.0-draft", IncludePayloads: c.payloads, Coverage: jsontext.Value(testCoverage),
		Key: l.key, KeyID: l.id, Now: time.Date(2026, 9, 19, 10, 2, 0, 0, time.FixedZone("", 7200)),
	}
	der, err := x509.MarshalPKIXPublicKey(l.key.Public())
	require.NoError(t, err)
	b.PublicKeyPEM = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})

	summary := map[string]string{}
	shown := func(e bundleEvent) string {
		if e.Clear != nil {
			return string(e.Clear)
		}
		return string(memberOf(e.Signed, "payload"))
	}
	add := func(name, kind, clear, view string) {
		e := l.append(testDecision, c.mode, kind, clear, view)
		b.Events = append(b.Events, e)
		summary[name] = shown(e)
	}
	l.other()
	add("created", "decision_created", testCreated, testCreatedView)
	b.Witnesses = append(b.Witnesses, l.other())
	if c.policy {
		digest := l.commitment(jsontext.Value(`{"workspace_id":"default","policy_id":"refund-policy","version":"17.3","rule":` + testRule + `}`))
		policy := `{"policy_id":"refund-policy","version":"17.3","decision":"human_approval_required","policy_digest":"` + digest +
			`","input_commitment":"` + testDigest + `","amount":720.0,"rule":` + testRule + `}`
		add("policy", "policy_evaluated", policy, policy)
		add("approval", "human_approved", testReview, testReview)
	}
	add("tool", "tool_executed", testTool, testTool)
	b.Witnesses = append(b.Witnesses, l.other(), l.other())
	add("outcome", "outcome_observed", testResult, testResult)
	if c.checkpoint {
		b.Witnesses = append(b.Witnesses, l.other())
		b.Checkpoint = l.checkpoint()
		l.other()
	}
	b.Verification = jsontext.Value(fmt.Sprintf(`{"valid":true,"checked_events":%d,"total_ledger_events":%d,"failures":[],"key_id":"%s",`+
		`"signature_algorithm":"Ed25519","signer_provider":"local_ed25519","workspace_id":"default",`+
		`"algorithm":"Ed25519 + SHA-256 workspace hash chain","chain_scope":"workspace"}`, len(b.Events), l.seq-1, l.id))

	created := map[string]string{
		"decision_type": `"protected_decision"`, "service_name": "null", "agent": "{}", "authority": "{}", "model": "{}", "context": "{}",
		"input": "{}", "proposed_action": "{}", "metadata": "{}",
	}
	if c.mode != "proof_only" {
		for name, value := range evidence.Members(jsontext.Value(summary["created"])) {
			created[name] = string(value)
		}
	}
	var s strings.Builder
	fmt.Fprintf(&s, `{"decision_id":"%s","workspace_id":"default","privacy_mode":"%s"`, testDecision, c.mode)
	for i, name := range summaryNames[3:18] {
		value, ok := created[name]
		switch {
		case name == "created_at":
			value = `"2026-09-19T10:00:02.123456+00:00"`
		case name == "approval_event" && c.policy && c.mode != "proof_only":
			value = `"human_approved"`
		case !ok:
			value = summary[name]
		}
		if value == "" {
			value = "null"
		}
		fmt.Fprintf(&s, `,"%s":%s`, summaryNames[3+i], value)
	}
	fmt.Fprintf(&s, `,"last_replay":null,"event_count":%d,"lifecycle":%s}`, len(b.Events), testLifecycle)
	b.Summary = jsontext.Value(s.String())
	require.True(t, b.Summary.IsValid(), s.String())
	return b
}

//nolint:gochecknoglobals // A fact that several tests share.
var summaryNames = []string{
	"decision_id", "workspace_id", "privacy_mode", "decision_type", "service_name", "created_at", "agent", "authority", "model", "context", "input",
	"proposed_action", "metadata", "policy", "approval", "approval_event", "tool", "outcome", "last_replay", "event_count", "lifecycle",
}

// bundleFiles are the roles of the manifest's "files" with the file that plays each, if it is there.
//
//nolint:gochecknoglobals // A table of facts.
var bundleFiles = [][2]string{
	{"decision", "decision.json"},
	{"signed_events", "events.jsonl"},
	{"chain_witnesses", "chain-witness.jsonl"},
	{"signer", "signer.json"},
	{"verification", "verification.json"},
	{"lifecycle", "lifecycle.json"},
	{"policy", "policy/policy.json"},
	{"public_key", "public-key.pem"},
	{"report", "report.html"},
	{"readme", "README.txt"},
	{"bundle_attestation", "bundle-attestation.json"},
	{"disclosures", "disclosures.jsonl"},
	{"timestamp", ""},
}

func write(t *testing.T, b bundle) []byte {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, writeBundle(&out, b))
	return out.Bytes()
}

// names are the names of an object in their order.
func names(v jsontext.Value) []string {
	var all []string
	for name := range evidence.Members(v) {
		all = append(all, name)
	}
	return all
}

// nulls are the names of an object whose value is null.
func nulls(v jsontext.Value) []string {
	all := []string{}
	for name, value := range evidence.Members(v) {
		if value.Kind() == jsontext.KindNull {
			all = append(all, name)
		}
	}
	return all
}

func TestBundleMembers(t *testing.T) {
	t.Parallel()
	for _, c := range bundleCases() {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			want := []string{
				"manifest.json", "decision.json", "events.jsonl", "chain-witness.jsonl", "signer.json", "verification.json", "lifecycle.json",
				"public-key.pem", "report.html", "README.txt",
			}
			if c.payloads && c.policy {
				want = append(want, "policy/policy.json")
			}
			if c.payloads && c.mode == "full" {
				want = append(want, "disclosures.jsonl")
			}
			want = append(want, "bundle-attestation.json")
			var got []string
			for _, m := range unzip(t, write(t, testBundle(t, c))) {
				got = append(got, m.name)
			}
			assert.Equal(t, want, got)
		})
	}
}

func TestBundleManifest(t *testing.T) {
	t.Parallel()
	for _, c := range bundleCases() {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			b := testBundle(t, c)
			members := unzip(t, write(t, b))
			manifest := jsontext.Value(content(members, "manifest.json"))
			assert.Equal(t, []string{
				"format", "bundle_schema", "version", "software_version", "workspace_id", "privacy_mode", "decision_id", "decision_type",
				"capture_source", "policy", "lifecycle", "event_count", "disclosure_count", "payloads_included", "ledger_span", "integrity",
				"evidence_coverage", "signer", "checkpoint", "files", "bundle_integrity", "independent_verification", "cryptographic_profile",
				"legal_note",
			}, names(manifest))
			var roles []string
			for role, file := range evidence.Members(memberOf(manifest, "files")) {
				roles = append(roles, role)
				if name, named := evidence.Unquote(file); named {
					assert.Equal(t, bundleFiles[len(roles)-1][1], name, role)
					assert.NotNil(t, content(members, name), role)
				}
			}
			var wantRoles []string
			for _, f := range bundleFiles {
				wantRoles = append(wantRoles, f[0])
			}
			assert.Equal(t, wantRoles, roles)

			wantNull, wantNoFile := []string{}, []string{}
			if !c.payloads {
				wantNull = append(wantNull, "decision_type")
			}
			if !c.payloads || c.mode == "proof_only" {
				wantNull = append(wantNull, "capture_source")
			}
			if !c.payloads || !c.policy {
				wantNull = append(wantNull, "policy")
				wantNoFile = append(wantNoFile, "policy")
			}
			if !c.checkpoint {
				wantNull = append(wantNull, "checkpoint")
			}
			if !c.payloads || c.mode != "full" {
				wantNoFile = append(wantNoFile, "disclosures")
			}
			wantNoFile = append(wantNoFile, "timestamp")
			assert.Equal(t, wantNull, nulls(manifest))
			assert.Equal(t, wantNoFile, nulls(memberOf(manifest, "files")))

			disclosed := 0
			if c.payloads && c.mode == "full" {
				disclosed = len(b.Events)
			}
			for name, want := range map[string]string{
				"format": `"LoopGrid Decision Evidence Bundle"`, "bundle_schema": `"loopgrid/evidence-bundle/2"`, "version": `"3.0-draft"`,
				"software_version": `"0.8.1-sandbox"`, "workspace_id": `"default"`, "privacy_mode": `"` + c.mode + `"`,
				"decision_id": `"` + testDecision + `"`, "event_count": strconv.Itoa(len(b.Events)), "disclosure_count": strconv.Itoa(disclosed),
				"payloads_included": strconv.FormatBool(c.payloads), "lifecycle": testLifecycle, "integrity": string(b.Verification),
				"evidence_coverage": testCoverage,
				"ledger_span": fmt.Sprintf(`{"first_seq":3,"last_seq":%s,"witness_count":%d,"scope":"workspace-isolated chain segment"}`,
					memberOf(b.Events[len(b.Events)-1].Signed, "seq"), len(b.Witnesses)),
				"bundle_integrity": `{"mode":"signed_file_attestation","attestation_schema":"loopgrid/bundle-attestation/1",` +
					`"attestation_file":"bundle-attestation.json","hash_algorithm":"SHA-256"}`,
				"cryptographic_profile": `"LoopGrid Evidence Profile 3.0-draft"`, "independent_verification": `"python loopgrid_verify.py evidence.zip"`,
				"legal_note": `"` + legalNote + `"`,
			} {
				assert.JSONEq(t, want, string(memberOf(manifest, name)), name)
			}
			if c.checkpoint {
				assert.JSONEq(t, string(b.Checkpoint), string(memberOf(manifest, "checkpoint")))
			}
			assert.JSONEq(t, `{"provider":"local_ed25519","algorithm":"Ed25519","key_id":"`+b.KeyID+`","hardware_backed":false,`+
				`"production_recommendation":"`+productionRecommendation+`"}`, string(memberOf(manifest, "signer")))
		})
	}
}

func TestBundleManifestNamesTheDisclosedDecision(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ mode, decisionType, captureSource, policy string }{
		{"full", `"возврат"`, `"tests"`, `"refund-policy"`},
		{"redacted", `"возврат"`, `"tests"`, `"refund-policy"`},
		{"proof_only", `"protected_decision"`, `null`, `null`},
	} {
		t.Run(tt.mode, func(t *testing.T) {
			t.Parallel()
			b := testBundle(t, bundleCase{mode: tt.mode, payloads: true, policy: true})
			members := unzip(t, write(t, b))
			manifest := jsontext.Value(content(members, "manifest.json"))
			assert.Equal(t, tt.decisionType, string(memberOf(manifest, "decision_type")))
			assert.Equal(t, tt.captureSource, string(memberOf(manifest, "capture_source")))
			policy := memberOf(manifest, "policy")
			assert.Equal(t, []string{"id", "version", "policy_digest", "input_commitment"}, names(policy))
			assert.Equal(t, tt.policy, string(memberOf(policy, "id")))
			if tt.mode == "proof_only" {
				assert.Equal(t, names(policy), nulls(policy), "the result itself is hidden")
			}
			want, err := appendPython(nil, memberOf(b.Summary, "policy"), true)
			require.NoError(t, err)
			assert.Equal(t, string(want), string(content(members, "policy/policy.json")))
		})
	}
}

func TestBundleTakesAnEmptyPolicyResultForNone(t *testing.T) {
	t.Parallel()
	b := testBundle(t, bundleCase{mode: "redacted", payloads: true})
	b.Summary = evidence.Merge(b.Summary, evidence.Field{Name: "policy", Value: jsontext.Value(`{}`)})
	members := unzip(t, write(t, b))
	assert.Equal(t, "null", string(memberOf(content(members, "manifest.json"), "policy")))
	assert.Nil(t, content(members, "policy/policy.json"))
}

func TestBundleDecision(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"full", "redacted", "proof_only"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			shown := testBundle(t, bundleCase{mode: mode, payloads: true, policy: true})
			decision := content(unzip(t, write(t, shown)), "decision.json")
			assert.Equal(t, summaryNames, names(decision))
			assert.JSONEq(t, string(shown.Summary), string(decision))

			withheld := testBundle(t, bundleCase{mode: mode, policy: true})
			assert.Equal(t, `{
  "decision_id": "`+testDecision+`",
  "workspace_id": "default",
  "privacy_mode": "`+mode+`",
  "created_at": "2026-09-19T10:00:02.123456+00:00",
  "event_count": 5,
  "decision_type": "withheld",
  "payload_disclosure": "withheld_by_export_option",
  "lifecycle": {
    "state": "evidence_complete",
    "label": "Evidence complete",
    "terminal": true,
    "expected_next": [
      "replay_executed"
    ]
  }
}`, string(content(unzip(t, write(t, withheld)), "decision.json")))
		})
	}
}

func TestBundleLines(t *testing.T) {
	t.Parallel()
	b := testBundle(t, bundleCase{mode: "full", payloads: true, policy: true, checkpoint: true})
	members := unzip(t, write(t, b))
	for name, count := range map[string]int{"events.jsonl": 5, "chain-witness.jsonl": 4, "disclosures.jsonl": 5} {
		assert.Len(t, linesOf(content(members, name)), count, name)
		assert.False(t, bytes.HasSuffix(content(members, name), []byte{'\n'}), "%s ends with a newline", name)
	}
	for i, line := range linesOf(content(members, "events.jsonl")) {
		assert.Equal(t, eventNames, names(line))
		assert.JSONEq(t, string(b.Events[i].Signed), string(line))
		assert.Equal(t, []string{"disclosure", "payload_ref", "payload_sha256"}, names(memberOf(line, "payload")), "the signed payload, not the clear one")
	}
	for i, line := range linesOf(content(members, "chain-witness.jsonl")) {
		start, _, _ := strings.Cut(string(line), `{"content_hash"`)
		assert.Equal(t, fmt.Sprintf(`{"seq": %d, "opaque": true, "proof": `, b.Witnesses[i].Seq), start)
		assert.Equal(t, []string{"content_hash", "previous_chain_hash", "chain_hash", "signature", "key_id", "signature_algorithm"},
			names(memberOf(line, "proof")))
	}
	first := linesOf(content(members, "disclosures.jsonl"))[0]
	assert.Equal(t, []string{"event_id", "payload_commitment", "payload"}, names(first))
	disclosed := fmt.Sprintf(`{"event_id": %s, "payload_commitment": %s, "payload": `+
		`{"agent": {"id": "агент-1", "version": "1"}, "authority": {"limit_usd": 1500}, "context": {"list": [[], {}], "tiny": 1e-05}, `+
		`"decision_type": "возврат", "input": {"a": 1e-05, "text": "<b>&\"\n", "порядок": 9007199254740993}, `+
		`"metadata": {"capture_source": "tests"}, "model": {}, `+
		`"proposed_action": {"amount": 720.0, "currency": "USD", "tool": "<stripe>.refunds"}, "service_name": "support", `+
		`"spec_version": "loopgrid/3.0-draft"}}`, memberOf(first, "event_id"), memberOf(first, "payload_commitment"))
	assert.Equal(t, disclosed, string(first), "sorted, in canonical spelling")

	alone := b
	alone.Events, alone.Witnesses, alone.Checkpoint = b.Events[:1], nil, nil
	witnesses := content(unzip(t, write(t, alone)), "chain-witness.jsonl")
	assert.Equal(t, []byte{}, witnesses, "the file is there, with nothing in it")
}

func TestBundleDisclosesOnlyWhatIsAvailable(t *testing.T) {
	t.Parallel()
	b := testBundle(t, bundleCase{mode: "full", payloads: true})
	b.Events[1].Clear = nil
	members := unzip(t, write(t, b))
	assert.Len(t, linesOf(content(members, "disclosures.jsonl")), len(b.Events)-1)
	assert.Equal(t, strconv.Itoa(len(b.Events)-1), string(memberOf(content(members, "manifest.json"), "disclosure_count")))
	require.NoError(t, checkMembers(members))
}

func TestBundleDocuments(t *testing.T) {
	t.Parallel()
	b := testBundle(t, bundleCase{mode: "redacted", policy: true})
	members := unzip(t, write(t, b))
	verification := content(members, "verification.json")
	assert.Equal(t, []string{"decision_id", "workspace_id", "verified_at_export", "integrity", "coverage", "lifecycle", "offline_command"}, names(verification))
	assert.Equal(t, "true", string(memberOf(verification, "verified_at_export")))
	assert.Equal(t, `"python loopgrid_verify.py evidence.zip"`, string(memberOf(verification, "offline_command")))
	signer := `{
  "provider": "local_ed25519",
  "algorithm": "Ed25519",
  "key_id": "` + b.KeyID + `",
  "hardware_backed": false,
  "production_recommendation": "` + productionRecommendation + `",
  "trust_model": "` + trustModel + `",
  "public_key_file": "public-key.pem"
}`
	assert.Equal(t, []byte(signer), content(members, "signer.json"))
	assert.JSONEq(t, testLifecycle, string(content(members, "lifecycle.json")))
	assert.Equal(t, b.PublicKeyPEM, content(members, "public-key.pem"))
	attestation := content(members, "bundle-attestation.json")
	assert.Equal(t, []string{
		"attestation_schema", "bundle_schema", "decision_id", "workspace_id", "hash_algorithm", "files", "signer", "attestation_digest", "signature",
	}, names(attestation))
	for name, want := range map[string]string{
		"attestation_schema": `"loopgrid/bundle-attestation/1"`, "bundle_schema": `"loopgrid/evidence-bundle/2"`, "decision_id": `"` + testDecision + `"`,
		"workspace_id": `"default"`, "hash_algorithm": `"SHA-256"`, "signer": `{"key_id":"` + b.KeyID + `","algorithm":"Ed25519"}`,
	} {
		assert.JSONEq(t, want, string(memberOf(attestation, name)), name)
	}
	var attested []string
	for _, m := range members[:len(members)-1] {
		attested = append(attested, m.name)
	}
	assert.Equal(t, attested, names(memberOf(attestation, "files")), "the order of the ZIP")

	b.Verification = evidence.Merge(b.Verification, evidence.Field{Name: "valid", Value: boolean(false)})
	members = unzip(t, write(t, b))
	assert.Equal(t, "false", string(memberOf(content(members, "verification.json"), "verified_at_export")), "a broken chain is exported too, and says so")
	assert.Contains(t, string(content(members, "report.html")), "<tr><th>Chain of the workspace</th><td>broken</td></tr>")
}

func TestBundleHolds(t *testing.T) {
	t.Parallel()
	for _, c := range bundleCases() {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			require.NoError(t, checkMembers(unzip(t, write(t, testBundle(t, c)))))
		})
	}
}

// Every byte of the attestation counts, and so does every byte of a member it lists.
func TestBundleRejectsAnyChangedByte(t *testing.T) {
	t.Parallel()
	members := unzip(t, write(t, testBundle(t, bundleCase{mode: "full", payloads: true, policy: true, checkpoint: true})))
	last := len(members) - 1
	for at := range members[last].data {
		require.Error(t, checkMembers(damaged(members, last, at)), "byte %d of the attestation", at)
	}
	for i, m := range members[:last] {
		for _, at := range []int{0, len(m.data) / 2, len(m.data) - 1} {
			require.Error(t, checkMembers(damaged(members, i, at)), "byte %d of %s", at, m.name)
		}
	}
	require.Error(t, checkMembers(append(slices.Clone(members), member{"extra.txt", nil})), "one file more")
	require.Error(t, checkMembers(slices.Delete(slices.Clone(members), 1, 2)), "one file less")
}

func TestBundleWithheldPayloadsAreNowhere(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"full", "proof_only"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			for _, m := range unzip(t, write(t, testBundle(t, bundleCase{mode: mode, policy: true}))) {
				for _, secret := range []string{"порядок", "stripe", "возврат", "refund-policy", "alice", "re_1", "succeeded", "of another decision"} {
					assert.NotContains(t, string(m.data), secret, m.name)
				}
			}
		})
	}
}

func TestBundleIsAZipOfItsTime(t *testing.T) {
	t.Parallel()
	b := testBundle(t, bundleCase{mode: "full", payloads: true, policy: true})
	data := write(t, b)
	assert.Equal(t, data, write(t, b), "the same input gives the same bytes")
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	for _, f := range z.File {
		assert.Equal(t, zip.Deflate, f.Method, f.Name)
		assert.Equal(t, "-rw-------", f.Mode().String(), f.Name)
		assert.Equal(t, "2026-09-19T08:02:00Z", f.Modified.Format(time.RFC3339), f.Name)
	}
}

func TestBundleSaysItIsASandbox(t *testing.T) {
	t.Parallel()
	for _, payloads := range []bool{true, false} {
		members := unzip(t, write(t, testBundle(t, bundleCase{mode: "full", payloads: payloads, policy: true})))
		report, readme := string(content(members, "report.html")), string(content(members, "README.txt"))
		assert.Contains(t, report, "<strong>Not from LoopGrid.</strong>")
		assert.Contains(t, report, "0.8.1-sandbox")
		assert.True(t, strings.HasPrefix(readme, "SANDBOX EVIDENCE, NOT FROM LOOPGRID\n"), readme)
		assert.Contains(t, string(memberOf(content(members, "manifest.json"), "legal_note")), "sandbox")
		for line := range strings.SplitSeq(readme, "\n") {
			assert.LessOrEqual(t, len(line), 120, line)
		}
		for _, m := range members {
			if m.name != "public-key.pem" && !strings.HasSuffix(m.name, ".json") && !strings.HasSuffix(m.name, ".jsonl") {
				continue
			}
			assert.NotContains(t, string(m.data), "\r", m.name)
		}
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	report := func(b bundle) string { return string(content(unzip(t, write(t, b)), "report.html")) }

	b := testBundle(t, bundleCase{mode: "full", payloads: true, policy: true})
	page := report(b)
	assert.Contains(t, page, "<tr><th>Type</th><td>возврат</td></tr>")
	assert.Contains(t, page, "<tr><th>Agent</th><td>агент-1</td></tr>")
	assert.Contains(t, page, "<tr><th>Proposed tool</th><td>&lt;stripe&gt;.refunds</td></tr>", "escaped")
	assert.Contains(t, page, "<tr><th>Policy result</th><td>human_approval_required</td></tr>")
	assert.Contains(t, page, "<tr><th>Review</th><td>human_approved</td></tr>")
	assert.Contains(t, page, "<tr><th>Outcome</th><td>succeeded</td></tr>")
	assert.Contains(t, page, "<tr><th>Chain of the workspace</th><td>intact</td></tr>")
	assert.Contains(t, page, "<p>Evidence complete: 9 of 9 (100 %)</p>")
	assert.Contains(t, page, "<tr><th>Model provenance</th><td>not applicable</td></tr>")
	assert.Contains(t, page, "9007199254740993")
	assert.Equal(t, 5, strings.Count(page, "<tr><td>"), "one row an event")
	assert.NotContains(t, page, "<b>&", "payload text that is not escaped")
	assert.Contains(t, page, "loopgrid-verify FILE.zip --expected-key-id "+b.KeyID)

	page = report(testBundle(t, bundleCase{mode: "proof_only", payloads: true}))
	assert.Contains(t, page, "<tr><th>Agent</th><td>-</td></tr>")
	assert.Contains(t, page, "&#34;proof_only&#34;: true")

	redacted := testBundle(t, bundleCase{mode: "redacted", payloads: true})
	redacted.Summary = evidence.Merge(redacted.Summary, evidence.Field{
		Name: "decision_type", Value: jsontext.Value(`{"redacted":true,"sha256":"` + testDigest + `","type":"str"}`),
	})
	assert.Contains(t, report(redacted), "<tr><th>Type</th><td>redacted</td></tr>", "a workspace may redact any name")

	b.Events[0].Clear = jsontext.Value(`"` + strings.Repeat("ü", 3000) + `"`)
	page = report(b)
	assert.Contains(t, page, strings.Repeat("ü", maxReportPayload-1)+"\n[cut here")
	assert.NotContains(t, page, strings.Repeat("ü", maxReportPayload))
}

func TestWriteBundleErrors(t *testing.T) {
	t.Parallel()
	broken := jsontext.Value(`{"a":[1,}`)
	for name, spoil := range map[string]func(*bundle){
		"a decision without events": func(b *bundle) { b.Events = nil },
		"decision.json":             func(b *bundle) { b.Summary = append(slices.Clone(b.Summary[:len(b.Summary)-1]), `,"last":[1,}`...) },
		"chain-witness.jsonl":       func(b *bundle) { b.Witnesses[0].Proof = broken },
		"clear payload of event 0":  func(b *bundle) { b.Events[0].Clear = broken },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := testBundle(t, bundleCase{mode: "full", payloads: true, policy: true})
			spoil(&b)
			var out bytes.Buffer
			require.ErrorContains(t, writeBundle(&out, b), "write evidence bundle: "+name)
			assert.Zero(t, out.Len(), "nothing is written before all of it is known to be good")
		})
	}
	full := errors.New("disk full")
	require.ErrorIs(t, writeBundle(failingWriter{full}, testBundle(t, bundleCase{mode: "full"})), full)
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

// The expected texts are what Python 3.11's json.dumps writes.
func TestAppendPython(t *testing.T) {
	t.Parallel()
	const in = `{"z": {}, "a": [], "ключ \u2028 \u0085": [1e-5, 0.00001, 720.0, 1e16, -0.0, -0, 9007199254740993, 123456789012345678901234567890, 1E+2],` +
		` "s": "<&> \u0001 \u007f \u001f \b\f\n\r\t \\ \" \/ \ud83d\ude00", "n": null, "t": [true, [false, {"x": [[]]}]], "": {"e": {}}}`
	for _, tt := range []struct {
		name   string
		indent bool
		want   string
	}{
		{"a line", false, "{\"z\": {}, \"a\": [], \"ключ \u2028 \u0085\": [1e-05, 1e-05, 720.0, 1e+16, -0.0, 0, 9007199254740993, 123456789012345678901234567890, 100.0], " +
			"\"s\": \"<&> \\u0001 \x7f \\u001f \\b\\f\\n\\r\\t \\\\ \\\" / 😀\", \"n\": null, \"t\": [true, [false, {\"x\": [[]]}]], \"\": {\"e\": {}}}"},
		{"indented", true, "{\n  \"z\": {},\n  \"a\": [],\n  \"ключ \u2028 \u0085\": [\n    1e-05,\n    1e-05,\n    720.0,\n    1e+16,\n    -0.0,\n    0,\n" +
			"    9007199254740993,\n    123456789012345678901234567890,\n    100.0\n  ],\n" +
			"  \"s\": \"<&> \\u0001 \x7f \\u001f \\b\\f\\n\\r\\t \\\\ \\\" / 😀\",\n  \"n\": null,\n  \"t\": [\n    true,\n    [\n      false,\n      {\n" +
			"        \"x\": [\n          []\n        ]\n      }\n    ]\n  ],\n  \"\": {\n    \"e\": {}\n  }\n}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := appendPython([]byte("before "), jsontext.Value(in), tt.indent)
			require.NoError(t, err)
			assert.Equal(t, "before "+tt.want, string(got))
		})
	}
	for _, bad := range []string{``, `{`, `[1,`, `{"a"}`, `{"a":1,"a":2}`, `]`, `1e400`} {
		_, err := appendPython(nil, jsontext.Value(bad), true)
		assert.Error(t, err, bad)
	}
}

// Each mode's bundle against the published verifier.
func TestVerifierAcceptsBundles(t *testing.T) {
	t.Parallel()
	path := verifier(t)
	for _, c := range bundleCases() {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			b := testBundle(t, c)
			requireVerified(t, path, write(t, b), b.KeyID)
		})
	}
}

func TestVerifierRejectsChangedBundles(t *testing.T) {
	t.Parallel()
	path := verifier(t)
	requireEachChangeRejected(t, path, write(t, testBundle(t, bundleCase{mode: "full", payloads: true, policy: true, checkpoint: true})))
}

// What checkMembers has to notice beyond damaged files: bundles that were attested, but whose chain does not hold.
func TestCheckMembersJudgesTheChain(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*bundle){
		"a witness is missing":     func(b *bundle) { b.Witnesses = b.Witnesses[1:] },
		"an event is missing":      func(b *bundle) { b.Events = slices.Delete(b.Events, 1, 2) },
		"another payload":          func(b *bundle) { b.Events[0].Clear = jsontext.Value(`{}`) },
		"an event re-signed":       func(b *bundle) { b.Events[0].Signed = respelled(b.Events[0].Signed) },
		"checkpoint not linked":    func(b *bundle) { b.Witnesses = b.Witnesses[:len(b.Witnesses)-1] },
		"another key in the facts": func(b *bundle) { b.KeyID = "ed25519:0123456789abcdef" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := testBundle(t, bundleCase{mode: "full", payloads: true, policy: true, checkpoint: true})
			spoil(&b)
			require.Error(t, checkMembers(unzip(t, write(t, b))))
		})
	}
}

func respelled(signed jsontext.Value) jsontext.Value {
	fields := maps.Collect(evidence.Members(signed))
	return evidence.Merge(signed, evidence.Field{Name: "payload", Value: evidence.Merge(fields["payload"], evidence.Field{Name: "more", Value: boolean(true)})})
}
