package stream

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Limits of the printed tool input, in code points.
const (
	maxWritten = 500
	maxEdited  = 200
	maxCommand = 120
	maxInput   = 200
)

// toolDetail describes the input of a tool call.
func toolDetail(tool string, input json.RawMessage) string {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(input, &fields) // other types have no fields
	field := func(name string) string { return text(fields[name]) }
	switch tool {
	case "Read":
		return " " + field("file_path")
	case "Write":
		return " " + field("file_path") + "\n" + termsafe.Shorten(field("content"), maxWritten) + "\n"
	case "Edit":
		return " " + field("file_path") + "\n" +
			prefixed("   - ", field("old_string")) + "\n" +
			prefixed("   + ", field("new_string")) + "\n"
	case "Bash":
		return "\n   $ " + termsafe.Shorten(field("command"), maxCommand)
	case "Grep", "Glob":
		return " " + field("pattern") + " " + field("path")
	case "Task":
		return " [" + field("subagent_type") + "] " + field("description")
	case "TaskCreate":
		return " " + field("subject")
	case "TaskUpdate":
		return " #" + field("taskId") + " → " + field("status")
	case "TodoWrite":
		return ""
	case "Skill":
		return " /" + field("skill")
	default:
		return " " + termsafe.Shorten(scalarOrJSON(input), maxInput)
	}
}

func prefixed(prefix, s string) string {
	return prefix + strings.ReplaceAll(termsafe.Shorten(s, maxEdited), "\n", "\n"+prefix)
}

// maxResult bounds the text of a tool's result, in bytes.
const maxResult = 4 << 10

// toolResult returns the result of a tool call with the end of its output.
func toolResult(id string, failed bool, output string) event.Event {
	return event.ToolResult{ID: id, Failed: failed, Text: termsafe.Strip(termsafe.Tail(output, maxResult))}
}

// text returns a string for display: empty if missing, JSON for other types.
func text(raw json.RawMessage) string {
	if isNull(raw) {
		return ""
	}
	return scalar(raw)
}

// scalar returns a value for display: "null" if missing.
func scalar(raw json.RawMessage) string {
	if isNull(raw) {
		return "null"
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return termsafe.Strip(s)
	}
	return scalarOrJSON(raw)
}

// scalarOrJSON returns the compact JSON of a value, strings quoted.
func scalarOrJSON(raw json.RawMessage) string {
	if isNull(raw) {
		return "null"
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return "null"
	}
	return termsafe.Strip(b.String())
}

func isNull(raw json.RawMessage) bool {
	return len(raw) == 0 || string(raw) == "null"
}

// cost formats an amount without exponent, truncated to six characters.
func cost(raw json.RawMessage) string {
	s := scalar(raw)
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		s = strconv.FormatFloat(f, 'f', -1, 64)
	}
	return s[:min(len(s), 6)]
}
