package streamjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
)

func render(t *testing.T, stream string) (string, Result) {
	t.Helper()
	var out strings.Builder
	res, err := Render(&out, strings.NewReader(stream))
	assert.NilError(t, err)
	return out.String(), res
}

func tool(name, input string) string {
	return `{"type":"assistant","message":{"content":[{"type":"tool_use","name":"` + name + `","input":` + input + `}]}}`
}

func TestTools(t *testing.T) {
	long := strings.Repeat("é", 600)
	for _, tc := range []struct{ name, tool, input, want string }{
		{"read", "Read", `{"file_path":"a.go"}`, "\n🔧 Read a.go\n"},
		{"read without path", "Read", `{}`, "\n🔧 Read \n"},
		{"write", "Write", `{"file_path":"a","content":"x\ny"}`, "\n🔧 Write a\nx\ny\n\n"},
		{"write long", "Write", `{"file_path":"a","content":"` + long + `"}`, "\n🔧 Write a\n" + strings.Repeat("é", 500) + "\n\n"},
		{"edit", "Edit", `{"file_path":"a","old_string":"1\n2","new_string":"3"}`, "\n🔧 Edit a\n   - 1\n   - 2\n   + 3\n\n"},
		{"edit long", "Edit", `{"file_path":"a","old_string":"` + long + `","new_string":""}`, "\n🔧 Edit a\n   - " + strings.Repeat("é", 200) + "\n   + \n\n"},
		{"bash", "Bash", `{"command":"ls\npwd"}`, "\n🔧 Bash\n   $ ls\npwd\n"},
		{"bash long", "Bash", `{"command":"` + long + `"}`, "\n🔧 Bash\n   $ " + strings.Repeat("é", 120) + "\n"},
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
			out, _ := render(t, tool(tc.tool, tc.input)+"\n")
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
			out, _ := render(t, tc.stream)
			assert.Equal(t, out, tc.want)
		})
	}
}

// TestRealStream renders what Claude Code 2.1 wrote in a session of two turns.
func TestRealStream(t *testing.T) {
	stream, err := os.ReadFile(filepath.Join("testdata", "session.jsonl"))
	assert.NilError(t, err)
	out, res := render(t, string(stream))
	golden.Assert(t, out, "session.golden")
	assert.DeepEqual(t, res, Result{
		Reported: true, Subtype: "success", Turns: 2, CostUSD: 0.00035,
		Duration: 167 * time.Millisecond, Usage: Usage{Input: 20, Output: 10}, Text: "All done.",
	})
	assert.Assert(t, !res.Failed())
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
			_, res := render(t, tc.stream)
			assert.Equal(t, res.Failed(), tc.failed)
			assert.Equal(t, res.Complaint, tc.complaint)
		})
	}
}

func TestLongLine(t *testing.T) {
	text := strings.Repeat("x", 5<<20)
	out, _ := render(t, `{"type":"assistant","message":{"content":[{"type":"text","text":"`+text+`"}]}}`+"\n")
	assert.Equal(t, len(out), len(text))
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("gone") }

func TestErrors(t *testing.T) {
	stream := `{"type":"assistant","message":{"content":[{"type":"text","text":"a"}]}}` + "\n"
	_, err := Render(failingWriter{}, strings.NewReader(stream))
	assert.Error(t, err, "writing the agent's output: gone")
	_, err = Render(&strings.Builder{}, iotest.ErrReader(errors.New("torn")))
	assert.Error(t, err, "reading the agent's output: torn")
}

func TestWriterIsRendered(t *testing.T) {
	var stream bytes.Buffer
	w := NewWriter(&stream)
	assert.NilError(t, w.Text("Task <1>\n"))
	assert.NilError(t, w.Bash("go test ./... && echo ok"))
	assert.NilError(t, w.Result(true, 4, "step 1 failed"))
	out, res := render(t, stream.String())
	assert.Equal(t, out, "Task <1>\n\n🔧 Bash\n   $ go test ./... && echo ok\n\n━━ Done (error_during_execution) | cost: $0 | turns: 4 ━━\n")
	assert.Assert(t, res.Failed())
	assert.Equal(t, res.Text, "step 1 failed")
}

func FuzzStream(f *testing.F) {
	seed, err := os.ReadFile(filepath.Join("testdata", "session.jsonl"))
	assert.NilError(f, err)
	f.Add(string(seed))
	f.Add(tool("Edit", `{"file_path":"a","old_string":"1\n2","new_string":"3"}`))
	f.Add(tool("Other", `"\u009b31m"`))
	f.Add("{\"type\":\"result\",\"total_cost_usd\":\"\x1b[2J\",\"num_turns\":1e999}")
	f.Fuzz(func(t *testing.T, stream string) {
		var out strings.Builder
		_, err := Render(&out, strings.NewReader(stream))
		assert.NilError(t, err)
		assertHarmless(t, out.String())
	})
}

func FuzzStrip(f *testing.F) {
	for _, tc := range stripCases {
		f.Add(tc.in)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out := Strip(s)
		assertHarmless(t, out)
		assert.Equal(t, Strip(out), out)
	})
}

func assertHarmless(t *testing.T, s string) {
	t.Helper()
	assert.Assert(t, utf8.ValidString(s))
	for _, r := range s {
		assert.Assert(t, !unwanted(r), "%q contains %U", s, r)
	}
}

var stripCases = []struct{ name, in, want string }{
	{"plain", "a\n\tb é 🔧", "a\n\tb é 🔧"},
	{"colour", "\x1b[1;31mred\x1b[0m", "red"},
	{"private mode", "\x1b[?1049hx\x1b[?25l", "x"},
	{"title by BEL", "a\x1b]0;evil\ab", "ab"},
	{"title by ST", "a\x1b]0;evil\x1b\\b", "ab"},
	{"clipboard", "\x1b]52;c;ZXZpbA==\a", ""},
	{"unterminated title", "a\x1b]0;text", "a0;text"},
	{"device control", "\x1bPq#0\x1b\\x", "x"},
	{"C1 sequence", "\u009b31mred\u009d0;t\u009cx", "redx"},
	{"reset", "\x1bcx", "x"},
	{"character set", "\x1b(0x", "x"},
	{"lone escape", "x\x1b", "x"},
	{"escape before escape", "\x1b\x1b[31mx", "x"},
	{"carriage return and bell", "a\r\nb\a\x00\x7f", "a\nb"},
	{"not UTF-8", "a\xffb", "a\uFFFDb"},
	{"sequence in pieces", "\x1b[3", "3"},
}

func TestStrip(t *testing.T) {
	for _, tc := range stripCases {
		t.Run(tc.name, func(t *testing.T) { assert.Equal(t, Strip(tc.in), tc.want) })
	}
}

func TestStreamIsJSONLines(t *testing.T) {
	var stream bytes.Buffer
	w := NewWriter(&stream)
	assert.NilError(t, w.Text("two\nlines"))
	assert.Equal(t, bytes.Count(stream.Bytes(), []byte("\n")), 1)
	assert.Assert(t, json.Valid(stream.Bytes()))
}
