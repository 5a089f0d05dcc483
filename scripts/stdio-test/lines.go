package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/scripts/exact"
	"github.com/loopgridio/loopgrid-mcp/scripts/wire"
)

// olderProtocol is a revision that begins with initialize, as hosts of today speak it.
const olderProtocol = "2025-11-25"

// tryLines goes through the tools with raw lines, in which every digit can be seen.
func tryLines(ctx context.Context, r *report, p *program) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	process, err := wire.Start(p.command(ctx))
	if err != nil {
		return err
	}
	c := &caller{report: r, who: "raw lines"}
	walked := c.walkLines(process)
	if walked != nil {
		cancel() // Whatever state it is in, it ends.
	}
	took, ended := process.Close()
	if err := errors.Join(walked, ended); err != nil {
		return err
	}
	c.pass("the program ended with exit code 0, %.1f ms after its input", float64(took.Microseconds())/1000)
	return nil
}

func (c *caller) walkLines(p *wire.Process) error {
	if err := p.Initialize(olderProtocol); err != nil {
		return err
	}
	c.pass("protocol %s", olderProtocol)
	list, err := p.Call("tools/list", "{}")
	if err != nil {
		return fmt.Errorf("list the tools: %w", err)
	}
	if err := listed(list); err != nil {
		return err
	}
	c.pass("six tools are listed")
	if err := tryID(p); err != nil {
		return err
	}
	c.pass("a request id beyond 2^53 comes back as it was sent")
	if err := tryGarbage(p); err != nil {
		return err
	}
	c.pass("a line that is no message is answered, and ends nothing")

	c.call = func(tool, args string) (answer, error) {
		line, err := p.Call("tools/call", `{"name":"`+tool+`","arguments":`+args+`}`)
		if err != nil {
			return answer{}, err
		}
		return readAnswer(line)
	}
	return c.walk()
}

// listed checks the answer to tools/list.
func listed(line []byte) error {
	names := map[string]bool{}
	for tool := range evidence.Elements(result(line).at("result", "tools")) {
		name, _ := evidence.Unquote(result(tool).at("name"))
		names[name] = true
	}
	for _, name := range toolNames() {
		if !names[name] {
			return fmt.Errorf("the tool %s is not listed", name)
		}
	}
	if len(names) != len(toolNames()) {
		return fmt.Errorf("%d tools are listed", len(names))
	}
	return nil
}

// tryID sends a request under an id that float64 cannot hold.
func tryID(p *wire.Process) error {
	const id = "9007199254740993"
	if err := p.Send(wire.Request(id, "ping", "{}")); err != nil {
		return err
	}
	_, got, err := p.Answer()
	if err == nil && got != id {
		err = fmt.Errorf("the request with id %s was answered under the id %s", id, got)
	}
	return err
}

// tryGarbage sends what is no message.
func tryGarbage(p *wire.Process) error {
	if err := p.Send([]byte("this is no message\n")); err != nil {
		return err
	}
	line, _, err := p.Answer()
	if err != nil {
		return err
	}
	if code := result(line).at("error", "code"); string(code) != "-32700" {
		return fmt.Errorf("a line that is no message was answered with %.200s", line)
	}
	return nil
}

// readAnswer reads the answer to tools/call. What it says as text and what it says as structured content have to be the same, to the
// last digit.
func readAnswer(line []byte) (answer, error) {
	res := result(line).at("result")
	if res == nil {
		return answer{}, fmt.Errorf("it was answered with %.300s", line)
	}
	var first jsontext.Value
	for block := range evidence.Elements(result(res).at("content")) {
		first = block
		break
	}
	text, ok := evidence.Unquote(result(first).at("text"))
	if !ok {
		return answer{}, fmt.Errorf("the result does not begin with a text: %.300s", line)
	}
	a := answer{text: text, failed: string(result(res).at("isError")) == "true"}
	structured := result(res).at("structuredContent")
	if a.failed {
		if structured != nil {
			return answer{}, errors.New("a refusal has structured content")
		}
		return a, nil
	}
	if err := exact.Same(structured, jsontext.Value(text)); err != nil {
		return answer{}, fmt.Errorf("the structured content beside the text: %w", err)
	}
	for _, digits := range []string{"9007199254740993", "123456789012345678901234567890"} {
		if strings.Count(text, digits) != strings.Count(string(structured), digits) {
			return answer{}, fmt.Errorf("%s does not stand as often in the text as in the structured content", digits)
		}
	}
	return a, nil
}
