package config

import (
	"maps"
	"runtime"
	"slices"
	"strings"
)

// relatives are names that other LoopGrid clients read for what is a variable of
// ours: an operator who comes from them sets these.
func relatives() map[string]string {
	return map[string]string{
		"LOOPGRID_API_KEY":      serviceKey,
		"LOOPGRID_WORKSPACE_ID": workspace,
	}
}

// warnOfUnread warns of variables that look like one of ours and are not. All
// other LOOPGRID_* variables belong to the service.
func (l *loader) warnOfUnread() {
	var ours []string
	for _, v := range Variables() {
		ours = append(ours, v.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(l.environ)) {
		if strings.TrimSpace(l.environ[name]) == "" {
			continue
		}

		meant, isRelative := relatives()[name]
		if isRelative && strings.TrimSpace(l.environ[meant]) != "" {
			continue
		}
		if !isRelative {
			meant = Nearest(name, ours)
		}
		if meant != "" {
			l.warn(meant,
				printable(name)+" is set, but this program does not read it.",
				"Use "+meant+", if that is what it is meant for.")
		}
	}
}

// Nearest returns the known name that a name misspells by at most two letters,
// whatever their case, and of several the first; it returns "" where there is none
// or the name is right.
func Nearest(name string, known []string) string {
	const most = 2

	folded := strings.ToLower(name)
	found, least := "", most+1
	for _, one := range known {
		if distance := editDistance(folded, strings.ToLower(one), most); distance < least {
			found, least = one, distance
		}
	}
	if found == name {
		return ""
	}

	return found
}

// editDistance counts the letters to insert, delete or replace that make b of a.
// It does not count beyond most+1.
func editDistance(a, b string, most int) int {
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return most + 1
	}

	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		least := row[0]
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
			least = min(least, row[j+1])
		}
		if least > most {
			return most + 1
		}
	}

	return row[len(b)]
}

// canonicalName returns the name as the system compares it: Windows does not
// tell capitals from small letters.
func canonicalName(name string) string {
	if runtime.GOOS == "windows" {
		return strings.ToUpper(name)
	}

	return name
}

// printable replaces what a terminal or a log could take for more than a letter.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '?'
		}

		return r
	}, name)
}
