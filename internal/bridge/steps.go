package bridge

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

// stepState is what became of one step of a writing call.
type stepState string

const (
	open           stepState = "" // still to come
	recordedNow    stepState = "recorded now"
	alreadyThere   stepState = "already there"
	differentThere stepState = "different one there"
	notRecorded    stepState = "not recorded"
	notSent        stepState = "not sent"
	outcomeUnknown stepState = "outcome unknown"
)

// stateOf is the state of a step that ended with an error.
func stateOf(err error) stepState {
	switch {
	case loopgrid.OutcomeOf(err) == loopgrid.Unknown:
		return outcomeUnknown
	case errors.Is(err, loopgrid.ErrNoTimeLeft):
		return notSent
	default:
		return notRecorded
	}
}

// steps is what a writing call has recorded so far. The call changes it, and the log reads it when the server is told to end.
type steps struct {
	mu   sync.Mutex
	id   string // of the decision
	key  string // the idempotency key
	list []step
}

type step struct {
	name  string
	state stepState
	other string // what stands in its place
}

func (s *steps) expect(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, step{name: name})
}

func (s *steps) decisionID(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id = id
}

func (s *steps) set(name string, state stepState) { s.change(name, state, "") }

// differs notes that something else is recorded in place of a step, and stands.
func (s *steps) differs(name, other string) { s.change(name, differentThere, other) }

func (s *steps) change(name string, state stepState, other string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.list {
		if s.list[i].name == name {
			s.list[i].state, s.list[i].other = state, other
		}
	}
}

func (s *steps) anyDiffers() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.list, func(one step) bool { return one.state == differentThere })
}

// known says what the steps say of a call that ended by a fault of the bridge.
func (s *steps) known(c *call) string {
	text := strings.Join(append([]string{"What became of the call:"}, s.lines(nil)...), "\n")
	s.mu.Lock()
	id, key := s.id, s.key
	s.mu.Unlock()
	if id != "" {
		text += "\ndecision_id: " + id + "."
	}
	if key == "" {
		return text + "\nLook in LoopGrid before you repeat it."
	}
	return text + "\n" + c.repeat(key)
}

// lines says of each step what became of it. The failure is the reason of the step that it ended.
func (s *steps) lines(failure error) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, one := range s.list {
		line := "- " + one.name + ": " + string(one.state)
		if one.state == open {
			line = "- " + one.name + ": outcome unknown"
		}
		switch one.state {
		case differentThere:
			line += " (" + one.other + ")"
		case notRecorded, outcomeUnknown:
			if failure != nil {
				line += ". " + upper(sentence(failure))
			}
		case notSent:
			if errors.Is(failure, loopgrid.ErrNoTimeLeft) {
				line += ". The time for this call was nearly over."
			}
		case open, recordedNow, alreadyThere:
		}
		all = append(all, line)
	}
	return all
}

// begun notes a call that has its turn at the ledger, until the function that it returns is called.
func (c *call) begun(decisionID, what string) func() {
	if decisionID != "" {
		c.steps.decisionID(decisionID)
		c.steps.expect(what)
	}
	c.mu.Lock()
	c.writing[c] = true
	ending := c.ending
	c.mu.Unlock()
	if ending {
		c.logOpen()
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.writing, c)
	}
}

// logBegun logs a line for each write that has begun, at the moment the server is told to end, and from then on for each that begins.
func (b *Bridge) logBegun() {
	b.mu.Lock()
	b.ending = true
	begun := slices.Collect(maps.Keys(b.writing))
	b.mu.Unlock()
	for _, c := range begun {
		c.logOpen()
	}
}

// logOpen logs what a write has still to do: should the process be killed before it is complete, the line says how to go on.
func (c *call) logOpen() {
	c.steps.mu.Lock()
	defer c.steps.mu.Unlock()
	var left []string
	for _, one := range c.steps.list {
		if one.state == open {
			left = append(left, one.name)
		}
	}
	c.log.Warn("ending while a write is under way", slog.String("tool", c.tool.name), slog.String("decision_id", c.steps.id),
		slog.String("idempotency_key", c.steps.key), slog.String("steps_left", strings.Join(left, ", ")), slog.String("request_id", c.requestID))
}
