package writelock

import (
	"errors"
	"strings"
	"time"
)

// A note is one line of fixed width in the lock file, in plain text for the person who wonders what the file is: a word and a time in UTC.
// An empty file is a settled ledger. Other text counts as a POST that was given up, so a later version may write other words, but must
// not change what these mean.
const (
	noteWord  = "given up " // the widest word
	noteTime  = "2006-01-02T15:04:05.000000000Z\n"
	noteWidth = len(noteWord) + len(noteTime)
)

// noteState is what a lock file says.
type noteState int

const (
	settledState noteState = iota // no POST is in flight, and none is unanswered
	postedState                   // a POST was sent at that time; whoever finds this without a holder finds a killed process
	givenUpState                  // a POST was given up at that time, and may still be running in the service
)

func (s noteState) word() string {
	return [...]string{"settled", "posted", "given up"}[s]
}

// note is what a lock file says, and when that was.
type note struct {
	state noteState
	at    time.Time // zero for settledState
}

func (n note) equal(other note) bool { return n.state == other.state && n.at.Equal(other.at) }

// append appends the line of the note.
func (n note) append(line []byte) []byte {
	line = append(line, n.state.word()...)
	line = append(line, strings.Repeat(" ", len(noteWord)-len(n.state.word()))...)
	if n.state == settledState {
		return append(line, strings.Repeat(" ", len(noteTime)-1)+"\n"...)
	}
	return n.at.UTC().AppendFormat(line, noteTime)
}

var errNoNote = errors.New("not a note")

// parseNote reads what append writes; anything else is errNoNote.
func parseNote(line string) (note, error) {
	if line == string(note{}.append(nil)) {
		return note{}, nil
	}
	if len(line) != noteWidth {
		return note{}, errNoNote
	}
	at, err := time.Parse(noteTime, line[len(noteWord):])
	if err != nil {
		return note{}, errNoNote
	}
	for _, state := range []noteState{postedState, givenUpState} {
		if strings.TrimRight(line[:len(noteWord)], " ") == state.word() {
			return note{state: state, at: at}, nil
		}
	}
	return note{}, errNoNote
}
