// Package text makes text from elsewhere fit for a message that a person or a model reads: one line, nothing invisible, never long.
package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean returns s as at most limit characters of one line, with "…" at the end where it was cut. Control, formatting (bidirectional
// ones too) and private-use characters, line separators and invalid UTF-8 count as blanks, and blanks are merged.
func Clean(s string, limit int) string {
	var out strings.Builder
	n, blank := 0, false
	for _, r := range s {
		if r == utf8.RuneError || unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp) {
			blank = n > 0
			continue
		}
		if blank {
			n, blank = n+1, false
			if n < limit {
				out.WriteByte(' ')
			}
		}
		if n++; n > limit {
			out.WriteRune('…')
			break
		}
		out.WriteRune(r)
	}
	return out.String()
}

// Clip returns at most limit characters of s, with "…" at the end where it was cut and U+FFFD for invalid UTF-8.
func Clip(s string, limit int) string {
	n := 0
	for i := range s {
		if n == limit {
			s = s[:i] + "…"
			break
		}
		n++
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
