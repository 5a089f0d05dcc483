package config

import (
	"errors"
	"fmt"
	"strings"
)

// readKeyFile takes the service key from its file, where one is named.
func (l *loader) readKeyFile(from file) {
	if from.path == "" {
		return
	}
	l.keep(serviceKeyFile, from.path)
	if l.settings.ServiceKey.IsSet() || l.isBroken(serviceKey) {
		l.report(serviceKeyFile, fault{"and " + serviceKey + " are both set", "Remove one of them."})
		return
	}
	key, notes, wrong := from.readKey()
	if wrong != nil {
		l.report(serviceKeyFile, *wrong)
		return
	}
	for _, note := range notes {
		l.warn(serviceKeyFile, serviceKeyFile+" "+note.message+".", note.remedy)
	}
	l.settings.ServiceKey = key
	l.settings.RereadServiceKey = func() (Secret, error) {
		again, _, wrong := from.readKey()
		if wrong != nil {
			return Secret{}, errors.New(serviceKeyFile + " " + wrong.message)
		}

		return again, nil
	}
}

const shortKey = "The service key has fewer than 16 characters: it is easy to guess, and too short to be hidden reliably in texts."

// warnOfKey warns of what a key can hardly be, and is sent all the same: what
// a key is, only the service knows.
func (l *loader) warnOfKey(key string) {
	const (
		word     = "bearer "
		shortest = 16
	)
	switch {
	case key == "":
	case strings.Trim(key, `"'`) != key:
		l.warn(serviceKey,
			"The service key begins or ends with a quotation mark, which is sent as a part of the key.",
			"Set "+serviceKey+" to the key without it, unless LoopGrid's operator gave it with that mark.")
	case len(key) >= len(word) && strings.EqualFold(key[:len(word)], word):
		l.warn(serviceKey,
			"The service key starts with Bearer, which is sent as a part of the key.",
			"Set "+serviceKey+" to the key alone, unless LoopGrid's operator gave it with that word.")
	case len(key) < shortest:
		l.warn(serviceKey, shortKey, "Use a key that LoopGrid made.")
	}
}

func parseServiceKey(text string) (Secret, *fault) {
	position := 0
	for _, r := range text {
		position++
		if r < ' ' || r > '~' {
			return Secret{}, &fault{
				fmt.Sprintf("holds a character that no key has (character %d is not printable ASCII)", position),
				"Copy the key again, as one line.",
			}
		}
	}

	return NewSecret(text), nil
}

// readKey reads a service key from its file, by the rules for a key in a variable.
func (f file) readKey() (key Secret, notes []fault, wrong *fault) {
	content, mode, wrong := f.read(maxKeyFile)
	if wrong != nil {
		return Secret{}, nil, wrong
	}
	value := clean(string(content))
	where := "names " + f.shown + ", which "
	switch {
	case value.text == "":
		return Secret{}, nil, &fault{where + "is empty", "Write the service key into the file."}
	case holdsExample(value.text):
		return Secret{}, nil, &fault{where + "still holds the text of an example", "Write the service key into the file."}
	case isPlaceholder(value.text):
		return Secret{}, nil, &fault{where + "holds a placeholder that nothing filled in", "Write the service key itself into the file."}
	case isAssignment(value.text):
		return Secret{}, nil, &fault{where + "begins with the name of a variable", "Write the key alone into the file."}
	}
	key, wrong = parseServiceKey(value.text)
	if wrong != nil {
		return Secret{}, nil, &fault{where + wrong.message, wrong.remedy}
	}
	if value.quoted {
		notes = append(notes, fault{where + "holds the key in quotation marks; they were taken off", "Write the key without them."})
	}
	const othersWrite = 0o022
	if modesCount && mode.Perm()&othersWrite != 0 {
		notes = append(notes, fault{where + "other users may write to", "chmod go-w the file."})
	}

	return key, notes, nil
}

// isAssignment says whether a text is a line of an env file, or of YAML, that sets the service key. Taken as the key, it would hide the
// name of the variable in every text for the operator.
func isAssignment(text string) bool {
	name, _, found := strings.Cut(strings.Replace(text, ":", "=", 1), "=")
	return found && strings.HasPrefix(strings.TrimPrefix(name, "export "), serviceKey)
}
