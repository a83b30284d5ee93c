package event

import (
	"strings"

	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Limits of the displayed text of a failed tool call.
const (
	failedLines = 3
	failedWidth = 200 // code points of a line
)

// Render returns the displayed form of an event, as in the original program; it can
// be empty. Failed tool calls are displayed as well.
func Render(e Event) string {
	switch e := e.(type) {
	case Text:
		return e.Text
	case Tool:
		return "\n🔧 " + e.Name + e.Detail + "\n"
	case ToolResult:
		if e.Failed {
			return e.failure()
		}
		return ""
	case Retry:
		return "\n↻ " + e.Text + "\n"
	case Result:
		return "\n━━ " + e.Summary + " ━━\n"
	default:
		return ""
	}
}

// failure returns the first lines of a failed call's output.
func (r ToolResult) failure() string {
	lines := strings.Split(strings.TrimSpace(r.Text), "\n")
	if lines[0] == "" {
		lines[0] = "failed"
	}
	if len(lines) > failedLines {
		lines = append(lines[:failedLines], "…")
	}
	var b strings.Builder
	for i, line := range lines {
		mark := "     "
		if i == 0 {
			mark = "   ✗ "
		}
		b.WriteString(mark + termsafe.Shorten(strings.TrimRight(line, " \r"), failedWidth) + "\n")
	}
	return b.String()
}
