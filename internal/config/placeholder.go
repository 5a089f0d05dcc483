package config

import (
	"strings"
	"unicode"
)

// The shapes of placeholders that something else should have filled in: shells,
// hosts, Compose, Kubernetes, CI and templates have one each.
func placeholderPairs() [][2]string {
	return [][2]string{{"${", "}"}, {"$(", ")"}, {"{{", "}}"}, {"{env:", "}"}, {"#{", "}"}, {"<%", "%>"}}
}

// isPlaceholder says whether a value is wholly a placeholder that was left as it
// was, such as ${X}, $X, $env:X, %X%, {{ X }}, {env:X}, {X}, $(X) or op://x/y.
func isPlaceholder(value string) bool {
	for _, pair := range placeholderPairs() {
		if rest, ok := strings.CutPrefix(value, pair[0]); ok {
			if inner, closed := strings.CutSuffix(rest, pair[1]); closed && inner != "" && !strings.Contains(inner, pair[0]) {
				return true
			}
		}
	}
	for _, shape := range [][2]string{{"$env:", ""}, {"$", ""}, {"%", "%"}, {"!", "!"}, {"{", "}"}, {"__", "__"}, {"@", "@"}} {
		rest, opened := strings.CutPrefix(value, shape[0])
		name, closed := strings.CutSuffix(rest, shape[1])
		if opened && closed && name != "" && variableName(name) == name {
			return true
		}
	}

	return strings.HasPrefix(value, "op://") // A reference of 1Password.
}

// holdsPlaceholder says whether a part of the value is a placeholder: taken as it
// is, it would name a directory, a workspace or a reviewer that nobody meant.
func holdsPlaceholder(value string) bool {
	return holdsPair(value) || holdsDollarName(value) || holdsPercentName(value)
}

// holdsPair finds a placeholder in brackets anywhere, such as ${X} or {{ X }}.
func holdsPair(value string) bool {
	for _, pair := range placeholderPairs() {
		if _, rest, ok := strings.Cut(value, pair[0]); ok && strings.Contains(rest, pair[1]) {
			return true
		}
	}

	return false
}

// holdsDollarName finds $NAME at the start of a word, as a shell would expand it;
// $ elsewhere is a character.
func holdsDollarName(value string) bool {
	before := rune(' ')
	for i, r := range value {
		if r == '$' && !unicode.IsLetter(before) && !unicode.IsDigit(before) {
			if name := variableName(value[i+1:]); name != "" && (name[0] < '0' || name[0] > '9') {
				return true
			}
		}
		before = r
	}

	return false
}

// holdsPercentName finds %NAME%, as Windows would expand it. Two characters are
// those of an escape in an address.
func holdsPercentName(value string) bool {
	const shortest = 3
	for rest := value; ; {
		var ok bool
		if _, rest, ok = strings.Cut(rest, "%"); !ok {
			return false
		}
		name := variableName(rest)
		if len(name) >= shortest && strings.HasPrefix(rest[len(name):], "%") {
			return true
		}
	}
}

// holdsExample says whether the value is still the text of an example, such as
// <YOUR_KEY> or YOUR_KEY.
func holdsExample(value string) bool {
	value = strings.ToUpper(value)
	_, rest, ok := strings.Cut(value, "<YOUR")

	return ok && strings.Contains(rest, ">") || strings.HasPrefix(value, "YOUR_")
}

// variableName returns the leading part of the text that a shell takes as the
// name of a variable.
func variableName(text string) string {
	end := strings.IndexFunc(text, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
	if end < 0 {
		return text
	}

	return text[:end]
}
