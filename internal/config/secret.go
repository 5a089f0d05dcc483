package config

import (
	"fmt"
	"log/slog"
)

// Secret is a text that no formatting, logging or marshalling shows: they all say
// only whether it is set. The zero value is not set.
//
// The text is behind a pointer, so that even a print of a struct that holds a
// Secret in an unexported field, where methods are not called, does not show it.
type Secret struct {
	text *string
}

// NewSecret returns a secret with the text; an empty text is a secret that is not
// set.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}

	return Secret{text: &text}
}

// Reveal returns the text itself, "" where it is not set. Call it only where the
// text is sent to the service that it belongs to.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}

	return *s.text
}

// IsSet says whether there is a text.
func (s Secret) IsSet() bool { return s.text != nil }

// String returns "[set]" or "[not set]".
func (s Secret) String() string {
	if s.IsSet() {
		return "[set]"
	}

	return "[not set]"
}

// GoString returns what [Secret.String] returns.
func (s Secret) GoString() string { return s.String() }

// Format writes what [Secret.String] returns, whatever the verb.
func (s Secret) Format(state fmt.State, _ rune) {
	// A fmt.State never fails; fmt itself reports nothing here.
	_, _ = state.Write([]byte(s.String()))
}

// MarshalText returns what [Secret.String] returns. JSON uses it too.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue returns what [Secret.String] returns.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
