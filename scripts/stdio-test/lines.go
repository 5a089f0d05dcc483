package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/examples/story"
	"github.com/loopgridio/loopgrid-mcp/scripts/exact"
	"github.com/loopgridio/loopgrid-mcp/scripts/wire"
)

// tryLines walks the story with raw lines, as a host that shows no forms.
func tryLines(ctx context.Context, c *caller, p *program) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	process, err := wire.Start(p.command(ctx))
	if err != nil {
		return err
	}
	walked := c.walkLines(ctx, process, p.confirmation("host"))
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

func (c *caller) walkLines(ctx context.Context, p *wire.Process, confirmation string) error {
	if err := p.Initialize(olderProtocol); err != nil {
		return err
	}
	c.pass("protocol %s", olderProtocol)
	list, err := p.Call("tools/list", "{}")
	if err != nil {
		return fmt.Errorf("list the tools: %w", err)
	}
	if err := checkList(list); err != nil {
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
	return c.walk(ctx, lines{p}, confirmation)
}

// checkList checks the answer to tools/list.
func checkList(line []byte) error {
	var list struct {
		Result struct {
			Tools []struct {
				Name string `json:"name"`
			} `json:"tools"`
		} `json:"result"`
	}
	if err := json.Unmarshal(line, &list); err != nil {
		return fmt.Errorf("read the list of tools: %w", err)
	}
	var names []string
	for _, tool := range list.Result.Tools {
		names = append(names, tool.Name)
	}
	return story.CheckTools(names)
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

// tryGarbage sends a line that is no message.
func tryGarbage(p *wire.Process) error {
	if err := p.Send([]byte("this is no message\n")); err != nil {
		return err
	}
	line, _, err := p.Answer()
	if err != nil {
		return err
	}
	var answer struct {
		Error struct {
			Code int `json:"code"`
		} `json:"error"`
	}
	if err := json.Unmarshal(line, &answer); err != nil || answer.Error.Code != -32700 {
		return fmt.Errorf("a line that is no message was answered with %.200s", line)
	}
	return nil
}

// lines calls tools with raw lines.
type lines struct{ *wire.Process }

// Call sends the line of a call and reads the line that answers it.
func (l lines) Call(_ context.Context, tool, arguments string) (story.Answer, error) {
	line, err := l.Process.Call("tools/call", `{"name":"loopgrid.`+tool+`","arguments":`+arguments+`}`)
	if err != nil {
		return story.Answer{}, err
	}
	return readAnswer(line)
}

// readAnswer reads the answer to tools/call. Its text and its structured content have to be the same, to the last digit.
func readAnswer(line []byte) (story.Answer, error) {
	var answer struct {
		Result *struct {
			IsError bool `json:"isError"`
			Content []struct {
				Text *string `json:"text"`
			} `json:"content"`
			Structured jsontext.Value `json:"structuredContent"`
		} `json:"result"`
	}
	if err := json.Unmarshal(line, &answer); err != nil || answer.Result == nil {
		return story.Answer{}, fmt.Errorf("the call was answered with %.300s", line)
	}
	result := answer.Result
	if len(result.Content) == 0 || result.Content[0].Text == nil {
		return story.Answer{}, fmt.Errorf("the result does not begin with a text: %.300s", line)
	}
	text := *result.Content[0].Text
	if result.IsError {
		if result.Structured != nil {
			return story.Answer{}, errors.New("a refusal has structured content")
		}
		return story.Answer{Text: text, Refused: true}, nil
	}
	if err := exact.Same(result.Structured, jsontext.Value(text)); err != nil {
		return story.Answer{}, fmt.Errorf("the structured content beside the text: %w", err)
	}
	for _, digits := range []string{"9007199254740993", "123456789012345678901234567890"} {
		if strings.Count(text, digits) != strings.Count(string(result.Structured), digits) {
			return story.Answer{}, fmt.Errorf("%s is not as often in the text as in the structured content", digits)
		}
	}
	return story.Answer{Text: text}, nil
}
