//go:build !unix

package loopgrid

import "math"

// descriptorLimit returns how many files and connections this process may have open: there is no limit to ask for here.
func descriptorLimit() int { return math.MaxInt32 }
