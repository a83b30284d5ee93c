package stream

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// done returns the result of an agent without a summary.
func done(failed bool, text string, usage event.Usage) event.Result {
	how, spent, took := "success", "unknown", "unknown"
	if failed {
		how = "error"
	}
	if usage.CostUSD != nil {
		spent = fmt.Sprintf("$%.4f", *usage.CostUSD)
	}
	if usage.Tokens != nil {
		took = Grouped(usage.Tokens.Total())
	}
	return event.Result{
		Failed: failed, Text: text,
		Summary: fmt.Sprintf("Done (%s) | cost: %s | tokens: %s", how, spent, took),
	}
}

// Grouped formats a number with thousands separators, as 12,345.
func Grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// ending creates results, and reports when the agent continues after one.
type ending struct{ ended bool }

func (e *ending) result(r event.Result) event.Event {
	e.ended = true
	return r
}

// work is called for every event of a running agent.
func (e *ending) work() []event.Event {
	if !e.ended {
		return nil
	}
	e.ended = false
	return []event.Event{event.Resumed{}}
}

// oneText returns a complete message as a paragraph.
func oneText(s string) []event.Event {
	if s = termsafe.Strip(s); strings.TrimSpace(s) == "" {
		return nil
	}
	return []event.Event{event.Text{Text: strings.TrimRight(s, "\n") + "\n"}}
}

// modelEvents reports the model, if it is known.
func modelEvents(name string) []event.Event {
	if name = termsafe.Line(name); name == "" {
		return nil
	}
	return []event.Event{event.Model{Name: name}}
}

// command returns a shell call.
func command(line string) event.Tool {
	return event.Tool{Name: "Bash", Detail: "\n   $ " + termsafe.Shorten(termsafe.Strip(line), maxCommand)}
}

// withID sets the id of a call.
func withID(t event.Tool, id string) event.Tool {
	t.ID = id
	return t
}

// otherTool returns a call of an unknown tool.
func otherTool(name string, input json.RawMessage) event.Tool {
	var fields struct {
		Command string `json:"command"`
		Path    string `json:"path"`
		File    string `json:"file_path"`
		Camel   string `json:"filePath"`
		Pattern string `json:"pattern"`
	}
	_ = json.Unmarshal(input, &fields) // other types have no fields
	name = termsafe.Strip(name)
	switch path := fields.Path + fields.File + fields.Camel; {
	case fields.Command != "":
		return command(fields.Command)
	case fields.Pattern != "":
		return event.Tool{Name: name, Detail: " " + termsafe.Shorten(termsafe.Strip(fields.Pattern), maxInput) + " " + termsafe.Shorten(termsafe.Strip(path), maxInput)}
	case path != "":
		return event.Tool{Name: name, Detail: " " + termsafe.Shorten(termsafe.Strip(path), maxInput)}
	default:
		return event.Tool{Name: name, Detail: " " + termsafe.Shorten(scalarOrJSON(input), maxInput)}
	}
}
