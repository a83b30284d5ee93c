package stream

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"github.com/docker-ralph/docker-ralph/wire/event"
)

// decode returns what a person sees of a stream, and all events.
func decode(d event.Decoder, stream string) (string, []event.Event) {
	events := append(d.Decode([]byte(stream)), d.End()...)
	var out strings.Builder
	for _, e := range events {
		out.WriteString(event.Render(e))
	}
	return out.String(), events
}

func last[E event.Event](events []event.Event) (found E) {
	for _, e := range events {
		if e, ok := e.(E); ok {
			found = e
		}
	}
	return found
}

func render(stream string) (string, []event.Event) { return decode(Claude(), stream) }

func tool(name, input string) string {
	return `{"type":"assistant","message":{"content":[{"type":"tool_use","name":"` + name + `","input":` + input + `}]}}`
}

func TestTools(t *testing.T) {
	long := strings.Repeat("é", 600)
	for _, tc := range []struct{ name, tool, input, want string }{
		{"read", "Read", `{"file_path":"a.go"}`, "\n🔧 Read a.go\n"},
		{"read without path", "Read", `{}`, "\n🔧 Read \n"},
		{"write", "Write", `{"file_path":"a","content":"x\ny"}`, "\n🔧 Write a\nx\ny\n\n"},
		{"write long", "Write", `{"file_path":"a","content":"` + long + `"}`, "\n🔧 Write a\n" + strings.Repeat("é", 500) + "…\n\n"},
		{"edit", "Edit", `{"file_path":"a","old_string":"1\n2","new_string":"3"}`, "\n🔧 Edit a\n   - 1\n   - 2\n   + 3\n\n"},
		{"edit long", "Edit", `{"file_path":"a","old_string":"` + long + `","new_string":""}`, "\n🔧 Edit a\n   - " + strings.Repeat("é", 200) + "…\n   + \n\n"},
		{"bash", "Bash", `{"command":"ls\npwd"}`, "\n🔧 Bash\n   $ ls\npwd\n"},
		{"bash long", "Bash", `{"command":"` + long + `"}`, "\n🔧 Bash\n   $ " + strings.Repeat("é", 120) + "…\n"},
		{"grep", "Grep", `{"pattern":"p","path":"d"}`, "\n🔧 Grep p d\n"},
		{"glob without path", "Glob", `{"pattern":"*.go"}`, "\n🔧 Glob *.go \n"},
		{"task", "Task", `{"subagent_type":"Explore","description":"look"}`, "\n🔧 Task [Explore] look\n"},
		{"task create", "TaskCreate", `{"subject":"s"}`, "\n🔧 TaskCreate s\n"},
		{"task update", "TaskUpdate", `{"taskId":"3","status":"done"}`, "\n🔧 TaskUpdate #3 → done\n"},
		{"todo", "TodoWrite", `{"todos":[1]}`, "\n🔧 TodoWrite\n"},
		{"skill", "Skill", `{"skill":"ralph-plan"}`, "\n🔧 Skill /ralph-plan\n"},
		{"other", "WebFetch", `{ "url": "http://x", "n": [1, 2] }`, "\n🔧 WebFetch {\"url\":\"http://x\",\"n\":[1,2]}\n"},
		{"other without input", "X", `null`, "\n🔧 X null\n"},
		{"field of another type", "Read", `{"file_path":["a"]}`, "\n🔧 Read [\"a\"]\n"},
		{"input of another type", "Read", `[1]`, "\n🔧 Read \n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, _ := render(tool(tc.tool, tc.input) + "\n")
			assert.Equal(t, out, tc.want)
		})
	}
}

func TestEvents(t *testing.T) {
	for _, tc := range []struct{ name, stream, want string }{
		{"text as is", `{"type":"assistant","message":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b\n"}]}}`, "ab\n"},
		{"thinking", `{"type":"assistant","message":{"content":[{"type":"thinking","thinking":"hm"}]}}`, ""},
		{"content is no list", `{"type":"assistant","message":{"content":"x"}}`, ""},
		{"no message", `{"type":"assistant"}`, ""},
		{"element is no object", `{"type":"assistant","message":{"content":[1,{"type":"text","text":"a"}]}}`, "a"},
		{"tool without name", `{"type":"assistant","message":{"content":[{"type":"tool_use"}]}}`, "\n🔧 null null\n"},
		{"system", `{"type":"system","subtype":"init"}`, ""},
		{"user", `{"type":"user","message":{"content":[{"type":"text","text":"a"}]}}`, ""},
		{"result", `{"type":"result","subtype":"success","total_cost_usd":0.123456,"num_turns":3}`, "\n━━ Done (success) | cost: $0.1234 | turns: 3 ━━\n"},
		{"whole cost", `{"type":"result","subtype":"success","total_cost_usd":12,"num_turns":3}`, "\n━━ Done (success) | cost: $12 | turns: 3 ━━\n"},
		{"tiny cost", `{"type":"result","subtype":"success","total_cost_usd":3.5e-05,"num_turns":3}`, "\n━━ Done (success) | cost: $0.0000 | turns: 3 ━━\n"},
		{"empty result", `{"type":"result"}`, "\n━━ Done (null) | cost: $null | turns: null ━━\n"},
		{"not JSON", "starting…\n{broken\n[1]\n\"s\"\n{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"on\"}]}}", "on"},
		{"type of another type", `{"type":7}`, ""},
		{"blank and CRLF", "\r\n\n{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}}\r\n", "a"},
		{"escape in a tool's name", tool(`\u001b]0;x\u0007N`, `{}`), "\n🔧 N {}\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, _ := render(tc.stream)
			assert.Equal(t, out, tc.want)
		})
	}
}

// TestRealStream renders what Claude Code 2.1 wrote in a session of two turns.
func TestRealStream(t *testing.T) {
	stream, err := os.ReadFile(filepath.Join("testdata", "claude.jsonl"))
	assert.NilError(t, err)
	out, events := render(string(stream))
	golden.Assert(t, out, "claude.golden")
	cost := 0.00035
	assert.DeepEqual(t, last[event.Usage](events), event.Usage{Tokens: &event.Tokens{Input: 20, Output: 10}, CostUSD: &cost})
	assert.DeepEqual(t, last[event.Result](events), event.Result{Text: "All done.", Summary: "Done (success) | cost: $0.0003 | turns: 2"})
}

func TestFailures(t *testing.T) {
	for _, tc := range []struct {
		name, stream string
		failed       bool
		complaint    string
	}{
		{"nothing reported", "hello\n", false, ""},
		{"good", `{"type":"result","num_turns":1}`, false, ""},
		{"error", `{"type":"result","num_turns":1,"is_error":true}`, true, ""},
		{"skill that cannot be expanded", `{"type":"user","message":{"role":"user","content":"<local-command-stderr>Error: Shell command failed\u001b[0m</local-command-stderr>"}}
			` + "\n" + `{"type":"result","subtype":"success","is_error":false,"num_turns":0}`, true, "Error: Shell command failed"},
		{"fields of other types", `{"type":"result","num_turns":"many","is_error":true,"usage":[]}`, true, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, events := render(tc.stream)
			assert.Equal(t, last[event.Result](events).Failed, tc.failed)
			assert.Equal(t, last[event.Complaint](events).Text, tc.complaint)
		})
	}
}

func TestWriterIsRendered(t *testing.T) {
	var stream bytes.Buffer
	w := NewWriter(&stream)
	assert.NilError(t, w.Text("Task <1>\n"))
	assert.NilError(t, w.Bash("go test ./... && echo ok"))
	assert.NilError(t, w.Result(true, 4, "step 1 failed"))
	out, events := render(stream.String())
	assert.Equal(t, out, "Task <1>\n\n🔧 Bash\n   $ go test ./... && echo ok\n\n━━ Done (error_during_execution) | cost: $0 | turns: 4 ━━\n")
	assert.Assert(t, last[event.Result](events).Failed)
	assert.Equal(t, last[event.Result](events).Text, "step 1 failed")
}

func TestStreamIsJSONLines(t *testing.T) {
	var stream bytes.Buffer
	w := NewWriter(&stream)
	assert.NilError(t, w.Text("two\nlines"))
	assert.Equal(t, bytes.Count(stream.Bytes(), []byte("\n")), 1)
	assert.Assert(t, json.Valid(stream.Bytes()))
}

func TestLongResultKeepsItsFigures(t *testing.T) {
	long := strings.Repeat("é\\n\\u00e9", 1<<20)
	_, events := render(`{"type":"result","subtype":"success","num_turns":2,"result":"` + long + `","total_cost_usd":0.5}` + "\n")
	assert.Equal(t, *last[event.Usage](events).CostUSD, 0.5)
	result := last[event.Result](events)
	assert.Assert(t, !result.Failed)
	assert.Assert(t, strings.HasPrefix(result.Text, "é\né") && len(result.Text) > 500_000)
}
