package bridge

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

const (
	// answerTime is how long a person may think about a question.
	answerTime = 10 * time.Minute

	// maxAnswered bounds how many answered questions are remembered.
	maxAnswered = 1024
)

// proposal is what a question is about: the checked arguments of the call that asked. The answer to one proposal cannot be passed off as
// the answer to another.
type proposal struct {
	decisionID, action, reason string
}

// what names the review in messages.
func (p proposal) what() string { return "the review of decision " + p.decisionID }

// questions creates and checks the states of questions to people. A state goes to the client with the question and must come back with
// the answer. An answer to no question, to a different one, to one from another process or to one already answered therefore records
// nothing. The state reveals nothing, and nothing about a question is stored before it is answered.
type questions struct {
	key   [sha256.Size]byte
	began time.Time // expiry is counted from here, on the monotonic clock

	mu       sync.Mutex
	answered map[questionID]*answeredQuestion
	floor    time.Duration // questions that expire up to here are closed: they are no longer remembered
}

// questionID is when a question expires, in nanoseconds since the process began, and 16 random bytes.
type questionID [24]byte

func (id questionID) expires() time.Duration {
	return time.Duration(binary.BigEndian.Uint64(id[:8])) //nolint:gosec // it is what sealed wrote
}

// answeredQuestion is the result of a question.
type answeredQuestion struct {
	done   chan struct{}    // closed once everything that follows from the answer is done
	review *loopgrid.Review // what the person decided; nil if they decided nothing. Written before done is closed.
}

func newQuestions() *questions {
	q := &questions{began: time.Now(), answered: map[questionID]*answeredQuestion{}}
	_, _ = rand.Read(q.key[:]) // never fails (crypto/rand)
	return q
}

// sealed returns the state of a new question.
func (q *questions) sealed(p proposal) string {
	var id questionID
	binary.BigEndian.PutUint64(id[:8], uint64(time.Since(q.began)+answerTime)) //nolint:gosec // never negative
	_, _ = rand.Read(id[8:])                                                   // never fails (crypto/rand)
	return stateEncoding().EncodeToString(append(id[:], q.seal(id, p)...))
}

func stateEncoding() *base64.Encoding { return base64.RawURLEncoding }

// seal signs a question together with what it is about.
func (q *questions) seal(id questionID, p proposal) []byte {
	mac := hmac.New(sha256.New, q.key[:])
	mac.Write(id[:])
	for _, text := range [...]string{p.decisionID, p.action, p.reason} {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
		mac.Write([]byte(text))
	}
	return mac.Sum(nil)
}

var (
	// errForeignState is for a state that no question of this process about this proposal has.
	errForeignState = errors.New("the answer does not belong to any question about these arguments (they were changed, or loopgrid-mcp has restarted since)")

	// errLateAnswer is for an answer that comes too late.
	errLateAnswer = errors.New("the question has expired: it stays open for 10 minutes")
)

// open returns the question that a state was sealed for. It changes nothing, so that a refused attempt does not use up the question.
func (q *questions) open(state string, p proposal) (questionID, error) {
	var id questionID
	raw, err := stateEncoding().DecodeString(state)
	if err != nil || len(raw) != len(id)+sha256.Size || stateEncoding().EncodeToString(raw) != state {
		return questionID{}, errForeignState
	}
	copy(id[:], raw)
	if !hmac.Equal(raw[len(id):], q.seal(id, p)) {
		return questionID{}, errForeignState
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.isOpen(id) {
		return questionID{}, errLateAnswer
	}
	return id, nil
}

// isOpen says whether a question can still be answered. The caller holds mu.
func (q *questions) isOpen(id questionID) bool {
	return id.expires() > max(q.floor, time.Since(q.began))
}

// answer marks an open question as answered. If it already was, first is false and the earlier answer is returned. The caller who gets
// first must close done.
func (q *questions) answer(id questionID) (a *answeredQuestion, first bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if a = q.answered[id]; a != nil {
		return a, false, nil
	}
	if !q.isOpen(id) {
		return nil, false, errLateAnswer
	}
	q.forget()
	a = &answeredQuestion{done: make(chan struct{})}
	q.answered[id] = a
	return a, true, nil
}

// earlier returns the answer that a question already has; nil if it has none.
func (q *questions) earlier(id questionID) *answeredQuestion {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.answered[id]
}

// forget makes room for one more answered question. If too many are answered within answerTime, the oldest are closed early; a question
// never reopens. The caller holds mu.
func (q *questions) forget() {
	if len(q.answered) < maxAnswered {
		return
	}
	oldest := questionID{}
	for id := range q.answered {
		switch {
		case !q.isOpen(id):
			delete(q.answered, id)
		case oldest == questionID{} || id.expires() < oldest.expires():
			oldest = id
		}
	}
	if len(q.answered) < maxAnswered {
		return
	}
	q.floor = oldest.expires()
	delete(q.answered, oldest)
}
