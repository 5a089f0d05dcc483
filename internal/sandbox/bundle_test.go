package sandbox

import (
	"archive/zip"
	"bytes"
	"net/http"
	"slices"
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

// names are the names of an object in their order, those of null values apart.
func names(v jsontext.Value) (all, nulls []string) {
	for name, value := range evidence.Members(v) {
		all = append(all, name)
		if value.Kind() == 'n' {
			nulls = append(nulls, name)
		}
	}
	return all, nulls
}

func TestBundleFiles(t *testing.T) {
	t.Parallel()
	bundles, _ := exports(t)
	for name, data := range bundles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			payloads, full := strings.Contains(name, "payloads=true"), strings.HasPrefix(name, "full")
			want := []string{
				"manifest.json", "decision.json", "events.jsonl", "chain-witness.jsonl", "signer.json", "verification.json", "lifecycle.json",
				"public-key.pem", "report.html", "README.txt",
			}
			noFile := []string{"policy", "disclosures", "timestamp"}
			if payloads {
				want, noFile = append(want, "policy/policy.json"), noFile[1:]
			}
			if payloads && full {
				want, noFile = append(want, "disclosures.jsonl"), noFile[1:]
			}
			members := unzip(t, data)
			var got []string
			for _, m := range members {
				got = append(got, m.name)
			}
			assert.Equal(t, append(want, "bundle-attestation.json"), got)
			attestation := content(members, "bundle-attestation.json")
			attested, _ := names(evidence.Get(attestation, "files"))
			assert.Equal(t, want, attested, "the order of the ZIP")
			all, _ := names(attestation)
			assert.Equal(t, []string{
				"attestation_schema", "bundle_schema", "decision_id", "workspace_id", "hash_algorithm", "files", "signer", "attestation_digest",
				"signature",
			}, all)

			manifest := jsontext.Value(content(members, "manifest.json"))
			all, nulls := names(manifest)
			assert.Equal(t, []string{
				"format", "bundle_schema", "version", "software_version", "workspace_id", "privacy_mode", "decision_id", "decision_type",
				"capture_source", "policy", "lifecycle", "event_count", "disclosure_count", "payloads_included", "ledger_span", "integrity",
				"evidence_coverage", "signer", "checkpoint", "files", "bundle_integrity", "independent_verification", "cryptographic_profile",
				"legal_note",
			}, all)
			var wantNull []string
			switch {
			case !payloads:
				wantNull = []string{"decision_type", "capture_source", "policy"}
			case strings.HasPrefix(name, "proof_only"):
				wantNull = []string{"capture_source"}
				policy, hidden := names(evidence.Get(manifest, "policy"))
				assert.Equal(t, policy, hidden, "the result itself is hidden")
			}
			if strings.Contains(name, "checkpoint=false") {
				wantNull = append(wantNull, "checkpoint")
			}
			assert.Equal(t, wantNull, nulls)
			roles, nulls := names(evidence.Get(manifest, "files"))
			assert.Equal(t, noFile, nulls)
			assert.Len(t, roles, 13)
			for role, file := range evidence.Members(evidence.Get(manifest, "files")) {
				if name, named := evidence.Unquote(file); named {
					assert.NotNil(t, content(members, name), role)
				}
			}
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
			v := visit(t)
			members := unzip(t, v.evidence(v.decide(tt.mode), true))
			manifest := jsontext.Value(content(members, "manifest.json"))
			assert.Equal(t, tt.decisionType, string(evidence.Get(manifest, "decision_type")))
			assert.Equal(t, tt.captureSource, string(evidence.Get(manifest, "capture_source")))
			assert.Equal(t, tt.policy, string(evidence.Get(manifest, "policy", "id")))
		})
	}
	t.Run("an empty policy result counts as none", func(t *testing.T) {
		t.Parallel()
		v := visit(t)
		decision := v.create("redacted", "")
		v.event(decision, "policy_evaluated", "{}", "")
		members := unzip(t, v.evidence(decision, true))
		assert.Equal(t, "null", string(evidence.Get(content(members, "manifest.json"), "policy")))
		assert.Nil(t, content(members, "policy/policy.json"))
	})
}

func TestBundleDecision(t *testing.T) {
	t.Parallel()
	v := visit(t)
	decision := v.decide("full")
	summary := evidence.Get(v.do(http.StatusOK, http.MethodGet, decision, ""), "summary")
	assert.JSONEq(t, string(summary), string(content(unzip(t, v.evidence(decision, true)), "decision.json")))
	assert.Equal(t, `{
  "decision_id": "`+strings.TrimPrefix(decision, "/api/v1/decisions/")+`",
  "workspace_id": "default",
  "privacy_mode": "full",
  "created_at": "2026-09-19T08:00:00.123456+00:00",
  "event_count": 6,
  "decision_type": "withheld",
  "payload_disclosure": "withheld_by_export_option",
  "lifecycle": {
    "state": "evidence_complete",
    "label": "Evidence complete",
    "terminal": true,
    "expected_next": [
      "replay_executed",
      "incident_flagged",
      "human_adjudicated"
    ]
  }
}`, string(content(unzip(t, v.evidence(decision, false)), "decision.json")))
}

func TestBundleLines(t *testing.T) {
	t.Parallel()
	v := visit(t)
	members := unzip(t, v.evidence(v.decide("full"), true))
	for name, count := range map[string]int{"events.jsonl": 6, "chain-witness.jsonl": 3, "disclosures.jsonl": 6} {
		assert.Len(t, linesOf(content(members, name)), count, name)
		assert.False(t, bytes.HasSuffix(content(members, name), []byte{'\n'}), "%s ends with a newline", name)
	}
	for _, line := range linesOf(content(members, "events.jsonl")) {
		all, _ := names(line)
		assert.Equal(t, eventNames, all)
		all, _ = names(evidence.Get(line, "payload"))
		assert.Equal(t, []string{"disclosure", "payload_ref", "payload_sha256"}, all, "the signed payload, not the clear one")
	}
	for _, line := range linesOf(content(members, "chain-witness.jsonl")) {
		assert.Regexp(t, `^\{"seq": \d+, "opaque": true, "proof": \{"content_hash": "`, string(line))
	}
	first := linesOf(content(members, "disclosures.jsonl"))[0]
	assert.Regexp(t, `^\{"event_id": "evt_[0-9a-f]{24}", "payload_commitment": "[0-9a-f]{64}", "payload": \{"agent": \{"id": "агент-1"\}, "authority": `+
		`\{"limit_usd": 1500\}, "context": \{"big": 9007199254740993, "e": 100\.0, "tiny": 1e-05, "zero": -0\.0\}, `, string(first), "sorted, in canonical spelling")

	alone := v.evidence(v.create("redacted", ""), true)
	assert.Equal(t, []byte{}, content(unzip(t, alone), "chain-witness.jsonl"), "the file is there, with nothing in it")
}

func TestBundleDisclosesOnlyWhatIsAvailable(t *testing.T) {
	t.Parallel()
	v := visit(t)
	decision := v.decide("full")
	v.post(decision+"/payload/erase", "{}")
	v.event(decision, "incident_flagged", `{"later":true}`, "")
	members := unzip(t, v.evidence(decision, true))
	require.NoError(t, checkMembers(members))
	assert.Len(t, linesOf(content(members, "disclosures.jsonl")), 1)
	assert.Equal(t, "1", string(evidence.Get(content(members, "manifest.json"), "disclosure_count")))
}

func TestBundleSaysThatTheChainIsBroken(t *testing.T) {
	t.Parallel()
	v := visit(t)
	decision := v.decide("redacted")
	assert.Contains(t, string(content(unzip(t, v.evidence(decision, true)), "report.html")), "<tr><th>Chain of the workspace</th><td>intact</td></tr>")
	*v.sandbox.Row("default", 0).EventType() = "tool_result"
	members := unzip(t, v.evidence(decision, true))
	assert.Equal(t, "false", string(evidence.Get(content(members, "verification.json"), "verified_at_export")))
	assert.Contains(t, string(content(members, "report.html")), "<tr><th>Chain of the workspace</th><td>broken</td></tr>")
}

// Every byte of the attestation counts, and so does every byte of a member it lists.
func TestBundleRejectsAnyChangedByte(t *testing.T) {
	t.Parallel()
	bundles, _ := exports(t)
	members := unzip(t, bundles["full payloads=true checkpoint=true"])
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
	bundles, _ := exports(t)
	for _, mode := range []string{"full", "proof_only"} {
		for _, m := range unzip(t, bundles[mode+" payloads=false checkpoint=true"]) {
			for _, secret := range []string{"ключ", "возврат", "улица", "in Ordnung", "re_1", "succeeded", "of another decision"} {
				assert.NotContains(t, string(m.data), secret, m.name)
			}
		}
	}
}

func TestBundleIsAZipOfItsTime(t *testing.T) {
	t.Parallel()
	v := visit(t)
	data := v.evidence(v.decide("full"), true)
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	for _, f := range z.File {
		assert.Equal(t, zip.Deflate, f.Method, f.Name)
		assert.Equal(t, "-rw-------", f.Mode().String(), f.Name)
		assert.Equal(t, "2026-09-19T08:00:00Z", f.Modified.Format(time.RFC3339), f.Name)
	}
}

func TestBundleSaysItIsASandbox(t *testing.T) {
	t.Parallel()
	bundles, _ := exports(t)
	for name, data := range bundles {
		members := unzip(t, data)
		report, readme := string(content(members, "report.html")), string(content(members, "README.txt"))
		assert.Contains(t, report, "<strong>Not from LoopGrid.</strong>", name)
		assert.Contains(t, report, "0.8.1-sandbox", name)
		assert.True(t, strings.HasPrefix(readme, "SANDBOX EVIDENCE, NOT FROM LOOPGRID\n"), readme)
		assert.Contains(t, evidence.GetText(content(members, "manifest.json"), "legal_note"), "sandbox", name)
		assert.Contains(t, evidence.GetText(content(members, "signer.json"), "production_recommendation"), "sandbox", name)
		for line := range strings.SplitSeq(readme, "\n") {
			assert.LessOrEqual(t, len(line), 120, line)
		}
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	v := visit(t)
	report := func(decision string) string {
		return string(content(unzip(t, v.evidence(decision, true)), "report.html"))
	}
	page := report(v.decide("full"))
	assert.Contains(t, page, "<tr><th>Type</th><td>возврат</td></tr>")
	assert.Contains(t, page, "<tr><th>Agent</th><td>агент-1</td></tr>")
	assert.Contains(t, page, "<tr><th>Policy result</th><td>human_approval_required</td></tr>")
	assert.Contains(t, page, "<tr><th>Review</th><td>human_approved</td></tr>")
	assert.Contains(t, page, "9007199254740993")
	assert.Equal(t, 6, strings.Count(page, "<pre>"), "one an event")
	assert.Contains(t, page, "&lt;stripe&gt;.refunds")
	assert.NotContains(t, page, "<stripe>")
	assert.Contains(t, page, "loopgrid-verify FILE.zip --expected-key-id "+v.sandbox.keyID)

	page = report(v.decide("proof_only"))
	assert.Contains(t, page, "<tr><th>Agent</th><td>-</td></tr>")
	assert.Contains(t, page, "&#34;proof_only&#34;: true")

	long := v.create("full", `,"input":{"x":"`+strings.Repeat("ü", 3000)+`"}`)
	assert.Contains(t, report(long), "ü\n[cut here")

	workspace := evidence.GetText(v.post("/api/v1/workspaces", `{"name":"n","privacy_mode":"redacted","redaction_fields":["decision_type"]}`), "workspace_id")
	assert.Contains(t, report(v.create("redacted", `,"workspace_id":"`+workspace+`"`)), "<tr><th>Type</th><td>redacted</td></tr>")
}
