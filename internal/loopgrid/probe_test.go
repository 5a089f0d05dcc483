package loopgrid_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
)

// probes are all of them, with what they send.
func probes() map[string]struct {
	send func(context.Context, *loopgrid.Client) (loopgrid.Access, error)
	uri  string
} {
	return map[string]struct {
		send func(context.Context, *loopgrid.Client) (loopgrid.Access, error)
		uri  string
	}{
		"read": {func(ctx context.Context, c *loopgrid.Client) (loopgrid.Access, error) {
			access, _, err := c.ProbeRead(ctx)
			return access, err
		}, "GET /base/api/v1/decisions?limit=1&workspace_id=team+a"},
		"ingest": {func(ctx context.Context, c *loopgrid.Client) (loopgrid.Access, error) { return c.ProbeIngest(ctx) }, "POST /base/api/v1/workspaces/team%20a/policies/evaluate"},
		"review": {func(ctx context.Context, c *loopgrid.Client) (loopgrid.Access, error) { return c.ProbeReview(ctx) }, "GET /base/api/v1/reviews?workspace_id=team+a"},
		"admin":  {func(ctx context.Context, c *loopgrid.Client) (loopgrid.Access, error) { return c.ProbeAdmin(ctx) }, "GET /base/api/v1/workspaces/team%20a/audit?limit=1"},
	}
}

func TestProbesAskOnce(t *testing.T) {
	t.Parallel()
	for name, probe := range probes() {
		for _, tt := range []struct {
			status int
			detail string
			want   loopgrid.Access
			err    string
		}{
			{200, "", loopgrid.AccessGranted, ""},
			{404, "Active policy not found", loopgrid.AccessGranted, ""},
			{401, "Invalid, revoked, or insufficient LoopGrid API key (read scope required)", loopgrid.AccessDenied, ""},
			{401, "Missing or insufficient LoopGrid credential (read scope required)", loopgrid.AccessDenied, ""},
			{403, "API key does not belong to this workspace", loopgrid.AccessElsewhere, ""},
			{403, "private@example.com may not", loopgrid.AccessUnknown, "LoopGrid answered 403 to "},
			{404, "private@example.com is not here", loopgrid.AccessUnknown, "LoopGrid answered 404 to "},
			{307, "", loopgrid.AccessUnknown, "LoopGrid answered 307 to "},
			{429, "Rate limit exceeded", loopgrid.AccessUnknown, "LoopGrid answered 429 to "},
			{500, "private@example.com", loopgrid.AccessUnknown, "LoopGrid answered 500 to "},
			{503, "private@example.com", loopgrid.AccessUnknown, "LoopGrid answered 503 to "},
		} {
			m := mount(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Retry-After", "7")
				answerTyped(tt.status, "application/json", `{"detail":"`+tt.detail+`"}`)(w, r)
			})
			access, err := probe.send(t.Context(), m.Client)
			assert.Equal(t, tt.want, access, "%s %d", name, tt.status)
			sent := m.only(t)
			assert.Equal(t, probe.uri, sent.method+" "+sent.uri)
			assert.Equal(t, serviceKey, sent.header.Get("X-LoopGrid-Key"))
			if tt.err == "" {
				require.NoError(t, err)
				continue
			}
			require.ErrorContains(t, err, tt.err)
			assert.NotContains(t, err.Error(), "private")
			var api *loopgrid.APIError
			require.ErrorAs(t, err, &api)
			assert.Equal(t, 7*time.Second, api.RetryAfter)
		}
	}
}

func TestProbeIngestAsksForAPolicyThatCannotExist(t *testing.T) {
	t.Parallel()
	m := mount(t, answerTyped(404, "application/json", `{"detail":"Active policy not found"}`))
	_, err := m.ProbeIngest(t.Context())
	require.NoError(t, err)
	sent := jsontext.Value(m.only(t).body)
	assert.Greater(t, len(evidence.GetText(sent, "policy_id")), 96, "LoopGrid makes no policy of such an id")
	assert.Contains(t, string(sent), `,"proposed_action":{},"authority":{},"context":{}}`)
}

func TestProbesRecordNothing(t *testing.T) {
	t.Parallel()
	s := sandbox.New(sandbox.Options{})
	o := options(t, "http://sandbox/")
	o.Transport, o.Workspace, o.ServiceKey = s, "default", ""
	c := loopgrid.New(o)
	require.NoError(t, writing(t.Context(), c, func(w *loopgrid.Turn) error {
		_, err := w.CreateDecision(t.Context(), &loopgrid.Decision{DecisionType: "t"})
		return err
	}))
	events, writes := s.Events("default"), s.Stats().Writes
	for name, probe := range probes() {
		access, err := probe.send(t.Context(), c)
		require.NoError(t, err, name)
		assert.Equal(t, loopgrid.AccessGranted, access, name)
	}
	_, newest, err := c.ProbeRead(t.Context())
	require.NoError(t, err)
	assert.Equal(t, events[0].DecisionID, newest)
	assert.Equal(t, events, s.Events("default"))
	assert.Equal(t, writes, s.Stats().Writes)
}

func TestProbeReadNamesOneDecision(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`[{"input":{"decision_id":"dec_of_somebody"},"decision_id":"dec_1"},{"decision_id":"dec_2"}]`: "dec_1",
		`[]`:                          "",
		`[{"decision_id":"../x"}]`:    "",
		`[{"decision_id":7}]`:         "",
		`[7,{"decision_id":"dec_2"}]`: "",
		`{"decision_id":"dec_1"}`:     "",
		`[{"decision_id":"dec_1"`:     "",
		`<html>`:                      "",
	} {
		m := mount(t, answerTyped(200, "application/json", body))
		access, newest, err := m.ProbeRead(t.Context())
		require.NoError(t, err)
		assert.Equal(t, loopgrid.AccessGranted, access)
		assert.Equal(t, want, newest, body)
	}
}

func TestProbesEndInTime(t *testing.T) {
	t.Parallel()
	for name, probe := range probes() {
		synctest.Test(t, func(t *testing.T) {
			o := options(t, "http://service/")
			o.Transport = transport(func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, r.Context().Err()
			})
			began := time.Now()
			access, err := probe.send(t.Context(), loopgrid.New(o))
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			assert.Equal(t, loopgrid.AccessUnknown, access)
			assert.Equal(t, o.Timeout, time.Since(began))
		})
	}
	t.Run("in the middle of the list", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			o := options(t, "http://service/")
			o.Transport = transport(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(until{r.Context()})}, nil
			})
			access, newest, err := loopgrid.New(o).ProbeRead(t.Context())
			require.NoError(t, err)
			assert.Equal(t, loopgrid.AccessGranted, access, "the status says so")
			assert.Empty(t, newest)
		})
	})
}

// until is a body that never comes.
type until struct{ context.Context } //nolint:containedctx // it stands for a connection

func (u until) Read([]byte) (int, error) {
	<-u.Done()
	return 0, u.Err()
}

func TestSystemInfo(t *testing.T) {
	t.Parallel()
	const all = `{"environment":"%","database":{"provider":"postgresql"},"lifecycle":{"enforced":false},"deployment_security":{"human_auth_required":false}}`
	for body, want := range map[string]loopgrid.SystemInfo{
		strings.Replace(all, "%", "development", 1): {Environment: "development", Database: "postgresql", NoLifecycle: true, Open: true},
		strings.Replace(all, "%", "production", 1):  {Environment: "production", Database: "postgresql", NoLifecycle: true},
		`{}`: {},
		`{"database":"sqlite","lifecycle":[],"deployment_security":null}`:                    {},
		`{"lifecycle":{"enforced":true},"deployment_security":{"human_auth_required":true}}`: {},
	} {
		m := mount(t, answerTyped(200, "application/json", body))
		got, err := m.SystemInfo(t.Context())
		require.NoError(t, err)
		assert.Equal(t, want, got, body)
		assert.Equal(t, "/base/api/v1/system/info", m.only(t).uri)
	}
	m := mount(t, answerTyped(404, "application/json", `{"detail":"Not Found"}`))
	_, err := m.SystemInfo(t.Context())
	require.ErrorContains(t, err, "LoopGrid answered 404 to GET /api/v1/system/info")
}

func TestFirstFailure(t *testing.T) {
	t.Parallel()
	v := loopgrid.Verification{Raw: jsontext.Value(`{"valid":false,"total_ledger_events":12,"failures":[` +
		`{"seq":1,"event_id":"evt_1","reasons":["a\u001b","b"]},{"event_id":"evt_2","reasons":["c"]}]}`)}
	first, all := v.FirstFailure()
	assert.Equal(t, loopgrid.ChainFailure{EventID: "evt_1", Reasons: []string{"a", "b"}}, first)
	assert.Equal(t, 2, all)
	assert.Equal(t, "12", v.Events())

	v = loopgrid.Verification{Raw: jsontext.Value(`{"valid":true,"total_ledger_events":"many","failures":null}`)}
	first, all = v.FirstFailure()
	assert.Zero(t, first)
	assert.Zero(t, all)
	assert.Empty(t, v.Events())
}

func TestInspect(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status         int
		location, body string
		want           loopgrid.Strange
	}{
		"redirect":             {308, "https://user:pw@Other.example:8443/base/health?token=x", "", loopgrid.Strange{Location: &url.URL{Scheme: "https", Host: "Other.example:8443", Path: "/base/health"}}},
		"relative redirect":    {307, "/login", "", loopgrid.Strange{Location: &url.URL{Scheme: "http", Path: "/login"}}},
		"redirect to nowhere":  {302, "", "", loopgrid.Strange{}},
		"no redirect":          {404, "/elsewhere", "https", loopgrid.Strange{}},
		"Go":                   {400, "", "Client sent an HTTP request to an HTTPS server.", loopgrid.Strange{WantsTLS: true}},
		"Apache":               {400, "", "You're speaking plain HTTP to an SSL-enabled server port.", loopgrid.Strange{WantsTLS: true}},
		"a bad request":        {400, "", "bad request", loopgrid.Strange{}},
		"a page about https":   {200, "", "https", loopgrid.Strange{}},
		"https far, far below": {400, "", strings.Repeat(" ", 1<<16) + "https", loopgrid.Strange{}},
	} {
		m := mount(t, func(w http.ResponseWriter, r *http.Request) {
			if tt.location != "" {
				w.Header().Set("Location", tt.location)
			}
			answerTyped(tt.status, "text/html", tt.body)(w, r)
		})
		got, err := m.Inspect(t.Context())
		require.NoError(t, err)
		if name == "relative redirect" {
			require.NotNil(t, got.Location)
			got.Location.Host = ""
		}
		assert.Equal(t, tt.want, got, name)
		assert.Empty(t, m.only(t).header.Get("X-LoopGrid-Key"), "whoever answers does not get the key")
	}
	o := options(t, "http://service/")
	o.Transport = transport(func(*http.Request) (*http.Response, error) { return nil, io.EOF })
	_, err := loopgrid.New(o).Inspect(t.Context())
	var lost *loopgrid.TransportError
	require.ErrorAs(t, err, &lost)
}

func TestProxyIsNamedWithoutItsUser(t *testing.T) {
	t.Parallel()
	o := options(t, "http://service/")
	with := loopgrid.TransportOf(o)
	with.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy.example:3128", User: url.UserPassword("user", "pw")})
	o.Transport = with
	assert.Equal(t, "proxy.example:3128", loopgrid.New(o).Proxy())
	without := loopgrid.TransportOf(o)
	without.Proxy = nil
	o.Transport = without
	assert.Empty(t, loopgrid.New(o).Proxy())
	o.Transport = sandbox.New(sandbox.Options{})
	assert.Empty(t, loopgrid.New(o).Proxy())
	assert.Empty(t, loopgrid.New(options(t, "http://127.0.0.1:1")).Proxy(), "none to this machine")
}
