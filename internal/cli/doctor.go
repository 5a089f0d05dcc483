package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/loopgridio/loopgrid-mcp/internal/config"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
	"github.com/loopgridio/loopgrid-mcp/internal/text"
)

// What the doctor prints is read by a person whose set-up does not work, and by programs (--json):
//
//   - One line per check, "[STATUS] what: finding". The nine lines of the Python bridge stay word for word and in their order.
//   - What is not well is followed by a line "  → " with what to do.
//   - No key, no user name, no payload: a list of decisions is asked for, and only its status is looked at.
//   - Nothing is recorded, and the service is asked for at most twice the time-out.

// status is how a check ended.
type status string

const (
	statusOK   status = "ok"
	statusInfo status = "info" // a fact, or something that could not be checked
	statusWarn status = "warn" // it works, but probably not as meant
	statusFail status = "fail" // calls will fail
)

// check is one line of the doctor.
type check struct {
	ID     string `json:"id"`
	Status status `json:"status"`
	Text   string `json:"text"`
	Remedy string `json:"remedy"` // what to do; empty unless the status is warn or fail
}

// The ids of checks, for programs: they stay what they are. Two lines can have the same id.
const (
	idSetting       = "setting"
	idReachable     = "reachable"
	idVersion       = "version"
	idProfile       = "evidence_profile"
	idDatabase      = "database"
	idSigner        = "signer"
	idWorkspace     = "workspace"
	idKeyConfigured = "service_key_configured"
	idReviewTool    = "review_tool_enabled"
	idExport        = "payload_export_enabled"
	idSandbox       = "sandbox"
	idProxy         = "proxy"
	idProvider      = "database_provider"
	idLifecycle     = "lifecycle_enforced"
	idKeysAsked     = "keys_required"
	idKey           = "service_key"
	idScopeIngest   = "scope_ingest"
	idScopeRead     = "scope_read"
	idScopeReview   = "scope_review"
	idScopeAdmin    = "scope_admin"
	idChain         = "chain"
	idDir           = "evidence_dir"
	idDirWritable   = "evidence_dir_writable"
	idDirSpace      = "evidence_dir_space"
	idDirMode       = "evidence_dir_mode"
	idWriteLock     = "write_lock"
	idProgram       = "program"
	idPath          = "path"
	idVariables     = "variables"
	idUnread        = "unread_variables"
	idCAFile        = "ca_file"
	idConfirmation  = "review_confirmation"
	idDecisions     = "workspace_decisions"
)

// doctor is one run.
type doctor struct {
	process  Process
	settings config.Settings
	client   *loopgrid.Client // nil where the settings name no service that can be used
	show     func(check)
	checks   []check
}

// runDoctor checks the settings, the service and this machine.
func runDoctor(ctx context.Context, p Process, args []string) int {
	flags := flag.NewFlagSet("doctor", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	asJSON := flags.Bool("json", false, "")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return runHelp(p, []string{"doctor"})
	case err != nil:
		return usage(p, "doctor: "+err.Error())
	case flags.NArg() > 0:
		return usage(p, fmt.Sprintf("doctor: unknown argument %q", flags.Arg(0)))
	}
	s := config.Load()
	d := &doctor{process: p, settings: s, client: newClient(p, s, slog.New(slog.DiscardHandler))}
	if *asJSON {
		return d.printJSON(ctx)
	}
	colors := p.StdoutTerminal && !s.NoColor
	d.show = func(c check) { printCheck(p.Stdout, c, colors) }
	code := d.run(ctx)
	d.summarize(colors)
	return code
}

// summarize repeats the failures, which may have scrolled away, and counts what is not well.
func (d *doctor) summarize(colors bool) {
	out := d.process.Stdout
	warnings := d.count(statusWarn)
	fmt.Fprintln(out)
	for _, c := range d.checks {
		if c.Status == statusFail {
			printCheck(out, c, colors)
		}
	}
	switch failures := d.count(statusFail); {
	case failures > 0:
		fmt.Fprintf(out, "%s, %s\n", plural(failures, "failure"), plural(warnings, "warning"))
	case warnings > 0:
		fmt.Fprintf(out, "No failures, %s\n", plural(warnings, "warning"))
	default:
		fmt.Fprintln(out, "All is well: no failures, no warnings")
	}
}

func (d *doctor) count(s status) (n int) {
	for _, c := range d.checks {
		if c.Status == s {
			n++
		}
	}
	return n
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// run makes all checks and returns the exit code.
func (d *doctor) run(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, 2*d.settings.Timeout)
	defer cancel()
	go func() {
		select {
		case <-d.process.Stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	for _, w := range d.settings.Warnings {
		d.warn(idSetting, w.Message, w.Remedy)
	}
	for _, p := range d.settings.Problems {
		d.fail(idSetting, p.Message, p.Remedy)
	}
	d.checkService(ctx)
	d.checkEvidenceDir()
	d.checkHost()
	switch {
	case len(d.settings.Problems) > 0:
		return exitUsage
	case d.count(statusFail) > 0:
		return exitFailed
	}
	return exitOK
}

func (d *doctor) ok(id, says string) { d.add(check{ID: id, Status: statusOK, Text: says}) }

func (d *doctor) info(id, says string)         { d.add(check{ID: id, Status: statusInfo, Text: says}) }
func (d *doctor) warn(id, says, remedy string) { d.add(check{id, statusWarn, says, remedy}) }
func (d *doctor) fail(id, says, remedy string) { d.add(check{id, statusFail, says, remedy}) }

// add shows a check. Texts hold what a service or a file name says, so they are cleaned here, once for all: nothing in them
// reaches a terminal as more than letters, and the key is in none.
func (d *doctor) add(c check) {
	const longest = 600
	for _, part := range []*string{&c.Text, &c.Remedy} {
		*part = d.settings.ServiceKey.Hide(text.Clean(*part, longest))
	}
	d.checks = append(d.checks, c)
	d.show(c)
}

// printCheck writes a check as people read it.
func printCheck(out io.Writer, c check, colors bool) {
	label := "[" + strings.ToUpper(string(c.Status)) + "]"
	if colors {
		label = colored(label, c.Status)
	}
	fmt.Fprintf(out, "%s %s\n", label, c.Text)
	if c.Remedy != "" {
		fmt.Fprintf(out, "  → %s\n", c.Remedy)
	}
}

// colored puts the colour of a status around a text; a fact has none.
func colored(label string, s status) string {
	const green, yellow, red, reset = "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[0m"
	switch s {
	case statusOK:
		return green + label + reset
	case statusWarn:
		return yellow + label + reset
	case statusFail:
		return red + label + reset
	case statusInfo:
	}
	return label
}

func known(said string) string {
	if said == "" {
		return "unknown"
	}
	return said
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
