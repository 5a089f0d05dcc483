package cli

import (
	"context"
	"encoding/json"
)

// report is what doctor --json prints. docs/doctor.md documents it: members are added, none is renamed, removed or changed in meaning.
type report struct {
	Version string  `json:"version"` // of this program
	Exit    int     `json:"exit"`    // the exit code: 0 all is well, 1 a check failed, 2 a setting cannot be used
	Checks  []check `json:"checks"`  // in the order in which they are printed without --json
}

// printJSON makes all checks and prints them as one JSON object.
func (d *doctor) printJSON(ctx context.Context) int {
	r := report{Version: Version}
	d.show = func(c check) { r.Checks = append(r.Checks, c) }
	r.Exit = d.run(ctx)
	out := json.NewEncoder(d.process.Stdout)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if err := out.Encode(r); err != nil {
		return exitFailed // whoever reads stdout is gone
	}
	return r.Exit
}
