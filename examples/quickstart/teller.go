package main

import (
	"fmt"
	"io"
	"strings"
)

const (
	steps  = 8
	margin = "      "
	width  = 78 // of quoted text
)

// teller prints the demonstration: short lines for a person, in plain ASCII, since not every terminal shows more. An output that
// cannot be written to ends nothing: whether all goes as it should is told by the exit code too.
type teller struct {
	out  io.Writer
	done int // steps
}

func (t *teller) print(format string, args ...any) { _, _ = fmt.Fprintf(t.out, format, args...) }

func (t *teller) line(text string) { t.print("%s\n", text) }

// step begins the next step.
func (t *teller) step(title string) {
	t.done++
	t.print("\n[%d/%d] %s\n", t.done, steps, title)
}

// fact prints a name and its value.
func (t *teller) fact(name, value string) { t.print(margin+"%-10s %s\n", name, value) }

// quote prints what the program says to a model.
func (t *teller) quote(text string) {
	for paragraph := range strings.Lines(text) {
		line := ""
		for word := range strings.FieldsSeq(paragraph) {
			if line != "" && len(line)+1+len(word) > width {
				t.line(margin + "| " + line)
				line = ""
			}
			line = strings.TrimSpace(line + " " + word)
		}
		t.line(margin + "| " + line)
	}
}

// commands prints commands to run, and what they are for.
func (t *teller) commands(what string, commands ...string) {
	t.line("  " + what)
	for _, command := range commands {
		t.line("      " + command)
	}
}
