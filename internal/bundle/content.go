package bundle

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

const (
	// maxDocument bounds each JSON document of a bundle that is read into memory. LoopGrid's own have 2 to 5 KB.
	maxDocument = 1 << 20
	// maxListed is how many events a bundle's content lists; the rest is counted.
	maxListed = 100

	attestationName = "bundle-attestation.json"
	disclosuresName = "disclosures.jsonl"
	eventsName      = "events.jsonl"
	policyFolder    = "policy/"
)

// NotDisclosed is the policy result of a bundle that says a policy was evaluated and not with what result.
const NotDisclosed = "not disclosed"

// Content is what a bundle says of its decision. A part that the bundle does not have, or that cannot be read, is nil.
type Content struct {
	// WorkspaceID is the workspace that the decision belongs to; empty where the manifest does not say.
	WorkspaceID string
	// Verification is the service's verify answer at the time of the export, one object without blanks.
	Verification jsontext.Value
	// Lifecycle is the state of the decision at the time of the export, one object without blanks.
	Lifecycle jsontext.Value
	// Coverage is the bundle's evidence_coverage, one object without blanks.
	Coverage jsontext.Value
	// Events lists the decision's events without their payloads, at most a hundred: an array of objects with seq, event_type, actor
	// and occurred_at as the bundle spells them.
	Events jsontext.Value
	// EventsOmitted counts the events that are not listed.
	EventsOmitted int
	// PolicyResult is the decision of the policy, such as human_approval_required, or [NotDisclosed]; empty where no policy was
	// evaluated.
	PolicyResult string
}

// readContent proves a ZIP of that size and returns what it says, or says why it must not be kept.
func readContent(ctx context.Context, file io.ReaderAt, size int64, o Options) (Content, error) {
	a, err := openArchive(file, size)
	if err != nil {
		return Content{}, fmt.Errorf("%w: %w", ErrNotWhole, err)
	}
	if err := checkDisclosure(a, o.Payloads); err != nil {
		return Content{}, err
	}
	limit := int64(math.MaxInt64)
	if o.MaxBytes < math.MaxInt64/unpackedPerByte {
		limit = o.MaxBytes * unpackedPerByte
	}
	if err := a.prove(ctx, limit); err != nil {
		if ctx.Err() != nil {
			return Content{}, err
		}
		return Content{}, fmt.Errorf("%w: %w", ErrNotWhole, err)
	}
	manifest, err := readDocument(a, "manifest.json")
	if err != nil {
		return Content{}, fmt.Errorf("%w: manifest.json: %w", ErrNotWhole, err)
	}
	if err := checkManifest(manifest, o.DecisionID, o.Payloads); err != nil {
		return Content{}, err
	}
	if err := checkAttested(a); err != nil {
		return Content{}, fmt.Errorf("%w: %w", ErrNotWhole, err)
	}

	// The bundle holds most of this twice. A copy that cannot be read does not lose the file.
	report, _ := readDocument(a, "verification.json")
	content := Content{
		Verification: firstObject(evidence.Get(report, "integrity"), evidence.Get(manifest, "integrity")),
		Coverage:     firstObject(evidence.Get(manifest, "evidence_coverage"), evidence.Get(report, "coverage")),
		WorkspaceID:  evidence.GetText(manifest, "workspace_id"),
	}
	lifecycle, _ := readDocument(a, "lifecycle.json")
	content.Lifecycle = firstObject(lifecycle, evidence.Get(manifest, "lifecycle"))
	readEvents(a, &content)
	if policy, err := readDocument(a, policyFolder+"policy.json"); err == nil && evidence.GetText(policy, "decision") != "" {
		content.PolicyResult = evidence.GetText(policy, "decision")
	}
	return content, nil
}

// firstObject returns the first of the values that is an object, without blanks; nil if none is.
func firstObject(values ...jsontext.Value) jsontext.Value {
	for _, value := range values {
		if value.Kind() == '{' {
			return evidence.Compact(value)
		}
	}
	return nil
}

// checkDisclosure refuses entries that hold clear payloads which were not asked for.
func checkDisclosure(a *archive, payloads bool) error {
	for _, e := range a.entries {
		name := strings.ToLower(e.name)
		if !payloads && (strings.HasSuffix(name, disclosuresName) || strings.HasPrefix(name, policyFolder)) {
			return fmt.Errorf("%w: payloads were not asked for, but it holds %.80q", ErrDisclosure, e.name)
		}
	}
	return nil
}

// checkAttested checks that the entries are the attestation and exactly those that it lists, with the contents that it lists. Its signature
// is left to loopgrid-verify, which knows whom to trust.
func checkAttested(a *archive) error {
	attestation, err := readDocument(a, attestationName)
	if err != nil {
		return fmt.Errorf("%s: %w", attestationName, err)
	}
	files := evidence.Get(attestation, "files")
	if files.Kind() != '{' {
		return fmt.Errorf("%s: it lists no files", attestationName)
	}
	listed := map[string]string{}
	for name, sum := range evidence.Members(files) {
		if a.find(name) == nil {
			return fmt.Errorf("%s lists %.80q, which is missing", attestationName, name)
		}
		listed[name], _ = evidence.Unquote(sum)
	}
	for _, e := range a.entries {
		sum, found := listed[e.name]
		switch {
		case e.name == attestationName:
		case !found:
			return fmt.Errorf("%s does not list its entry %.80q", attestationName, e.name)
		case sum != e.sum:
			return fmt.Errorf("entry %.80q: its SHA-256 is not the one that %s lists", e.name, attestationName)
		}
	}
	return nil
}

// readDocument returns the entry of exactly that name if it is one strict JSON object.
func readDocument(a *archive, name string) (jsontext.Value, error) {
	e := a.find(name)
	switch {
	case e == nil:
		return nil, errors.New("it is missing")
	case e.unpacked > maxDocument:
		return nil, fmt.Errorf("it is longer than %d bytes", maxDocument)
	}
	var text bytes.Buffer
	if _, err := text.ReadFrom(a.open(e)); err != nil {
		return nil, err
	}
	document := jsontext.Value(text.Bytes())
	if err := evidence.CheckObject(document); err != nil {
		return nil, err
	}
	return document, nil
}

// checkManifest checks that a bundle is of the decision and discloses what was asked. The service says payloads_included in
// every privacy mode, true where they were asked for even if there is nothing to disclose (redacted, proof_only).
func checkManifest(manifest jsontext.Value, decisionID string, payloads bool) error {
	switch id, ok := evidence.Unquote(evidence.Get(manifest, "decision_id")); {
	case !ok:
		return fmt.Errorf("%w: its manifest names no decision, not %s", ErrOtherDecision, decisionID)
	case id != decisionID:
		return fmt.Errorf("%w: its manifest names %.80q, not %s", ErrOtherDecision, id, decisionID)
	}
	disclosed := evidence.Get(manifest, "disclosure_count")
	switch kind := evidence.Get(manifest, "payloads_included").Kind(); {
	case kind != 't' && kind != 'f':
		return fmt.Errorf("%w: its manifest does not say whether payloads are included", ErrDisclosure)
	case kind == 't' && !payloads:
		return fmt.Errorf("%w: payloads were not asked for, but its manifest says that they are included", ErrDisclosure)
	case kind == 'f' && payloads:
		return fmt.Errorf("%w: payloads were asked for, but its manifest says that they are not included", ErrDisclosure)
	case !payloads && disclosed != nil && string(disclosed) != "0":
		return fmt.Errorf("%w: payloads were not asked for, but its manifest counts disclosures", ErrDisclosure)
	}
	return nil
}

// readEvents lists the events of a bundle, in memory that does not grow with their payloads. Where they cannot be read to the end,
// nothing is said about them.
func readEvents(a *archive, content *Content) {
	e := a.find(eventsName)
	if e == nil {
		return
	}
	decoder := jsontext.NewDecoder(a.open(e))
	listed := []jsontext.Value{}
	policy, omitted := "", 0
	for {
		event, err := readEvent(decoder)
		switch {
		case errors.Is(err, io.EOF):
			content.Events, content.EventsOmitted, content.PolicyResult = evidence.Array(listed...), omitted, policy
			return
		case err != nil:
			return
		}
		if event.text("event_type") == "policy_evaluated" {
			policy = cmp.Or(event.policy, NotDisclosed)
		}
		if len(listed) == maxListed {
			omitted++
			continue
		}
		listed = append(listed, evidence.Object(event.fields...))
	}
}

// listedEvent is what is listed of an event.
type listedEvent struct {
	fields []evidence.Field
	policy string // the decision in the payload, where it can be seen
}

func (e *listedEvent) text(name string) string {
	for _, f := range e.fields {
		if f.Name == name {
			s, _ := evidence.Unquote(f.Value)
			return s
		}
	}
	return ""
}

// readEvent reads the next object and keeps of it what is listed.
func readEvent(decoder *jsontext.Decoder) (*listedEvent, error) {
	token, err := decoder.ReadToken()
	if err != nil {
		return nil, err // io.EOF at the end
	}
	if token.Kind() != '{' {
		return nil, errors.New("an event is not an object")
	}
	kept := map[string]jsontext.Value{}
	e := &listedEvent{}
	for decoder.PeekKind() == '"' {
		token, err := decoder.ReadToken()
		if err != nil {
			return nil, unexpected(err)
		}
		switch name := token.String(); name {
		case "seq", "event_type", "actor", "occurred_at":
			value, err := decoder.ReadValue()
			if err != nil {
				return nil, unexpected(err)
			}
			kept[name] = evidence.Compact(value)
		case "payload":
			if e.policy, err = readDecision(decoder); err != nil {
				return nil, unexpected(err)
			}
		default:
			if err := decoder.SkipValue(); err != nil {
				return nil, unexpected(err)
			}
		}
	}
	if _, err := decoder.ReadToken(); err != nil {
		return nil, unexpected(err)
	}
	for _, name := range []string{"seq", "event_type", "actor", "occurred_at"} {
		e.fields = append(e.fields, evidence.Field{Name: name, Value: kept[name]})
	}
	return e, nil
}

// readDecision returns the member decision of a payload if it is a string, and skips the rest.
func readDecision(decoder *jsontext.Decoder) (decision string, err error) {
	if decoder.PeekKind() != '{' {
		return "", decoder.SkipValue()
	}
	if _, err := decoder.ReadToken(); err != nil {
		return "", err
	}
	for decoder.PeekKind() == '"' {
		token, err := decoder.ReadToken()
		if err != nil {
			return "", err
		}
		if token.String() == "decision" && decoder.PeekKind() == '"' {
			if token, err = decoder.ReadToken(); err != nil {
				return "", err
			}
			decision = token.String()
			continue
		}
		if err := decoder.SkipValue(); err != nil {
			return "", err
		}
	}
	_, err = decoder.ReadToken()
	return decision, err
}

// unexpected makes an end inside a value an error of its own.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
