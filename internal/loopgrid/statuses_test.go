package loopgrid_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/faultproxy"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
)

// never are the statuses that nothing in front answers to a request that it has passed on.
func never() []int {
	return []int{307, 308, 400, 401, 404, 405, 407, 411, 413, 414, 415, 417, 421, 425, 426, 429, 431}
}

// ownRefusals are the statuses by which LoopGrid says that it recorded nothing.
func ownRefusals() []int { return []int{400, 401, 403, 404, 405, 409, 413, 422, 429} }

// statuses are those that some standard, server or network knows, and the ends of each range.
func statuses() []int {
	all := []int{100, 101, 103, 200, 202, 204, 206, 226, 299, 451, 499, 598, 599}
	for _, span := range [][2]int{{300, 309}, {399, 432}, {440, 444}, {460, 464}, {494, 513}, {519, 531}} {
		for status := span[0]; status < span[1]; status++ {
			all = append(all, status)
		}
	}
	return all
}

// ledger is a sandbox behind a front that answers every POST with one status once it is told to.
type ledger struct {
	*loopgrid.Client

	proxy *faultproxy.Proxy
	id    string
}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	l := &ledger{proxy: faultproxy.New(sandbox.New(sandbox.Options{}), faultproxy.Script())}
	o := options(t, "http://service.example")
	o.Transport, o.ServiceKey, o.Workspace = l.proxy, "", "default"
	l.Client = loopgrid.New(o)
	require.NoError(t, writing(t.Context(), l.Client, func(turn *loopgrid.Turn) error {
		created, err := turn.CreateDecision(t.Context(), fullDecision())
		if err != nil {
			return err
		}
		l.id = created.DecisionID
		_, _, err = turn.AppendEvent(t.Context(), l.id, &loopgrid.NewEvent{
			EventType: "policy_evaluated", ActorType: "policy", ActorID: "p", Payload: []byte(`{"decision":"human_approval_required"}`), IdempotencyKey: "policy",
		})
		return err
	}))
	return l
}

// write runs one write while every POST gets this fault.
func (l *ledger) write(t *testing.T, k string, fault faultproxy.Fault) error {
	t.Helper()
	l.proxy.SetPlan(func(r *http.Request) faultproxy.Fault {
		if r.Method == http.MethodPost {
			return fault
		}
		return faultproxy.Fault{}
	})
	defer l.proxy.SetPlan(faultproxy.Script())
	return writing(t.Context(), l.Client, func(turn *loopgrid.Turn) (err error) {
		if k == "keyed" {
			_, _, err = turn.AppendEvent(t.Context(), l.id, &loopgrid.NewEvent{EventType: "model_completed", ActorType: "agent", ActorID: "a", IdempotencyKey: "k"})
		} else {
			_, err = turn.Review(t.Context(), l.id, &loopgrid.Review{Action: "approve", Reviewer: "r"})
		}
		return err
	})
}

func (l *ledger) appended(t *testing.T) int {
	t.Helper()
	record, err := l.GetDecision(t.Context(), l.id)
	require.NoError(t, err)
	return len(record.Events) - 2
}

// Whatever status comes back, with whatever body, and whether or not the request was passed on before: a write is recorded at most once,
// and never called "not recorded" if it may be.
func TestEveryStatusIsHonest(t *testing.T) {
	t.Parallel()
	page := func(status int) faultproxy.Fault {
		f := redirect(status, "https://elsewhere.example/")
		f.Header.Set("Www-Authenticate", `Basic realm="front"`)
		return f
	}
	for name, c := range map[string]struct {
		fault   func(status int) faultproxy.Fault
		refusal []int // the statuses that are certain to mean "not recorded"
	}{
		"LoopGrid": {said, ownRefusals()},
		"in front": {page, never()},
		"JSON in front": {func(status int) faultproxy.Fault {
			return faultproxy.Answer(status, "application/json", `{"message":"no"}`)
		}, slices.DeleteFunc(never(), func(s int) bool { return s < 400 })},
		"problem": {func(status int) faultproxy.Fault {
			return faultproxy.Answer(status, "application/problem+json", `{"detail":"no"}`)
		}, slices.DeleteFunc(never(), func(s int) bool { return s < 400 })},
		"nothing": {func(status int) faultproxy.Fault {
			return faultproxy.Fault{Reach: faultproxy.Withheld, Reply: faultproxy.Replaced, Status: status}
		}, slices.DeleteFunc(never(), func(s int) bool { return s < 400 })},
	} {
		for _, kind := range []string{"keyed", "once"} {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				for _, status := range statuses() {
					if status >= 200 && status < 300 && name == "LoopGrid" {
						continue
					}
					synctest.Test(t, func(t *testing.T) {
						fault := c.fault(status)
						l := newLedger(t)
						err := l.write(t, kind, fault)
						require.Error(t, err, status)
						certain := slices.Contains(c.refusal, status) || name == "LoopGrid" && slices.Contains([]int{407, 411, 414, 415, 417, 421, 425, 426, 431}, status)
						want := loopgrid.Unknown
						if certain {
							want = loopgrid.NotRecorded
						}
						assert.Equal(t, want, loopgrid.OutcomeOf(err), "%d withheld", status)
						assert.Zero(t, l.appended(t), status)
						if certain {
							return
						}
						fault.Reach = faultproxy.Served
						err = l.write(t, kind, fault)
						require.Error(t, err, status)
						assert.Equal(t, loopgrid.Unknown, loopgrid.OutcomeOf(err), "%d passed on", status)
						assert.Equal(t, 1, l.appended(t), status)
					})
				}
			})
		}
	}
}

// Who answered, and what can be done about it, is in the error.
func TestWhoAnswered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status         int
		typ, body      string
		header         []string
		front          bool
		remedy, absent string
	}{
		{403, "application/json", `{"detail":"API key does not belong to this workspace"}`, nil, false, "", ""},
		{403, "text/html", "<html>Blocked", nil, true, "A firewall or gateway rejected this, not LoopGrid", ""},
		{401, "application/json", `{"detail":"Invalid key"}`, nil, false, "", ""},
		{401, "application/json", `{"detail":"Invalid key"}`, []string{"Www-Authenticate", "Bearer"}, true, "It requires a login of its own, not the LoopGrid key", ""},
		{401, "text/html", "", []string{"Www-Authenticate", `Basic realm="x"`}, true, "It requires a login of its own, not the LoopGrid key", ""},
		{404, "text/html", "", nil, true, "check LOOPGRID_BASE_URL", ""},
		{413, "text/html", "", nil, true, "accepts only smaller requests", ""},
		{429, "text/html", "", []string{"Retry-After", "40"}, true, "limits the rate of requests. Call again in 41 s.", ""},
		{503, "text/html", "", []string{"Retry-After", "6"}, true, "check that LoopGrid is running, and the route to it. Call again in 7 s.", ""},
		{502, "text/html", "", nil, true, "check that LoopGrid is running", "Call again"},
		{500, "text/html", "", nil, true, "The gateway in front of LoopGrid failed", ""},
		{500, "text/plain", "Internal Server Error", nil, false, "", ""},
		{302, "text/html", "", []string{"Location", "/login"}, true, "set LOOPGRID_BASE_URL to the address that it redirects to", ""},
	} {
		t.Run(fmt.Sprint(c.status, c.typ, c.header), func(t *testing.T) {
			t.Parallel()
			api := refused(t, c.status, c.typ, c.body, c.header...)
			assert.Equal(t, c.front, api.InFront)
			who := "LoopGrid"
			if c.front {
				who = "something in front of LoopGrid"
			}
			assert.True(t, strings.HasPrefix(api.Error(), who+" answered "+strconv.Itoa(c.status)+" to GET /ready"), api.Error())
			assert.Contains(t, api.Remedy(), c.remedy)
			if c.remedy == "" {
				assert.Empty(t, api.Remedy())
			}
			if c.absent != "" {
				assert.NotContains(t, api.Remedy(), c.absent)
			}
		})
	}
}
