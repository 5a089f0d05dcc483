package loopgrid_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/faultproxy"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

// trickle is a body that comes in parts, each after a pause, until it ends or the request is cancelled.
type trickle struct {
	ctx    context.Context //nolint:containedctx // That of the request, as a transport keeps it.
	parts  int
	size   int
	pause  time.Duration
	stalls bool // after the last part nothing comes any more
	end    error
	closed *bool

	left int // of the part that has come
}

func (b *trickle) Read(p []byte) (int, error) {
	if b.left == 0 {
		if b.parts == 0 && !b.stalls {
			return 0, b.end
		}
		pause := b.pause
		if b.parts == 0 {
			pause = 24 * time.Hour
		}
		if pause > 0 {
			timer := time.NewTimer(pause)
			defer timer.Stop()
			select {
			case <-b.ctx.Done():
				return 0, b.ctx.Err()
			case <-timer.C:
			}
		}
		b.parts--
		b.left = b.size
	}
	n := copy(p, strings.Repeat("z", b.left))
	b.left -= n
	return n, nil
}

func (b *trickle) Close() error {
	*b.closed = true
	return nil
}

// downloading is a client whose service answers an export with a body, and says how long it is.
func downloading(t *testing.T, body *trickle, length int64) (*loopgrid.Client, *int) {
	t.Helper()
	requests := 0
	o := options(t, "http://service.example")
	o.Transport = transport(func(r *http.Request) (*http.Response, error) {
		requests++
		body.ctx = r.Context()
		return &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/zip"}}, Body: body, ContentLength: length, Request: r,
		}, nil
	})
	return loopgrid.New(o), &requests
}

func TestDownload(t *testing.T) {
	t.Parallel()
	const s = time.Second
	const limit = 1 << 20
	for _, c := range []struct {
		name   string
		body   trickle
		length int64
		bytes  int
		ends   time.Duration
		check  func(t *testing.T, err error)
	}{
		{name: "longer than the time-out", body: trickle{parts: 10, size: 1 << 16, pause: 19 * s}, length: 10 << 16, bytes: 10 << 16, ends: 190 * s},
		{name: "just fast enough", body: trickle{parts: 160, size: 1 << 12, pause: s}, length: 160 << 12, bytes: 160 << 12, ends: 160 * s},
		{name: "a byte now and then", body: trickle{parts: 1000, size: 1, pause: 900 * time.Millisecond}, length: 1000, bytes: 44, ends: 40 * s, check: tooSlow},
		{name: "too slow later", body: trickle{parts: 60, size: 1 << 14, pause: 5500 * time.Millisecond}, length: 60 << 14, bytes: 10 << 14, ends: 60 * s, check: tooSlow},
		{name: "of unknown length", body: trickle{parts: 3, size: 100}, length: -1, bytes: 300},
		{name: "empty", length: 0},
		{name: "as large as allowed", body: trickle{parts: 1 << 11, size: 512}, length: limit, bytes: limit},
		{name: "as large as allowed without saying so", body: trickle{parts: 1 << 11, size: 512}, length: -1, bytes: limit},
		{name: "larger than allowed without saying so", body: trickle{parts: 1<<11 + 1, size: 512}, length: -1, bytes: limit, check: tooLarge},
		{
			name: "stalled", body: trickle{parts: 2, size: 100, pause: s, stalls: true}, length: 1000, bytes: 200, ends: 22 * s,
			check: func(t *testing.T, err error) {
				t.Helper()
				var lost *loopgrid.TransportError
				require.ErrorAs(t, err, &lost)
				require.EqualError(t, err, "LoopGrid at service.example:80 stopped in the middle of the evidence bundle: nothing came for 20 s")
				assert.True(t, lost.TimedOut())
			},
		},
		{
			name: "shorter than announced", body: trickle{parts: 2, size: 100}, length: 201, bytes: 200,
			check: func(t *testing.T, err error) {
				t.Helper()
				var unusable *loopgrid.AnswerError
				require.ErrorAs(t, err, &unusable)
				assert.Equal(t, "only 200 of 201 bytes came", unusable.Reason)
			},
		},
		{
			name: "longer than announced", body: trickle{parts: 2, size: 100}, length: 199, bytes: 200,
			check: func(t *testing.T, err error) {
				t.Helper()
				var unusable *loopgrid.AnswerError
				require.ErrorAs(t, err, &unusable)
			},
		},
		{
			name: "broken off", body: trickle{parts: 2, size: 100, end: errors.New("reset")}, length: 1000, bytes: 200,
			check: func(t *testing.T, err error) {
				t.Helper()
				assert.EqualError(t, err, "the connection to LoopGrid ended before GET /api/v1/decisions/{id}/evidence was answered (at service.example:80)")
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				closed := false
				c.body.closed = &closed
				if c.body.end == nil {
					c.body.end = io.EOF
				}
				client, requests := downloading(t, &c.body, c.length)
				began := time.Now()
				file, err := client.Evidence(t.Context(), decisionID, false)
				require.NoError(t, err)
				content, err := io.ReadAll(file)
				assert.Equal(t, c.ends, time.Since(began))
				assert.Equal(t, c.bytes, len(content)) //nolint:testifylint // Len prints a megabyte.
				if c.check == nil {
					require.NoError(t, err)
				} else {
					c.check(t, err)
				}
				assert.Equal(t, 1, *requests, "nothing is asked for again after the first byte")
				require.NoError(t, file.Close())
				assert.True(t, closed)
				assert.Error(t, c.body.ctx.Err(), "the request has ended")
			})
		})
	}
}

func tooSlow(t *testing.T, err error) {
	t.Helper()
	var lost *loopgrid.TransportError
	require.ErrorAs(t, err, &lost)
	require.EqualError(t, err, "the evidence bundle arrives too slowly from service.example:80: less than 64 KiB within 20 s")
	assert.True(t, lost.TimedOut())
	assert.Contains(t, lost.Remedy(), "LOOPGRID_MCP_TIMEOUT_SECONDS")
}

func tooLarge(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, loopgrid.ErrTooLarge)
}

func TestDownloadThatSaysItIsTooLarge(t *testing.T) {
	t.Parallel()
	closed := false
	client, _ := downloading(t, &trickle{closed: &closed}, 1<<20+1)
	_, err := client.Evidence(t.Context(), decisionID, true)
	require.ErrorIs(t, err, loopgrid.ErrTooLarge)
	assert.True(t, closed)
}

func TestDownloadIsCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		closed := false
		client, _ := downloading(t, &trickle{parts: 100, size: 1, pause: time.Second, closed: &closed}, -1)
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		file, err := client.Evidence(ctx, decisionID, false)
		require.NoError(t, err)
		defer func() { _ = file.Close() }()
		time.AfterFunc(1500*time.Millisecond, cancel)
		content, err := io.ReadAll(file)
		require.ErrorContains(t, err, "was cancelled")
		assert.Len(t, content, 1)
		assert.Equal(t, 1500*time.Millisecond, time.Since(began))
	})
}

// Until the answer begins, an export is a read like any other.
func TestDownloadBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	drop := faultproxy.Fault{Reply: faultproxy.Dropped}
	for _, c := range []struct {
		name   string
		faults []faultproxy.Fault
		tries  int
		ends   time.Duration // -1: as the waits happen to be
		text   string
	}{
		{"lost thrice", again(3, drop), 4, -1, ""},
		{"lost", again(4, drop), 4, -1, "the connection to LoopGrid ended before GET /api/v1/decisions/{id}/evidence was answered (at service.example:80)"},
		{"500", []faultproxy.Fault{html(500)}, 2, -1, ""},
		{"500 twice", again(2, html(500)), 2, -1, "LoopGrid answered 500 to GET /api/v1/decisions/{id}/evidence"},
		{"404", []faultproxy.Fault{html(404)}, 1, 0, "LoopGrid answered 404"},
		{"no header", []faultproxy.Fault{{Reply: faultproxy.Silent}}, 1, budget, "LoopGrid did not answer GET /api/v1/decisions/{id}/evidence in time (20 s, at service.example:80): it checks the whole ledger, which takes longer as it grows"},
		{"429 that does not fit", []faultproxy.Fault{limited("60")}, 1, 0, "LoopGrid answered 429"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, budget, c.faults...)
				file, err := b.Evidence(t.Context(), decisionID, false)
				assert.Equal(t, c.tries, b.count())
				if c.ends >= 0 {
					assert.Equal(t, c.ends, b.now())
				}
				if c.text != "" {
					require.ErrorContains(t, err, c.text)
					return
				}
				require.NoError(t, err)
				content, err := io.ReadAll(file)
				require.NoError(t, err)
				assert.Equal(t, recordText, string(content))
				require.NoError(t, file.Close())
			})
		})
	}
}

// The same over a connection: a proxy ends it in the middle.
func TestDownloadIsCutOnTheWire(t *testing.T) {
	t.Parallel()
	m := mount(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(1000))
		_, _ = w.Write(make([]byte, 400))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	file, err := m.Evidence(t.Context(), decisionID, false)
	require.NoError(t, err)
	content, err := io.ReadAll(file)
	require.ErrorContains(t, err, "the connection to LoopGrid ended")
	assert.Len(t, content, 400)
	require.NoError(t, file.Close())
	m.only(t)
}
