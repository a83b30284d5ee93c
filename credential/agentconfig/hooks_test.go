package agentconfig

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// hookFiles are scripts that are copied with the settings of claude, and one that is not.
func hookFiles(settings string) map[string]string {
	return map[string]string{
		".claude/settings.json": settings, ".claude/hooks/guard.py": "x", ".claude/hooks/lib/more.sh": "x",
		".claude/statusline.sh": "x", "bin/guard": "x",
	}
}

func TestHooks(t *testing.T) {
	opt, err := os.Getwd() // outside of the home directory
	assert.NilError(t, err)
	ofSystem := strings.HasPrefix(opt, "/tmp/") || strings.HasPrefix(opt, "/usr/")
	for _, tc := range []struct{ name, command, want, missing string }{
		{"copied", "HOME/.claude/hooks/guard.py", "/home/agent/.claude/hooks/guard.py", ""},
		{"copied, with an interpreter", "python3 HOME/.claude/hooks/guard.py --all", "python3 /home/agent/.claude/hooks/guard.py --all", ""},
		{"copied, in quotes", `bash -c 'source "HOME/.claude/hooks/lib/more.sh"; run'`, `bash -c 'source "/home/agent/.claude/hooks/lib/more.sh"; run'`, ""},
		{"copied, by variable", "$HOME/.claude/hooks/guard.py && ${HOME}/.claude/hooks/lib/more.sh", "$HOME/.claude/hooks/guard.py && ${HOME}/.claude/hooks/lib/more.sh", ""},
		{"copied, by tilde", "uv run ~/.claude/hooks/guard.py", "uv run ~/.claude/hooks/guard.py", ""},
		{"directory", "cd HOME/.claude/hooks && ls HOME/.claude/hooks/*.py", "cd /home/agent/.claude/hooks && ls /home/agent/.claude/hooks/*.py", ""},
		{"written", "date >> HOME/.claude/hook.log 2>~/errors", "date >> /home/agent/.claude/hook.log 2>~/errors", ""},
		{"optional", "[ -x ~/bin/other ] && ~/bin/other", "[ -x ~/bin/other ] && ~/bin/other", ""},
		{"of the system", "/usr/bin/env jq -r .tool_name /dev/stdin", "/usr/bin/env jq -r .tool_name /dev/stdin", ""},
		{"no path", `jq -e '.tool_input.file_path | test("^/etc/")'`, `jq -e '.tool_input.file_path | test("^/etc/")'`, ""},
		{"address", "curl -s https://host.example/v1/hook", "curl -s https://host.example/v1/hook", ""},
		{"of the project", `"$CLAUDE_PROJECT_DIR"/.claude/hooks/x.sh ./y.sh`, `"$CLAUDE_PROJECT_DIR"/.claude/hooks/x.sh ./y.sh`, ""},
		{"script is not there", "python3 HOME/.claude/hooks/gone.py", "", "HOME/.claude/hooks/gone.py"},
		{"not copied with the settings", "~/.claude/statusline.sh", "", "~/.claude/statusline.sh"},
		{"of the host alone", `sh -c "HOME/bin/guard; $HOME/bin/more"`, "", "$HOME/bin/more, HOME/bin/guard"},
		{"similar name", "HOME/.claude-other/hooks/guard.py", "", "HOME/.claude-other/hooks/guard.py"},
		{"outside of the home directory", "sh " + opt + "/hooks.go", "", opt + "/hooks.go"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if strings.HasPrefix(tc.missing, opt) && ofSystem {
				tc.want, tc.missing = tc.command, ""
			}
			dir := home(t, nil)
			command := strings.ReplaceAll(tc.command, "HOME/", dir+"/")
			command = strings.ReplaceAll(command, "$"+dir, "$HOME")
			hook := map[string]any{"hooks": map[string]any{"PreToolUse": []any{map[string]any{
				"matcher": "*", "hooks": []any{map[string]any{"type": "command", "command": command}, map[string]any{"type": "command", "command": "true"}},
			}}}}
			settings, err := json.Marshal(hook)
			assert.NilError(t, err)
			for name, content := range hookFiles(string(settings)) {
				assert.NilError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
				assert.NilError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
			}
			found, err := Collect("claude", dir, none)
			assert.NilError(t, err)

			var got struct {
				Hooks map[string][]struct{ Hooks []struct{ Command string } }
			}
			assert.NilError(t, json.Unmarshal([]byte(staged(t, found)[".claude/settings.json"]), &got))
			left := got.Hooks["PreToolUse"][0].Hooks
			assert.Equal(t, left[len(left)-1].Command, "true")
			if tc.missing == "" {
				assert.Equal(t, left[0].Command, tc.want)
				assert.Equal(t, len(found.Notes), 0, "%v", found.Notes)
				return
			}
			assert.Equal(t, len(left), 1)
			want := strings.ReplaceAll(strings.ReplaceAll(tc.missing, "HOME/", dir+"/"), "$"+dir, "$HOME")
			assert.DeepEqual(t, found.Notes, []string{"~/.claude/settings.json is copied without hooks that need files of the host: " + want})
		})
	}
}

// Each agent has hooks of another form.
func TestHooksOfEachAgent(t *testing.T) {
	for _, tc := range []struct {
		agent, file, content string
		kept, gone           string
	}{
		{"claude", ".claude/settings.json", `{"statusLine":{"type":"command","command":"~/bin/line"},"model":"m"}`, `"model"`, "statusLine"},
		{"gemini", ".gemini/settings.json", `{"hooks":{"BeforeTool":[{"hooks":[{"type":"command","command":"/usr/bin/true"},{"type":"command","command":"~/bin/guard"}]}]}}`, "/usr/bin/true", "guard"},
		{"copilot", ".copilot/hooks/mine.json", `{"version":1,"hooks":{"preToolUse":[{"type":"command","bash":"~/bin/guard"}],"sessionEnd":[{"type":"command","bash":"~/.copilot/hooks/mine.json"}]}}`, "sessionEnd", "guard"},
		{"codex", ".codex/config.toml", "model = 'm'\nnotify = ['python3', '~/bin/notify.py']\n", "model", "notify"},
		{"codex", ".codex/config.toml", "[[hooks.PreToolUse]]\nmatcher = 'x'\n[[hooks.PreToolUse.hooks]]\ncommand = '~/bin/guard'\n", "matcher", "guard"},
	} {
		t.Run(tc.agent, func(t *testing.T) {
			found, err := Collect(tc.agent, home(t, map[string]string{tc.file: tc.content}), none)
			assert.NilError(t, err)
			got := staged(t, found)[tc.file]
			assert.Assert(t, strings.Contains(got, tc.kept) && !strings.Contains(got, tc.gone), got)
			assert.Equal(t, len(found.Notes), 1, "%v", found.Notes)
		})
	}
}

func TestHooksInAnotherDirectory(t *testing.T) {
	dir := home(t, map[string]string{"my settings/hooks/x.sh": "x"})
	mine := filepath.Join(dir, "my settings")
	settings := `{"hooks":{"Stop":[{"hooks":[{"command":"\"` + mine + `/hooks/x.sh\" a"},{"command":"'` + mine + `/hooks/y.sh'"}]}]}}`
	assert.NilError(t, os.WriteFile(filepath.Join(mine, "settings.json"), []byte(settings), 0o600))
	found, err := Collect("claude", dir, func(name string) (string, bool) { return mine, name == "CLAUDE_CONFIG_DIR" })
	assert.NilError(t, err)
	assert.Assert(t, strings.Contains(staged(t, found)[".claude/settings.json"], `"\"/home/agent/.claude/hooks/x.sh\" a"`))
	assert.DeepEqual(t, found.Notes, []string{"~/.claude/settings.json is copied without hooks that need files of the host: " + mine + "/hooks/y.sh"})
}
