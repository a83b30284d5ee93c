package stream

import (
	"cmp"
	"encoding/json"

	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Opencode returns a decoder of what "opencode run --format json" prints. It
// reports tokens of every step, and the cost if it knows the model's prices.
func Opencode() event.Decoder {
	o := &opencode{}
	return event.Lines(o.line)
}

type opencode struct {
	ending
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
			ID     string `json:"callID"`
			State  struct {
				Input    json.RawMessage `json:"input"`
				Status   string          `json:"status"`
				Output   string          `json:"output"`
				Error    string          `json:"error"`
				Metadata json.RawMessage `json:"metadata"` // differs by tool
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
	case "step_start":
		return o.work()
	case "text":
		o.text = termsafe.Strip(e.Part.Text)
		return oneText(e.Part.Text)
	case "tool_use":
		state := e.Part.State
		var process struct {
			Exit int `json:"exit"`
		}
		_ = json.Unmarshal(state.Metadata, &process) // not of a command
		return []event.Event{
			withID(otherTool(e.Part.Tool, state.Input), e.Part.ID),
			toolResult(e.Part.ID, state.Status == "error" || process.Exit != 0, cmp.Or(state.Error, state.Output)),
		}
	case "step_finish":
		t := e.Part.Tokens
		o.tokens = o.tokens.Plus(event.Tokens{Input: t.Input, Output: t.Output + t.Reasoning, CacheRead: t.Cache.Read, CacheWrite: t.Cache.Write})
		o.cost += e.Part.Cost
		return o.stepFinished(e.Part.Reason)
	case "error":
		return o.failed(e.Error)
	}
	return nil
}

// stepFinished handles the end of a step: opencode continues for only two reasons.
func (o *opencode) stepFinished(reason string) []event.Event {
	usage := o.usage()
	switch reason {
	case "", "tool-calls", "unknown":
		return []event.Event{usage}
	case "stop":
		return []event.Event{usage, o.result(done(false, o.text, usage))}
	default:
		return []event.Event{usage, o.result(done(true, "the model stopped: "+termsafe.Strip(reason), usage))}
	}
}

func (o *opencode) usage() event.Usage {
	tokens, cost := o.tokens, o.cost
	return event.Usage{Tokens: &tokens, CostUSD: &cost}
}

// failed decodes an error. Those of the plugin contain the end of a rate limit.
func (o *opencode) failed(raw json.RawMessage) []event.Event {
	var e struct {
		Name string `json:"name"`
		Data struct {
			Message string  `json:"message"`
			Next    float64 `json:"next"` // milliseconds since 1970
			Status  int     `json:"statusCode"`
		} `json:"data"`
		Message string `json:"message"`
	}
	_ = json.Unmarshal(raw, &e) // other types have no fields
	text := termsafe.Strip(cmp.Or(e.Data.Message, e.Message, e.Name, scalar(raw)))
	events := limitEvents(text)
	if len(events) > 0 {
		events[0] = certainLimit(text, epoch(e.Data.Next/1000))
	}
	if e.Data.Status == 401 || e.Data.Status == 403 {
		events = append(events, event.KeyRefused{Text: text})
	}
	var usage event.Usage
	if o.tokens != (event.Tokens{}) {
		usage = o.usage()
	}
	return append(events, event.Complaint{Text: text}, o.result(done(true, text, usage)))
}
