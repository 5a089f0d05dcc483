package loopgrid_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

// A key that was replaced in its file is read again after LoopGrid refused the old one, and the request is repeated once.
func TestKeyIsReadAgain(t *testing.T) {
	t.Parallel()
	const second = "lg_" + "live_second0123456789abcdefghijklmnopqrst"
	refuses := func(good string, body, media string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Loopgrid-Key") != good {
				answerTyped(http.StatusUnauthorized, media, body)(w, r) // in front: nothing of it is shown
				return
			}
			answerJSON(eventText)(w, r)
		}
	}
	const own = `{"detail":"Invalid, revoked, or insufficient LoopGrid API key (ingest scope required) ` + serviceKey + second + `"}`
	write := writers(decisionID)["append"]
	for name, c := range map[string]struct {
		answer        http.HandlerFunc
		reread        func() (string, error)
		requests      int
		reads         int
		works, hidden bool
	}{
		"replaced":            {refuses(second, own, "application/json"), func() (string, error) { return second, nil }, 2, 1, true, true},
		"replaced by another": {refuses("third", own, "application/json"), func() (string, error) { return second, nil }, 2, 1, false, true},
		"the same":            {refuses(second, own, "application/json"), func() (string, error) { return serviceKey, nil }, 1, 1, false, false},
		"gone":                {refuses(second, own, "application/json"), func() (string, error) { return "", errors.New("no file") }, 1, 1, false, false},
		"refused in front":    {refuses(second, "<html>", "text/html"), func() (string, error) { return second, nil }, 1, 0, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reads := 0
			m := mount(t, c.answer, func(o *loopgrid.Options) {
				o.RereadKey = func() (string, error) { reads++; return c.reread() }
			})
			err := writing(t.Context(), m.Client, func(turn *loopgrid.Turn) error { return write(t.Context(), turn) })
			assert.Equal(t, c.works, err == nil, "%v", err)
			assert.Len(t, m.seen, c.requests)
			assert.Equal(t, c.reads, reads)
			if err != nil {
				assert.Equal(t, loopgrid.NotRecorded, loopgrid.OutcomeOf(err))
				assert.NotContains(t, err.Error(), serviceKey[:12])
			}
			if c.hidden {
				assert.NotContains(t, fmt.Sprint(err), second[:12])
				assert.Equal(t, []string{serviceKey, second}, m.Keys())
			}
			if c.works {
				require.NoError(t, writing(t.Context(), m.Client, func(turn *loopgrid.Turn) error { return write(t.Context(), turn) }))
				assert.Len(t, m.seen, 3, "the new key is kept")
			}
		})
	}
}
