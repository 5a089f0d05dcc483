package stdio

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// frames notices a host that frames its messages with headers, as the Language Server Protocol does.
type frames struct {
	refused bool // the host was told
	body    bool // what comes next is the content of a frame
}

// withoutFrames returns the line without headers and without the content of frames. It refuses the first frame under no id: the
// content has no line end, so it cannot be waited for. What follows in proper lines is served.
func (t *Transport) withoutFrames(line []byte) []byte {
	for len(line) > 0 {
		switch {
		case isFrameHeader(line):
			if t.frames.body = true; !t.frames.refused {
				t.frames.refused = true
				t.refuse(&envelope{}, &lineFault{
					code:   jsonrpc.CodeInvalidRequest,
					reason: "invalid request: MCP over stdio has no Content-Length headers: send each message as one line of JSON; messages in frames are ignored",
				})
			}
			return nil
		case !t.frames.body:
			return line
		}
		t.frames.body = false
		content := jsontext.NewDecoder(bytes.NewBuffer(line), lenient()...)
		if _, err := content.ReadValue(); err != nil {
			return nil
		}
		line = bytes.TrimLeft(line[content.InputOffset():], " \t")
	}
	return line
}

func isFrameHeader(line []byte) bool {
	if line[0]|0x20 != 'c' {
		return false
	}
	name, _, found := bytes.Cut(line[:min(len(line), len("Content-Length: "))], []byte(":"))
	return found && (bytes.EqualFold(name, []byte("Content-Length")) || bytes.EqualFold(name, []byte("Content-Type")))
}
