package main

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"time"
)

// report is a run for readers.
type report struct {
	*options
	amounts

	figures *figures
	rows    []row
	names   []string // of the contenders, in the order of the columns
}

// title says when and where the figures were taken.
func (r *report) title() string {
	text := fmt.Sprintf("medians of %d interleaved rounds, %s, %s", r.amounts.rounds, time.Now().Format("2 January 2006"), machine())
	if r.limits {
		text = fmt.Sprintf("one run, %s, %s", time.Now().Format("2 January 2006"), machine())
	}
	if r.quick {
		text += " (a quick run: the figures say little)"
	}
	return text
}

func (r *report) text() string {
	over := 0
	for _, row := range r.rows {
		if r.figures.verdict(row) == "over" {
			over++
		}
	}
	summary := fmt.Sprintf("%d of the figures are over their limits.", over)
	switch over {
	case 0:
		summary = "All figures are within the limits."
	case 1:
		summary = "1 of the figures is over its limit."
	}
	return "loopgrid-mcp: " + r.title() + "\n\n" + r.figures.table(r.rows, r.names) + "\n" + summary + "\n"
}

// The picture: a panel for each of these rows, with a bar for each contender that was measured in it.
const (
	pictureWidth = 760
	labelWidth   = 170 // of the names to the left of the bars
	barWidth     = 440 // of the longest bar
	barHeight    = 16
	barGap       = 5
)

func pictureRows() []string {
	return []string{rowListTools, rowRecord, rowVerify64, rowIdle}
}

// svg draws the picture. The other bridge's bars may be a hundred times as long as all the others: they end at the edge, in an arrow.
func (r *report) svg() string {
	var body strings.Builder
	y := 56
	text := func(x, y, size int, extra, s string) {
		fmt.Fprintf(&body, `<text x="%d" y="%d" font-size="%d"%s>%s</text>`+"\n", x, y, size, extra, html.EscapeString(s))
	}
	for _, row := range r.rows {
		if !slices.Contains(pictureRows(), row.name) {
			continue
		}
		better := ", less is better"
		if row.unit == perSecond {
			better = ", more is better"
		}
		text(20, y, 13, ` font-weight="600"`, row.heading()+better)
		y += 12
		longest := 0.0
		for _, name := range r.names {
			if v := r.figures.median(row.name, name); (r.peer == "" || name != r.peerName) && v > longest {
				longest = v
			}
		}
		for _, name := range r.names {
			v := r.figures.median(row.name, name)
			if math.IsNaN(v) || longest == 0 {
				continue
			}
			color := "#9aa5b1"
			if name == ours {
				color = "#2563eb"
			}
			length := max(1, int(v/longest*barWidth))
			text(20, y+barHeight-4, 12, "", name)
			if length > barWidth {
				length = barWidth
				fmt.Fprintf(&body, `<path d="M%d %dh%dl8 %dl-8 %dh-%dz" fill="%s"/>`+"\n", labelWidth, y, length-8, barHeight/2, barHeight/2, length-8, color)
			} else {
				fmt.Fprintf(&body, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>`+"\n", labelWidth, y, length, barHeight, color)
			}
			text(labelWidth+length+8, y+barHeight-4, 12, "", row.unit.print(v))
			y += barHeight + barGap
		}
		y += 24
	}
	title := "loopgrid-mcp beside its alternatives"
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" role="img" aria-label="%[3]s">`+"\n"+
		`<rect width="100%%" height="100%%" rx="8" fill="#ffffff"/>`+"\n"+
		`<g font-family="system-ui, sans-serif" fill="#1f2933">`+"\n"+
		`<text x="20" y="28" font-size="16" font-weight="600">%[3]s</text>`+"\n%[4]s"+
		`<text x="20" y="%[5]d" font-size="11" fill="#52606d">%[6]s</text>`+"\n</g>\n</svg>\n",
		pictureWidth, y+16, title, body.String(), y, html.EscapeString(upper(r.title())+"."))
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
