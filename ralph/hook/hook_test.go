package hook

import (
	"encoding/json"
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
		{"compact with a task", PreCompact, active, "",
			"{\"continue\":false,\"stopReason\":\"Context Limit Reached\"}\n",
			"Warning: agent 3c9e context limit reached, failing task b/02\n",
			listed + "fail b/02 --reason context limit reached\n"},
		{"compact without", PreCompact, ":", "", goOn, "", listed},
		{"compact with a broken backlog", PreCompact, active + "; exit 1", "", goOn, "", listed},
		{"compact outside a loop", PreCompact, active, "RALPH_AGENT_ID", goOn, "", ""},
		{"end with a task", SessionEnd, active, "",
			"failed b/02\n", "Warning: agent 3c9e session ended, failing task b/02\n",
			listed + "fail b/02 --reason session ended unexpectedly\n"},
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

func command(name string) string { return "ralph _hook " + name }

func TestRegister(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "settings.json")
	assert.NilError(t, Register(path, command))
	first, err := os.ReadFile(path)
	assert.NilError(t, err)
	assert.NilError(t, Register(path, command))
	second, err := os.ReadFile(path)
	assert.NilError(t, err)
	assert.Equal(t, string(first), string(second))
	assert.Equal(t, string(first), `{
  "hooks": {
    "PreCompact": [
      {
        "matcher": "*",
        "hooks": [
          {
            "type": "command",
            "command": "ralph _hook precompact"
          }
        ]
      }
    ],
    "SessionEnd": [
      {
        "matcher": "*",
        "hooks": [
          {
            "type": "command",
            "command": "ralph _hook session_end"
          }
        ]
      }
    ]
  }
}
`)
}

func TestRegisterKeepsWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real.json"), filepath.Join(dir, "settings.json")
	assert.NilError(t, os.WriteFile(real, []byte(`{"model":"x <y>","hooks":{"Stop":[1],"PreCompact":[{"matcher":"old"}]},"n":1.50}`), 0o640))
	assert.NilError(t, os.Symlink(real, link))
	assert.NilError(t, Register(link, command))
	info, err := os.Lstat(link)
	assert.NilError(t, err)
	assert.Assert(t, info.Mode()&os.ModeSymlink != 0)
	info, err = os.Stat(real)
	assert.NilError(t, err)
	assert.Equal(t, info.Mode().Perm(), os.FileMode(0o640))
	b, err := os.ReadFile(real)
	assert.NilError(t, err)
	var got struct {
		Model string
		N     json.Number
		Hooks map[string][]any
	}
	assert.NilError(t, json.Unmarshal(b, &got))
	assert.Equal(t, got.Model, "x <y>")
	assert.Equal(t, got.N.String(), "1.50")
	assert.Equal(t, len(got.Hooks["Stop"]), 1)
	assert.Equal(t, len(got.Hooks["PreCompact"]), 1)
	assert.Assert(t, !strings.Contains(string(b), "old"))
}

func TestRegisterRefusesWhatItWouldDestroy(t *testing.T) {
	for _, content := range []string{"{broken", "[1]", "null", `{"hooks":[1]}`} {
		path := filepath.Join(t.TempDir(), "settings.json")
		assert.NilError(t, os.WriteFile(path, []byte(content), 0o600))
		assert.ErrorContains(t, Register(path, command), "no JSON object")
		b, err := os.ReadFile(path)
		assert.NilError(t, err)
		assert.Equal(t, string(b), content)
	}
}
