package main

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

const (
	// maxRequests ends a host that would ask for ever.
	maxRequests = 50
	maxBody     = 32 << 20
)

// model stands in for the model behind a host. It speaks the four APIs that hosts use, and thinks nothing: it makes the calls of its plan,
// one as soon as it got the result of the one before, and then it is done. It keeps the rule of each API for tool names: a name that the
// real service refuses, it refuses too.
type model struct {
	plan []planned

	mu       sync.Mutex
	requests int
	offered  []string // the tools of the program, as the host calls them
	results  []string // what the host told of its calls
	refused  string   // what it refused, and why
	paths    []string // what was asked that it does not know
}

// planned is a call to make.
type planned struct {
	tool      string // the name without prefix: what is before it is the host's
	arguments string // {id} is the decision that an earlier result names
}

// turn is a request of any of the APIs: what the model is offered, and what it was told.
type turn struct {
	stream  bool
	offered []name
	results []string
	text    string // of the whole request

	searched int // results of searches for tools
}

// searchID begins the ids of searches for tools.
const searchID = "search_"

// callID returns an id for the next call.
func (t turn) callID() string { return fmt.Sprintf("call_%d", len(t.results)+1) }

// name is what a tool is called, within a namespace where the API has such.
type name struct{ space, name string }

// move is what the model does: it calls the tool, or says something where there is none.
type move struct {
	tool      *name
	arguments json.RawMessage
	say       string
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimSuffix(r.URL.Path, "/")
	body, err := readBody(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch {
	case r.Method == http.MethodHead:
	case r.Method == http.MethodGet && strings.HasSuffix(path, "/models"):
		reply(w, object{"object": "list", "data": []object{{"id": modelName, "object": "model", "type": "model", "display_name": modelName, "owned_by": "nobody", "created": 1}}})
	case strings.HasSuffix(path, "/count_tokens"):
		reply(w, object{"input_tokens": 1})
	case strings.HasSuffix(path, ":countTokens"):
		reply(w, object{"totalTokens": 1})
	case strings.HasSuffix(path, "/messages"):
		m.take(w, body, anthropicTurn, `^[a-zA-Z0-9_-]{1,128}$`, m.anthropic)
	case strings.HasSuffix(path, "/chat/completions"):
		m.take(w, body, chatTurn, `^[a-zA-Z0-9_-]{1,64}$`, m.chat)
	case strings.HasSuffix(path, "/responses"):
		m.take(w, body, responsesTurn, `^[a-zA-Z0-9_-]{1,64}$`, m.responses)
	case strings.Contains(path, "enerateContent"):
		m.take(w, body, geminiTurn(strings.Contains(path, "stream")), `^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$`, m.gemini)
	default:
		m.mu.Lock()
		m.paths = append(m.paths, r.Method+" "+path)
		m.mu.Unlock()
		http.NotFound(w, r)
	}
}

// take reads a request, looks at the names of its tools, and lets the API answer.
func (m *model) take(w http.ResponseWriter, body []byte, read func([]byte) (turn, error), rule string, answer func(http.ResponseWriter, turn, move)) {
	t, err := read(body)
	if err != nil {
		m.refuse(w, fmt.Sprintf("the request cannot be read: %v", err))
		return
	}
	t.text = string(body)
	legal := regexp.MustCompile(rule)
	m.mu.Lock()
	m.requests++
	requests := m.requests
	for _, n := range t.offered {
		if full := strings.TrimPrefix(n.space+" "+n.name, " "); strings.Contains(full, "loopgrid") && !slices.Contains(m.offered, full) {
			m.offered = append(m.offered, full)
		}
	}
	if len(t.results) > len(m.results) {
		m.results = t.results
	}
	next := m.next(t)
	m.mu.Unlock()
	if requests > maxRequests {
		m.refuse(w, "too many requests")
		return
	}
	for _, n := range t.offered {
		if !legal.MatchString(n.name) || n.space != "" && !legal.MatchString(n.space) {
			m.refuse(w, fmt.Sprintf("the tool name %q does not match %s", n.name, rule))
			return
		}
	}
	answer(w, t, next)
}

// next returns the call of the plan that follows the results. Some hosts add a hash to a name that they change. Some offer instead of the
// tools one that calls or loads them, by the names in their instructions.
func (m *model) next(t turn) move {
	if len(t.results) >= len(m.plan) {
		return move{say: "done"}
	}
	step := m.plan[len(t.results)]
	id := regexp.MustCompile(`dec_[0-9a-f]{24}`).FindString(strings.Join(t.results, " "))
	arguments := json.RawMessage(strings.ReplaceAll(step.arguments, "{id}", id))
	named := regexp.MustCompile(`[\w.:-]*loopgrid[\w.:-]*` + step.tool + `(_[a-z0-9]{6,8})?\b`)
	for _, n := range t.offered {
		full := n.space + n.name
		if named.FindString(full) == full && full != "" {
			return move{tool: &n, arguments: arguments}
		}
	}
	hidden := regexp.MustCompile(`mcp__[\w.-]*` + step.tool + `(_[a-z0-9]{6,8})?\b`).FindString(t.text)
	for _, n := range t.offered {
		switch {
		case hidden == "":
		case n.name == "tool_call": // Qwen Code
			wrapped, _ := json.Marshal(object{"name": hidden, "arguments": arguments}) // valid JSON in both
			return move{tool: &n, arguments: wrapped}
		case n.name == "ToolSearch" && t.searched <= len(t.results): // Claude Code, once a call
			query, _ := json.Marshal(object{"query": "select:" + hidden, "max_results": 5}) // texts
			return move{tool: &n, arguments: query}
		}
	}
	return move{say: "done"}
}

// refuse answers as all the APIs do: their clients look at the status.
func (m *model) refuse(w http.ResponseWriter, why string) {
	m.mu.Lock()
	m.refused = why
	m.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(object{"type": "error", "error": object{"type": "invalid_request_error", "code": 400, "message": why, "status": "INVALID_ARGUMENT"}})
}

// story is what the model saw, for a failure.
func (m *model) story() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	story := fmt.Sprintf("the model was asked %d times, offered %q, told %d results", m.requests, m.offered, len(m.results))
	if n := len(m.results); n > 0 {
		story += fmt.Sprintf(", the last one %.1000q", m.results[n-1])
	}
	if m.refused != "" {
		story += ", refused: " + m.refused
	}
	if len(m.paths) > 0 {
		story += fmt.Sprintf(", does not know %q", m.paths)
	}
	return story
}

type object = map[string]any

func readBody(r *http.Request) ([]byte, error) {
	var body io.Reader = http.MaxBytesReader(nil, r.Body, maxBody)
	switch encoding := r.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
	case "gzip":
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			return nil, fmt.Errorf("read the request: %w", err)
		}
		body = io.LimitReader(unzipped, maxBody)
	default:
		return nil, fmt.Errorf("read the request: content encoding %q", encoding)
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	return text, nil
}

func reply(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // a host that is gone will not miss it
}

// event is one server-sent event; its kind may be empty.
type event struct {
	kind string
	data any
}

func stream(w http.ResponseWriter, events ...event) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		if e.kind != "" {
			_, _ = fmt.Fprintf(w, "event: %s\n", e.kind)
		}
		text, ok := e.data.(string)
		if !ok {
			encoded, _ := json.Marshal(e.data) // objects that are made here
			text = string(encoded)
		}
		_, _ = fmt.Fprintf(w, "data: %s\n\n", text)
	}
}

// content is that of a message: a text, which holds no results, or a list of blocks.
type content []block

type block struct {
	Type    string          `json:"type"`
	ID      string          `json:"tool_use_id"`
	Content json.RawMessage `json:"content"`
}

// UnmarshalJSON skips a text.
func (c *content) UnmarshalJSON(text []byte) error {
	if len(text) == 0 || text[0] != '[' {
		return nil
	}
	return json.Unmarshal(text, (*[]block)(c))
}

// Anthropic's Messages.

func anthropicTurn(body []byte) (turn, error) {
	var request struct {
		Stream bool `json:"stream"`
		Tools  []struct {
			Name string `json:"name"`
		} `json:"tools"`
		Messages []struct {
			Content content `json:"content"`
		} `json:"messages"`
	}
	err := json.Unmarshal(body, &request)
	t := turn{stream: request.Stream}
	for _, tool := range request.Tools {
		t.offered = append(t.offered, name{name: tool.Name})
	}
	for _, message := range request.Messages {
		for _, block := range message.Content {
			switch {
			case block.Type == "tool_result" && strings.HasPrefix(block.ID, searchID):
				t.searched++
			case block.Type == "tool_result":
				t.results = append(t.results, string(block.Content))
			}
		}
	}
	return t, err
}

func (m *model) anthropic(w http.ResponseWriter, t turn, next move) {
	block, reason := object{"type": "text", "text": next.say}, "end_turn"
	id := t.callID()
	if next.tool != nil && next.tool.name == "ToolSearch" {
		id = searchID + id
	}
	if next.tool != nil {
		block, reason = object{"type": "tool_use", "id": id, "name": next.tool.name, "input": next.arguments}, "tool_use"
	}
	usage := object{"input_tokens": 1, "output_tokens": 1}
	message := object{"id": "msg_1", "type": "message", "role": "assistant", "model": modelName, "stop_sequence": nil, "usage": usage}
	if !t.stream {
		message["content"], message["stop_reason"] = []object{block}, reason
		reply(w, message)
		return
	}
	message["content"], message["stop_reason"] = []object{}, nil
	begin, delta := object{"type": "text", "text": ""}, object{"type": "text_delta", "text": next.say}
	if next.tool != nil {
		begin = object{"type": "tool_use", "id": id, "name": next.tool.name, "input": object{}}
		delta = object{"type": "input_json_delta", "partial_json": string(next.arguments)}
	}
	stream(
		w,
		event{"message_start", object{"type": "message_start", "message": message}},
		event{"content_block_start", object{"type": "content_block_start", "index": 0, "content_block": begin}},
		event{"content_block_delta", object{"type": "content_block_delta", "index": 0, "delta": delta}},
		event{"content_block_stop", object{"type": "content_block_stop", "index": 0}},
		event{"message_delta", object{"type": "message_delta", "delta": object{"stop_reason": reason, "stop_sequence": nil}, "usage": usage}},
		event{"message_stop", object{"type": "message_stop"}},
	)
}

// OpenAI's Chat Completions.

func chatTurn(body []byte) (turn, error) {
	var request struct {
		Stream bool `json:"stream"`
		Tools  []struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tools"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	err := json.Unmarshal(body, &request)
	t := turn{stream: request.Stream}
	for _, tool := range request.Tools {
		t.offered = append(t.offered, name{name: tool.Function.Name})
	}
	for _, message := range request.Messages {
		if message.Role == "tool" {
			t.results = append(t.results, string(message.Content))
		}
	}
	return t, err
}

func (m *model) chat(w http.ResponseWriter, t turn, next move) {
	message, reason := object{"role": "assistant", "content": next.say}, "stop"
	if next.tool != nil {
		call := object{"index": 0, "id": t.callID(), "type": "function", "function": object{"name": next.tool.name, "arguments": string(next.arguments)}}
		message, reason = object{"role": "assistant", "content": nil, "tool_calls": []object{call}}, "tool_calls"
	}
	answer := func(kind, part string, content any, reason any) object {
		choice := object{"index": 0, part: content, "finish_reason": reason}
		return object{
			"id": "chatcmpl-1", "object": kind, "created": 1, "model": modelName, "choices": []object{choice},
			"usage": object{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
		}
	}
	if !t.stream {
		reply(w, answer("chat.completion", "message", message, reason))
		return
	}
	stream(
		w,
		event{"", answer("chat.completion.chunk", "delta", message, nil)},
		event{"", answer("chat.completion.chunk", "delta", object{}, reason)},
		event{"", "[DONE]"},
	)
}

// OpenAI's Responses.

func responsesTurn(body []byte) (turn, error) {
	type tool struct {
		Type  string `json:"type"`
		Name  string `json:"name"`
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	var request struct {
		Stream bool            `json:"stream"`
		Tools  []tool          `json:"tools"`
		Input  json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return turn{}, err
	}
	t := turn{stream: request.Stream}
	for _, tool := range request.Tools {
		switch {
		case tool.Type == "namespace":
			for _, member := range tool.Tools {
				t.offered = append(t.offered, name{tool.Name, member.Name})
			}
		case tool.Name != "":
			t.offered = append(t.offered, name{name: tool.Name})
		}
	}
	var input []struct {
		Type   string          `json:"type"`
		Output json.RawMessage `json:"output"`
	}
	if len(request.Input) == 0 || request.Input[0] != '[' {
		return t, nil
	}
	err := json.Unmarshal(request.Input, &input)
	for _, item := range input {
		if item.Type == "function_call_output" {
			t.results = append(t.results, string(item.Output))
		}
	}
	return t, err
}

func (m *model) responses(w http.ResponseWriter, t turn, next move) {
	item := object{
		"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
		"content": []object{{"type": "output_text", "text": next.say, "annotations": []object{}}},
	}
	if next.tool != nil {
		item = object{"type": "function_call", "id": "fc_1", "call_id": t.callID(), "status": "completed", "name": next.tool.name, "arguments": string(next.arguments)}
		if next.tool.space != "" {
			item["namespace"] = next.tool.space
		}
	}
	response := func(status string, output ...object) object {
		return object{
			"id": "resp_1", "object": "response", "created_at": 1, "model": modelName, "status": status, "output": output,
			"usage": object{
				"input_tokens": 1, "input_tokens_details": object{"cached_tokens": 0},
				"output_tokens": 1, "output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": 2,
			},
		}
	}
	if !t.stream {
		reply(w, response("completed", item))
		return
	}
	stream(
		w,
		event{"response.created", object{"type": "response.created", "sequence_number": 0, "response": response("in_progress")}},
		event{"response.output_item.added", object{"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": item}},
		event{"response.output_item.done", object{"type": "response.output_item.done", "sequence_number": 2, "output_index": 0, "item": item}},
		event{"response.completed", object{"type": "response.completed", "sequence_number": 3, "response": response("completed", item)}},
	)
}

// Gemini's generateContent.

func geminiTurn(streamed bool) func([]byte) (turn, error) {
	return func(body []byte) (turn, error) {
		var request struct {
			Tools []struct {
				Functions []struct {
					Name string `json:"name"`
				} `json:"functionDeclarations"`
			} `json:"tools"`
			Contents []struct {
				Parts []struct {
					Result *struct {
						Response json.RawMessage `json:"response"`
					} `json:"functionResponse"`
				} `json:"parts"`
			} `json:"contents"`
		}
		err := json.Unmarshal(body, &request)
		t := turn{stream: streamed}
		for _, tool := range request.Tools {
			for _, f := range tool.Functions {
				t.offered = append(t.offered, name{name: f.Name})
			}
		}
		for _, content := range request.Contents {
			for _, part := range content.Parts {
				if part.Result != nil {
					t.results = append(t.results, string(part.Result.Response))
				}
			}
		}
		return t, err
	}
}

func (m *model) gemini(w http.ResponseWriter, t turn, next move) {
	part := object{"text": next.say}
	if next.tool != nil {
		part = object{"functionCall": object{"name": next.tool.name, "args": next.arguments}}
	}
	answer := object{
		"candidates":    []object{{"content": object{"role": "model", "parts": []object{part}}, "finishReason": "STOP", "index": 0}},
		"usageMetadata": object{"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
		"modelVersion":  modelName,
	}
	if t.stream {
		stream(w, event{"", answer})
		return
	}
	reply(w, answer)
}
