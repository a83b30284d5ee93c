package screen

import (
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Limits of what is shown of a tool call, in lines.
const (
	maxDiff  = 12
	maxError = 6
)

// tools are the tool calls without a result, oldest first.
type tools struct {
	pending []event.Tool
	shown   []event.Tool // without a result, because other output came first
	midLine bool         // the agent's text has not ended its line
}

func (t *tools) start(call event.Tool) { t.pending = append(t.pending, call) }

// running describes the last call without a result.
func (t *tools) running() string {
	if len(t.pending) == 0 {
		return ""
	}
	return title(t.pending[len(t.pending)-1])
}

// end returns the call with its result. A successful call that was shown before is not
// shown again.
func (t *tools) end(p painter, result event.ToolResult) string {
	if call, found := take(&t.pending, result.ID); found {
		return t.freshLine() + folded(p, call, &result)
	}
	if call, found := take(&t.shown, result.ID); found && result.Failed {
		return t.freshLine() + folded(p, call, &result)
	}
	return ""
}

// flush returns the calls without a result, which some agents do not report.
func (t *tools) flush(p painter) string {
	if len(t.pending) == 0 {
		return ""
	}
	text := t.freshLine()
	for _, call := range t.pending {
		text += folded(p, call, nil)
	}
	t.shown = append(t.shown, t.pending...)
	t.shown, t.pending = t.shown[max(0, len(t.shown)-maxShown):], nil
	return text
}

// maxShown bounds the calls that may still get a result.
const maxShown = 50

func (t *tools) freshLine() string {
	if !t.midLine {
		return ""
	}
	t.midLine = false
	return "\n"
}

// take removes the call with an id, or the first one without an id.
func take(calls *[]event.Tool, id string) (event.Tool, bool) {
	i := slices.IndexFunc(*calls, func(c event.Tool) bool { return c.ID == id })
	if i < 0 {
		return event.Tool{}, false
	}
	call := (*calls)[i]
	*calls = slices.Delete(*calls, i, i+1)
	return call, true
}

// title is a call in one line, such as "Bash go test ./...".
func title(call event.Tool) string {
	first, rest, _ := strings.Cut(strings.TrimLeft(call.Detail, " "), "\n")
	if first == "" { // a command
		first, _, _ = strings.Cut(rest, "\n")
		first = strings.TrimPrefix(strings.TrimSpace(first), "$ ")
	}
	return termsafe.Line(call.Name + " " + first)
}

// folded is a call and its result in one line, with the changes of an edit and the end of
// an error below it.
func folded(p painter, call event.Tool, result *event.ToolResult) string {
	line, output := title(call), ""
	if result != nil {
		output = strings.TrimSpace(termsafe.Strip(result.Text))
	}
	lines := strings.Split(output, "\n")
	// The last line of a command is often its result; that of a file is not.
	if output != "" && (call.Name == "Bash" || len(lines) == 1) && len(changes(call)) == 0 {
		line += " → " + lines[len(lines)-1]
	}
	switch {
	case result == nil:
		return p.dim("• "+p.fit(line, 2)) + "\n" + diff(p, call)
	case result.Failed:
		text := p.red("✗ "+p.fit(title(call), 2)) + "\n"
		for _, l := range lines[max(0, len(lines)-maxError):] {
			text += p.red("    "+p.fit(l, 4)) + "\n"
		}
		return text
	default:
		return p.dim("✓ "+p.fit(line, 2)) + "\n" + diff(p, call)
	}
}

// changes returns the removed and added lines of an edit.
func changes(call event.Tool) (lines []string) {
	for line := range strings.SplitSeq(call.Detail, "\n") {
		change, found := strings.CutPrefix(line, "   ")
		if found && call.Name == "Edit" && (strings.HasPrefix(change, "- ") || strings.HasPrefix(change, "+ ")) {
			lines = append(lines, change)
		}
	}
	return lines
}

func diff(p painter, call event.Tool) (text string) {
	for i, change := range changes(call) {
		if i == maxDiff {
			return text + p.dim("    …") + "\n"
		}
		line := "    " + p.fit(change, 4)
		if strings.HasPrefix(change, "-") {
			text += p.red(line) + "\n"
		} else {
			text += p.green(line) + "\n"
		}
	}
	return text
}
