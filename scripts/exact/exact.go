// Package exact compares JSON the way LoopGrid's signatures do, for the scripts that look whether evidence arrives as it was sent.
package exact

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// Numbers is an object of those numbers that programs change which read numbers as float64 or write them anew.
const Numbers = `{"big":9007199254740993,"float":720.0,"exponent":1e2,"price":1.10,"small":1e-05,"negative":-0.0,"huge":123456789012345678901234567890}`

// Same returns nil if two JSON values are the same evidence: numbers are compared by value and by kind, so that 720 and 720.0 are
// different, while 1e2 and 100.0 are the same. The error shows both in LoopGrid's canonical form.
func Same(got, sent jsontext.Value) error {
	if got == nil {
		return errors.New("it is missing")
	}
	canonicalGot, err := evidence.AppendCanonical(nil, got)
	if err != nil {
		return fmt.Errorf("read what came back: %w", err)
	}
	canonicalSent, err := evidence.AppendCanonical(nil, sent)
	if err != nil {
		return fmt.Errorf("read what was sent: %w", err)
	}
	if !bytes.Equal(canonicalGot, canonicalSent) {
		return fmt.Errorf("it is not what was sent:\n  sent %s\n  got  %s", canonicalSent, canonicalGot)
	}
	return nil
}
