package stdio

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/text"
)

// StatelessVersion is the first version of MCP without initialize.
const StatelessVersion = "2026-07-28"

// handshake remembers initialize, because some hosts send it twice on one process.
type handshake struct {
	mu      sync.Mutex
	asked   string   // what initialize asked for, "" before the first
	result  []byte   // the answer to it, nil while it is not answered
	waiting [][]byte // ids of equal requests that came before the answer
}

// isFirstInitialize reports whether an initialize is for go-sdk, which takes only one. An equal one gets the same answer, and another one
// is refused, because a session cannot change its client.
func (t *Transport) isFirstInitialize(e *envelope, params []byte) bool {
	asked := askedFor(params)
	h := &t.handshake
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.asked == "":
		h.asked = asked
		return true
	case h.asked != asked:
		t.refuse(e, requestFault("this session was initialized with other parameters; start a new loopgrid-mcp process for another client or other parameters"))
	case h.result != nil:
		t.out.add(resultLine(e.id, h.result)...)
		go t.out.flush()
	default:
		h.waiting = append(h.waiting, e.id)
	}
	return false
}

// withLegacyVersion returns the params of initialize with a version that go-sdk agrees to. Where a client asks for another one, go-sdk
// offers the latest that has initialize, but treats the session as one of the version that was asked for (its issue 1258).
func withLegacyVersion(params jsontext.Value) jsontext.Value {
	legacy := slices.DeleteFunc(mcp.SupportedProtocolVersions(), func(v string) bool { return v >= StatelessVersion })
	if slices.Contains(legacy, evidence.GetText(params, "protocolVersion")) {
		return params
	}
	return evidence.Merge(params, evidence.Field{Name: "protocolVersion", Value: evidence.Text(legacy[0])})
}

// askedFor is one text for all spellings of the same request.
func askedFor(params []byte) string {
	object := evidence.Object(
		evidence.Field{Name: "protocolVersion", Value: evidence.Get(params, "protocolVersion")},
		evidence.Field{Name: "capabilities", Value: evidence.Get(params, "capabilities")},
		evidence.Field{Name: "clientInfo", Value: evidence.Get(params, "clientInfo")},
	)
	canonical, err := evidence.AppendCanonical(nil, object)
	if err != nil {
		return string(object)
	}
	return string(canonical)
}

// initialized answers the equal requests that came before the answer to the first.
func (t *Transport) initialized(result []byte) {
	h := &t.handshake
	h.mu.Lock()
	defer h.mu.Unlock()
	h.result = result
	for _, id := range h.waiting {
		t.out.add(resultLine(id, result)...)
	}
	h.waiting = nil
}

// initializeFailed lets the host try again.
func (t *Transport) initializeFailed(failure *jsonrpc.Error) {
	h := &t.handshake
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range h.waiting {
		t.out.add(errorLine(id, failure)...)
	}
	h.asked, h.waiting = "", nil
}

// begun reports whether the host has initialized a session.
func (h *handshake) begun() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked != ""
}

// forget takes back what isFirstInitialize noted of a request that was refused after all.
func (h *handshake) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = ""
}

// readVersion notes which era a request speaks. The version is that in its _meta, nil if absent.
func (t *Transport) readVersion(e *envelope, version jsontext.Value) *lineFault {
	if e.id == nil || version == nil || version.Kind() == 'n' {
		return nil
	}
	name, isText := evidence.Unquote(version)
	switch {
	case !isText && e.name != methodDiscover && (e.name == methodInitialize || t.handshake.begun()):
		return nil // it is not needed
	case !isText:
		return paramsFault(fmt.Sprintf("%q in _meta must be a string", mcp.MetaKeyProtocolVersion))
	case !slices.Contains(mcp.SupportedProtocolVersions(), name):
		data, err := json.Marshal(mcp.UnsupportedProtocolVersionData{Supported: mcp.SupportedProtocolVersions(), Requested: text.Clip(name, 100)})
		if err != nil {
			data = nil
		}
		return &lineFault{code: mcp.CodeUnsupportedProtocolVersion, reason: "unsupported protocol version", data: data}
	}
	// Only the era before it has initialize, whatever a host that tries both puts into _meta.
	e.stateless = name >= StatelessVersion && e.name != methodInitialize
	return nil
}
