package config

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// value is what is left of a text that an operator wrote, for any setting.
type value struct {
	text   string // "" counts as not set
	quoted bool   // it was in a pair of quotation marks: what is inside is literal
}

// clean takes off what never belongs to a value and is easily copied with it:
// blanks and invisible characters at either end, then one pair of quotation marks.
func clean(text string) value {
	text = strings.TrimFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) })

	first, size := utf8.DecodeRuneInString(text)
	last, lastSize := utf8.DecodeLastRuneInString(text)
	closing := map[rune]string{
		'"': `"`, '\'': "'", '`': "`", '\u201c': "\u201d", '\u2018': "\u2019", '\u201e': "\u201c\u201d", '\u201a': "\u2018\u2019",
		'\u201d': "\u201d", '\u2019': "\u2019", '\u00ab': "\u00bb", '\u00bb': "\u00ab",
	}[first]
	if len(text) < size+lastSize || !strings.ContainsRune(closing, last) {
		return value{text: text}
	}

	return value{text: text[size : len(text)-lastSize], quoted: true}
}

// hasComment says whether a value goes on with what its author took for a comment:
// files read by docker and by set have none.
func (v value) hasComment() bool {
	for before, r := range v.text {
		if r == '#' && before > 0 && strings.TrimRightFunc(v.text[:before], unicode.IsSpace) != v.text[:before] {
			return !v.quoted
		}
	}

	return false
}
