package bridge

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

// key returns the idempotency key of the call, and whether the caller gave it. A call without one gets a random key: two equal
// calls are two events, and yet each of them can be repeated safely while it lasts, and afterwards with the key in its result.
func (c *call) key() (string, bool) {
	if key := c.args.text("idempotency_key"); key != "" {
		return key, true
	}
	return "lgm-" + strings.ToLower(rand.Text()), false
}

// begin waits for the call's turn at the ledger. The error says that nothing was sent.
func (c *call) begin(ctx context.Context, key string) error {
	c.steps.key = key
	c.progress.step("waiting for other writes to this workspace")
	return c.write.Begin(ctx)
}

// recordEvent appends one event to a decision and returns what is to be said of it. what names the event in messages, fields
// stand in the result between decision_id and the event.
func (c *call) recordEvent(ctx context.Context, what string, e *loopgrid.NewEvent, fields ...evidence.Field) *mcp.CallToolResult {
	id := c.args.text("decision_id")
	key, given := c.key()
	e.IdempotencyKey = key
	what += " of decision " + id
	if err := c.begin(ctx, key); err != nil {
		return c.writeFailed(what, err, key)
	}
	defer c.begun(id, what)()
	c.progress.step("recording " + what)
	event, sandbox, err := c.write.AppendEvent(ctx, id, e)
	if err != nil {
		return c.writeFailed(what, err, key)
	}
	c.warnSandbox(sandbox)
	fidelity := compare(&event, e)
	if given && fidelity == differs {
		return c.usedForSomethingElse(what, key, &event)
	}
	c.warnMismatch(fidelity)
	result := append([]evidence.Field{field("decision_id", id), flag("recorded", true)}, fields...)
	return c.success(append(result, raw("event", event.Raw), field("idempotency_key", key), raw("commitment_verified", fidelity.value()))...)
}

// fidelity says whether what LoopGrid recorded is what was sent, by the commitments of the events.
type fidelity int

const (
	verified   fidelity = iota // every event is what was sent
	unverified                 // the service sent no commitment for one of them
	differs                    // one of them is not what was sent
)

// value is the JSON of commitment_verified.
func (f fidelity) value() jsontext.Value {
	return [...]jsontext.Value{jsontext.Value("true"), jsontext.Value("null"), jsontext.Value("false")}[f]
}

// compare tells whether an event is the one that was sent: its type and actor, and the commitment of its payload.
func compare(event *loopgrid.Event, sent *loopgrid.NewEvent) fidelity {
	if !sameKind(event, sent.EventType, sent.ActorType, sent.ActorID) {
		return differs
	}
	return compareCommitment(event, sent.Payload)
}

// sameKind compares what the service answered of type and actor; what it left out cannot differ.
func sameKind(event *loopgrid.Event, eventType, actorType, actorID string) bool {
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

func (c *call) warnMismatch(f fidelity) {
	if f == differs {
		c.warn("commitment_mismatch", "LoopGrid recorded evidence, but its commitment is not that of what was sent: tell the operator, and do not rely on this record.")
	}
}

// writeFailed is the error of a write that is not known to be recorded.
func (c *call) writeFailed(what string, err error, key string) *mcp.CallToolResult {
	c.outcome, c.cause = loopgrid.OutcomeOf(err).String(), loopgrid.Cause(err)
	if loopgrid.OutcomeOf(err) == loopgrid.Unknown {
		return failed("Outcome unknown: "+what+" may or may not be recorded. "+upper(sentence(err)), c.mendable(err), c.repeat(key))
	}
	return failed("Not recorded: "+what+". "+upper(sentence(err)), c.mendable(err), c.afterTheFact(err), c.earlier(err, key))
}

// earlier is for a key of the caller's that nothing is known of now: an earlier call with it may have recorded the evidence. A refusal
// of the values themselves, or one of a lifecycle rule, which is looked at after the key, says that none has.
func (c *call) earlier(err error, key string) string {
	if key == "" || c.args.text("idempotency_key") != key {
		return ""
	}
	if api, ok := errors.AsType[*loopgrid.APIError](err); ok {
		switch api.Status {
		case http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
			return ""
		}
	}
	return "This is about this call: should an earlier one with idempotency_key " + strconv.Quote(key) + " have ended as outcome unknown, its evidence may be recorded. Call again with the key to find out."
}

// repeat says how to find out and to finish at once.
func (c *call) repeat(key string) string {
	return c.repeatWith(key, "and otherwise")
}

// repeatWith is [call.repeat] where more than the key has to change: besides stands before "the same arguments". The key is quoted as
// JSON, so that it can be sent just as it stands there.
func (c *call) repeatWith(key, besides string) string {
	return fmt.Sprintf("To find out and to finish, call %s again with idempotency_key %s %s the same arguments: what is recorded already is not recorded again.",
		c.the(c.tool.name), evidence.Text(key), besides)
}

// afterTheFact is for the case that the evidence of an action is refused because of the state of its decision.
func (c *call) afterTheFact(err error) string {
	if api := conflict(err); api != nil && api.Code != "idempotency_conflict" && c.tool.name == "record_action" {
		return "If the action was already carried out, tell a person; do not repeat it."
	}
	return ""
}

// usedForSomethingElse is the error for an idempotency key of the caller that is bound to other evidence.
func (c *call) usedForSomethingElse(what, key string, event *loopgrid.Event) *mcp.CallToolResult {
	c.outcome = "not recorded"
	return failed(
		fmt.Sprintf("Not recorded: %s. The idempotency_key %s was used before for something else: %s.", what, evidence.Text(key), describe(event)),
		"Use another idempotency_key for this one, or repeat the first call with its own arguments.")
}

// describe names an event for a person.
func describe(e *loopgrid.Event) string {
	text := "an event"
	if e.EventType != "" {
		text = "a " + shorten(e.EventType) + " event"
	}
	if e.ActorID != "" {
		text += " by " + shorten(e.ActorType) + " " + shorten(e.ActorID)
	}
	if e.DecisionID != "" {
		text += " of decision " + shorten(e.DecisionID)
	}
	return text
}

// shorten makes a text that the service sent fit for a message.
func shorten(s string) string {
	quoted := quoteName(s)
	return quoted[1 : len(quoted)-1]
}

// upper makes the first letter of a sentence a capital.
func upper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
