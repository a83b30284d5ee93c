package stream

import (
	"os"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/wire/event"
)

// The recordings are of claude with settings of users in which hooks fail or rules deny.
func TestClaudeDenials(t *testing.T) {
	const script = "can't open file '/nonexist/guard.py': [Errno 2] No such file or directory"
	for _, tc := range []struct {
		name   string
		denied event.Denied // the reason is a part of it
		hook   string
	}{
		{"hook-missing", event.Denied{Calls: 2, All: true, Text: "PreToolUse:Bash hook error: [python3 /nonexist/guard.py]: python3: " + script}, ""},
		{"hook-denies", event.Denied{Calls: 2, All: true, Text: "PreToolUse:Bash hook error: no way"}, ""},
		{"hook-not-found", event.Denied{}, "PreToolUse: A hook gave no usable answer"},
		{"hook-blocks-prompt", event.Denied{All: true, Text: "a hook blocked the prompt: python3: " + script}, ""},
		{"hook-at-start", event.Denied{}, "SessionStart:startup: python3: " + script},
		{"deny-tool", event.Denied{All: true, Text: "permissions.deny takes away the tool Bash"}, ""},
		{"deny-rule", event.Denied{Calls: 2, All: true, Text: "Permission to use Bash with command echo two has been denied."}, ""},
		{"ask-rule", event.Denied{Calls: 2, All: true, Text: "Claude requested permissions to use Bash, but you haven't granted it yet."}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, err := os.ReadFile("testdata/claude-" + tc.name + ".jsonl")
			assert.NilError(t, err)
			_, events := decode(Claude(), string(b))
			assert.DeepEqual(t, last[event.Denied](events), tc.denied)
			assert.Assert(t, strings.HasPrefix(last[event.HookFailed](events).Text, tc.hook), "%+v", events)
			if tc.hook == "" {
				assert.Equal(t, last[event.HookFailed](events), event.HookFailed{})
			}
		})
	}
}

// A call that is denied among others does not end the work.
func TestClaudeDeniesSomeCalls(t *testing.T) {
	call := func(id string) string {
		return `{"type":"assistant","message":{"content":[{"type":"tool_use","id":"` + id + `","name":"Bash","input":{}}]}}` + "\n"
	}
	result := func(denials string) string {
		return `{"type":"result","num_turns":3,"result":"x","permission_denials":` + denials + "}\n"
	}
	denied := `[{"tool_name":"Bash","tool_use_id":"a"}]`
	for _, tc := range []struct {
		name, stream string
		want         event.Denied
	}{
		{"one of two", call("a") + call("b") + result(denied), event.Denied{Calls: 1, Text: "permission for Bash denied"}},
		{"the only one", call("a") + result(denied), event.Denied{Calls: 1, All: true, Text: "permission for Bash denied"}},
		{"none", call("a") + result(`[]`), event.Denied{}},
		{"no list", call("a") + result(`null`), event.Denied{}},
		{"another type", call("a") + result(`{"a":1}`), event.Denied{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, events := render(tc.stream)
			assert.DeepEqual(t, last[event.Denied](events), tc.want)
		})
	}
}
