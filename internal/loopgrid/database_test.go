package loopgrid_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

// TestWritesGoSideBySideOnPostgreSQL alone: whatever else the service says of its database, or does not say, takes the lock.
func TestWritesGoSideBySideOnPostgreSQL(t *testing.T) {
	t.Parallel()
	const info = `{"database":{"provider":"`
	for name, c := range map[string]struct {
		lock             loopgrid.WriteLock
		status           int
		info             string
		beside, unlocked bool
	}{
		"postgresql":            {loopgrid.LockAuto, 200, info + `postgresql"}}`, true, false},
		"sqlite":                {loopgrid.LockAuto, 200, info + `sqlite"}}`, false, false},
		"another database":      {loopgrid.LockAuto, 200, info + `postgresql-like"}}`, false, false},
		"nothing said":          {loopgrid.LockAuto, 200, `{}`, false, false},
		"not known":             {loopgrid.LockAuto, 404, `{"detail":"Not Found"}`, false, false},
		"on":                    {loopgrid.LockOn, 200, info + `postgresql"}}`, false, false},
		"no setting":            {"", 200, info + `postgresql"}}`, false, false},
		"off, and sqlite":       {loopgrid.LockOff, 200, info + `sqlite"}}`, true, true},
		"off, and postgresql":   {loopgrid.LockOff, 200, info + `postgresql"}}`, true, false},
		"off, and nothing said": {loopgrid.LockOff, 404, `{}`, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := options(t, "http://service.example")
				o.WriteLock = c.lock
				o.Transport = transport(func(*http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: c.status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(c.info))}, nil
				})
				client := loopgrid.New(o)
				begins := func(about loopgrid.Subject) (*loopgrid.Turn, bool) {
					turn := client.NewTurn()
					t.Cleanup(turn.End)
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					return turn, turn.Begin(ctx, about) == nil
				}
				first, ok := begins(loopgrid.Subject{DecisionID: "dec_1"})
				require.True(t, ok)
				assert.Equal(t, c.unlocked, first.Unlocked())
				_, ok = begins(loopgrid.Subject{DecisionID: "dec_2", Review: true})
				assert.Equal(t, c.beside, ok)
				_, ok = begins(loopgrid.Subject{DecisionID: "dec_1"})
				assert.False(t, ok, "about the same decision")
				_, ok = begins(loopgrid.Subject{DecisionID: "dec_3", Review: true})
				assert.False(t, ok, "two reviews at once")
			})
		})
	}
}

// A service may come back on another database: it is asked again after a while, and after a request that it did not answer well.
func TestDatabaseIsAskedForAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, broken := 0, false
		o := options(t, "http://service.example")
		o.WriteLock = loopgrid.LockAuto
		o.Transport = transport(func(r *http.Request) (*http.Response, error) {
			body, status := `{"database":{"provider":"postgresql"}}`, http.StatusOK
			switch {
			case strings.HasSuffix(r.URL.Path, "/system/info"):
				asked++
			case broken:
				return nil, io.EOF
			}
			return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
		})
		client := loopgrid.New(o)
		begin := func() {
			turn := client.NewTurn()
			require.NoError(t, turn.Begin(t.Context(), loopgrid.Subject{}))
			turn.End()
		}
		begin()
		begin()
		assert.Equal(t, 1, asked)
		time.Sleep(31 * time.Second)
		begin()
		assert.Equal(t, 2, asked)
		broken = true
		_, err := client.Health(t.Context())
		require.Error(t, err)
		begin()
		assert.Equal(t, 3, asked)
	})
}

// TestSignOfLife: after a write without an answer only what LoopGrid itself has just answered lets the next one go.
func TestSignOfLife(t *testing.T) {
	t.Parallel()
	const notFound, jsonBody = `{"detail":"Decision not found"}`, "application/json"
	for name, c := range map[string]struct {
		status     int
		media      string
		body       string
		header     [2]string
		showsAlive bool
	}{
		"LoopGrid":                {404, jsonBody, notFound, [2]string{}, true},
		"LoopGrid wants a key":    {401, jsonBody, `{"detail":"Missing"}`, [2]string{}, true},
		"a gateway's page":        {404, "text/html", "<html>", [2]string{}, false},
		"a gateway gives up":      {504, jsonBody, `{"detail":"timeout"}`, [2]string{}, false},
		"a gateway's limit":       {429, jsonBody, `{"detail":"slow down"}`, [2]string{}, false},
		"a login page":            {200, "text/html", "<html>", [2]string{}, false},
		"a database that is busy": {500, "text/plain", "Internal Server Error", [2]string{}, false},
		"from a cache":            {404, jsonBody, notFound, [2]string{"Age", "7"}, false},
		"of an earlier request":   {404, jsonBody, notFound, [2]string{"X-Request-Id", "lgm_0"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := options(t, "http://service.example")
				var probe http.Header
				o.Transport = transport(func(r *http.Request) (*http.Response, error) {
					if r.Method == http.MethodPost {
						return &http.Response{StatusCode: http.StatusBadGateway, Header: http.Header{}, Body: http.NoBody}, nil
					}
					assert.Equal(t, "/api/v1/decisions/dec_000000000000000000000000", r.URL.Path)
					probe = r.Header.Clone()
					header := http.Header{"Content-Type": {c.media}}
					if c.header[0] != "" {
						header.Set(c.header[0], c.header[1])
					}
					return &http.Response{StatusCode: c.status, Header: header, Body: io.NopCloser(strings.NewReader(c.body))}, nil
				})
				client := loopgrid.New(o)
				require.Error(t, writing(t.Context(), client, func(w *loopgrid.Turn) error { return once().send(t.Context(), w) }))
				err := writing(t.Context(), client, func(*loopgrid.Turn) error { return nil })
				assert.Equal(t, c.showsAlive, err == nil, err)
				assert.Equal(t, "no-cache", probe.Get("Cache-Control"))
				assert.Equal(t, serviceKey, probe.Get("X-Loopgrid-Key"))
			})
		})
	}
}
