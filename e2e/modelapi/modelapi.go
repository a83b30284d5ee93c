// Package modelapi is a stand-in for Anthropic's Messages API that follows a
// script. It lets the real Claude Code run in a test: the agent calls the
// tools that the script names, really, and no model is asked.
package modelapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
)

// Turn is one answer of the "model": what it says, then the tools it calls.
// Without a tool it ends the agent's run.
type Turn struct {
	Text  string
	Tools []Tool
	// Refusal, if set, is said instead, as an error: the model has reached its
	// rate limit.
	Refusal string
	// Status, if set, is the HTTP status of a refusal for another reason.
	Status int
	// Silent turns are never answered.
	Silent bool
	// Reset turns end the connection in the middle of the answer.
	Reset bool
}

// Tool is one call of a tool.
type Tool struct {
	Name  string
	Input any // encoded as JSON
}

// Say returns a turn that ends the run with a text.
func Say(text string) Turn { return Turn{Text: text} }

// Bash returns a turn that runs a shell command.
func Bash(command string) Turn {
	return Turn{Tools: []Tool{{"Bash", map[string]string{"command": command, "description": "Run a command"}}}}
}

// Script answers a request.
type Script func(Request) Turn

// Sessions is a script for several runs of an agent, one after the other: the
// first run gets the turns of the first list, and so on. A run that asks for
// more than its list has, and every run without a list, gets a closing text that
// says so.
func Sessions(sessions ...[]Turn) Script {
	var mu sync.Mutex
	order := map[string]int{}
	return func(r Request) Turn {
		mu.Lock()
		defer mu.Unlock()
		n, known := order[r.Session]
		if !known {
			n = len(order)
			order[r.Session] = n
		}
		turn := r.Turn()
		if n >= len(sessions) || turn >= len(sessions[n]) {
			return Say(fmt.Sprintf("The script has no turn %d for session %d.", turn+1, n+1))
		}
		return sessions[n][turn]
	}
}

// Server is an [http.Handler] that answers POST /v1/messages from a script,
// and records what it is asked.
type Server struct {
	script Script

	mu       sync.Mutex
	requests []Request
	others   []string
}

// New returns a server that follows script.
func New(script Script) *Server { return &Server{script: script} }

// Requests returns what was asked so far, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Others returns the method and path of every request that was not for
// /v1/messages, e.g. "HEAD /".
func (s *Server) Others() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.others...)
}

// First returns the first request of every run of an agent, in order. It
// holds the prompt as the agent expanded it.
func (s *Server) First() []Request {
	var first []Request
	seen := map[string]bool{}
	for _, r := range s.Requests() {
		if !seen[r.Session] {
			seen[r.Session] = true
			first = append(first, r)
		}
	}
	return first
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	if hr.Method != http.MethodPost || hr.URL.Path != "/v1/messages" {
		s.mu.Lock()
		s.others = append(s.others, hr.Method+" "+hr.URL.Path)
		s.mu.Unlock()
		fail(w, http.StatusNotFound, "not_found_error", "only POST /v1/messages is served")
		return
	}
	body, err := io.ReadAll(hr.Body)
	if err != nil {
		return // the agent has gone
	}
	r, err := parse(hr.Header, body)
	if err != nil {
		fail(w, http.StatusBadRequest, "invalid_request_error", err.Error())
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, r)
	number := len(s.requests)
	s.mu.Unlock()
	turn := Say("ok") // side questions, e.g. for a title, come without tools
	if r.HasTool("Bash") {
		turn = s.script(r)
	}
	if turn.Silent {
		<-hr.Context().Done()
		return
	}
	if turn.Reset {
		reset(w)
		return
	}
	if turn.Status != 0 {
		fail(w, turn.Status, "error", turn.Refusal)
		return
	}
	if turn.Refusal != "" {
		w.Header().Set("X-Should-Retry", "false")
		fail(w, http.StatusTooManyRequests, "rate_limit_error", turn.Refusal)
		return
	}
	answer(w, r, turn, number)
}

func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // HTTP/2 cannot; the stream is reset instead
	}
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: message_start\ndata: {")
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

func fail(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(object{"type": "error", "error": object{"type": kind, "message": message}})
}

// Request is one request of an agent.
type Request struct {
	// Session is the id of the agent's run.
	Session  string
	Model    string
	Key      string // the API key or token that came with it
	Stream   bool
	System   string
	Tools    []string
	Messages []Message
}

// Message is one message of the conversation so far.
type Message struct {
	Role   string
	Blocks []Block
}

// Block is one part of a message.
type Block struct {
	Type    string // text, tool_use, tool_result, ...
	Text    string // of text, and of tool_result the output
	IsError bool   // of tool_result
}

// Turn counts the answers that the conversation has so far.
func (r Request) Turn() int {
	n := 0
	for _, m := range r.Messages {
		if m.Role == "assistant" {
			n++
		}
	}
	return n
}

// HasTool says whether the agent offers the tool.
func (r Request) HasTool(name string) bool {
	for _, t := range r.Tools {
		if t == name {
			return true
		}
	}
	return false
}

// UserText returns all text that the user's side sent, the prompt included.
func (r Request) UserText() string {
	var b strings.Builder
	for _, m := range r.Messages {
		for _, block := range m.Blocks {
			if m.Role == "user" && block.Type == "text" {
				b.WriteString(block.Text + "\n")
			}
		}
	}
	return b.String()
}

// Results returns what the tools answered so far.
func (r Request) Results() []Block {
	var results []Block
	for _, m := range r.Messages {
		for _, block := range m.Blocks {
			if block.Type == "tool_result" {
				results = append(results, block)
			}
		}
	}
	return results
}
