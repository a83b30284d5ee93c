package stream

import (
	"encoding/json"
	"slices"

	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Limits of the reasons that are kept, because the agent chooses them.
const (
	maxDenial  = 300 // characters of one
	maxReasons = 1000
)

// claudeDenials collects what the user's settings deny during a run: claude reports success,
// although it could do nothing.
type claudeDenials struct {
	calls   int // of all tools
	failed  map[string]string
	blocked string // why the prompt was not processed
	noShell bool   // the settings take the tool away with which claude runs commands
}

// shellTool is claude's tool for commands. Without it, no task can be claimed.
const shellTool = "Bash"

// session reads the tools of a session. Old versions do not list them.
func (d *claudeDenials) session(line []byte) {
	var e struct {
		Tools []string `json:"tools"`
	}
	if json.Unmarshal(line, &e) == nil && len(e.Tools) > 0 {
		d.noShell = !slices.Contains(e.Tools, shellTool)
	}
}

// count counts calls, and keeps the reasons of failed ones.
func (d *claudeDenials) count(events []event.Event) {
	for _, e := range events {
		switch e := e.(type) {
		case event.Tool:
			d.calls++
		case event.ToolResult:
			if e.Failed && len(d.failed) < maxReasons {
				if d.failed == nil {
					d.failed = map[string]string{}
				}
				d.failed[e.ID] = oneLine(e.Text)
			}
		}
	}
}

// informational decodes claude's notices about hooks.
func (d *claudeDenials) informational(line []byte) []event.Event {
	var e struct {
		Content string `json:"content"`
		Tag     string `json:"tag"`
		Stop    bool   `json:"prevent_continuation"`
		Outcome struct {
			Kind   string `json:"kind"`
			Reason string `json:"reason"`
		} `json:"prompt_submit_outcome"`
		Hook struct {
			Event string `json:"hook_event"`
		} `json:"hook_no_verdict"`
	}
	switch {
	case json.Unmarshal(line, &e) != nil:
		return nil
	case e.Outcome.Kind == "blocked_by_hook":
		d.blocked = oneLine("a hook blocked the prompt: " + e.Outcome.Reason)
	case e.Tag == "hook_no_verdict":
		return []event.Event{event.HookFailed{Text: oneLine(e.Hook.Event + ": " + e.Content)}}
	}
	return nil
}

// events returns the denials of a run that ends, from the list in its result.
func (d *claudeDenials) events(list json.RawMessage) []event.Event {
	var denied []struct {
		ID   string `json:"tool_use_id"`
		Tool string `json:"tool_name"`
	}
	if isNull(list) || json.Unmarshal(list, &denied) != nil {
		denied = nil
	}
	e := event.Denied{Calls: len(denied), All: len(denied) > 0 && len(denied) >= d.calls}
	switch {
	case d.blocked != "":
		e.All, e.Text = true, d.blocked
	case d.noShell:
		e.All, e.Text = true, "permissions.deny takes away the tool "+shellTool
	case len(denied) == 0:
		return nil
	default:
		last := denied[len(denied)-1]
		if e.Text = d.failed[last.ID]; e.Text == "" {
			e.Text = oneLine("permission for " + last.Tool + " denied")
		}
	}
	return []event.Event{e}
}

// claudeHookFailed decodes the end of a hook that decides about no tool call.
func claudeHookFailed(line []byte) []event.Event {
	var e struct {
		Name    string `json:"hook_name"`
		Outcome string `json:"outcome"`
		Output  string `json:"output"`
	}
	if json.Unmarshal(line, &e) != nil || e.Outcome != "error" {
		return nil
	}
	return []event.Event{event.HookFailed{Text: oneLine(e.Name + ": " + e.Output)}}
}

// oneLine shortens a reason.
func oneLine(text string) string {
	return termsafe.Shorten(termsafe.Line(text), maxDenial)
}
