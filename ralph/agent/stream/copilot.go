package stream

import (
	"encoding/json"
	"fmt"

	"github.com/docker-ralph/docker-ralph/ralph/agent/event"
)

// Copilot returns a decoder of what "copilot --output-format json" prints.
// Copilot counts premium requests; of tokens and cost it reports nothing.
func Copilot() event.Decoder {
	c := &copilot{}
	return event.Lines(c.line)
}

type copilot struct {
	text      string
	complaint string
}

func (c *copilot) line(line []byte) []event.Event {
	var e struct {
		Type string `json:"type"`
		Data struct {
			Content   string          `json:"content"`
			Tool      string          `json:"toolName"`
			Arguments json.RawMessage `json:"arguments"`
			Message   string          `json:"message"`
			Error     string          `json:"errorMessage"`
			Status    int             `json:"statusCode"`
		} `json:"data"`
		ExitCode *int `json:"exitCode"`
	}
	if line[0] != '{' || json.Unmarshal(line, &e) != nil {
		return nil
	}
	switch e.Type {
	case "assistant.message":
		if e.Data.Content != "" {
			c.text = event.Strip(e.Data.Content)
		}
		return oneText(e.Data.Content)
	case "tool.execution_start":
		return []event.Event{otherTool(e.Data.Tool, e.Data.Arguments)}
	case "model.call_failure":
		// It tries again by itself; only its last complaint matters.
		c.complaint = event.Strip(e.Data.Error)
		if e.Data.Status != 0 {
			c.complaint = fmt.Sprintf("%d %s", e.Data.Status, c.complaint)
		}
		return []event.Event{event.Complaint{Text: c.complaint}}
	case "session.error":
		c.complaint = event.Strip(e.Data.Message)
		return []event.Event{event.Complaint{Text: c.complaint}}
	case "result":
		if e.ExitCode != nil && *e.ExitCode != 0 {
			return append(limitEvents(c.complaint), done(true, c.complaint, event.Usage{}))
		}
		return []event.Event{done(false, c.text, event.Usage{})}
	}
	return nil
}
