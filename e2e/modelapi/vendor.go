package modelapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Vendor is an [http.Handler] that plays the models of other vendors: OpenAI's
// Responses and Chat Completions APIs, and Gemini's. It has the agent run
// shell commands, one after the other, and then says a closing text.
type Vendor struct {
	Commands []string
	Say      string
	// Refuse, if set, is asked before every answer, with the number of the
	// request from 1. A status other than 0 is sent with the body instead.
	Refuse func(number int) (status int, body string)

	mu       sync.Mutex
	requests int
	keys     []string
	others   []string
}

// Requests returns how many answers were asked for.
func (v *Vendor) Requests() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.requests
}

// Others returns the method and path of every other request.
func (v *Vendor) Others() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.others)
}

// Keys returns the keys that came with the requests.
func (v *Vendor) Keys() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.keys)
}

// call is what the model wants: a command run by a tool of the agent, or, with
// no tool, a text.
type call struct {
	id, tool  string
	arguments object
	text      string
}

// ServeHTTP implements [http.Handler].
func (v *Vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the agent has gone
	}
	answer := v.answerer(r.URL.Path)
	if answer == nil || r.Method != http.MethodPost {
		v.mu.Lock()
		v.others = append(v.others, r.Method+" "+r.URL.Path)
		v.mu.Unlock()
		http.Error(w, `{"error":{"message":"not served"}}`, http.StatusNotFound)
		return
	}
	v.mu.Lock()
	v.requests++
	number := v.requests
	v.keys = append(v.keys, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")+r.Header.Get("X-Goog-Api-Key"))
	v.mu.Unlock()
	if v.Refuse != nil {
		if status, text := v.Refuse(number); status != 0 {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
			return
		}
	}
	answer(w, body, number)
}

func (v *Vendor) answerer(path string) func(http.ResponseWriter, []byte, int) {
	switch {
	case strings.HasSuffix(path, "/responses"):
		return v.responses
	case strings.HasSuffix(path, "/chat/completions"):
		return v.chat
	case strings.HasSuffix(path, ":streamGenerateContent"), strings.HasSuffix(path, ":generateContent"):
		return v.gemini
	default:
		return nil
	}
}

// offered is a tool as an agent offers it, in whatever API.
type offered struct {
	Name       string
	Parameters struct {
		Properties map[string]struct {
			Type json.RawMessage `json:"type"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
}

// next is what the model does after so many results of tools.
func (v *Vendor) next(tools []offered, results, number int) call {
	if results >= len(v.Commands) {
		return call{text: v.Say}
	}
	for _, t := range tools {
		if arguments := shellArguments(t, v.Commands[results]); arguments != nil {
			return call{id: fmt.Sprintf("call_%d", number), tool: t.Name, arguments: arguments}
		}
	}
	return call{text: "title"} // a side question, without tools
}

// shellArguments returns the arguments that make a tool run a command; nil if
// it is no shell.
func shellArguments(t offered, command string) object {
	if !slices.Contains([]string{"shell", "shell_command", "exec_command", "bash", "run_shell_command"}, t.Name) {
		return nil
	}
	arguments := object{}
	for name, property := range t.Parameters.Properties {
		isCommand := name == "command" || name == "cmd"
		switch {
		case isCommand && strings.Contains(string(property.Type), "array"):
			arguments[name] = []string{"sh", "-c", command}
		case isCommand:
			arguments[name] = command
		case slices.Contains(t.Parameters.Required, name) && strings.Contains(strings.ToLower(string(property.Type)), "string"):
			arguments[name] = "Run a command"
		}
	}
	return arguments
}

// events starts a stream of server-sent events.
func events(w http.ResponseWriter) stream {
	w.Header().Set("Content-Type", "text/event-stream")
	return stream{w}
}

// data sends an event that has no name.
func (s stream) data(v any) {
	b, _ := json.Marshal(v) // holds nothing that cannot be encoded
	_, _ = fmt.Fprintf(s.w, "data: %s\n\n", b)
}

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
		item = object{"type": "function_call", "id": "fc_" + c.id, "call_id": c.id, "name": c.tool, "arguments": string(arguments)}
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
		// The roles tell how far the conversation is.
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

// gemini plays Google's generateContent, always as one piece of a stream.
func (v *Vendor) gemini(w http.ResponseWriter, body []byte, number int) {
	var asked struct {
		Tools []struct {
			FunctionDeclarations []struct {
				Name                 string
				Parameters           json.RawMessage
				ParametersJSONSchema json.RawMessage `json:"parametersJsonSchema"`
			}
		}
		Contents []struct {
			Parts []struct {
				FunctionResponse json.RawMessage `json:"functionResponse"`
			}
		}
	}
	_ = json.Unmarshal(body, &asked) // a request without tools gets a text
	var tools []offered
	for _, group := range asked.Tools {
		for _, f := range group.FunctionDeclarations {
			t := offered{Name: f.Name}
			for _, schema := range []json.RawMessage{f.Parameters, f.ParametersJSONSchema} {
				if len(schema) > 0 {
					_ = json.Unmarshal(schema, &t.Parameters) // an unknown tool is not called
				}
			}
			tools = append(tools, t)
		}
	}
	results := 0
	for _, content := range asked.Contents {
		for _, part := range content.Parts {
			if len(part.FunctionResponse) > 0 {
				results++
			}
		}
	}
	c := v.next(tools, results, number)
	part := object{"text": c.text}
	if c.tool != "" {
		part = object{"functionCall": object{"id": c.id, "name": c.tool, "args": c.arguments}}
	}
	events(w).data(object{
		"candidates":    []object{{"content": object{"role": "model", "parts": []object{part}}, "finishReason": "STOP", "index": 0}},
		"usageMetadata": object{"promptTokenCount": 100, "cachedContentTokenCount": 40, "candidatesTokenCount": 20, "totalTokenCount": 120},
		"modelVersion":  "gemini-test", "responseId": fmt.Sprint(number),
	})
}
