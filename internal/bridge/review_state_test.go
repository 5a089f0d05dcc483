package bridge

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAQuestionIsOpenForTenMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, p := newQuestions(), proposal{"dec_1", "approve", "r"}
		time.Sleep(time.Hour)
		state := q.sealed(p)
		id, err := q.open(state, p)
		require.NoError(t, err)
		time.Sleep(answerTime - time.Nanosecond)
		_, err = q.open(state, p)
		require.NoError(t, err)
		time.Sleep(time.Nanosecond)
		_, err = q.open(state, p)
		require.ErrorIs(t, err, errLateAnswer)
		_, _, err = q.answer(id)
		require.ErrorIs(t, err, errLateAnswer, "the time ended between the two")
		assert.Empty(t, q.answered)
	})
}

func TestStatesAreAllDifferent(t *testing.T) {
	t.Parallel()
	q, p := newQuestions(), proposal{"dec_1", "approve", "r"}
	seen := map[string]bool{}
	for range 100 {
		state := q.sealed(p)
		assert.False(t, seen[state])
		assert.NotContains(t, state, "dec_1")
		assert.Len(t, state, 75)
		seen[state] = true
	}
	_, err := newQuestions().open(q.sealed(p), p)
	require.ErrorIs(t, err, errForeignState, "every process has a key of its own")
}

func TestAQuestionIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	q, p := newQuestions(), proposal{"dec_1", "approve", "r"}
	id, err := q.open(q.sealed(p), p)
	require.NoError(t, err)
	assert.Nil(t, q.earlier(id))
	a, first, err := q.answer(id)
	require.NoError(t, err)
	assert.True(t, first)
	again, first, err := q.answer(id)
	require.NoError(t, err)
	assert.False(t, first)
	assert.Same(t, a, again)
	assert.Same(t, a, q.earlier(id))
}

// TestFewAnsweredQuestionsAreRemembered: a forgotten one does not reopen.
func TestFewAnsweredQuestionsAreRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, p := newQuestions(), proposal{"dec_1", "approve", "r"}
		var states []string
		for range 3 * maxAnswered {
			time.Sleep(time.Millisecond)
			states = append(states, q.sealed(p))
		}
		for i, state := range states {
			id, err := q.open(state, p)
			require.NoError(t, err)
			_, first, err := q.answer(id)
			require.NoError(t, err)
			require.True(t, first)
			require.LessOrEqual(t, len(q.answered), maxAnswered)
			if i >= maxAnswered {
				_, err = q.open(states[i-maxAnswered], p)
				require.ErrorIs(t, err, errLateAnswer)
			}
		}
		for _, state := range states {
			if id, err := q.open(state, p); err == nil {
				require.NotNil(t, q.earlier(id))
			}
		}
		time.Sleep(answerTime)
		id, err := q.open(q.sealed(p), p)
		require.NoError(t, err)
		_, _, err = q.answer(id)
		require.NoError(t, err)
		assert.Len(t, q.answered, 1, "those that are over are forgotten first")
	})
}

// FuzzReviewState: only a sealed state opens, and only with the arguments it was sealed for.
func FuzzReviewState(f *testing.F) {
	f.Add("", 0, 0, "", "dec_1", "approve", "r")
	f.Add("AAAA", 0, 75, "AAAA", "dec_1", "approve", "r")
	f.Add("", 3, 1, "B", "dec_1", "approve", "r")
	f.Add("", 75, 0, "\n", "dec_1", "approve", "r")
	f.Add("", 74, 1, "=", "dec_1", "approve", "r")
	f.Add("", 0, 0, "", "dec_1approve", "", "r")
	f.Add("", 0, 0, "", "dec_1", "approver", "")
	f.Add("", 0, 0, "", "dec_1", "reject", "r")
	q, p := newQuestions(), proposal{"dec_1", "approve", "r"}
	sealed := q.sealed(p)
	f.Fuzz(func(t *testing.T, state string, at, cut int, put, decisionID, action, reason string) {
		if state == "" { // change the sealed one
			at = min(max(at, 0), len(sealed))
			cut = min(max(cut, 0), len(sealed)-at)
			state = sealed[:at] + put + sealed[at+cut:]
		}
		given := proposal{decisionID, action, reason}
		id, err := q.open(state, given)
		require.Equal(t, state == sealed && given == p, err == nil, "%q for %q", state, given)
		if err != nil {
			require.Equal(t, questionID{}, id)
			require.False(t, strings.Contains(err.Error(), decisionID) && len(decisionID) > 20)
		}
	})
}
