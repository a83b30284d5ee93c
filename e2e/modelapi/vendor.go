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
	// RetryAfter is a header that comes with what is refused, if it is set.
	RetryAfter string

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
			if v.RetryAfter != "" {
				w.Header().Set("Retry-After", v.RetryAfter)
			}
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
