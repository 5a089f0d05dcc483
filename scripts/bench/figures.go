package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// The rows of the result.
const (
	rowInitialize   = "cold start to initialize"
	rowListTools    = "cold start to tools/list"
	rowRecord       = "record_action, one at a time, p50"
	rowRecordP99    = "record_action, one at a time, p99"
	rowRecordCPU    = "record_action, processor time per call"
	rowRecord16     = "record_action, 16 in flight"
	rowRecord64     = "record_action, 64 in flight"
	rowVerify       = "verify_evidence, one at a time, p50"
	rowVerifyCPU    = "verify_evidence, processor time per call"
	rowVerify16     = "verify_evidence, 16 in flight"
	rowVerify64     = "verify_evidence, 64 in flight"
	rowLarge        = "record_action with 1 MB, p50"
	rowDownload     = "get_evidence"
	rowDownloadPeak = "get_evidence, memory on top"
	rowIdle         = "memory, idle"
	rowMemoryFew    = "memory after 1,000 calls"
	rowMemoryMany   = "memory after many calls"
	rowExit         = "exit after the end of input"
	rowBinary       = "stripped binary"

	rowWrites1  = "writes to SQLite, 1 bridge"
	rowWrites4  = "writes to SQLite, 4 bridges"
	rowWrites8  = "writes to SQLite, 8 bridges"
	rowPostgres = "writes to PostgreSQL 30 ms away, 8 bridges"
)

// unit says how a figure is printed.
type unit string

const (
	inMilliseconds unit = "ms"
	inMicroseconds unit = "µs"
	perSecond      unit = "calls/s"
	inBytes        unit = "MB"
)

func (u unit) print(v float64) string {
	switch {
	case u == inMicroseconds && v < 10_000:
		return fmt.Sprintf("%.0f µs", v)
	case u == inMicroseconds:
		return inMilliseconds.print(v / 1000)
	case u == inMilliseconds && v < 1000:
		return fmt.Sprintf("%.1f ms", v)
	case u == inMilliseconds:
		return fmt.Sprintf("%.2f s", v/1000)
	case u == perSecond:
		return thousands(v) + "/s"
	default:
		return fmt.Sprintf("%.1f MB", v/1e6)
	}
}

// thousands prints a whole number with commas.
func thousands(v float64) string {
	text := fmt.Sprintf("%.0f", v)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// row is one line of the result.
type row struct {
	name  string // as the figures know it
	title string // for readers, where it differs
	unit  unit
	// reference is the contender that ours is compared with; empty for none.
	reference string
	// referenceRow is where the reference stands if not in this row; then it is ours too.
	referenceRow string
	limit        *limit
}

// limit is what ours is to reach: of the ratio to the reference, or of the figure itself where ratio is false.
type limit struct {
	ratio       bool
	most, least float64
}

func (l *limit) ok(v float64) bool { return (l.most == 0 || v <= l.most) && v >= l.least }

func (l *limit) text(u unit) string {
	sign, bound := "≤", l.most
	if l.most == 0 {
		sign, bound = "≥", l.least
	}
	if l.ratio {
		return fmt.Sprintf("%s %.2f ×", sign, bound)
	}
	return sign + " " + u.print(bound)
}

// rows returns the lines of the result in their order, with the limits that the project has set itself.
func rows(a amounts) []row {
	bundle := fmt.Sprintf("%.0f MB", float64(a.bundle)/1e6)
	return []row{
		{name: rowInitialize, unit: inMilliseconds, reference: emptyTool},
		{name: rowListTools, unit: inMilliseconds, reference: emptyTool, limit: &limit{ratio: true, most: 1.25}},
		{name: rowRecord, unit: inMicroseconds, reference: sameTool, limit: &limit{ratio: true, most: 1.2}},
		{name: rowRecordP99, unit: inMicroseconds, reference: sameTool},
		{name: rowRecordCPU, unit: inMicroseconds, reference: sameTool},
		{name: rowRecord16, unit: perSecond, reference: sameTool},
		{name: rowRecord64, unit: perSecond, reference: sameTool},
		{name: rowVerify, unit: inMicroseconds, reference: sameTool},
		{name: rowVerifyCPU, unit: inMicroseconds, reference: sameTool},
		{name: rowVerify16, unit: perSecond, reference: sameTool},
		{name: rowVerify64, unit: perSecond, reference: sameTool, limit: &limit{ratio: true, least: 2}},
		{name: rowWrites1, unit: perSecond, reference: bareHTTP, limit: &limit{ratio: true, least: 0.9}},
		{name: rowWrites4, unit: perSecond, reference: bareHTTP, limit: &limit{ratio: true, least: 0.9}},
		{name: rowWrites8, unit: perSecond, reference: bareHTTP, limit: &limit{ratio: true, least: 0.9}},
		{name: rowPostgres, unit: perSecond, reference: bareHTTP, limit: &limit{ratio: true, least: 0.8}},
		{name: rowLarge, unit: inMicroseconds, reference: sameTool},
		{name: rowDownload, title: "get_evidence of " + bundle, unit: inMilliseconds, reference: bareHTTP},
		{name: rowDownloadPeak, title: "get_evidence of " + bundle + ", memory on top", unit: inBytes, limit: &limit{most: 8e6}},
		{name: rowIdle, unit: inBytes, reference: emptyTool, limit: &limit{most: 12e6}},
		{name: rowMemoryFew, unit: inBytes, reference: sameTool},
		{
			name: rowMemoryMany, title: "memory after " + thousands(float64(a.manyCalls)) + " calls", unit: inBytes,
			reference: ours, referenceRow: rowMemoryFew, limit: &limit{ratio: true, most: 1.5},
		},
		{name: rowExit, unit: inMilliseconds, reference: emptyTool},
		{name: rowBinary, unit: inBytes, reference: emptyTool, limit: &limit{most: 10.5e6}},
	}
}

// figures are what was measured: by row and contender, a value for each round.
type figures struct {
	values map[string]map[string][]float64
}

func newFigures() *figures { return &figures{values: map[string]map[string][]float64{}} }

// add adds the value of a round. A row without a name is not wanted.
func (f *figures) add(row, contender string, value float64) {
	if row == "" {
		return
	}
	if f.values[row] == nil {
		f.values[row] = map[string][]float64{}
	}
	f.values[row][contender] = append(f.values[row][contender], value)
}

// median returns the median of the rounds; NaN if nothing was measured.
func (f *figures) median(row, contender string) float64 { return median(f.values[row][contender]) }

// ratio returns how ours compares with its reference; NaN if there is none, or nothing to compare with.
func (f *figures) ratio(r row) float64 {
	if r.reference == "" {
		return math.NaN()
	}
	where := r.name
	if r.referenceRow != "" {
		where = r.referenceRow
	}
	reference := f.median(where, r.reference)
	if reference == 0 { // such as the processor time of a few calls, which is told in steps of 10 ms
		return math.NaN()
	}
	return f.median(r.name, ours) / reference
}

// verdict says whether ours keeps the limit of a row: "ok", "over", or "" where there is no limit or nothing was measured.
func (f *figures) verdict(r row) string {
	if r.limit == nil {
		return ""
	}
	value := f.median(r.name, ours)
	if r.limit.ratio {
		value = f.ratio(r)
	}
	switch {
	case math.IsNaN(value):
		return ""
	case r.limit.ok(value):
		return "ok"
	default:
		return "over"
	}
}

// median returns the middle of the values, or the mean of the two in the middle.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func (r row) heading() string {
	if r.title != "" {
		return r.title
	}
	return r.name
}

// table prints the medians for a terminal.
func (f *figures) table(rows []row, names []string) string {
	lines := [][]string{append(append([]string{""}, names...), "ratio", "limit", "")}
	for _, r := range rows {
		line := []string{r.heading()}
		for _, name := range names {
			text := ""
			if v := f.median(r.name, name); !math.IsNaN(v) {
				text = r.unit.print(v)
			} else if name == ours {
				text = "n/a"
			}
			line = append(line, text)
		}
		ratio, bound := "", ""
		if v := f.ratio(r); !math.IsNaN(v) {
			ratio = fmt.Sprintf("%.2f ×", v)
		}
		if r.limit != nil {
			bound = r.limit.text(r.unit)
		}
		lines = append(lines, append(line, ratio, bound, f.verdict(r)))
	}
	return align(lines)
}

// align puts cells into columns, the first to the left and the others to the right.
func align(lines [][]string) string {
	width := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			width[i] = max(width[i], len([]rune(cell)))
		}
	}
	var out strings.Builder
	for _, line := range lines {
		var text strings.Builder
		for i, cell := range line {
			blanks := strings.Repeat(" ", width[i]-len([]rune(cell)))
			switch {
			case i == 0:
				text.WriteString(cell + blanks)
			case i == len(line)-1:
				text.WriteString("  " + cell)
			default:
				text.WriteString("  " + blanks + cell)
			}
		}
		out.WriteString(strings.TrimRight(text.String(), " ") + "\n")
	}
	return out.String()
}
