package bridge

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

const (
	hiddenKey = "[service key]"

	// pieceLength is how many consecutive characters of a key's random part are hidden wherever they occur.
	pieceLength = 8
	// fullKeyLength is the shortest key that is hidden piece by piece; a shorter one is hidden only as a whole.
	fullKeyLength = 16
)

// keyHider hides the service key in what the service, or something in front of it, sends: in an event, a verification or an error it
// would end up in the host's transcript. It also finds pieces of the key, plain and under one layer of JSON escapes, percent encoding or
// base64. What this program writes itself, such as paths, tool names and checked IDs, does not go through it, so that a key that is a
// common word garbles nothing; there, [keyHider.result] hides only the whole key.
type keyHider struct {
	keys    func() []string // every key, current or earlier
	current atomic.Pointer[keyPieces]
}

func newKeyHider(keys func() []string) *keyHider { return &keyHider{keys: keys} }

// keyPieces is what to look for, given some keys. It never changes.
type keyPieces struct {
	keys   []string
	whole  []string                // those of the full length
	pieces map[int]map[string]bool // by their length
	skip   map[int]*[1 << 16]uint8 // by length: how far the search can move ahead after these two bytes
}

// look returns what to look for now; nil if there is nothing to hide.
func (h *keyHider) look() *keyPieces {
	keys := h.keys()
	k := h.current.Load()
	if k == nil || !slices.Equal(k.keys, keys) {
		k = &keyPieces{keys: keys, pieces: map[int]map[string]bool{}, skip: map[int]*[1 << 16]uint8{}}
		words := ownWords()
		for _, key := range keys {
			k.learn(key, words)
		}
		h.current.Store(k)
	}
	if len(k.pieces) == 0 {
		return nil
	}
	return k
}

// learn adds the pieces of a key, unless it is one of these words.
func (k *keyPieces) learn(key, words string) {
	if len(key) < pieceLength || strings.Contains(words, key) {
		return
	}
	if len(key) <= math.MaxUint8 {
		k.add(key)
	}
	if len(key) < fullKeyLength {
		return
	}
	k.whole = append(k.whole, key)
	k.addPieces(randomPart(key), words)
	for shift := range 3 { // the offset of the key in groups of three bytes
		padded := append(make([]byte, shift), randomPart(key)...)
		encoded := base64.RawStdEncoding.EncodeToString(padded[:len(padded)/3*3])
		encoded = encoded[min(len(encoded), (shift*8+5)/6):] // without characters that depend on the bytes before
		k.addPieces(encoded, words)
		k.addPieces(strings.NewReplacer("+", "-", "/", "_").Replace(encoded), words)
	}
}

// keyPrefix is how all LoopGrid keys of one kind begin; it reveals nothing.
func keyPrefix() *regexp.Regexp { return regexp.MustCompile(`lg_[a-z]+_`) }

// randomPart is a key without its prefix.
func randomPart(key string) string {
	if at := keyPrefix().FindStringIndex(key); at != nil && at[0] == 0 && len(key)-at[1] >= fullKeyLength {
		return key[at[1]:]
	}
	return key
}

// addPieces adds every piece of a text that is no part of these words.
func (k *keyPieces) addPieces(text, words string) {
	for i := 0; i+pieceLength <= len(text); i++ {
		if piece := text[i : i+pieceLength]; !strings.Contains(words, piece) {
			k.add(piece)
		}
	}
}

func (k *keyPieces) add(piece string) {
	n := len(piece)
	if k.pieces[n] == nil {
		k.pieces[n], k.skip[n] = map[string]bool{}, new([1 << 16]uint8)
		for i := range k.skip[n] {
			k.skip[n][i] = uint8(n - 1) //nolint:gosec // less than 255
		}
	}
	k.pieces[n][piece] = true
	for i := 1; i < n; i++ {
		pair := int(piece[i-1])<<8 | int(piece[i])
		k.skip[n][pair] = min(k.skip[n][pair], uint8(n-1-i)) //nolint:gosec // less than 255
	}
}

// ownWords are words of this program and of LoopGrid's answers. A key, or a piece of one, that is among them reveals nothing.
func ownWords() string {
	var words strings.Builder
	words.WriteString("loopgrid-mcp loopgrid-evidence loopgrid-verify loopgrid/3.0-draft localhost workspace workspace_id default production service_key ")
	words.WriteString("event_id occurred_at actor payload payload_available content_hash previous_hash signature key_id proof schema_version policy_evaluated ")
	words.WriteString("decision_created model_completed tool_executed outcome_observed human_approved human_rejected human_approval_required manual_review_required ")
	for _, t := range catalogue() {
		words.WriteString(dotted.toolName(t.name) + " " + underscored.toolName(t.name) + " ")
		for _, p := range t.parameters {
			words.WriteString(p.name + " ")
		}
		for _, r := range t.results {
			words.WriteString(r.name + " ")
		}
	}
	return words.String()
}

// span is a part of a text.
type span struct{ from, to int }

// find returns the parts of text that are made of pieces.
func (k *keyPieces) find(text []byte) []span {
	var found []span
	for n, pieces := range k.pieces {
		skip := k.skip[n]
		for i := n - 1; i < len(text); {
			if s := skip[int(text[i-1])<<8|int(text[i])]; s > 0 {
				i += int(s)
				continue
			}
			if from := i - n + 1; pieces[string(text[from:i+1])] {
				if last := len(found) - 1; last >= 0 && found[last].to >= from && found[last].from <= from {
					found[last].to = i + 1
				} else {
					found = append(found, span{from, i + 1})
				}
			}
			i++
		}
	}
	return found
}

// text hides the key in a text of the service.
func (h *keyHider) text(s string) string {
	if k := h.look(); k != nil {
		return k.hide(s)
	}
	return s
}

func (k *keyPieces) hide(s string) string {
	found := k.find([]byte(s))
	for marker, decode := range map[string]func(string) (byte, int){"%": percentDecoded, `\`: jsonDecoded} {
		if !strings.Contains(s, marker) {
			continue
		}
		decoded, offsets := decodeAll(s, decode)
		for _, f := range k.find(decoded) {
			found = append(found, span{offsets[f.from], offsets[f.to]})
		}
	}
	return masked(s, found)
}

// masked replaces parts of a text.
func masked(s string, found []span) string {
	if len(found) == 0 {
		return s
	}
	slices.SortFunc(found, func(a, b span) int { return a.from - b.from })
	var out strings.Builder
	done := 0
	for i := 0; i < len(found); {
		from, to := found[i].from, found[i].to
		for i++; i < len(found) && found[i].from <= to; i++ {
			to = max(to, found[i].to)
		}
		for to > from && to < len(s) && !utf8.RuneStart(s[to]) {
			to++
		}
		for from > done && !utf8.RuneStart(s[from]) {
			from--
		}
		before := s[done:from]
		if all := keyPrefix().FindAllStringIndex(before, -1); all != nil && all[len(all)-1][1] == len(before) {
			before = before[:all[len(all)-1][0]]
		}
		out.WriteString(before + hiddenKey)
		done = to
	}
	return out.String() + s[done:]
}

// decodeAll decodes a text byte by byte; offsets are the positions in s of each byte of the result, and of its end.
func decodeAll(s string, decode func(string) (byte, int)) (decoded []byte, offsets []int) {
	decoded = make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		b, n := decode(s[i:])
		decoded, offsets = append(decoded, b), append(offsets, i)
		i += n
	}
	return decoded, append(offsets, len(s))
}

// percentDecoded is the first byte of s, which may be written as %41, and how many bytes that takes.
func percentDecoded(s string) (byte, int) {
	if len(s) >= 3 && s[0] == '%' {
		if b, err := strconv.ParseUint(s[1:3], 16, 8); err == nil {
			return byte(b), 3
		}
	}
	return s[0], 1
}

// jsonDecoded is the first byte of s, which may be written as \u0041 or with a backslash, and how many bytes that takes.
func jsonDecoded(s string) (byte, int) {
	switch {
	case len(s) >= 6 && s[0] == '\\' && s[1] == 'u':
		if b, err := strconv.ParseUint(s[2:6], 16, 8); err == nil {
			return byte(b), 6
		}
	case len(s) >= 2 && s[0] == '\\':
		return s[1], 2
	}
	return s[0], 1
}

// json hides the key in the strings of a JSON text from the service, however they are escaped. Strings equal to one of these IDs stay,
// and so do numbers: a key of digits could be part of one.
func (h *keyHider) json(value jsontext.Value, ids ...string) jsontext.Value {
	k := h.look()
	if k == nil || value == nil || bytes.IndexByte(value, '\\') < 0 && bytes.IndexByte(value, '%') < 0 && len(k.find(value)) == 0 {
		return value
	}
	return evidence.MapStrings(value, func(s string) string {
		if slices.Contains(ids, s) {
			return s
		}
		return k.hide(s)
	})
}

// result hides the whole key in an answer, wherever it came from: a caller may have sent it as an argument.
func (h *keyHider) result(answer *mcp.CallToolResult) {
	k := h.look()
	if k == nil {
		return
	}
	for _, key := range k.whole {
		quoted := evidence.Text(key)
		quoted = quoted[1 : len(quoted)-1]
		hide := strings.NewReplacer(key, hiddenKey, string(quoted), hiddenKey)
		for i, block := range answer.Content {
			content, ok := block.(*mcp.TextContent)
			if !ok || !strings.Contains(content.Text, key) && !strings.Contains(content.Text, string(quoted)) {
				continue
			}
			if i > 0 || answer.StructuredContent == nil {
				content.Text = hide.Replace(content.Text)
				continue
			}
			inStrings := evidence.MapStrings(jsontext.Value(content.Text), hide.Replace) // not in numbers
			content.Text, answer.StructuredContent = string(inStrings), json.RawMessage(inStrings)
		}
	}
}

// error hides the key in an error that go-sdk sends as one of JSON-RPC.
func (h *keyHider) error(err error) error {
	coded, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || h.look() == nil {
		return err
	}
	return &jsonrpc.Error{Code: coded.Code, Message: h.text(coded.Message), Data: json.RawMessage(h.json(jsontext.Value(coded.Data)))}
}
