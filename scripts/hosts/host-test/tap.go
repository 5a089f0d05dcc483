package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// tapName is what this program is called where it stands between a host and the program: it hands on every byte, and writes it down.
const tapName = "loopgrid-mcp-tap"

func isTap(arg0 string) bool {
	return strings.TrimSuffix(filepath.Base(arg0), ".exe") == tapName
}

// secondID is the id of the initialize that a tap repeats.
const secondID = `"loopgrid-mcp-tap"`

// makeTap puts a tap in front of the program into a directory of its own, and returns its path. One that says initialize again sends the
// host's first request twice, as Kimi does, and keeps the second answer to itself.
func makeTap(dir, program string, again bool) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	text, err := os.ReadFile(self)
	if err != nil {
		return "", fmt.Errorf("read this program: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the tap: %w", err)
	}
	path := filepath.Join(dir, tapName+filepath.Ext(program))
	if err := os.WriteFile(path, text, 0o700); err != nil { //nolint:gosec // it has to be run
		return "", fmt.Errorf("make the tap: %w", err)
	}
	err = os.WriteFile(filepath.Join(dir, "program"), []byte(program), 0o600)
	if err == nil && again {
		err = os.WriteFile(filepath.Join(dir, "again"), nil, 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("make the tap: %w", err)
	}
	return path, nil
}

// tap runs the program behind the tap at that path, and returns its exit code. What it writes down is in two files beside it.
func tap(path string, args []string) int {
	dir := filepath.Dir(path)
	program, err := os.ReadFile(filepath.Join(dir, "program")) //nolint:gosec // makeTap wrote it
	if err != nil {
		fmt.Fprintln(os.Stderr, "tap:", err)
		return 1
	}
	base := filepath.Join(dir, fmt.Sprintf("%d-%d", time.Now().UnixNano(), os.Getpid())) // in the order of their beginning
	_, err = os.Stat(filepath.Join(dir, "again"))                                        //nolint:gosec // makeTap made it
	again := err == nil
	in, errIn := os.Create(base + ".in")    //nolint:gosec // in the directory that makeTap made
	out, errOut := os.Create(base + ".out") //nolint:gosec // the same
	if err := errors.Join(errIn, errOut); err != nil {
		fmt.Fprintln(os.Stderr, "tap:", err)
		return 1
	}
	cmd := exec.Command(string(program), args...) //nolint:gosec,noctx // makeTap named it, and it ends with its input
	stdin, errIn := cmd.StdinPipe()
	stdout, errOut := cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut); err != nil {
		fmt.Fprintln(os.Stderr, "tap:", err)
		return 1
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "tap:", err)
		return 1
	}
	go func() {
		handOn(os.Stdin, in, stdin, func(line []byte) []byte {
			if id := idOf(line, "initialize"); again && id != nil {
				again = false
				second := regexp.MustCompile(`"id"\s*:\s*`+regexp.QuoteMeta(string(id))).ReplaceAll(line, []byte(`"id":`+secondID))
				return append(slices.Clone(line), second...)
			}
			return line
		})
		_ = stdin.Close()
	}()
	handOn(stdout, out, os.Stdout, func(line []byte) []byte {
		if bytes.Contains(line, []byte(`"id":`+secondID)) {
			return nil
		}
		return line
	})
	err = cmd.Wait()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// handOn copies lines, and what is made of them, until there are no more. Everything that passes is written down.
func handOn(from io.Reader, note, to io.Writer, change func(line []byte) []byte) {
	for lines := bufio.NewReader(from); ; {
		line, err := lines.ReadBytes('\n')
		changed := change(line)
		if len(changed) == 0 {
			changed = line // It is for nobody but this program.
			_, _ = note.Write(changed)
		} else {
			_, _ = note.Write(changed)
			_, _ = to.Write(changed)
		}
		if err != nil {
			return
		}
	}
}

// idOf returns the id of a request with that method; nil for another line.
func idOf(line []byte, method string) []byte {
	var request struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.Unmarshal(line, &request) != nil || request.Method != method {
		return nil
	}
	return request.ID
}

// session is what was said between a host and the program.
type session struct {
	begun  string   // the request that began it
	client string   // how the host names itself
	spoken string   // the revision of the protocol
	again  bool     // a second initialize was answered like the first one
	tools  []string // what the program listed
	calls  []call
}

// call is a call of a tool as the host wrote it.
type call struct {
	tool      string
	arguments json.RawMessage
	answer    json.RawMessage
}

// sessions reads what taps in that directory wrote down.
func sessions(dir string) ([]session, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.in"))
	if err != nil {
		return nil, fmt.Errorf("look for the sessions: %w", err)
	}
	var found []session
	for _, file := range files {
		in, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read a session: %w", err)
		}
		out, err := os.ReadFile(strings.TrimSuffix(file, ".in") + ".out")
		if err != nil {
			return nil, fmt.Errorf("read a session: %w", err)
		}
		found = append(found, readSession(in, out))
	}
	return found, nil
}

// clientInfo is how a client names itself.
type clientInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

func readSession(in, out []byte) session {
	answers := map[string]json.RawMessage{}
	for line := range bytes.Lines(out) {
		var answer struct {
			ID     json.RawMessage `json:"id"`
			Result json.RawMessage `json:"result"`
		}
		if json.Unmarshal(line, &answer) == nil && answer.Result != nil {
			answers[string(answer.ID)] = answer.Result
		}
	}
	var s session
	for line := range bytes.Lines(in) {
		var request struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				ClientInfo clientInfo      `json:"clientInfo"`
				Name       string          `json:"name"`
				Arguments  json.RawMessage `json:"arguments"`
				Meta       struct {
					ClientInfo clientInfo `json:"io.modelcontextprotocol/clientInfo"`
					Version    string     `json:"io.modelcontextprotocol/protocolVersion"`
				} `json:"_meta"`
			} `json:"params"`
		}
		if json.Unmarshal(line, &request) != nil {
			continue
		}
		answer := answers[string(request.ID)]
		if answer == nil {
			continue
		}
		info := request.Params.ClientInfo
		if info.Name == "" {
			info = request.Params.Meta.ClientInfo
		}
		if info.Name != "" {
			s.client = info.Name + " " + info.Version
		}
		if string(request.ID) == secondID {
			s.again = s.spoken != "" && bytes.Contains(answer, []byte(`"protocolVersion":"`+s.spoken+`"`))
			continue
		}
		switch request.Method {
		case "initialize":
			var result struct {
				ProtocolVersion string `json:"protocolVersion"`
			}
			_ = json.Unmarshal(answer, &result)
			s.begun, s.spoken = request.Method, result.ProtocolVersion
		case "server/discover":
			s.begun, s.spoken = request.Method, request.Params.Meta.Version
		case "tools/list":
			var result struct {
				Tools []struct {
					Name string `json:"name"`
				} `json:"tools"`
			}
			_ = json.Unmarshal(answer, &result)
			s.tools = nil
			for _, tool := range result.Tools {
				s.tools = append(s.tools, tool.Name)
			}
		case "tools/call":
			s.calls = append(s.calls, call{request.Params.Name, request.Params.Arguments, answer})
		}
	}
	return s
}
