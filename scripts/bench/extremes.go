package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/loopgridio/loopgrid-mcp/scripts/wire"
)

// The rows of the extremes: the most memory that a process takes.
const (
	rowCrowdReads  = "many verify_evidence of 3.9 MB"
	rowUnread      = "the same, not read for two seconds"
	rowCrowdWrites = "many record_action of 1.5 MB"
	rowDescriptors = "seven times as many verify_evidence with 256 descriptors"
)

// limitRows returns the lines of the extremes, with the limits that the project has set itself.
func limitRows(a amounts) []row {
	var all []row
	for _, name := range []string{rowCrowdReads, rowUnread, rowCrowdWrites, rowDescriptors} {
		title := strings.NewReplacer("seven times as many", thousands(float64(7*a.crowd)), "many", thousands(float64(a.crowd))).Replace(name)
		all = append(all, row{name: name, title: title, unit: inBytes, limit: &limit{most: 300e6}})
	}
	return append(all, row{name: rowMemoryFew, unit: inBytes}, row{
		name: rowMemoryMany, title: "memory after " + thousands(float64(a.manyCalls)) + " calls", unit: inBytes,
		reference: ours, referenceRow: rowMemoryFew, limit: &limit{ratio: true, most: 1.5},
	})
}

// flood is more calls at once than any host makes.
type flood struct {
	row     string
	service *service
	params  string
	calls   int
	unread  time.Duration // how long nobody reads the answers
	files   int           // descriptors that the process may have; 0 is what it has
	refused bool          // a call may be refused, where each of the others has to succeed
}

// extremes measures the floods, and a long session.
func (b *bench) extremes(ctx context.Context) error {
	large, err := startService(ctx, 1, 3_900_000)
	if err != nil {
		return err
	}
	defer large.close()
	ours := b.ours()
	write := strings.Replace(ours.params[record], smallDetails, `{"text":"`+strings.Repeat("evidence ", 1_500_000/9)+`"}`, 1)
	for _, f := range []flood{
		{row: rowCrowdReads, service: large, params: ours.params[verify], calls: b.crowd},
		{row: rowUnread, service: large, params: ours.params[verify], calls: b.crowd, unread: 2 * time.Second},
		{row: rowCrowdWrites, service: b.service, params: write, calls: b.crowd, refused: true},
		{row: rowDescriptors, service: b.service, params: ours.params[verify], calls: 7 * b.crowd, files: 256},
	} {
		if f.files > 0 && runtime.GOOS == "windows" {
			continue // It has no such limit.
		}
		b.progress(f.row)
		if err := b.flood(ctx, f); err != nil {
			return fmt.Errorf("%s: %w", f.row, err)
		}
	}
	b.progress("a long session")
	s, err := ours.start(ctx, b.service)
	if err != nil {
		return err
	}
	return errors.Join(b.longSessionOf(ours, s, b.manyCalls), s.close())
}

// ours returns the contender that is the program.
func (b *bench) ours() *contender {
	for _, c := range b.contenders {
		if c.name == ours {
			return c
		}
	}
	panic("the program is always measured")
}

// flood makes all calls of a flood at once, and waits for an answer to each.
func (b *bench) flood(ctx context.Context, f flood) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // It ends the process, whatever state it is in.
	cmd := b.ours().command(ctx)
	if f.files > 0 {
		environ := cmd.Env
		cmd = exec.CommandContext(ctx, "sh", "-c", "ulimit -n "+strconv.Itoa(f.files)+`; exec "$0"`, cmd.Path)
		cmd.Env = environ
	}
	// The last one counts. All of it takes its time, and memory is what is measured.
	cmd.Env = append(cmd.Env, "LOOPGRID_BASE_URL="+f.service.url, "LOOPGRID_MCP_TIMEOUT_SECONDS=120")
	p, err := wire.Start(cmd)
	if err == nil {
		err = p.Initialize("2025-11-25")
	}
	if err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() {
		for i := range f.calls {
			if err := p.Send(wire.Request(strconv.Itoa(i+10), "tools/call", f.params)); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	if err := pause(ctx, f.unread); err != nil {
		return err
	}
	for range f.calls {
		line, _, err := p.Answer()
		if err != nil {
			return err
		}
		if !f.refused && strings.Contains(string(line), `"isError":true`) {
			return fmt.Errorf("a call was answered with %.500s", line)
		}
	}
	if err := <-sent; err != nil {
		return err
	}
	if _, peak, ok := memory(p.PID()); ok {
		b.figures.add(f.row, ours, peak)
	}
	_, err = p.Close()
	return err
}
