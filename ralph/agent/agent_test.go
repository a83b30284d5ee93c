package agent

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/fs"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/hint"
)

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func withPath(t *testing.T, programs ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, p := range programs {
		assert.NilError(t, os.WriteFile(filepath.Join(dir, p), []byte("#!/bin/sh\n"), 0o755))
	}
	t.Setenv("PATH", dir)
	return dir
}

func TestLookup(t *testing.T) {
	for _, name := range []string{"claude", "shell"} {
		a, err := Lookup(name, nil)
		assert.NilError(t, err)
		assert.Equal(t, a.Name(), name)
	}
	_, err := Lookup("hal", map[string]config.CustomAgent{"mine": {}})
	assert.Error(t, err, `unknown agent "hal"`)
	assert.DeepEqual(t, hint.Of(err), []string{"known agents: claude, codex, copilot, crush, gemini, mine, opencode, shell"})
}

func TestClaudeCommandLine(t *testing.T) {
	bin := withPath(t, "claude")
	for _, tc := range []struct {
		name    string
		session Session
		want    []string
		env     int
	}{
		{"plan", Session{Mode: Plan}, []string{"-p", "/ralph-plan", "--output-format=stream-json", "--verbose"}, 0},
		{"danger", Session{Mode: Build, Danger: true}, []string{"-p", "/ralph-build", "--output-format=stream-json", "--verbose", "--dangerously-skip-permissions"}, 0},
		{"model", Session{Mode: Build, Model: "x", Danger: true}, []string{"-p", "/ralph-build", "--output-format=stream-json", "--verbose", "--dangerously-skip-permissions", "--model", "x"}, 0},
		{"sandboxed", Session{Mode: Build, Sandboxed: true, Bypass: true}, []string{"-p", "/ralph-build", "--output-format=stream-json", "--verbose", "--dangerously-skip-permissions", "--disallowedTools=ScheduleWakeup"}, 4},
		{"sandboxed, asking", Session{Mode: Build, Sandboxed: true}, []string{"-p", "/ralph-build", "--output-format=stream-json", "--verbose", "--disallowedTools=ScheduleWakeup"}, 4},
		{"bound cost", Session{Mode: Build, BudgetUSD: 2.5}, []string{"-p", "/ralph-build", "--output-format=stream-json", "--verbose", "--max-budget-usd", "2.5000"}, 0},
		{"bypass without sandbox", Session{Mode: Build, Bypass: true}, []string{"-p", "/ralph-build", "--output-format=stream-json", "--verbose"}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.session.Getenv = env("HOME", t.TempDir())
			cmd, err := claude{}.Prepare(t.Context(), tc.session)
			assert.NilError(t, err)
			assert.Equal(t, cmd.Path, filepath.Join(bin, "claude"))
			assert.DeepEqual(t, cmd.Args, tc.want)
			assert.Equal(t, len(cmd.Env), tc.env)
		})
	}
}

func TestClaudeSkills(t *testing.T) {
	withPath(t, "claude")
	home := t.TempDir()
	s := Session{Mode: Build, Getenv: env("HOME", home), Prompts: []Prompt{{Skill: "ralph-build", Text: "one"}}}

	_, err := claude{}.Prepare(t.Context(), s)
	assert.NilError(t, err)
	_, err = os.Stat(filepath.Join(home, ".claude"))
	assert.ErrorIs(t, err, os.ErrNotExist, "the user's home was touched")

	s.Sandboxed = true
	skill := filepath.Join(home, ".claude", "skills", "ralph-build", "SKILL.md")
	for range 2 { // the second time over what the agent made of it
		_, err = claude{}.Prepare(t.Context(), s)
		assert.NilError(t, err)
		assert.Assert(t, fs.Equal(filepath.Dir(skill), fs.Expected(t, fs.WithMode(0o755), fs.WithFile("SKILL.md", "one", fs.WithMode(0o644)))))
		outside := filepath.Join(home, "outside")
		assert.NilError(t, os.WriteFile(outside, []byte("mine"), 0o600))
		assert.NilError(t, os.Remove(skill))
		assert.NilError(t, os.Symlink(outside, skill))
	}
	b, err := os.ReadFile(filepath.Join(home, "outside"))
	assert.NilError(t, err)
	assert.Equal(t, string(b), "mine", "a planted link was followed")

	s.Note = "The check !`make test` failed."
	_, err = claude{}.Prepare(t.Context(), s)
	assert.NilError(t, err)
	b, err = os.ReadFile(skill)
	assert.NilError(t, err)
	assert.Equal(t, string(b), "one\n## From the session before\n\nThe check ! `make test` failed.")

	s.Getenv = env("HOME", home, "CLAUDE_CONFIG_DIR", filepath.Join(home, "elsewhere"))
	_, err = claude{}.Prepare(t.Context(), s)
	assert.NilError(t, err)
	_, err = os.Stat(filepath.Join(home, "elsewhere", "skills", "ralph-build", "SKILL.md"))
	assert.NilError(t, err)

	s.Getenv = env()
	assert.ErrorContains(t, claude{}.Check(s), "HOME is not set")
}

func TestClaudeNotInstalled(t *testing.T) {
	withPath(t)
	err := claude{}.Check(Session{})
	assert.Error(t, err, "claude is not installed or not on PATH")
	assert.DeepEqual(t, hint.Of(err), []string{`install it with "npm install -g @anthropic-ai/claude-code"`})
}

func TestShellRequiresSandboxOrDanger(t *testing.T) {
	assert.ErrorContains(t, shell{}.Check(Session{}), "without a sandbox")
	_, err := shell{}.Prepare(t.Context(), Session{Mode: Build})
	assert.ErrorContains(t, err, "without a sandbox")
	for _, s := range []Session{{Mode: Build, Danger: true, Program: "/p"}, {Mode: Build, Sandboxed: true, Program: "/p"}} {
		cmd, err := shell{}.Prepare(t.Context(), s)
		assert.NilError(t, err)
		assert.DeepEqual(t, cmd, Command{Path: "/p", Args: []string{"_shell-agent", "build"}})
	}
}

func TestBackend(t *testing.T) {
	on, off, number := `{"env":{"CLAUDE_CODE_USE_BEDROCK":"1"}}`, `{"env":{"CLAUDE_CODE_USE_BEDROCK":"0"}}`, `{"env":{"CLAUDE_CODE_USE_BEDROCK":1}}`
	for _, tc := range []struct {
		name, env, local, project, user, want string
	}{
		{"nothing", "", "", "", "", "anthropic"},
		{"environment", "1", "", "", "", "bedrock"},
		{"environment against files", "0", on, on, on, "anthropic"},
		{"another value", "true", "", "", "", "anthropic"},
		{"local", "", on, "", "", "bedrock"},
		{"project", "", "", on, "", "bedrock"},
		{"user", "", "", "", number, "bedrock"},
		{"an earlier file cannot switch off", "", off, "", on, "bedrock"},
		{"malformed", "", "{", "[]", `{"env":[]}`, "anthropic"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			work, home := t.TempDir(), t.TempDir()
			t.Chdir(work)
			for path, text := range map[string]string{
				filepath.Join(work, ".claude", "settings.local.json"): tc.local,
				filepath.Join(work, ".claude", "settings.json"):       tc.project,
				filepath.Join(home, ".claude", "settings.json"):       tc.user,
			} {
				if text != "" {
					assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o700))
					assert.NilError(t, os.WriteFile(path, []byte(text), 0o600))
				}
			}
			assert.Equal(t, claudeBackend(env("HOME", home, backendSwitch, tc.env)), tc.want)
		})
	}
}

func TestModel(t *testing.T) {
	none := t.TempDir()
	own := fs.NewDir(t, "program", fs.WithFile("models.json", `{"mine":{"anthropic":"my-model"},"haiku":{"bedrock":"other"}}`))
	broken := fs.NewDir(t, "program", fs.WithFile("models.json", `{`))
	for _, tc := range []struct{ name, alias, backend, dir, want string }{
		{"known", "opus-4.5", "bedrock", none, "global.anthropic.claude-opus-4-5-20251101-v1:0"},
		{"other backend", "opus-4.5", "anthropic", none, "opus-4.5"},
		{"unknown", "claude-x", "bedrock", none, "claude-x"},
		{"beside the program", "mine", "anthropic", own.Path(), "my-model"},
		{"beside the program first", "haiku", "bedrock", own.Path(), "other"},
		{"not beside the program", "sonnet", "bedrock", own.Path(), "sonnet"},
		{"unreadable registry", "sonnet", "bedrock", broken.Path(), "global.anthropic.claude-sonnet-4-6"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, resolveModel(tc.alias, tc.backend, tc.dir), tc.want)
		})
	}
}
