package stream

import (
	"encoding/json"

	"github.com/docker-ralph/docker-ralph/ralph/agent/event"
)

// Opencode returns a decoder of what "opencode run --format json" prints. It
// reports tokens and cost of every step, the cost as far as it knows the
// model's prices.
func Opencode() event.Decoder {
	o := &opencode{}
	return event.Lines(o.line)
}

type opencode struct {
	tokens event.Tokens
	cost   float64
	text   string
}

func (o *opencode) line(line []byte) []event.Event {
	var e struct {
		Type string `json:"type"`
		Part struct {
			Text   string `json:"text"`
			Tool   string `json:"tool"`
			Reason string `json:"reason"`
			State  struct {
				Input json.RawMessage `json:"input"`
			} `json:"state"`
			Cost   float64 `json:"cost"`
			Tokens struct {
				Input     int64 `json:"input"`
				Output    int64 `json:"output"`
				Reasoning int64 `json:"reasoning"`
				Cache     struct {
					Read  int64 `json:"read"`
					Write int64 `json:"write"`
				} `json:"cache"`
			} `json:"tokens"`
		} `json:"part"`
		Error json.RawMessage `json:"error"`
	}
	if line[0] != '{' || json.Unmarshal(line, &e) != nil {
		return nil
	}
	switch e.Type {
	case "text":
		o.text = event.Strip(e.Part.Text)
		return oneText(e.Part.Text)
	case "tool_use":
		return []event.Event{otherTool(e.Part.Tool, e.Part.State.Input)}
	case "step_finish":
		t := e.Part.Tokens
		o.tokens = add(o.tokens, event.Tokens{Input: t.Input, Output: t.Output + t.Reasoning, CacheRead: t.Cache.Read, CacheWrite: t.Cache.Write})
		o.cost += e.Part.Cost
		tokens, cost := o.tokens, o.cost
		usage := event.Usage{Tokens: &tokens, CostUSD: &cost}
		if e.Part.Reason != "stop" {
			return []event.Event{usage}
		}
		return []event.Event{usage, done(false, o.text, usage)}
	case "error":
		text := opencodeError(e.Error)
		return append(limitEvents(text), event.Complaint{Text: text}, done(true, text, event.Usage{}))
	}
	return nil
}

// opencodeError finds the words in an error.
func opencodeError(raw json.RawMessage) string {
	var e struct {
		Name string `json:"name"`
		Data struct {
			Message string `json:"message"`
		} `json:"data"`
		Message string `json:"message"`
	}
	if json.Unmarshal(raw, &e) != nil {
		return scalar(raw)
	}
	for _, words := range []string{e.Data.Message, e.Message, e.Name} {
		if words != "" {
			return event.Strip(words)
		}
	}
	return scalarOrJSON(raw)
}
