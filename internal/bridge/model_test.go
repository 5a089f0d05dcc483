package bridge_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/bridge"
	"github.com/loopgridio/loopgrid-mcp/internal/config"
	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/faultproxy"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
)

// TestModel runs random programs of tool calls against a sandbox whose chain breaks when two writes overlap, through a network that fails
// at random, and checks that what the bridge says is true:
//
//   - what it says is recorded is in the ledger exactly once, and nothing else is;
//   - what it says is not recorded is not there;
//   - what it leaves unknown is settled by calling again with the key that it names;
//   - repeated calls record nothing twice, and a key that belongs to something else records nothing;
//   - no two writes overlap, and the chain verifies.
//
// The service may stall for longer than all timeouts and then resume with everything it had read, the process may end and another one
// start, and the service may run on PostgreSQL, where writes run side by side.
//
// LOOPGRID_MODEL_PROGRAMS is how many programs to run, LOOPGRID_MODEL_SEED the seed of the first: a failing program is rerun by its seed.
func TestModel(t *testing.T) {
	t.Parallel()
	programs, first := fromEnvironment(t, "LOOPGRID_MODEL_PROGRAMS", 100), fromEnvironment(t, "LOOPGRID_MODEL_SEED", 1)
	const chunk = 50
	for start := first; start < first+programs; start += chunk {
		end := min(start+chunk, first+programs)
		t.Run(fmt.Sprintf("from seed %d", start), func(t *testing.T) {
			t.Parallel()
			for seed := start; seed < end && !t.Failed(); seed++ {
				synctest.Test(t, func(t *testing.T) { runProgram(t, seed) })
			}
		})
	}
}

func fromEnvironment(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text, set := os.LookupEnv(name)
	if !set {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err)
	return n
}

// piece is one event that a call asks for. Calls that repeat each other share their pieces.
type piece struct {
	name                          string // of the step, as the bridge calls it
	eventType, actorType, actorID string
	// commitment is the payload's; empty for the result of a policy, which only the service knows.
	commitment string
	// decision is the piece that creates the decision this one belongs to; nil for a decision, and if id names it.
	decision *piece
	id       string
	// evaluated is the commitment of what a policy is asked to evaluate.
	evaluated string

	recorded bool // the bridge has said so
	open     bool // the bridge has left it open, and has not settled it since
	missing  bool // the bridge has said that it is not recorded, for a temporary reason
	never    bool // it must not be recorded: its key belongs to something else
}

// modelCall is a call of a tool.
type modelCall struct {
	tool, arguments string // without a key
	key             string // empty until the bridge has named one
	pieces          []*piece
	// proposal is what makes the decision of the call; nil for other calls.
	proposal *proposal
	// decisionID is the decision that the call recorded.
	decisionID string
	// awaitsReview says that the policy asked for a person.
	awaitsReview bool
}

// proposal is a decision without the steps after it.
type proposal struct {
	arguments, agent string
	created          *piece
	evaluated        string // the commitment of what a policy is asked to evaluate
	steps            []*piece
}

// program is one run.
type program struct {
	t       *testing.T
	seed    uint64
	random  *rand.Rand
	sandbox *sandbox.Server
	proxy   *faultproxy.Proxy
	in      io.Writer
	end     func() // ends the session, when the bridge is done
	began   time.Time
	phantom bool // creates are answered with ids that do not exist
	writes  loopgrid.WriteLock
	lockDir string        // empty: the process keeps the lock to itself
	exited  chan struct{} // closed when the process of the session is gone
	timeout string
	calm    bool // no faults any more, and no cancelled calls
	calls   []*modelCall
	serial  int // makes payloads and keys unique

	mu      sync.Mutex
	stopped int // how many stalls of the service are not over
	trace   []string
	waiting map[int]chan *result
	nextID  int
}

const reviewer = "alice@acme.example"

func runProgram(t *testing.T, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // Repeatable on purpose.
	faults := sandbox.Faults{
		ForkChain: true, WriteTime: time.Duration(random.Int64N(int64(faultproxy.ServiceTime))), PhantomIDs: random.IntN(8) == 0,
	}
	postgres := random.IntN(4) == 0
	p := &program{
		t: t, seed: seed, random: random, sandbox: sandbox.New(sandbox.Options{Faults: faults, PostgreSQL: postgres}), began: time.Now(), phantom: faults.PhantomIDs,
		waiting: map[int]chan *result{},
	}
	p.writes = loopgrid.WriteLock(p.pick("on", "auto", "auto"))
	if random.IntN(3) == 0 {
		p.lockDir = filepath.Join(t.TempDir(), "locks")
	}
	p.timeout = p.pick("20", "20", "20", "3", "0.5")
	p.proxy = faultproxy.New(p.sandbox, nil)
	p.misbehave()
	defer func() {
		if t.Failed() {
			t.Logf("run it again: LOOPGRID_MODEL_SEED=%d LOOPGRID_MODEL_PROGRAMS=1 go test ./internal/bridge -run TestModel\n%s",
				seed, strings.Join(p.trace, "\n"))
		}
	}()
	p.open()
	for range 2 + random.IntN(4) {
		p.round()
	}
	p.settle()
	p.end()
	if !postgres {
		require.Zero(t, p.sandbox.Stats().Overlaps, "writes overlapped")
	}
	require.True(t, p.sandbox.Verify("default"), "the chain is broken")
}

// misbehave picks at random how unreliable the network is from now on.
func (p *program) misbehave() {
	plan := faultproxy.Random(p.random.Uint64(), []float64{0, 0.2, 0.5, 0.9}[p.random.IntN(4)])
	p.proxy.SetPlan(func(r *http.Request) faultproxy.Fault {
		f := plan(r)
		p.note("    %s %s: %s", r.Method, r.URL.Path, f)
		return f
	})
}

// behave ends all faults.
func (p *program) behave() {
	p.calm = true
	p.proxy.SetPlan(func(r *http.Request) faultproxy.Fault {
		p.note("    %s %s", r.Method, r.URL.Path)
		return faultproxy.Fault{}
	})
}

// note adds a line to what is shown if the program fails.
func (p *program) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trace = append(p.trace, fmt.Sprintf("%8.3f ", time.Since(p.began).Seconds())+fmt.Sprintf(format, args...))
}

// network is the network of a process, until the process is gone.
type network struct {
	*faultproxy.Proxy

	exited chan struct{}
}

func (n network) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		defer cancel()
		select {
		case <-n.exited:
		case <-ended:
		}
	}()
	select {
	case <-n.exited:
		return nil, errReset
	default:
		return n.Proxy.RoundTrip(r.WithContext(ctx))
	}
}

// open begins a session.
func (p *program) open() {
	p.exited = make(chan struct{})
	settings := config.LoadFrom([]string{
		"LOOPGRID_BASE_URL=http://loopgrid.test", "LOOPGRID_MCP_TIMEOUT_SECONDS=" + p.timeout, "LOOPGRID_MCP_ENABLE_REVIEW_TOOL=true", "LOOPGRID_MCP_REVIEWER_ID=" + reviewer,
	})
	client := loopgrid.New(loopgrid.Options{
		BaseURL: &url.URL{Scheme: "http", Host: "loopgrid.test"}, Workspace: settings.Workspace, Timeout: settings.Timeout,
		Transport: network{p.proxy, p.exited}, WriteLock: p.writes, LockDir: p.lockDir,
	})
	b := bridge.New(bridge.Options{Settings: settings, Version: "test", Client: client, Log: slog.New(slog.DiscardHandler)})
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	served, read := make(chan error, 1), make(chan struct{})
	go func() {
		served <- b.Serve(context.Background(), inR, outW, nil)
		_ = outW.Close()
	}()
	go func() {
		defer close(read)
		p.receive(outR)
	}()
	p.in = inW
	p.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"model","version":"1"}}}`)
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	p.end = func() {
		_ = inW.Close()
		require.NoError(p.t, <-served)
		<-read
	}
}

func (p *program) send(line string) {
	_, err := io.WriteString(p.in, line+"\n")
	require.NoError(p.t, err)
}

// receive hands out the answers to calls until the session ends.
func (p *program) receive(out io.Reader) {
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		var message struct {
			ID     *int
			Error  json.RawMessage
			Result *result
		}
		if err := json.Unmarshal([]byte(line), &message); err != nil || message.Error != nil {
			p.note("unexpected: %s", line)
			p.t.Errorf("unexpected: %s", line)
			return
		}
		if message.ID == nil {
			continue
		}
		p.mu.Lock()
		waiting := p.waiting[*message.ID]
		p.mu.Unlock()
		if waiting != nil {
			waiting <- message.Result
		}
	}
}

// round makes a few calls at once, settles what they leave unknown, and checks the ledger.
func (p *program) round() {
	p.misbehave()
	var calls []*modelCall
	for range 1 + p.random.IntN(4) {
		calls = append(calls, p.draw(calls))
	}
	p.run(calls)
	for range p.random.IntN(3) {
		again := slices.DeleteFunc(slices.Clone(calls), func(c *modelCall) bool { return !c.unsettled() })
		p.run(again)
	}
}

// settle repeats, without faults, the calls that left something unknown or missing; afterwards nothing may be. With a short timeout, a
// call may complete only one of its three steps.
func (p *program) settle() {
	p.behave()
	for p.isStopped() {
		time.Sleep(time.Second)
	}
	time.Sleep(30 * time.Second) // A short timeout leaves no time to wait for an unanswered write.
	for _, c := range p.calls {
		for tries := 0; c.unsettled(); tries++ {
			if tries == 3 {
				p.failf("not settled by calling again with its key: %s", c.arguments)
			}
			p.run([]*modelCall{c})
			time.Sleep(10 * time.Second) // Another process has only now probed the service.
		}
	}
}

// unsettled says whether calling again can settle or complete something.
func (c *modelCall) unsettled() bool {
	return c.key != "" && slices.ContainsFunc(c.pieces, func(one *piece) bool { return one.open || one.missing })
}

// draw returns a new call, or repeats an earlier one.
func (p *program) draw(now []*modelCall) *modelCall {
	var known []*modelCall // decisions that later calls can be about
	var keys []*modelCall  // calls whose key is known and whose evidence is recorded
	for _, c := range p.calls {
		if c.decisionID != "" {
			known = append(known, c)
		}
		if c.key != "" && !slices.ContainsFunc(c.pieces, func(one *piece) bool { return !one.recorded }) {
			keys = append(keys, c)
		}
	}
	switch n := p.random.IntN(20); {
	case n < 2 && len(now) > 0 && now[len(now)-1].key != "":
		return now[len(now)-1] // The same call twice at once.
	case n < 4 && len(keys) > 0:
		return keys[p.random.IntN(len(keys))]
	case n < 6 && len(keys) > 0 && !p.phantom:
		return p.misuse(keys[p.random.IntN(len(keys))], known)
	case n < 11 || len(known) == 0:
		return p.add(p.decision())
	case n < 14:
		return p.add(p.event("record_action", known[p.random.IntN(len(known))]))
	case n < 16:
		return p.add(p.event("record_outcome", known[p.random.IntN(len(known))]))
	default:
		about := known[p.random.IntN(len(known))]
		for _, c := range known {
			if c.awaitsReview && p.random.IntN(2) == 0 {
				about = c
			}
		}
		return p.add(p.review(about))
	}
}

// add keeps a new call and draws its key.
func (p *program) add(c *modelCall) *modelCall {
	p.calls = append(p.calls, c)
	if c.tool != "record_review" && p.random.IntN(2) == 0 {
		c.key = fmt.Sprintf("key %d/é", p.next())
	}
	return c
}

// misuse returns a call with the key of another one, and something else to record. For a decision, it can be the same decision with other
// steps: those that it lacks are recorded, the others are kept.
func (p *program) misuse(of *modelCall, known []*modelCall) *modelCall {
	if of.proposal != nil && p.random.IntN(3) > 0 {
		c := p.withSteps(of.proposal)
		c.key, c.decisionID = of.key, of.decisionID
		p.calls = append(p.calls, c)
		return c
	}
	c := p.decision()
	if p.random.IntN(2) == 0 && len(known) > 0 {
		c = p.event("record_action", known[p.random.IntN(len(known))])
	}
	c.key = of.key
	for _, one := range c.pieces {
		one.never = true
	}
	p.calls = append(p.calls, c)
	return c
}

func (p *program) next() int {
	p.serial++
	return p.serial
}

// pick returns one of the choices.
func (p *program) pick(choices ...string) string { return choices[p.random.IntN(len(choices))] }

func quoted(text string) string { return string(evidence.Text(text)) }

func (p *program) commitment(payload string) string {
	commitment, err := evidence.Commitment([]byte(payload))
	require.NoError(p.t, err)
	return commitment
}

// decision is a call of record_decision.
func (p *program) decision() *modelCall {
	n := p.next()
	agent := p.pick("mcp-agent", "agent é")
	action := p.pick(`{"amount":100}`, `{"amount":720.0,"currency":"USD"}`, `{"amount":720}`, `{"amount":5000}`, `{"amount":null}`)
	authority := p.pick(`{}`, `{"limit_usd":1500}`, `{"limit_usd":90.50}`)
	input := fmt.Sprintf(`{"n":%d,"big":9007199254740993,"text":"<\u00e9>"}`, n)
	arguments := fmt.Sprintf(`"decision_type":"t & u","proposed_action":%s,"authority":%s,"input_data":%s,"agent_id":%s`, action, authority, input, quoted(agent))
	if mode := p.pick("", "", "full", "redacted", "proof_only"); mode != "" {
		arguments += `,"privacy_mode":` + quoted(mode)
	}
	return p.withSteps(&proposal{
		arguments: arguments, agent: agent, evaluated: p.commitment(`{"proposed_action":` + action + `,"authority":` + authority + `,"context":{}}`),
		created: &piece{name: "decision", eventType: "decision_created", actorType: "agent", actorID: agent, commitment: p.commitment(
			`{"spec_version":"loopgrid/3.0-draft","decision_type":"t & u","service_name":"mcp-agent","agent":{"id":` + quoted(agent) + `},"authority":` + authority +
				`,"model":{},"context":{},"input":` + input + `,"proposed_action":` + action + `,"metadata":{"source":"loopgrid-mcp"}}`)},
	})
}

// withSteps is a call of record_decision for a proposal, with steps drawn anew.
func (p *program) withSteps(of *proposal) *modelCall {
	c := &modelCall{tool: "record_decision", proposal: of, arguments: of.arguments, pieces: []*piece{of.created}}
	if p.random.IntN(2) == 0 {
		output := fmt.Sprintf(`{"n":%d,"score":0.10}`, p.next())
		c.arguments += `,"model_output":` + output
		c.pieces = append(c.pieces, of.step(piece{
			name: "model_event", eventType: "model_completed", actorType: "agent", actorID: of.agent, commitment: p.commitment(output), decision: of.created,
		}))
	}
	if policy := p.pick("", "refund-policy", "refund-policy", "refund-policy", "no-such-policy"); policy != "" {
		c.arguments += `,"policy_id":` + quoted(policy)
		c.pieces = append(c.pieces, of.step(piece{
			name: "policy_event", eventType: "policy_evaluated", actorType: "policy", actorID: policy, decision: of.created, evaluated: of.evaluated,
		}))
	}
	return c
}

// step returns the piece of a step: the same for the same step.
func (of *proposal) step(one piece) *piece {
	for _, known := range of.steps {
		if known.name == one.name && known.actorID == one.actorID && known.commitment == one.commitment {
			return known
		}
	}
	of.steps = append(of.steps, &one)
	return &one
}

// event is a call of record_action or record_outcome about a decision, occasionally one that does not exist.
func (p *program) event(tool string, about *modelCall) *modelCall {
	n := p.next()
	id, decision := about.decisionID, about.pieces[0]
	if p.random.IntN(10) == 0 {
		id, decision = "dec_000000000000000000000000", nil
	}
	actor := p.pick("", "actor é")
	arguments := fmt.Sprintf(`"decision_id":%s,"details":{"n":%d,"amount":7.20e2}`, quoted(id), n)
	if actor != "" {
		arguments += `,"actor_id":` + quoted(actor)
	}
	one := &piece{decision: decision, id: id, actorID: actor}
	payload := fmt.Sprintf(`{"n":%d,"amount":7.20e2,`, n)
	if tool == "record_action" {
		arguments += `,"tool":"stripe","external_reference":"re_1"`
		payload += `"tool":"stripe","external_reference":"re_1"}`
		one.eventType, one.actorType = "tool_executed", "tool"
	} else {
		arguments += `,"status":"done","verified_against":"bank"`
		payload += `"status":"done","verified_against":"bank"}`
		one.eventType, one.actorType = "outcome_observed", "integration"
	}
	if actor == "" {
		one.actorID = map[string]string{"record_action": "external-system", "record_outcome": "loopgrid-mcp"}[tool]
	}
	one.commitment = p.commitment(payload)
	return &modelCall{tool: tool, arguments: arguments, pieces: []*piece{one}}
}

// review is a call of record_review. It has no key: the bridge settles it itself as far as it can.
func (p *program) review(about *modelCall) *modelCall {
	reason := fmt.Sprintf("reason %d", p.next())
	action, eventType, approved := "approve", "human_approved", "true"
	if p.random.IntN(3) == 0 {
		action, eventType, approved = "reject", "human_rejected", "false"
	}
	one := &piece{
		decision: about.pieces[0], id: about.decisionID, eventType: eventType, actorType: "human", actorID: reviewer,
		commitment: p.commitment(`{"approved":` + approved + `,"reviewer":` + quoted(reviewer) + `,"reason":` + quoted(reason) + `}`),
	}
	return &modelCall{
		tool: "record_review", pieces: []*piece{one},
		arguments: fmt.Sprintf(`"decision_id":%s,"action":%s,"reason":%s`, quoted(about.decisionID), quoted(action), quoted(reason)),
	}
}

// run makes calls at once, waits for their answers and for the service to finish, and compares the answers with the ledger. While the
// service is stalled, more calls follow.
func (p *program) run(calls []*modelCall) {
	stops := !p.calm && p.random.IntN(8) == 0
	said := p.make(calls, stops)
	for stops && p.random.IntN(4) > 0 {
		more := []*modelCall{p.draw(calls)}
		if len(calls) > 0 && p.random.IntN(3) == 0 {
			more = append(more, calls[p.random.IntN(len(calls))]) // perhaps one without a key: another piece of evidence
		}
		more = slices.DeleteFunc(more, func(c *modelCall) bool { return c.key == "" && slices.Contains(calls, c) })
		said = append(said, p.make(more, false)...)
		calls = append(slices.Clone(calls), more...)
	}
	p.proxy.Wait()
	p.judge(calls, said)
}

// make makes calls at once and waits for their answers. It may stall the service meanwhile.
func (p *program) make(calls []*modelCall, stops bool) []*result {
	var answers []chan *result
	var cancelled []bool
	for _, c := range calls {
		p.nextID++
		id, answer := p.nextID, make(chan *result, 1)
		p.mu.Lock()
		p.waiting[id] = answer
		p.mu.Unlock()
		answers = append(answers, answer)
		arguments := c.arguments
		if c.key != "" {
			arguments += `,"idempotency_key":` + quoted(c.key)
		}
		meta := p.pick("", "", fmt.Sprintf(`,"_meta":{"progressToken":%d}`, id))
		name := p.pick("loopgrid.", "loopgrid_") + c.tool
		p.note("call %d: %s {%s}", id, name, arguments)
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{%s}%s}}`, id, name, arguments, meta))
		cancel := c.key != "" && !p.calm && p.random.IntN(15) == 0
		cancelled = append(cancelled, cancel)
		if cancel {
			time.Sleep(time.Duration(p.random.Int64N(int64(3 * time.Second))))
			p.note("cancel %d", id)
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))
		}
	}
	said := make([]*result, len(calls))
	if stops {
		time.Sleep(time.Duration(p.random.Int64N(int64(faultproxy.ServiceTime))))
		p.stall()
	}
	if !p.calm && p.random.IntN(8) == 0 {
		time.Sleep(time.Duration(p.random.Int64N(int64(15 * time.Second))))
		p.restart()
		for i := range cancelled {
			cancelled[i] = true
		}
	}
	for i := range calls {
		patience := 5 * time.Minute // Longer than any call may take.
		select {
		case said[i] = <-answers[i]:
		case <-time.After(patience):
			if !cancelled[i] { // by the caller, or by the end of the session
				p.failf("no answer within %v: %s", patience, calls[i].arguments)
			}
		}
	}
	return said
}

// restart ends the session with calls in flight, and begins another one once none of them can still be running. In between, a real bridge
// would have learned from the lock file that it must wait.
func (p *program) restart() {
	p.note("the input ends")
	began := time.Now()
	p.end()
	if took := time.Since(began); took > 10*time.Second {
		p.failf("the session ended after %v", took)
	}
	p.note("the session has ended")
	if p.lockDir != "" {
		close(p.exited) // What it has sent continues in the service; the next process finds the note about it.
		if p.random.IntN(2) == 0 {
			p.stall()
		}
	}
	for p.lockDir == "" && p.isStopped() {
		time.Sleep(time.Second) // Nothing tells the next process about the write that is stuck there.
	}
	time.Sleep(2 * time.Minute) // until no goroutine of it holds the lock, which would stop the clock
	p.open()
}

// stall stops the service, and resumes it after a time that may or may not be longer than all timeouts.
func (p *program) stall() {
	p.note("the service stops")
	p.sandbox.Suspend()
	p.mu.Lock()
	p.stopped++
	p.mu.Unlock()
	time.AfterFunc(time.Duration(p.random.Int64N(int64(147*time.Second)))+3*time.Second, func() {
		p.note("the service goes on")
		p.mu.Lock()
		p.stopped--
		p.mu.Unlock()
		p.sandbox.Resume()
	})
}

func (p *program) isStopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopped > 0
}

// judge notes what the answers say and compares it with the ledger.
func (p *program) judge(calls []*modelCall, said []*result) {
	absent := map[*piece]bool{} // reported only as not recorded
	told := map[*piece]bool{}
	for i, c := range calls {
		states := p.statesOf(c, said[i])
		for j, one := range c.pieces {
			wasOpen := one.open || told[one] && !absent[one]
			one.missing = states[j] == "not recorded" && !one.recorded
			switch states[j] {
			case "recorded":
				one.recorded, one.open, absent[one] = true, false, false
			case "refused": // by the service, which knows the key
				one.open, absent[one] = false, !one.recorded
			case "not recorded":
				// By this call: it says nothing about an earlier one whose outcome is unknown.
				one.open, absent[one] = wasOpen && !one.recorded, !wasOpen
			default:
				one.open, absent[one] = !one.recorded, false
			}
			told[one] = true
		}
	}
	for one, is := range absent {
		if is && !one.recorded && p.count(one) != 0 {
			p.failf("said to be not recorded, and is: %+v", *one)
		}
	}
	p.compare()
}

// compare checks what was said so far against the ledger: each event was asked for, and none is there twice.
func (p *program) compare() {
	explained := 0
	seen := map[*piece]bool{}
	for _, c := range p.calls {
		for _, one := range c.pieces {
			if seen[one] {
				continue
			}
			seen[one] = true
			n := p.count(one)
			explained += n
			switch {
			case n > 1:
				p.failf("recorded %d times: %+v", n, *one)
			case n == 0 && one.recorded:
				p.failf("said to be recorded, and is not: %+v", *one)
			case n == 1 && one.never:
				p.failf("recorded under a key of something else: %+v", *one)
			case n == 1 && !one.recorded && !one.open:
				p.failf("recorded, and nobody knows: %+v", *one)
			}
		}
	}
	if events := p.sandbox.Events("default"); len(events) != explained {
		p.failf("%d events in the ledger, %d of them asked for", len(events), explained)
	}
}

// count returns how often the event of a piece is in the ledger.
func (p *program) count(one *piece) int {
	id := one.id
	events := p.sandbox.Events("default")
	if one.decision != nil && id == "" {
		for _, e := range events {
			if one.decision.is(&e) {
				id = e.DecisionID
			}
		}
		if id == "" {
			return 0
		}
	}
	n := 0
	for _, e := range events {
		if one.is(&e) && (id == "" || e.DecisionID == id) {
			n++
			if shown := evidence.GetText(e.Payload, "input_commitment"); one.evaluated != "" && shown != "" && shown != one.evaluated {
				p.failf("the policy was asked something else: %s", e.Payload)
			}
		}
	}
	return n
}

func (one *piece) is(e *sandbox.Event) bool {
	return e.EventType == one.eventType && e.ActorType == one.actorType && e.ActorID == one.actorID &&
		(one.commitment == "" || e.PayloadCommitment == one.commitment)
}

// statesOf reads what an answer says of each piece of its call: recorded, not recorded, refused (not recorded, and the service says so),
// or open. It learns the key and the id that the answer names.
func (p *program) statesOf(c *modelCall, answer *result) []string {
	all := func(state string) []string {
		states := make([]string, len(c.pieces))
		for i := range states {
			states[i] = state
		}
		return states
	}
	if answer == nil {
		return all("open")
	}
	text := answer.text()
	p.note("answer: %.600s", text)
	if !answer.IsError {
		p.learn(c, text)
		return all("recorded")
	}
	if key := keyIn(text); key != "" {
		if c.key != "" && c.key != key {
			p.failf("another key than was given: %s", text)
		}
		c.key = key
	}
	switch {
	case strings.HasPrefix(text, "Outcome unknown: "):
		if c.tool != "record_review" && keyIn(text) == "" {
			p.failf("left open without a key: %s", text)
		}
		return all("open")
	case strings.HasPrefix(text, "Not recorded: ") && isRefusal(text):
		return all("refused")
	case strings.HasPrefix(text, "Not recorded: "):
		return all("not recorded")
	case strings.HasPrefix(text, "The decision is recorded, but not all of its steps. "):
		return p.unfinished(c, text)
	}
	p.failf("an answer of no known form: %s", text)
	return nil
}

// isRefusal says whether an error means that the service has checked the call and its key and does not record it.
func isRefusal(text string) bool {
	return regexp.MustCompile(`answered (404|409|422)|was already used for something else|Another review is recorded`).MatchString(text)
}

func keyIn(text string) string {
	match := regexp.MustCompile(`idempotency_key ("(?:[^"\\]|\\.)*")`).FindStringSubmatch(text)
	if match == nil {
		return ""
	}
	key, err := strconv.Unquote(match[1])
	if err != nil {
		return ""
	}
	return key
}

// learn reads the result of a call that succeeded.
func (p *program) learn(c *modelCall, text string) {
	var answer struct {
		DecisionID         string `json:"decision_id"`
		IdempotencyKey     string `json:"idempotency_key"`
		CommitmentVerified *bool  `json:"commitment_verified"`
		Next               string `json:"next"`
	}
	require.NoError(p.t, json.Unmarshal([]byte(text), &answer), text)
	if c.tool != "record_review" {
		if c.key != "" && c.key != answer.IdempotencyKey {
			p.failf("another key than was given: %s", text)
		}
		c.key = answer.IdempotencyKey
		if answer.CommitmentVerified == nil || !*answer.CommitmentVerified {
			p.failf("recorded, and not what was sent: %s", text)
		}
	}
	if c.tool == "record_decision" {
		p.decided(c, answer.DecisionID)
		c.awaitsReview = strings.HasPrefix(answer.Next, "human_approval_required")
	}
}

// decided notes the id of the decision that a call recorded. It stays the same.
func (p *program) decided(c *modelCall, id string) {
	if id == "" || c.decisionID != "" && c.decisionID != id {
		p.failf("the decision %q became %q", c.decisionID, id)
	}
	c.decisionID = id
}

// unfinished reads the lines of an error of record_decision, one a step.
func (p *program) unfinished(c *modelCall, text string) []string {
	id := regexp.MustCompile(`decision_id: (\S+)\.`).FindStringSubmatch(text)
	if id == nil {
		p.failf("no decision_id: %s", text)
	}
	p.decided(c, id[1])
	states := make([]string, len(c.pieces))
	for i, one := range c.pieces {
		line := regexp.MustCompile(`(?m)^- ` + one.name + `: (.*)$`).FindStringSubmatch(text)
		if line == nil {
			p.failf("nothing is said of %s: %s", one.name, text)
		}
		switch said := line[1]; {
		case said == "recorded now" || said == "already recorded":
			states[i] = "recorded"
		case strings.HasPrefix(said, "outcome unknown"):
			states[i] = "open"
		case strings.HasPrefix(said, "not recorded") && isRefusal(said), strings.HasPrefix(said, "a different one is recorded"):
			states[i] = "refused"
		case strings.HasPrefix(said, "not recorded"), strings.HasPrefix(said, "not sent"):
			states[i] = "not recorded"
		default:
			p.failf("a step in no known state: %s", text)
		}
	}
	if slices.Contains(states, "open") && keyIn(text) == "" {
		p.failf("left open without a key: %s", text)
	}
	return states
}

func (p *program) failf(format string, args ...any) {
	p.t.Helper()
	p.note("FAILED: "+format, args...)
	p.t.Fatalf("seed %d: "+format, append([]any{p.seed}, args...)...)
}
