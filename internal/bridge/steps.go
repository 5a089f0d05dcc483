package bridge

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

// stepState is the state of one step of a writing call.
type stepState string

const (
	pending        stepState = "" // not done yet
	recordedNow    stepState = "recorded now"
	alreadyThere   stepState = "already recorded"
	differentThere stepState = "a different one is recorded"
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

// steps are what a writing call has to record, and the state of each. The handler changes them; others read them when the session ends.
type steps struct {
	mu         sync.Mutex
	decisionID string // empty until it is known
	key        string // the idempotency key; empty for a review, which has none
	list       []step
}

type step struct {
	name     string
	state    stepState
	recorded string // what is recorded instead, if it is something different
}

// expect declares the steps that the call will record, in order, and under which key.
func (s *steps) expect(decisionID, key string, names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decisionID, s.key = decisionID, key
	for _, name := range names {
		s.list = append(s.list, step{name: name})
	}
}

func (s *steps) setDecisionID(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decisionID = id
}

func (s *steps) set(name string, state stepState) { s.change(step{name: name, state: state}) }

// differs notes that something different is already recorded for a step, and is kept.
func (s *steps) differs(name, recorded string) {
	s.change(step{name: name, state: differentThere, recorded: recorded})
}

func (s *steps) change(to step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.list {
		if s.list[i].name == to.name {
			s.list[i] = to
		}
	}
}

func (s *steps) anyDiffers() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.list, func(one step) bool { return one.state == differentThere })
}

// pending returns the decision and the key of the call, and the steps that are not done.
func (s *steps) pending() (decisionID, key string, left []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.list {
		if one.state == pending {
			left = append(left, one.name)
		}
	}
	return s.decisionID, s.key, left
}

// outcomeSoFar says what is known about a call that a bug in this program or its shutdown cut short.
func (s *steps) outcomeSoFar(c *call) string {
	lines := append([]string{"Outcome of each step:"}, s.lines(c, nil)...)
	decisionID, key, _ := s.pending()
	if decisionID != "" {
		lines = append(lines, "decision_id: "+decisionID+".")
	}
	if key == "" {
		return strings.Join(append(lines, "Check in LoopGrid before repeating the call."), "\n")
	}
	return strings.Join(append(lines, c.repeatHint(key)), "\n")
}

// lines gives the state of each step. failure, if any, is the error that ended the call; it explains the step that failed.
func (s *steps) lines(c *call, failure error) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, one := range s.list {
		line := "- " + one.name + ": " + string(one.state)
		switch one.state {
		case pending:
			line += string(outcomeUnknown)
		case differentThere:
			line += " (" + one.recorded + ")"
		case notRecorded, outcomeUnknown:
			if failure != nil {
				line += ". " + capitalized(c.whatHappened(failure))
			}
		case notSent:
			if errors.Is(failure, loopgrid.ErrNoTimeLeft) {
				line += ". The time for this call was nearly over."
			}
		case recordedNow, alreadyThere:
		}
		all = append(all, line)
	}
	return all
}
