package sandbox

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// This file judges bundles in two ways: checkMembers is written here from the description of the format, and runVerifier asks the published
// verifier. The first one can look at thousands of damaged bundles, the second one is what users run.

// unzip returns the members of a ZIP in their order.
func unzip(t *testing.T, data []byte) []member {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	var members []member
	for _, f := range z.File {
		r, err := f.Open()
		require.NoError(t, err)
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		members = append(members, member{f.Name, content})
	}
	return members
}

// rezip is the opposite of unzip.
func rezip(t *testing.T, members []member) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, m := range members {
		f, err := z.Create(m.name)
		require.NoError(t, err)
		_, err = f.Write(m.data)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return out.Bytes()
}

// damaged returns members with one byte of one of them changed.
func damaged(members []member, index, at int) []member {
	members = slices.Clone(members)
	members[index].data = bytes.Clone(members[index].data)
	members[index].data[at] ^= 1
	return members
}

// content returns the content of a member, nil where there is none of that name.
func content(members []member, name string) []byte {
	for _, m := range members {
		if m.name == name {
			return m.data
		}
	}
	return nil
}

type testProof struct {
	ContentHash        string `json:"content_hash"`
	PreviousChainHash  string `json:"previous_chain_hash"`
	ChainHash          string `json:"chain_hash"`
	Signature          string `json:"signature"`
	KeyID              string `json:"key_id"`
	SignatureAlgorithm string `json:"signature_algorithm"`
}

// checkMembers says what is wrong with a bundle, nil if nothing is.
func checkMembers(members []member) error {
	block, rest := pem.Decode(content(members, "public-key.pem"))
	if block == nil || len(rest) > 0 {
		return errors.New("public-key.pem is not one PEM block")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return fmt.Errorf("public-key.pem: %w", err)
	}
	key, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return errors.New("public-key.pem is no Ed25519 key")
	}
	sum := sha256.Sum256(key)
	keyID := "ed25519:" + hex.EncodeToString(sum[:])[:16]
	if err := checkAttestation(members, key, keyID); err != nil {
		return fmt.Errorf("%s: %w", attestationFile, err)
	}
	if err := checkChain(members, key, keyID); err != nil {
		return err
	}
	return checkDocuments(members, key, keyID)
}

func checkAttestation(members []member, key ed25519.PublicKey, keyID string) error {
	raw := content(members, attestationFile)
	if !json.Valid(raw) {
		return errors.New("not JSON")
	}
	var a struct {
		Files             map[string]string `json:"files"`
		Signer            map[string]string `json:"signer"`
		AttestationDigest string            `json:"attestation_digest"`
		Signature         string            `json:"signature"`
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return err
	}
	var body []evidence.Field
	for _, name := range []string{"attestation_schema", "bundle_schema", "decision_id", "workspace_id", "hash_algorithm", "files", "signer"} {
		body = append(body, evidence.Field{Name: name, Value: encode(evidence.Get(raw, name))})
	}
	digest, err := evidence.Commitment(evidence.Object(body...))
	if err != nil {
		return err
	}
	if digest != a.AttestationDigest {
		return errors.New("digest does not match")
	}
	if !signedBy(key, digest, a.Signature) {
		return errors.New("signature does not match")
	}
	if a.Signer["key_id"] != keyID || a.Signer["algorithm"] != "Ed25519" {
		return errors.New("another signer")
	}
	if len(a.Files) != len(members)-1 {
		return errors.New("files and members differ")
	}
	for _, m := range members {
		if m.name == attestationFile {
			continue
		}
		if sum := sha256.Sum256(m.data); a.Files[m.name] != hex.EncodeToString(sum[:]) {
			return fmt.Errorf("digest of %s does not match", m.name)
		}
	}
	return nil
}

func signedBy(key ed25519.PublicKey, digest, signature string) bool {
	raw, err := hex.DecodeString(digest)
	if err != nil {
		return false
	}
	sig, err := base64.StdEncoding.Strict().DecodeString(signature)
	return err == nil && ed25519.Verify(key, raw, sig)
}

// checkChain follows the chain through the decision's events and the witnesses between them.
func checkChain(members []member, key ed25519.PublicKey, keyID string) error {
	type node struct {
		Seq   int64     `json:"seq"`
		Proof testProof `json:"proof"`
		body  []evidence.Field
	}
	var nodes []node
	for _, file := range []string{"events.jsonl", "chain-witness.jsonl"} {
		for _, line := range linesOf(content(members, file)) {
			var n node
			if err := json.Unmarshal(line, &n); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			if file == "events.jsonl" {
				for _, name := range eventNames[:9] {
					n.body = append(n.body, evidence.Field{Name: name, Value: evidence.Get(line, name)})
				}
			}
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, func(a, b node) int { return int(a.Seq - b.Seq) })
	for i, n := range nodes {
		if n.body != nil {
			hash, err := evidence.Commitment(evidence.Object(n.body...))
			if err != nil {
				return err
			}
			if hash != n.Proof.ContentHash {
				return fmt.Errorf("event %d: content hash does not match", n.Seq)
			}
		}
		if n.Proof.ChainHash != chainHash(n.Proof.PreviousChainHash, n.Proof.ContentHash) {
			return fmt.Errorf("event %d: chain hash does not match", n.Seq)
		}
		if i > 0 && n.Proof.PreviousChainHash != nodes[i-1].Proof.ChainHash {
			return fmt.Errorf("event %d: does not follow its predecessor", n.Seq)
		}
		if n.Proof.KeyID != keyID || n.Proof.SignatureAlgorithm != "Ed25519" || !signedBy(key, n.Proof.ChainHash, n.Proof.Signature) {
			return fmt.Errorf("event %d: signature does not match", n.Seq)
		}
	}
	return nil
}

// checkDocuments compares what the other files say twice.
func checkDocuments(members []member, key ed25519.PublicKey, keyID string) error {
	manifest := jsontext.Value(content(members, "manifest.json"))
	signer := evidence.Get(manifest, "signer")
	if id, _ := evidence.Unquote(evidence.Get(signer, "key_id")); id != keyID {
		return errors.New("manifest.json names another key")
	}
	if id, _ := evidence.Unquote(evidence.Get(content(members, "signer.json"), "key_id")); id != keyID {
		return errors.New("signer.json names another key")
	}
	for name, same := range map[string][2]jsontext.Value{
		"lifecycle":   {evidence.Get(manifest, "lifecycle"), content(members, "lifecycle.json")},
		"integrity":   {evidence.Get(manifest, "integrity"), evidence.Get(content(members, "verification.json"), "integrity")},
		"coverage":    {evidence.Get(manifest, "evidence_coverage"), evidence.Get(content(members, "verification.json"), "coverage")},
		"decision_id": {evidence.Get(manifest, "decision_id"), evidence.Get(content(members, "decision.json"), "decision_id")},
	} {
		a, errA := evidence.Commitment(same[0])
		b, errB := evidence.Commitment(same[1])
		if errA != nil || errB != nil || a != b {
			return fmt.Errorf("%s differs between two files", name)
		}
	}
	commitments := map[string]string{}
	for _, line := range linesOf(content(members, "events.jsonl")) {
		commitments[string(evidence.Get(line, "event_id"))] = string(evidence.Get(line, "payload_commitment"))
	}
	for _, line := range linesOf(content(members, disclosuresFile)) {
		digest, err := evidence.Commitment(evidence.Get(line, "payload"))
		if err != nil {
			return err
		}
		if want := string(evidence.Text(digest)); commitments[string(evidence.Get(line, "event_id"))] != want || string(evidence.Get(line, "payload_commitment")) != want {
			return errors.New("a disclosed payload is not the committed one")
		}
	}
	if checkpoint := evidence.Get(manifest, "checkpoint"); evidence.Get(checkpoint, "chain_hash") != nil {
		hash, _ := evidence.Unquote(evidence.Get(checkpoint, "chain_hash"))
		signature, _ := evidence.Unquote(evidence.Get(checkpoint, "signature"))
		if !signedBy(key, hash, signature) {
			return errors.New("the checkpoint's signature does not match")
		}
		if !bytes.Contains(content(members, "chain-witness.jsonl"), []byte(`"chain_hash": "`+hash+`"`)) &&
			!bytes.Contains(content(members, "events.jsonl"), []byte(`"chain_hash": "`+hash+`"`)) {
			return errors.New("the checkpoint is not linked to the chain")
		}
	}
	return nil
}

func linesOf(data []byte) []jsontext.Value {
	var lines []jsontext.Value
	for line := range bytes.SplitSeq(data, []byte{'\n'}) {
		if len(line) > 0 {
			lines = append(lines, line)
		}
	}
	return lines
}

func chainHash(previous, content string) string {
	raw, err := hex.DecodeString(previous + content)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// verifier returns the path of loopgrid-verify: LOOPGRID_VERIFY, or what PATH has. Without either the test is skipped.
func verifier(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("LOOPGRID_VERIFY"); path != "" {
		require.FileExists(t, path, "LOOPGRID_VERIFY names no file")
		return path
	}
	path, err := exec.LookPath("loopgrid-verify")
	if err != nil {
		t.Skip("needs the published verifier: set LOOPGRID_VERIFY to what .ci/verifier prints, or put loopgrid-verify on PATH")
	}
	return path
}

// runVerifier returns what the published verifier prints of a bundle and its exit code.
func runVerifier(t *testing.T, verifier string, bundle []byte, options ...string) (output string, code int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "evidence.zip")
	require.NoError(t, os.WriteFile(file, bundle, 0o600))
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), verifier, append([]string{file}, options...)...) //nolint:gosec // The path comes from whoever runs the tests.
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// requireVerified fails the test unless the published verifier accepts the bundle under exactly this key.
func requireVerified(t *testing.T, verifier string, bundle []byte, keyID string) {
	t.Helper()
	out, code := runVerifier(t, verifier, bundle, "--expected-key-id", keyID)
	require.Zero(t, code, out)
	require.Contains(t, out, "[OK] VERIFIED")
}

// requireEachChangeRejected changes one byte of every member in turn and fails the test if the published verifier accepts one of the results.
func requireEachChangeRejected(t *testing.T, verifier string, bundle []byte) {
	t.Helper()
	members := unzip(t, bundle)
	for i, m := range members {
		if len(m.data) == 0 {
			continue
		}
		t.Run(strings.ReplaceAll(m.name, "/", "_"), func(t *testing.T) {
			t.Parallel()
			out, code := runVerifier(t, verifier, rezip(t, damaged(members, i, len(m.data)/2)))
			assert.NotZero(t, code, out)
			assert.NotContains(t, out, "[OK]")
		})
	}
}
