package modelapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

type object map[string]any

// parse reads a request as far as tests care.
func parse(header http.Header, body []byte) (Request, error) {
	var wire struct {
		Model    string          `json:"model"`
		Stream   bool            `json:"stream"`
		System   json.RawMessage `json:"system"`
		Tools    []struct{ Name string }
		Metadata struct {
			UserID string `json:"user_id"`
		} `json:"metadata"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &wire); err != nil {
		return Request{}, fmt.Errorf("reading the request: %w", err)
	}
	if len(wire.Messages) == 0 {
		return Request{}, errors.New("messages: at least one message is required")
	}
	r := Request{Model: wire.Model, Stream: wire.Stream, Session: session(header, wire.Metadata.UserID)}
	if r.Key = header.Get("X-Api-Key"); r.Key == "" {
		r.Key = strings.TrimPrefix(header.Get("Authorization"), "Bearer ")
	}
	for _, t := range wire.Tools {
		r.Tools = append(r.Tools, t.Name)
	}
	for _, b := range blocks(wire.System) {
		r.System += b.Text + "\n"
	}
	for _, m := range wire.Messages {
		r.Messages = append(r.Messages, Message{Role: m.Role, Blocks: blocks(m.Content)})
	}
	return r, nil
}

// session returns the ID of an agent's run. Older versions send it only in the
// metadata.
func session(header http.Header, userID string) string {
	if id := header.Get("X-Claude-Code-Session-Id"); id != "" {
		return id
	}
	return userID
}

// blocks reads content, which is a string or a list of blocks.
func blocks(raw json.RawMessage) []Block {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []Block{{Type: "text", Text: text}}
	}
	var wire []struct {
		Type    string          `json:"type"`
		Text    string          `json:"text"`
		Content json.RawMessage `json:"content"`
		IsError bool            `json:"is_error"`
	}
	if json.Unmarshal(raw, &wire) != nil {
		return nil
	}
	var found []Block
	for _, w := range wire {
		b := Block{Type: w.Type, Text: w.Text, IsError: w.IsError}
		for _, inner := range blocks(w.Content) {
			b.Text += inner.Text
		}
		found = append(found, b)
	}
	return found
}

// content returns a turn's blocks as they are in a finished message. The
// input of a tool is JSON already.
func content(t Turn, number int) ([]object, error) {
	all := []object{}
	if t.Text != "" {
		all = append(all, object{"type": "text", "text": t.Text})
	}
	for i, tool := range t.Tools {
		input, err := json.Marshal(tool.Input)
		if err != nil {
			return nil, fmt.Errorf("encoding the input of tool %s: %w", tool.Name, err)
		}
		all = append(all, object{
			"type": "tool_use", "id": fmt.Sprintf("toolu_%d_%d", number, i),
			"name": tool.Name, "input": json.RawMessage(input),
		})
	}
	return all, nil
}

func stopReason(t Turn) string {
	if len(t.Tools) > 0 {
		return "tool_use"
	}
	return "end_turn"
}

// answer sends a turn, as a stream if the agent wants one.
func answer(w http.ResponseWriter, r Request, t Turn, number int) {
	all, err := content(t, number)
	if err != nil {
		fail(w, http.StatusInternalServerError, "api_error", err.Error())
		return
	}
	message := object{
		"id": fmt.Sprintf("msg_%d", number), "type": "message", "role": "assistant", "model": r.Model,
		"content": []object{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": object{"input_tokens": 100, "output_tokens": 1},
	}
	if !r.Stream {
		message["content"], message["stop_reason"] = all, stopReason(t)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(message)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	s := stream{w}
	s.send("message_start", object{"message": message})
	for i, block := range all {
		s.sendBlock(i, block)
	}
	s.send("message_delta", object{
		"delta": object{"stop_reason": stopReason(t), "stop_sequence": nil},
		"usage": object{"output_tokens": 20},
	})
	s.send("message_stop", object{})
}

// stream writes server-sent events.
type stream struct{ w io.Writer }

// sendBlock sends a block as the API does: first without, then with content.
func (s stream) sendBlock(index int, block object) {
	start, delta := object{"type": "text", "text": ""}, object{"type": "text_delta", "text": block["text"]}
	if input, isTool := block["input"].(json.RawMessage); isTool {
		start = object{"type": "tool_use", "id": block["id"], "name": block["name"], "input": object{}}
		delta = object{"type": "input_json_delta", "partial_json": string(input)}
	}
	s.send("content_block_start", object{"index": index, "content_block": start})
	s.send("content_block_delta", object{"index": index, "delta": delta})
	s.send("content_block_stop", object{"index": index})
}

func (s stream) send(kind string, fields object) {
	fields["type"] = kind
	data, _ := json.Marshal(fields) // holds nothing that cannot be encoded
	_, _ = fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", kind, data)
}
