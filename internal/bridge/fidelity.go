package bridge

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

// fidelity says whether LoopGrid recorded what was sent, judging by the hashes (payload_commitment) it returned with its events.
type fidelity int

const (
	verified   fidelity = iota // every event is what was sent
	unverified                 // the service returned no hash for one of them
	differs                    // one of them is not what was sent
)

// value is the JSON of commitment_verified.
func (f fidelity) value() jsontext.Value {
	return [...]jsontext.Value{jsontext.Value("true"), jsontext.Value("null"), jsontext.Value("false")}[f]
}

// commitmentResult declares commitment_verified, which can be null and so has no type that every host accepts.
func commitmentResult() result {
	return result{name: "commitment_verified", description: "true: the hash that LoopGrid returned matches what was sent. false: it does not. null: LoopGrid returned no hash."}
}

// compare says whether an event is the one that was sent: by its type, its actor and the hash of its payload.
func compare(event *loopgrid.Event, sent *loopgrid.NewEvent) fidelity {
	if !isOfKind(event, sent.EventType, sent.ActorType, sent.ActorID) {
		return differs
	}
	return compareCommitment(event, sent.Payload)
}

// isOfKind compares the type and actor that the service returned; one that it left out cannot differ.
func isOfKind(event *loopgrid.Event, eventType, actorType, actorID string) bool {
	same := func(got, want string) bool { return got == "" || got == want }
	return same(event.EventType, eventType) && same(event.ActorType, actorType) && same(event.ActorID, actorID)
}

func compareCommitment(event *loopgrid.Event, payload jsontext.Value) fidelity {
	if event.PayloadCommitment == "" {
		return unverified
	}
	commitment, err := evidence.Commitment(payload)
	if err != nil || commitment != event.PayloadCommitment {
		return differs
	}
	return verified
}
