package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/loopgridio/loopgrid-mcp/internal/address"
	"github.com/loopgridio/loopgrid-mcp/internal/config"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

// checkService asks the service who it is, what the key may do and whether the chain is whole. It ends with the first answer
// that makes the next question pointless.
func (d *doctor) checkService(ctx context.Context) {
	health, reached := d.checkHealth(ctx)
	ready := reached && d.checkReady(ctx)
	switch {
	case reached && d.settings.Workspace != "":
		d.ok(idWorkspace, "MCP workspace: "+d.settings.Workspace)
	case d.settings.Workspace != "":
		d.info(idWorkspace, "MCP workspace: "+d.settings.Workspace)
	}
	d.info(idKeyConfigured, "service key configured: "+yesNo(d.settings.ServiceKey.IsSet()))
	d.info(idReviewTool, "human review tool enabled: "+yesNo(d.settings.EnableReviewTool))
	d.info(idExport, "raw payload export enabled: "+yesNo(d.settings.AllowPayloadExport))
	d.checkConfirmation()
	d.checkWay()
	if !reached {
		return
	}
	if health.Sandbox {
		d.warn(idSandbox, "this is a sandbox, not LoopGrid: what it records proves nothing", "Set LOOPGRID_BASE_URL to a LoopGrid service to keep evidence.")
	}
	if !ready {
		d.info(idKey, "key, scopes and chain: not checked, LoopGrid is not ready")
		return
	}
	d.checkSystem(ctx)
	newest, unreadable := d.checkKey(ctx)
	if unreadable == "" {
		d.checkDecisions(newest)
	}
	d.checkChain(ctx, newest, unreadable)
}

// checkConfirmation warns of reviews that no person may have seen.
func (d *doctor) checkConfirmation() {
	if d.settings.EnableReviewTool && d.settings.ReviewConfirmation == config.AutoConfirmation {
		d.warn(idConfirmation, "human review confirmation: auto, so where the host shows no form, what the model says is recorded as the reviewer's word",
			"Set LOOPGRID_MCP_REVIEW_CONFIRMATION to required (by a form, or nothing is recorded), or to host if you rely on the host's own approval of calls.")
	}
}

// checkWay tells what lies between this program and LoopGrid.
func (d *doctor) checkWay() {
	if n := bytes.Count(d.settings.CACertificates, []byte("-----BEGIN CERTIFICATE-----")); n > 0 {
		d.info(idCAFile, fmt.Sprintf("certificate authorities: the system's, and %s from LOOPGRID_CA_FILE", plural(n, "certificate")))
	}
	if d.client == nil {
		return
	}
	network := d.settings.Network
	if proxy := d.client.Proxy(); proxy != "" {
		d.info(idProxy, "proxy in between: "+proxy+" (from HTTP_PROXY or HTTPS_PROXY)")
	} else if slices.Contains(network, "ALL_PROXY") && !slices.Contains(network, "HTTP_PROXY") && !slices.Contains(network, "HTTPS_PROXY") &&
		!address.IsLoopback(d.settings.BaseURL.Hostname()) {
		d.warn(idProxy, "proxy in between: none, ALL_PROXY is set, but this program does not read it",
			fmt.Sprintf("If LoopGrid is behind that proxy, set %s_PROXY to it.", strings.ToUpper(d.settings.BaseURL.Scheme)))
	}
}

// checkHealth finds out whether LoopGrid answers at the address.
func (d *doctor) checkHealth(ctx context.Context) (health loopgrid.Health, reached bool) {
	if d.client == nil {
		d.info(idReachable, "LoopGrid: not checked, fix the settings above first")
		return health, false
	}
	health, err := d.client.Health(ctx)
	switch {
	case err != nil:
		text, remedy := d.diagnose(ctx, err)
		d.fail(idReachable, text, remedy)
		return health, false
	case health.Service != "loopgrid":
		d.fail(idReachable, fmt.Sprintf("another service answers at %s: it does not call itself loopgrid", d.settings.BaseURL), d.elsewhereOr(ctx, wrongAddress))
		return health, false
	}
	d.ok(idReachable, fmt.Sprintf("LoopGrid reachable: %s", d.settings.BaseURL))
	d.ok(idVersion, "version: "+known(health.Version))
	d.ok(idProfile, "evidence profile: "+known(health.EvidenceProfile))
	return health, true
}

// checkDecisions says whether the workspace holds anything: LoopGrid makes a workspace of any name, so a misspelled one looks like a
// new one.
func (d *doctor) checkDecisions(newest string) {
	if newest != "" {
		d.ok(idDecisions, "workspace "+d.settings.Workspace+" holds decisions: yes")
		return
	}
	d.info(idDecisions, "workspace "+d.settings.Workspace+" holds decisions: none yet; if it should, check the spelling of LOOPGRID_WORKSPACE")
}

// checkReady finds out whether LoopGrid can record.
func (d *doctor) checkReady(ctx context.Context) bool {
	ready, err := d.client.Ready(ctx)
	if err != nil {
		d.fail(idDatabase, err.Error(), "LoopGrid is running but cannot record: its operator should look at its database and log.")
		return false
	}
	d.ok(idDatabase, "database: "+known(ready.Database))
	d.ok(idSigner, "signer: "+known(ready.Signer))
	return true
}

// checkSystem tells how the service is set up, as far as it says so.
func (d *doctor) checkSystem(ctx context.Context) {
	info, err := d.client.SystemInfo(ctx)
	if err != nil {
		d.info(idProvider, "setup of LoopGrid: not checked, "+plain(err))
		if d.settings.WriteLock == config.WriteLockOff {
			d.checkUnlocked("")
		}
		return
	}
	provider := "database provider: " + known(info.Database)
	switch info.Database {
	case "sqlite":
		provider += " (writes must not overlap: programs of one user on this machine take turns, other users, containers and machines do not)"
	case "postgresql":
		provider += " (it orders writes itself)"
	}
	d.info(idProvider, provider)
	if d.settings.WriteLock == config.WriteLockOff {
		d.checkUnlocked(info.Database)
	}
	if info.NoLifecycle {
		d.warn(idLifecycle, "lifecycle rules enforced: no, LoopGrid records actions that were blocked or not approved",
			"Ask LoopGrid's operator to switch lifecycle enforcement on.")
	} else {
		d.info(idLifecycle, "lifecycle rules enforced: yes")
	}
	d.info(idKeysAsked, "LoopGrid asks for a key: "+yesNo(!info.Open))
}

// checkUnlocked judges a write lock that is off: SQLite does not order writes itself, and overlapping ones break the chain for good.
func (d *doctor) checkUnlocked(database string) {
	const remedy = "Set LOOPGRID_MCP_WRITE_LOCK to auto; off is right only where LoopGrid runs on PostgreSQL."
	switch database {
	case "postgresql":
		d.ok(idWriteLock, "write lock: off, and LoopGrid runs on PostgreSQL, which orders writes itself")
	case "sqlite":
		d.fail(idWriteLock, "write lock: off, but LoopGrid runs on SQLite, where overlapping writes break the chain", remedy)
	default:
		d.warn(idWriteLock, "write lock: off, and LoopGrid does not say that it runs on PostgreSQL; on SQLite overlapping writes break the chain", remedy)
	}
}

// probe is one scope, and what was found out about it.
type probe struct {
	id, scope string
	needed    bool
	access    loopgrid.Access
	err       error
}

// checkKey finds out what the key may do. It returns the newest decision, "" where there is none, and why the chain cannot be
// checked, "" where it can.
func (d *doctor) checkKey(ctx context.Context) (newest, unreadable string) {
	ingest := probe{id: idScopeIngest, scope: "ingest", needed: true}
	read := probe{id: idScopeRead, scope: "read", needed: true}
	review := probe{id: idScopeReview, scope: "review", needed: d.settings.EnableReviewTool}
	read.access, newest, read.err = d.client.ProbeRead(ctx)
	ingest.access, ingest.err = d.client.ProbeIngest(ctx)
	review.access, review.err = d.client.ProbeReview(ctx)
	probes := []probe{ingest, read, review}
	if unusable := d.checkAccess(probes); unusable != "" {
		return "", unusable
	}
	switch {
	case read.err != nil:
		unreadable = plain(read.err)
	case read.access == loopgrid.AccessDenied:
		unreadable = readingRefused
	}
	if !d.settings.ServiceKey.IsSet() {
		d.ok(idKey, "service key: none needed, LoopGrid asks for none")
		for _, p := range probes {
			if p.err != nil && p.needed {
				d.unanswered(p)
			}
		}
		return newest, unreadable
	}
	d.ok(idKey, "service key: accepted")
	admin := probe{id: idScopeAdmin, scope: "admin"}
	if review.access == loopgrid.AccessGranted { // admin includes it
		admin.access, admin.err = d.client.ProbeAdmin(ctx)
	} else if review.err == nil {
		admin.access = loopgrid.AccessDenied
	}
	for _, p := range probes {
		d.checkScope(p, admin.access == loopgrid.AccessGranted)
	}
	d.checkAdmin(admin)
	return newest, unreadable
}

const readingRefused = "reading is refused"

// checkAccess says what is wrong with the key as a whole. It returns why nothing else can be found out, "" where it can.
func (d *doctor) checkAccess(probes []probe) (unusable string) {
	count := func(a loopgrid.Access) (n int) {
		for _, p := range probes {
			if p.access == a {
				n++
			}
		}
		return n
	}
	remedy := join(d.useGoodKey(), d.settings.KeyNote())
	switch granted, denied := count(loopgrid.AccessGranted), count(loopgrid.AccessDenied); {
	case count(loopgrid.AccessElsewhere) > 0:
		d.fail(idKey, "service key: it belongs to another workspace than "+d.settings.Workspace,
			"Use a key of this workspace, or set LOOPGRID_WORKSPACE to the workspace of the key.")
		return readingRefused
	case denied > 0 && !d.settings.ServiceKey.IsSet():
		d.fail(idKey, "service key: none is set, and LoopGrid asks for one", remedy)
		return readingRefused
	case denied > 0 && granted == 0:
		d.fail(idKey, "service key: refused; it is wrong, revoked or expired, or has none of the scopes it needs (LoopGrid does not say which)", remedy)
		return readingRefused
	case granted == 0:
		err := probes[1].err // of reading
		d.fail(idKey, "service key: not checked, "+plain(err), probeRemedy(err))
		return plain(err)
	}
	return ""
}

// goodKey describes the key that the set-up needs.
func (d *doctor) goodKey() string {
	scopes := "ingest and read"
	if d.settings.EnableReviewTool {
		scopes = "ingest, read and review"
	}
	return fmt.Sprintf("a key of workspace %s with the scopes %s", d.settings.Workspace, scopes)
}

// useGoodKey says how the operator gives this program a good key.
func (d *doctor) useGoodKey() string {
	use := d.settings.UseKey(d.goodKey())
	return strings.ToUpper(use[:1]) + use[1:] + "; LoopGrid's operator can make one."
}

// checkScope compares a scope of an accepted key with what the set-up needs.
func (d *doctor) checkScope(p probe, admin bool) {
	text := "scope " + p.scope + ": "
	switch {
	case p.err != nil && p.needed:
		d.unanswered(p)
	case p.err != nil:
		d.info(p.id, text+"not checked, "+plain(p.err))
	case p.access == loopgrid.AccessGranted && (p.needed || admin):
		d.ok(p.id, text+"yes")
	case p.access == loopgrid.AccessGranted:
		d.warn(p.id, text+"yes, but the review tool is off: the key may do more than this program needs",
			"Use a key with the scopes ingest and read only.")
	case p.needed:
		d.fail(p.id, text+"missing, so "+missing(p.scope), d.useGoodKey())
	default:
		d.ok(p.id, text+"no, and not needed")
	}
}

// unanswered tells of a scope that the set-up needs and that could not be found out. A limit of the rate says nothing of it.
func (d *doctor) unanswered(p probe) {
	says := "scope " + p.scope + ": not checked, " + plain(p.err)
	if api, ok := errors.AsType[*loopgrid.APIError](p.err); ok {
		switch {
		case api.Status == http.StatusTooManyRequests:
			d.warn(p.id, says, probeRemedy(p.err))
			return
		// Reviews are recorded by another route than the one that is asked here.
		case p.scope == "review" && slices.Contains([]int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented}, api.Status):
			d.info(p.id, says+"; another version of LoopGrid may not have that route")
			return
		}
	}
	d.fail(p.id, says, probeRemedy(p.err))
}

// missing says what does not work without a scope.
func missing(scope string) string {
	switch scope {
	case "ingest":
		return "nothing can be recorded"
	case "read":
		return "evidence can neither be downloaded nor verified"
	default:
		return "no review can be recorded although the review tool is on"
	}
}

func (d *doctor) checkAdmin(p probe) {
	switch {
	case p.access == loopgrid.AccessGranted:
		d.warn(p.id, "scope admin: yes, the key can make keys, change policies and erase payloads",
			"Use "+d.goodKey()+" only.")
	case p.access == loopgrid.AccessDenied:
		d.ok(p.id, "scope admin: no")
	case p.err != nil:
		d.info(p.id, "scope admin: not checked, "+plain(p.err))
	default:
		d.info(p.id, "scope admin: not checked")
	}
}

// checkChain has LoopGrid verify the chain of the workspace through its newest decision.
func (d *doctor) checkChain(ctx context.Context, newest, unreadable string) {
	switch {
	case unreadable != "":
		d.info(idChain, "chain: not checked, "+unreadable)
		return
	case newest == "":
		d.info(idChain, "chain: not checked, the workspace has no decision yet")
		return
	}
	began := time.Now()
	v, err := d.client.Verify(ctx, newest)
	took := time.Since(began)
	var api *loopgrid.APIError
	var transport *loopgrid.TransportError
	const slow = "Raise LOOPGRID_MCP_TIMEOUT_SECONDS: get_evidence and verify_evidence take this long, and longer as the ledger grows."
	switch {
	case errors.As(err, &api) && api.Status == http.StatusNotFound:
		d.info(idChain, "chain: not checked, the newest decision is gone again")
	case errors.As(err, &api) && api.Status == http.StatusInternalServerError:
		d.fail(idChain, "chain: LoopGrid failed to check it (500)", "The ledger may be damaged: LoopGrid's operator should look at its log.")
	case err != nil && (ctx.Err() != nil || errors.As(err, &transport) && transport.TimedOut()):
		d.warn(idChain, "chain: not checked, LoopGrid had no answer after "+seconds(took), slow)
	case err != nil:
		d.warn(idChain, "chain: not checked, "+plain(err), "Run doctor again, and see LoopGrid's log.")
	case !v.Valid:
		first, all := v.FirstFailure()
		where := ""
		if all > 0 {
			where = fmt.Sprintf(": first at event %s: %s", known(first.EventID), known(strings.Join(first.Reasons, ", ")))
		}
		if all > 1 {
			where += fmt.Sprintf(" (%d events in all)", all)
		}
		d.fail(idChain, fmt.Sprintf("chain: NOT VALID%s (checked in %s)", where, seconds(took)),
			"Evidence of this workspace was altered, lost or forked (on SQLite, two writes at once do that), and this cannot be repaired: "+
				"leave LoopGrid's database as it is, tell its operator, and continue in a new workspace.")
	default:
		text := fmt.Sprintf("chain: valid, %s events checked in %s", known(v.Events()), seconds(took))
		if took > d.settings.Timeout/2 {
			d.warn(idChain, text+fmt.Sprintf(" of the %s that a request may take", seconds(d.settings.Timeout)), slow)
			return
		}
		d.ok(idChain, text)
	}
}

// seconds shows a duration as people read it.
func seconds(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// plain is the text of an error of the client, without the words of an answer: they could hold private data.
func plain(err error) string {
	var api *loopgrid.APIError
	var transport *loopgrid.TransportError
	switch {
	case errors.As(err, &api):
		return fmt.Sprintf("LoopGrid answered %d to %s %s", api.Status, api.Method, api.Route)
	case errors.As(err, &transport) && !transport.Sent() && errors.Is(err, context.DeadlineExceeded):
		return "the time ran out"
	}
	return err.Error()
}

// probeRemedy says what to do about a probe that was not answered as LoopGrid answers.
func probeRemedy(err error) string {
	var api *loopgrid.APIError
	switch {
	case errors.As(err, &api) && api.Status == http.StatusTooManyRequests:
		return fmt.Sprintf("LoopGrid limits the number of requests: run doctor again in %d s.", int(api.RetryAfter.Seconds())+1)
	case errors.As(err, &api) && api.Status < http.StatusInternalServerError:
		return "LoopGrid does not answer like this: a proxy, gateway or firewall in between may block its API. Ask whoever runs it to let " + api.Route + " through."
	case errors.As(err, &api):
		return "LoopGrid or a gateway in front of it failed: its operator should look at the log."
	}
	return "LoopGrid answered earlier requests but not this one: it may be overloaded, or LOOPGRID_MCP_TIMEOUT_SECONDS is too short. See its log."
}

func join(sentences ...string) string {
	return strings.TrimSpace(strings.Join(sentences, " "))
}
