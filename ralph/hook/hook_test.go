package hook

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// stub is a task program that notes its calls and answers list.
func stub(t *testing.T, list string) (program, calls string) {
	t.Helper()
	dir := t.TempDir()
	program, calls = filepath.Join(dir, "task"), filepath.Join(dir, "calls")
	script := "#!/bin/sh\necho \"$*\" >>'" + calls + "'\ncase $1 in list) " + list + ";; fail) echo failed $2;; esac\n"
	assert.NilError(t, os.WriteFile(program, []byte(script), 0o755))
	return program, calls
}

func TestHooks(t *testing.T) {
	const (
		active = `printf '## Task b/02\nid: b/02\ntitle: x\n\n## Task c/03\nid: c/03\n'`
		listed = "list --status active --assignee 3c9e --markdown\n"
		goOn   = "{\"continue\":true}\n"
	)
	for _, tc := range []struct {
		name, hook, list, unset string
		stdout, stderr, calls   string
	}{
		{
			"compact with a task", PreCompact, active, "",
			"{\"continue\":false,\"stopReason\":\"Context Limit Reached\"}\n",
			"Warning: agent 3c9e context limit reached, failing task b/02\n",
			listed + "fail b/02 --reason context limit reached\n",
		},
		{"compact without", PreCompact, ":", "", goOn, "", listed},
		{"compact with a broken backlog", PreCompact, active + "; exit 1", "", goOn, "", listed},
		{"compact outside a loop", PreCompact, active, "RALPH_AGENT_ID", goOn, "", ""},
		{
			"end with a task", SessionEnd, active, "",
			"failed b/02\n", "Warning: agent 3c9e session ended, failing task b/02\n",
			listed + "fail b/02 --reason session ended unexpectedly\n",
		},
		{"end without", SessionEnd, ":", "", "", "", listed},
		{"end without scope", SessionEnd, active, "RALPH_SCOPE_BRANCH", "", "", ""},
		{"end without repository", SessionEnd, active, "RALPH_SCOPE_REPO", "", "", ""},
		{"end without program", SessionEnd, active, "RALPH_TASK_SCRIPT", "", "", ""},
		{"unknown", "stop", active, "", "", "", listed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			program, calls := stub(t, tc.list)
			env := map[string]string{
				"RALPH_TASK_SCRIPT": program, "RALPH_AGENT_ID": "3c9e", "RALPH_SCOPE_REPO": "acme/shop", "RALPH_SCOPE_BRANCH": "main",
			}
			env[tc.unset] = ""
			var stdout, stderr strings.Builder
			Hook{Getenv: func(name string) string { return env[name] }, Stdout: &stdout, Stderr: &stderr}.Run(t.Context(), tc.hook)
			assert.Equal(t, stdout.String(), tc.stdout)
			assert.Equal(t, stderr.String(), tc.stderr)
			b, _ := os.ReadFile(calls)
			assert.Equal(t, string(b), tc.calls)
		})
	}
}
