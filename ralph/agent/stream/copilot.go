package stream

import (
	"encoding/json"
	"time"

	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Copilot returns a decoder of what "copilot --output-format json" prints.
// Copilot reports premium requests, but no tokens or cost.
func Copilot() event.Decoder {
	c := &copilot{}
	return withEnd{event.Lines(c.line), c.end}
}

type copilot struct {
	pendingLimit
	text      string
	complaint string
}

type copilotEvent struct {
	Type string `json:"type"`
	Data struct {
		Model     string          `json:"model"`
		Content   string          `json:"content"`
		Tool      string          `json:"toolName"`
		Arguments json.RawMessage `json:"arguments"`
		Message   string          `json:"message"`
		Error     string          `json:"errorMessage"`
		Kind      string          `json:"errorType"`
		Status    int             `json:"statusCode"`
	} `json:"data"`
	ExitCode *int `json:"exitCode"`
}

func (c *copilot) line(line []byte) []event.Event {
	var e copilotEvent
	if line[0] != '{' || json.Unmarshal(line, &e) != nil {
		return nil
	}
	switch e.Type {
	case "model.call_start":
		return modelEvents(e.Data.Model)
	case "assistant.message":
		c.waits = nil
		if e.Data.Content != "" {
			c.text = termsafe.Strip(e.Data.Content)
		}
		return oneText(e.Data.Content)
	case "tool.execution_start":
		return []event.Event{otherTool(e.Data.Tool, e.Data.Arguments)}
	case "model.call_failure":
		// Copilot retries; only the last error counts.
		return c.complain(apiError(e.Data.Error), e.Data.Status == 429)
	case "session.error":
		return c.complain(e.Data.Message, e.Data.Kind == "rate_limit")
	case "result":
		if e.ExitCode == nil || *e.ExitCode == 0 {
			c.waits = nil
			return []event.Event{done(false, c.text, event.Usage{})}
		}
		limits := c.waits
		c.waits = nil
		return append(limits, done(true, c.complaint, event.Usage{}))
	}
	return nil
}

// complain records an error, and whether copilot reports it as a rate limit.
func (c *copilot) complain(text string, limited bool) []event.Event {
	c.complaint = termsafe.Strip(text)
	c.waits = limitEvents(c.complaint)
	if limited {
		c.waits = []event.Event{certainLimit(c.complaint, time.Time{})}
	}
	return []event.Event{event.Complaint{Text: c.complaint}}
}

// apiError returns the message of a JSON error of a vendor's API.
func apiError(text string) string {
	var e struct {
		Message string `json:"message"`
	}
	if json.Unmarshal([]byte(text), &e) == nil && e.Message != "" {
		return e.Message
	}
	return text
}
