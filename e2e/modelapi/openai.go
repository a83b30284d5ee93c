package modelapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// responses plays OpenAI's Responses API.
func (v *Vendor) responses(w http.ResponseWriter, body []byte, number int) {
	var asked struct {
		Tools []offered
		Input []struct{ Type string }
	}
	_ = json.Unmarshal(body, &asked) // a request without tools gets a text
	results := 0
	for _, item := range asked.Input {
		if item.Type == "function_call_output" {
			results++
		}
	}
	c := v.next(asked.Tools, results, number)
	item := object{"type": "message", "role": "assistant", "id": fmt.Sprintf("msg_%d", number), "content": []object{{"type": "output_text", "text": c.text}}}
	if c.tool != "" {
		arguments, _ := json.Marshal(c.arguments)
		item = object{"type": "function_call", "id": "fc_" + c.id, "call_id": c.id, "name": c.tool, "arguments": string(arguments), "status": "completed"}
	}
	id := fmt.Sprintf("resp_%d", number)
	s := events(w)
	s.send("response.created", object{"response": object{"id": id}})
	s.send("response.output_item.added", object{"output_index": 0, "item": item})
	s.send("response.output_item.done", object{"output_index": 0, "item": item})
	s.send("response.completed", object{"response": object{"id": id, "output": []object{item}, "usage": object{
		"input_tokens": 100, "input_tokens_details": object{"cached_tokens": 40},
		"output_tokens": 20, "output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": 120,
	}}})
}

// chat plays OpenAI's Chat Completions API, which many others speak too.
func (v *Vendor) chat(w http.ResponseWriter, body []byte, number int) {
	var asked struct {
		Stream bool
		Model  string
		Tools  []struct{ Function offered }
		// The roles show how far the conversation is.
		Messages []struct{ Role string }
	}
	_ = json.Unmarshal(body, &asked) // a request without tools gets a text
	var tools []offered
	for _, t := range asked.Tools {
		tools = append(tools, t.Function)
	}
	results := 0
	for _, m := range asked.Messages {
		if m.Role == "tool" {
			results++
		}
	}
	c := v.next(tools, results, number)
	message, reason := object{"role": "assistant", "content": c.text}, "stop"
	if c.tool != "" {
		arguments, _ := json.Marshal(c.arguments)
		message, reason = object{"role": "assistant", "tool_calls": []object{{
			"index": 0, "id": c.id, "type": "function", "function": object{"name": c.tool, "arguments": string(arguments)},
		}}}, "tool_calls"
	}
	usage := object{"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
	whole := func(kind string, choice, usage any) object {
		return object{"id": fmt.Sprintf("chatcmpl-%d", number), "object": kind, "created": 1, "model": asked.Model, "choices": choice, "usage": usage}
	}
	if !asked.Stream {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(whole("chat.completion", []object{{"index": 0, "message": message, "finish_reason": reason}}, usage))
		return
	}
	s := events(w)
	s.data(whole("chat.completion.chunk", []object{{"index": 0, "delta": message, "finish_reason": nil}}, nil))
	s.data(whole("chat.completion.chunk", []object{{"index": 0, "delta": object{}, "finish_reason": reason}}, nil))
	s.data(whole("chat.completion.chunk", []object{}, usage))
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}
