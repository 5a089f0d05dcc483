package sandbox

import (
	"crypto/ed25519"
	"errors"
	"io"
	"time"

	"github.com/go-json-experiment/json/jsontext"
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
	// Events are the decision's events in the order of the ledger.
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

// writeBundle writes the evidence ZIP (contract "loopgrid/evidence-bundle/2").
func writeBundle(_ io.Writer, _ bundle) error {
	return errors.New("write bundle: not built yet")
}
