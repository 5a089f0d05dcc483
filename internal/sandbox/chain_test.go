package sandbox_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
)

// checkChain recomputes the chain of a workspace: every commitment of a clear payload, content hash, link and signature.
func checkChain(t *testing.T, key ed25519.PublicKey, events []sandbox.Event) {
	t.Helper()
	keyHash := sha256.Sum256(key)
	previous := strings.Repeat("0", 64)
	for _, e := range events {
		field := func(name, value string) evidence.Field {
			return evidence.Field{Name: name, Value: evidence.Text(value)}
		}
		body := evidence.Object(
			field("event_id", e.EventID), field("decision_id", e.DecisionID), field("workspace_id", e.WorkspaceID),
			field("event_type", e.EventType), field("occurred_at", e.OccurredAt),
			evidence.Field{Name: "actor", Value: evidence.Object(field("type", e.ActorType), field("id", e.ActorID))},
			field("privacy_mode", e.PrivacyMode), field("payload_commitment", e.PayloadCommitment),
			evidence.Field{Name: "payload", Value: e.SignedPayload},
		)
		content, err := evidence.Commitment(body)
		require.NoError(t, err)
		require.Equal(t, content, e.ContentHash, "seq %d", e.Seq)
		require.Equal(t, previous, e.PreviousChainHash, "seq %d", e.Seq)
		link, err := hex.DecodeString(previous + content)
		require.NoError(t, err)
		sum := sha256.Sum256(link)
		require.Equal(t, hex.EncodeToString(sum[:]), e.ChainHash, "seq %d", e.Seq)
		signature, err := base64.StdEncoding.DecodeString(e.Signature)
		require.NoError(t, err)
		require.True(t, ed25519.Verify(key, sum[:], signature), "seq %d", e.Seq)
		assert.Equal(t, "ed25519:"+hex.EncodeToString(keyHash[:8]), e.Key)
		if string(e.Payload) != string(e.SignedPayload) { // A full payload that is still there.
			commitment, err := evidence.Commitment(e.Payload)
			require.NoError(t, err)
			assert.Equal(t, commitment, e.PayloadCommitment, "seq %d", e.Seq)
		}
		previous = e.ChainHash
	}
}
