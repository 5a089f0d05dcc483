package config

import (
	"maps"
	"slices"
	"strings"
)

// noteNames records which variables are set, by their names alone, and whether
// colours are unwanted.
func (l *loader) noteNames() {
	ours := map[string]bool{}
	for _, v := range Variables() {
		ours[v.Name] = true
		if l.isSet(v.Name) {
			l.settings.Set = append(l.settings.Set, v.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.environ)) {
		if strings.HasPrefix(name, "LOOPGRID_") && !ours[name] && l.isSet(name) {
			l.settings.Unread = append(l.settings.Unread, shown(name))
		}
	}
	// https://no-color.org: any text but none.
	l.settings.NoColor = l.environ["NO_COLOR"] != ""
}

// isSet says whether a variable holds more than blanks and quotation marks.
func (l *loader) isSet(name string) bool { return clean(l.environ[name]).text != "" }
