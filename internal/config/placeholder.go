package config

import "strings"

// isPlaceholder says whether a value is wholly a placeholder that a host left as
// it was: ${X}, ${env:X}, ${user_config.x}, {env:X} or $X.
func isPlaceholder(value string) bool {
	for _, open := range []string{"${", "{env:"} {
		if name, ok := strings.CutPrefix(value, open); ok {
			name, ok = strings.CutSuffix(name, "}")

			return ok && name != "" && !strings.ContainsAny(name, "{}")
		}
	}

	name, ok := strings.CutPrefix(value, "$")

	return ok && variableName(name) == name && name != ""
}

// holdsPlaceholder says whether a part of the value is a placeholder: taken as it
// is, it would name a directory, a workspace or a reviewer that nobody meant.
func holdsPlaceholder(value string) bool {
	for _, open := range []string{"${", "{env:"} {
		if _, rest, ok := strings.Cut(value, open); ok && strings.Contains(rest, "}") {
			return true
		}
	}

	// $HOME/evidence, as a shell would expand it; $ elsewhere is a character.
	rest, ok := strings.CutPrefix(value, "$")
	name := variableName(rest)
	rest = strings.TrimPrefix(rest, name)

	return ok && name != "" && (strings.HasPrefix(rest, "/") || strings.HasPrefix(rest, `\`))
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
