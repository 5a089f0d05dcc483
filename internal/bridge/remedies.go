package bridge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/bundle"
	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

// This file turns errors into what a model or a person reads: what happened, what the service said, and what to do about it.

// whatHappened describes an error in one sentence of ours, which begins in lower case. It includes LoopGrid's codes, such as
// approval_required; [call.serviceSaid] quotes the rest.
func (c *call) whatHappened(err error) string {
	if api, ok := errors.AsType[*loopgrid.APIError](err); ok {
		text := api.Summary()
		if api.Code != "" {
			text += ": " + c.word(api.Code)
		}
		return text + "."
	}
	text := strings.TrimRight(err.Error(), ".") + "."
	var unusable *loopgrid.AnswerError
	if errors.As(err, &unusable) || errors.Is(err, bundle.ErrNotWhole) || errors.Is(err, bundle.ErrOtherDecision) || errors.Is(err, bundle.ErrDisclosure) {
		return c.hide.text(text) // it may name what the service sent
	}
	return text
}

// serviceSaid quotes what LoopGrid said about an error; empty if it said nothing. It goes on its own line, so that it cannot pass for our
// text.
func (c *call) serviceSaid(err error) string {
	api, ok := errors.AsType[*loopgrid.APIError](err)
	if !ok || api.Detail == "" {
		return ""
	}
	return "The service said: " + string(evidence.Text(c.hide.text(api.Detail)))
}

// word makes a name or a code from the service safe to use in a sentence of ours.
func (c *call) word(text string) string { return plainly(c.hide.text(text), maxServiceWord) }

// maxServiceWord limits a name or code that the service sent, in characters.
const maxServiceWord = 60

// describe names an event for a person. What the service sent is quoted unless it is one plain word.
func (c *call) describe(e *loopgrid.Event) string {
	text := "an event"
	if e.EventType != "" {
		text = withArticle(c.word(e.EventType)) + " event"
	}
	if e.DecisionID != "" {
		text += " of decision " + c.word(e.DecisionID)
	}
	if e.ActorID != "" {
		text += " by " + c.word(e.ActorType) + " " + c.word(e.ActorID)
	}
	return text
}

// withArticle puts "a" or "an" before a noun.
func withArticle(noun string) string {
	if first := strings.TrimLeft(noun, `"`); first != "" && strings.ContainsRune("aeiouAEIOU", rune(first[0])) {
		return "an " + noun
	}
	return "a " + noun
}

// writeFailed is the error of a write that was not recorded, or whose outcome is unknown.
func (c *call) writeFailed(what string, err error, key string) *mcp.CallToolResult {
	c.failedWith(loopgrid.OutcomeOf(err).String(), err)
	if loopgrid.OutcomeOf(err) == loopgrid.Unknown {
		return failed("Outcome unknown: "+what+" may or may not be recorded. "+capitalized(c.whatHappened(err)), c.serviceSaid(err), c.remedy(err), c.repeatHint(key))
	}
	return failed("Not recorded: "+what+". "+capitalized(c.whatHappened(err)), c.serviceSaid(err), c.remedy(err), c.alreadyActedHint(err), c.previousCallHint(err, key))
}

// failedWith notes for the log how the call ended and what ended its request to LoopGrid.
func (c *call) failedWith(outcome string, err error) {
	c.outcome = outcome
	c.logCause(loopgrid.Cause(err))
}

// previousCallHint is for a key given by the caller whose state is unknown: an earlier call with it may have recorded the evidence. It is
// empty if the service got as far as checking the values or the lifecycle, because it looks up the key first.
func (c *call) previousCallHint(err error, key string) string {
	if key == "" || c.args.text("idempotency_key") != key {
		return ""
	}
	if api, ok := errors.AsType[*loopgrid.APIError](err); ok && !api.InFront {
		switch api.Status {
		case http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
			return ""
		}
	}
	return "If an earlier call with idempotency_key " + string(evidence.Text(key)) + ` ended as "outcome unknown", its evidence may already be recorded: call again with the key to find out.`
}

// alreadyActedHint is for an action that LoopGrid refuses to record because of the state of its decision.
func (c *call) alreadyActedHint(err error) string {
	if api := conflict(err); api != nil && api.Code != "idempotency_conflict" && c.tool.name == "record_action" {
		return "If the action was already carried out, tell a person; do not repeat it."
	}
	return ""
}

// usedForSomethingElse is the error if the caller's idempotency key already belongs to other evidence.
func (c *call) usedForSomethingElse(what, key string, event *loopgrid.Event) *mcp.CallToolResult {
	c.outcome = "not recorded"
	return failed(
		fmt.Sprintf("Not recorded: %s. The idempotency_key %s was already used for something else: %s.", what, evidence.Text(key), c.describe(event)),
		"Use another idempotency_key for this call, or repeat the first call with its own arguments.")
}

// readFailed is the error of a call that reads. what is the outcome; more lines go at the end.
func (c *call) readFailed(ctx context.Context, what string, err error, more ...string) *mcp.CallToolResult {
	if ctx.Err() != nil {
		return c.readCancelled(ctx, what)
	}
	c.failedWith("failed", err)
	return failed(append([]string{what + " " + c.whatHappened(err), c.serviceSaid(err), readRetryHint(err)}, more...)...)
}

// readCancelled is the error of a read that the client, or the end of the session, cut short.
func (c *call) readCancelled(ctx context.Context, what string) *mcp.CallToolResult {
	c.outcome = "cancelled"
	why := "the call was cancelled."
	if errors.Is(context.Cause(ctx), errEnding) {
		c.logCause(errEnding.Error())
		why = "the server shut down before LoopGrid answered."
	}
	return failed(what+" "+why, "Nothing was changed: it is safe to call again.")
}

// readRetryHint says that a read which got no answer can be repeated.
func readRetryHint(err error) string {
	var transport *loopgrid.TransportError
	switch {
	case !errors.As(err, &transport) || !transport.Sent():
		return ""
	case transport.TimedOut():
		return "Nothing was changed: call again later. If LoopGrid needs longer, the operator can raise LOOPGRID_MCP_TIMEOUT_SECONDS."
	default:
		return "Nothing was changed: it is safe to call again."
	}
}

// remedy says in one line who should do what about an error of the service.
func (c *call) remedy(err error) string {
	var api *loopgrid.APIError
	var unusable *loopgrid.AnswerError
	var transport *loopgrid.TransportError
	switch {
	case errors.As(err, &api):
		return c.remedyForAnswer(api)
	case errors.As(err, &unusable):
		return "The operator should check that LOOPGRID_BASE_URL is the address of LoopGrid itself, not of a login page or proxy."
	case errors.As(err, &transport) && !transport.Sent() && transport.Remedy() != "":
		return sentences("For the operator:", transport.Remedy(), "loopgrid-mcp doctor shows more.")
	case errors.Is(err, loopgrid.ErrBusy):
		return "Call again once fewer calls are in progress."
	default:
		return ""
	}
}

func (c *call) remedyForAnswer(e *loopgrid.APIError) string {
	switch {
	case e.InFront && e.Remedy() != "":
		return e.Remedy()
	case e.Status == http.StatusUnauthorized && !c.settings.ServiceKey.IsSet():
		return sentences("LoopGrid requires a key: the operator must set LOOPGRID_SERVICE_KEY.", c.settings.KeyNote())
	case e.Status == http.StatusUnauthorized:
		return sentences("The operator must check "+c.settings.KeyVariable()+": the key is wrong, revoked or expired, or lacks the scope that LoopGrid names.", c.settings.KeyNote())
	case e.Status == http.StatusForbidden:
		return "The operator must make " + c.settings.KeyVariable() + " and LOOPGRID_WORKSPACE match: the key belongs to another workspace."
	case e.Status == http.StatusNotFound && e.Detail == "Decision not found":
		return "Check decision_id: it must be one that " + c.toolName("record_decision") + " returned from this LoopGrid."
	case isPolicyMissing(e):
		return "The workspace has no active policy of that name: check policy_id, or ask the operator for one."
	case e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed:
		return "The operator should check LOOPGRID_BASE_URL: the service there does not have this route."
	case e.Status == http.StatusConflict:
		return c.remedyForConflict(e.Code)
	case e.Status == http.StatusRequestEntityTooLarge:
		return "The evidence is larger than LoopGrid accepts in one request: send less, for example a reference instead of the whole text."
	case e.Status == http.StatusUnprocessableEntity || e.Status == http.StatusBadRequest:
		return "LoopGrid rejected these values: correct them and call again."
	case e.Status == http.StatusTooManyRequests:
		return fmt.Sprintf("LoopGrid limits the rate of requests: call again in %d s.", int(e.RetryAfter.Seconds())+1)
	case e.Status < http.StatusInternalServerError:
		return "This version of loopgrid-mcp does not know this answer: the operator should check LoopGrid's log."
	default:
		return "LoopGrid failed: the operator should check its log."
	}
}

// remedyForConflict says what a lifecycle rule requires.
func (c *call) remedyForConflict(code string) string {
	switch code {
	case "action_blocked":
		return "The policy blocked this action: do not carry it out."
	case "approval_required":
		return "A person must approve the decision first: do not act until then."
	case "action_rejected":
		return "A person rejected this action: do not carry it out."
	case "execution_missing":
		return "Record the action with " + c.toolName("record_action") + " first, then its outcome."
	case "review_without_policy", "review_not_required":
		return "The recorded policy result does not require a review."
	case "review_already_recorded":
		return "The decision has already been reviewed; " + c.toolName("get_evidence") + " shows the result."
	case "policy_already_evaluated":
		return "A policy result is already recorded and cannot be replaced."
	case "idempotency_conflict":
		return "The idempotency_key is already in use for another decision in this workspace: use a new key."
	default:
		return "The decision's state does not allow this; " + c.toolName("get_evidence") + " shows the state."
	}
}

// remedyForReview is [call.remedy] for /review, whose conflicts carry no code.
func (c *call) remedyForReview(err error) string {
	api := conflict(err)
	switch {
	case api == nil || api.Code != "":
		return c.remedy(err)
	case api.Detail == "Decision already reviewed":
		return c.remedyForConflict("review_already_recorded")
	default:
		return "The recorded policy result does not require a review, or no result is recorded; " + c.toolName("get_evidence") + " shows the state."
	}
}

// remedyForDownload is [call.remedy] for what can go wrong with a file.
func (c *call) remedyForDownload(err error) string {
	switch {
	case errors.Is(err, loopgrid.ErrTooLarge):
		return "The operator can raise LOOPGRID_MAX_EVIDENCE_BYTES, now " + strconv.FormatInt(c.settings.MaxEvidenceBytes, 10) + "."
	case errors.Is(err, bundle.ErrDir):
		return "The operator must make the directory writable, or set LOOPGRID_EVIDENCE_DIR to another one."
	case errors.Is(err, bundle.ErrNoRoom):
		return "The operator must free disk space, or set LOOPGRID_EVIDENCE_DIR to a directory on another disk."
	case errors.Is(err, bundle.ErrTarget):
		return "The operator should look at that file: it is not a regular file, or another program has it open."
	case errors.Is(err, bundle.ErrNotWhole):
		return "Call again. If it happens again, the operator should check the proxies between this program and LoopGrid."
	case errors.Is(err, bundle.ErrOtherDecision), errors.Is(err, bundle.ErrDisclosure):
		return "LoopGrid did not send what was requested: the operator should check the service at LOOPGRID_BASE_URL."
	default:
		return c.remedy(err)
	}
}

// isPolicyMissing says whether LoopGrid has no active policy of the requested name.
func isPolicyMissing(err error) bool {
	var api *loopgrid.APIError
	return errors.As(err, &api) && api.Status == http.StatusNotFound && !api.InFront && strings.Contains(api.Route, "/policies/")
}

// conflict returns the 409 that an error carries; nil for any other error.
func conflict(err error) *loopgrid.APIError {
	var api *loopgrid.APIError
	if errors.As(err, &api) && api.Status == http.StatusConflict && !api.InFront {
		return api
	}
	return nil
}
