// Package wire talks MCP to a program over its stdin and stdout with raw lines, for the scripts that look at single digits and single
// microseconds: an SDK's client reads numbers as float64, and costs more time than the program that it talks to.
//
// It knows where the id of a message stands, and nothing of what the messages say.
package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"time"
)

// Process is a program that was started and reads requests. It is used by one goroutine, or by one that sends and
// one that receives. What it waits for is bounded only by the
// context of its command.
type Process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	long   []byte // a line that did not fit into the reader's buffer
	lastID int
}

// Start starts the command, whose Stdin and Stdout must not be set.
func Start(cmd *exec.Cmd) (*Process, error) {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return &Process{cmd: cmd, stdin: stdin, stdout: bufio.NewReaderSize(stdout, 64<<10)}, nil
}

// PID returns the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Send writes a line, which has to end with a line break.
func (p *Process) Send(line []byte) error {
	if _, err := p.stdin.Write(line); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// Receive returns the next line, without its line break. It is valid until the next one is received. The error is [io.EOF] where the
// program has closed its stdout.
func (p *Process) Receive() ([]byte, error) {
	p.long = p.long[:0]
	for {
		part, err := p.stdout.ReadSlice('\n')
		switch {
		case err == nil && len(p.long) == 0:
			return part[:len(part)-1], nil
		case err == nil:
			p.long = append(p.long, part[:len(part)-1]...)
			return p.long, nil
		case errors.Is(err, bufio.ErrBufferFull):
			p.long = append(p.long, part...)
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		default:
			return nil, fmt.Errorf("receive: %w", err)
		}
	}
}

// Answer returns the next line that answers a request, and the text of its id; notifications are skipped.
func (p *Process) Answer() (line []byte, id string, err error) {
	for {
		line, err := p.Receive()
		if errors.Is(err, io.EOF) {
			return nil, "", errors.New("receive: the program ended its output before it answered")
		}
		if err != nil {
			return nil, "", err
		}
		id, err := answered(line)
		if err != nil {
			return nil, "", err
		}
		if id != "" {
			return line, id, nil
		}
	}
}

// answered returns the text of the id of an answer; it is empty for other messages.
func answered(line []byte) (string, error) {
	// As programs usually spell it; anything else takes longer.
	if rest, ok := bytes.CutPrefix(line, []byte(`{"jsonrpc":"2.0","id":`)); ok {
		if end := bytes.IndexByte(rest, ','); end > 0 {
			after := rest[end:]
			if bytes.HasPrefix(after, []byte(`,"result":`)) || bytes.HasPrefix(after, []byte(`,"error":`)) {
				return string(rest[:end]), nil
			}
		}
	}
	var message struct {
		ID     json.RawMessage `json:"id"`
		Method *string         `json:"method"`
	}
	if err := json.Unmarshal(line, &message); err != nil {
		return "", fmt.Errorf("receive: not a message but %.200q: %w", line, err)
	}
	if message.Method != nil {
		return "", nil
	}
	return string(message.ID), nil
}

// Request returns the line of a request. The params are JSON without line breaks.
func Request(id, method, params string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + "}\n")
}

// Call sends a request under an id of its own and returns the line that answers it, which is valid until the next one is received.
func (p *Process) Call(method, params string) ([]byte, error) {
	p.lastID++
	id := strconv.Itoa(p.lastID)
	if err := p.Send(Request(id, method, params)); err != nil {
		return nil, err
	}
	line, got, err := p.Answer()
	if err == nil && got != id {
		err = fmt.Errorf("request %s was answered under the id %s", id, got)
	}
	return line, err
}

// Load is a number of calls of a tool.
type Load struct {
	// Params are those of tools/call, as JSON without line breaks. The calls take them in turn.
	Params []string
	// Calls is how many there are, InFlight how many of them wait for an answer at the same time.
	Calls, InFlight int
	// Until is when no more calls are begun; the zero time is never.
	Until time.Time
}

// Run makes the calls of a load, and returns how long each of them took, in the order of the answers. It costs little beside a program
// that answers in microseconds. A call that is refused or fails ends it.
func (p *Process) Run(l Load) ([]time.Duration, error) {
	head := []byte(`{"jsonrpc":"2.0","id":`)
	var tails [][]byte
	for _, params := range l.Params {
		tails = append(tails, []byte(`,"method":"tools/call","params":`+params+"}\n"))
	}
	request := make([]byte, 0, len(head)+len(tails[0])+20)
	first, sent := p.lastID+1, 0
	began, took := make([]time.Time, l.Calls), make([]time.Duration, 0, l.Calls)
	more := func() error {
		now := time.Now()
		if sent == l.Calls || !l.Until.IsZero() && now.After(l.Until) && sent > 0 {
			return nil
		}
		p.lastID++
		request = append(strconv.AppendInt(append(request[:0], head...), int64(p.lastID), 10), tails[sent%len(tails)]...)
		began[sent] = now
		sent++
		return p.Send(request)
	}
	for range l.InFlight {
		if err := more(); err != nil {
			return nil, err
		}
	}
	for len(took) < sent {
		line, text, err := p.Answer()
		if err != nil {
			return nil, err
		}
		now := time.Now()
		id, err := strconv.Atoi(text)
		if err != nil || id < first || id >= first+sent || began[id-first].IsZero() {
			return nil, fmt.Errorf("an answer came under the id %s, which is not in flight", text)
		}
		if bytes.Contains(line, []byte(`"isError":true`)) || !bytes.Contains(line, []byte(`"result":`)) {
			return nil, fmt.Errorf("a call was answered with %.500s", line)
		}
		took = append(took, now.Sub(began[id-first]))
		began[id-first] = time.Time{}
		if err := more(); err != nil {
			return nil, err
		}
	}
	return took, nil
}

// Initialize begins a session of a protocol revision that begins with initialize, such as 2025-11-25.
func (p *Process) Initialize(version string) error {
	answer, err := p.Call("initialize", `{"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"loopgrid-wire","version":"1"}}`)
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	if !bytes.Contains(answer, []byte(`"protocolVersion":"`+version+`"`)) {
		return fmt.Errorf("initialize: no session of revision %s: %.300s", version, answer)
	}
	return p.Send([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"))
}

// CloseInput ends the input of the program, for the goroutine that sends; [Process.Close] has to follow when the one that receives has ended.
func (p *Process) CloseInput() error {
	if err := p.stdin.Close(); err != nil {
		return fmt.Errorf("end the input: %w", err)
	}
	return nil
}

// Close ends the input of the program, waits until it has ended, and returns how long that took. The error is that of the program's
// end, for example an exit code other than 0. After an error of another method it may be used to clean up.
func (p *Process) Close() (time.Duration, error) {
	began := time.Now()
	_ = p.stdin.Close() // It may have ended already.
	_, _ = io.Copy(io.Discard, p.stdout)
	err := p.cmd.Wait()
	took := time.Since(began)
	if err != nil {
		return took, fmt.Errorf("end %s: %w", p.cmd.Path, err)
	}
	return took, nil
}
