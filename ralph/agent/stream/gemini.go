package stream

import (
	"encoding/json"

	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Gemini returns a decoder of what "gemini --output-format stream-json"
// prints. Gemini reports tokens at the end, and no cost.
func Gemini() event.Decoder {
	g := &gemini{}
	return event.Lines(g.line)
}

type gemini struct{ text string }

func (g *gemini) line(line []byte) []event.Event {
	var e struct {
		Type       string          `json:"type"`
		Model      string          `json:"model"`
		ID         string          `json:"tool_id"`
		Output     string          `json:"output"`
		Role       string          `json:"role"`
		Content    string          `json:"content"`
		Delta      bool            `json:"delta"`
		Tool       string          `json:"tool_name"`
		Parameters json.RawMessage `json:"parameters"`
		Severity   string          `json:"severity"`
		Message    string          `json:"message"`
		Status     string          `json:"status"`
		Error      struct {
			Message string `json:"message"`
		} `json:"error"`
		Stats *struct {
			Input  int64 `json:"input_tokens"`
			Output int64 `json:"output_tokens"`
			Cached int64 `json:"cached"`
		} `json:"stats"`
	}
	if line[0] != '{' || json.Unmarshal(line, &e) != nil {
		return nil
	}
	switch e.Type {
	case "init":
		return modelEvents(e.Model)
	case "message":
		return g.message(e.Role, e.Content, e.Delta)
	case "tool_use":
		g.text = ""
		return []event.Event{withID(otherTool(e.Tool, e.Parameters), e.ID)}
	case "tool_result":
		return []event.Event{toolResult(e.ID, e.Status != "success", e.Output+e.Error.Message)}
	case "error":
		return []event.Event{event.Complaint{Text: termsafe.Strip(e.Message)}}
	case "result":
		var usage event.Usage
		var events []event.Event
		if e.Stats != nil {
			usage.Tokens = &event.Tokens{Input: e.Stats.Input - e.Stats.Cached, Output: e.Stats.Output, CacheRead: e.Stats.Cached}
			events = append(events, usage)
		}
		if e.Status == "success" {
			return append(events, done(false, g.text, usage))
		}
		text := termsafe.Strip(e.Error.Message)
		events = append(events, limitEvents(text)...)
		return append(events, done(true, text, usage))
	}
	return nil
}

// message decodes a message; with delta it is a part of one.
func (g *gemini) message(role, content string, delta bool) []event.Event {
	if role != "assistant" {
		return nil
	}
	if !delta {
		g.text = termsafe.Strip(content)
		return oneText(content)
	}
	content = termsafe.Strip(content)
	g.text += content
	return []event.Event{event.Text{Text: content}}
}
