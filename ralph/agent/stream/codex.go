package stream

import (
	"encoding/json"
	"strings"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Codex returns a decoder of what "codex exec --json" prints. Codex reports
// tokens, and no cost.
func Codex() event.Decoder {
	c := &codex{}
	return withEnd{event.Lines(c.line), c.end}
}

type codex struct {
	pendingLimit
	usage event.Usage
	text  string // the last message
}

func (c *codex) line(line []byte) []event.Event {
	var e struct {
		Type string `json:"type"`
		Item struct {
			ID      string          `json:"id"`
			Type    string          `json:"type"`
			Output  string          `json:"aggregated_output"`
			Code    int             `json:"exit_code"`
			Status  string          `json:"status"`
			Text    string          `json:"text"`
			Command string          `json:"command"`
			Message string          `json:"message"`
			Query   string          `json:"query"`
			Server  string          `json:"server"`
			Tool    string          `json:"tool"`
			Input   json.RawMessage `json:"arguments"`
			Changes []struct {
				Path string `json:"path"`
				Kind string `json:"kind"`
			} `json:"changes"`
		} `json:"item"`
		Usage   json.RawMessage `json:"usage"`
		Message string          `json:"message"`
		Error   struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if line[0] != '{' || json.Unmarshal(line, &e) != nil {
		return nil
	}
	c.waits = nil
	item := e.Item
	switch e.Type + " " + item.Type {
	case "item.completed agent_message":
		c.text = termsafe.Strip(item.Text)
		return oneText(item.Text)
	case "item.started command_execution":
		return []event.Event{withID(command(unwrapped(item.Command)), item.ID)}
	case "item.completed command_execution":
		return []event.Event{toolResult(item.ID, item.Code != 0 || item.Status == "failed", item.Output)}
	case "item.completed file_change":
		var paths []string
		for _, change := range item.Changes {
			paths = append(paths, change.Kind+" "+change.Path)
		}
		return []event.Event{event.Tool{Name: "Edit", Detail: " " + termsafe.Shorten(termsafe.Strip(strings.Join(paths, ", ")), maxWritten)}}
	case "item.started mcp_tool_call":
		return []event.Event{withID(otherTool(item.Server+"."+item.Tool, item.Input), item.ID)}
	case "item.completed mcp_tool_call":
		return []event.Event{toolResult(item.ID, item.Status == "failed", "")}
	case "item.started web_search", "item.completed web_search":
		if item.Query == "" || e.Type == "item.started" {
			return nil
		}
		return []event.Event{event.Tool{Name: "WebSearch", Detail: " " + termsafe.Shorten(termsafe.Strip(item.Query), maxInput)}}
	case "item.completed error":
		return []event.Event{event.Complaint{Text: termsafe.Strip(item.Message)}}
	}
	switch e.Type {
	case "error":
		return c.failed(termsafe.Strip(e.Message))
	case "turn.completed":
		c.count(e.Usage)
		return []event.Event{c.usage, done(false, c.text, c.usage)}
	case "turn.failed":
		c.count(e.Usage)
		text := termsafe.Strip(e.Error.Message)
		return append(limitEvents(text), done(true, text, c.usage))
	}
	return nil
}

// failed decodes an intermediate error. Codex also retries ("Reconnecting...") with a
// rejected key.
func (c *codex) failed(text string) []event.Event {
	c.waits = limitEvents(text)
	events := []event.Event{event.Complaint{Text: text}}
	if strings.HasPrefix(text, "Reconnecting") {
		events = append(events, event.Retry{Text: text})
	}
	if strings.Contains(text, "unexpected status 401") || strings.Contains(text, "unexpected status 403") {
		events = append(events, event.KeyRefused{Text: text})
	}
	return events
}

// wrapping matches the shell that codex runs a command with.
var wrapping = lazyregexp.New(`(?s)^\S*/(?:ba|z|da|)sh -l?c (?:'([^']*)'|"([^"$\\` + "`" + `]*)"|([^\s'"]+))$`)

// unwrapped returns the model's command without the shell, unless it is quoted.
func unwrapped(command string) string {
	if found := wrapping().FindStringSubmatch(command); found != nil {
		return found[1] + found[2] + found[3]
	}
	return command
}

// count adds the tokens of a turn. The input includes cached tokens.
func (c *codex) count(raw json.RawMessage) {
	var u struct {
		Input      int64 `json:"input_tokens"`
		Cached     int64 `json:"cached_input_tokens"`
		CacheWrite int64 `json:"cache_write_input_tokens"`
		Output     int64 `json:"output_tokens"`
	}
	if isNull(raw) || json.Unmarshal(raw, &u) != nil {
		return
	}
	turn := event.Tokens{Input: u.Input - u.Cached - u.CacheWrite, Output: u.Output, CacheRead: u.Cached, CacheWrite: u.CacheWrite}
	if c.usage.Tokens != nil {
		turn = turn.Plus(*c.usage.Tokens)
	}
	c.usage.Tokens = &turn
}
