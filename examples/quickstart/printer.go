package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/loopgridio/loopgrid-mcp/examples/story"
)

const (
	margin = "      "
	width  = 90 // of quoted text
)

// printer prints the demonstration for a person. An output that cannot be written to ends nothing: the exit code says the result too.
type printer struct {
	out    io.Writer
	titles int
}

func (p *printer) line(text string) { _, _ = fmt.Fprintln(p.out, text) }

// title begins the next part.
func (p *printer) title(text string) {
	p.titles++
	p.line(fmt.Sprintf("\n[%d] %s", p.titles, text))
}

// Begin prints what is about to happen.
func (p *printer) Begin(step story.Step) { p.title(step.Title + " (" + step.Tool + ")") }

// End prints what happened.
func (p *printer) End(_ story.Step, told story.Told) {
	for _, fact := range told.Facts {
		p.fact(fact.Name, fact.Value)
	}
	p.quote(told.Quote)
}

func (p *printer) fact(name, value string) { p.line(fmt.Sprintf("%s%-10s %s", margin, name, value)) }

// quote prints a text of the program.
func (p *printer) quote(text string) {
	for paragraph := range strings.Lines(text) {
		line := ""
		for word := range strings.FieldsSeq(paragraph) {
			if line != "" && len(line)+1+len(word) > width {
				p.line(margin + "| " + line)
				line = ""
			}
			line = strings.TrimSpace(line + " " + word)
		}
		p.line(strings.TrimRight(margin+"| "+line, " "))
	}
}

// commands prints commands to run, and what they are for.
func (p *printer) commands(what string, commands ...string) {
	p.line("  " + what)
	for _, command := range commands {
		p.line(margin + command)
	}
}
