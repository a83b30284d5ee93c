package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
)

func TestInteractive(t *testing.T) {
	withPath(t, "claude", "codex", "gemini", "opencode", "crush", "copilot")
	dir, err := os.Getwd()
	assert.NilError(t, err)
	trusted := fmt.Sprintf("--config check_for_update_on_startup=false --config analytics.enabled=false --config projects={%q={trust_level=\"trusted\"}} ", dir)
	for _, tc := range []struct{ agent, onHost, asking, bypass string }{
		{
			"claude", "", "",
			`--dangerously-skip-permissions --model m --settings {"skipDangerousModePermissionPrompt":true}`,
		},
		{
			"codex", "--config allow_login_shell=false", "--config allow_login_shell=false " + strings.TrimSpace(trusted),
			"--config allow_login_shell=false " + trusted + "--dangerously-bypass-approvals-and-sandbox --model m",
		},
		{"gemini", "", "--skip-trust", "--skip-trust --approval-mode yolo --model m"},
		{"opencode", "", "", "--auto --model m"},
		{"crush", "", "", "--yolo"},
		{"copilot", "", "", "--allow-all --model m"},
	} {
		t.Run(tc.agent, func(t *testing.T) {
			a, err := Lookup(tc.agent, nil)
			assert.NilError(t, err)
			home := t.TempDir()
			s := Session{Mode: Run, Getenv: env("HOME", home)}
			args := func() string {
				t.Helper()
				cmd, err := a.Interactive(t.Context(), s)
				assert.NilError(t, err)
				assert.Equal(t, filepath.Base(cmd.Path), tc.agent)
				assert.Equal(t, cmd.Stdin, "")
				return strings.Join(cmd.Args, " ")
			}
			assert.Equal(t, args(), tc.onHost)
			left, err := os.ReadDir(home)
			assert.NilError(t, err)
			assert.Equal(t, len(left), 0, "on a host nothing is written")
			s.Sandboxed = true
			assert.Equal(t, args(), tc.asking)
			s.Bypass, s.Model = true, "m"
			assert.Equal(t, args(), tc.bypass)
		})
	}
}

func TestInteractiveNotInstalled(t *testing.T) {
	withPath(t)
	for _, name := range []string{"claude", "codex", "gemini", "opencode", "crush", "copilot"} {
		a, err := Lookup(name, nil)
		assert.NilError(t, err)
		_, err = a.Interactive(t.Context(), Session{Mode: Run, Getenv: env()})
		assert.ErrorContains(t, err, "is not installed")
	}
	a, err := Lookup("mine", map[string]config.CustomAgent{"mine": {Command: []string{"mine"}}})
	assert.NilError(t, err)
	_, err = a.Interactive(t.Context(), Session{Mode: Run})
	assert.ErrorContains(t, err, "agent mine is not interactive")
}

func TestCrushIgnoresTheModel(t *testing.T) {
	withPath(t, "crush")
	cmd, err := crush().Interactive(t.Context(), Session{Model: "m", Getenv: env()})
	assert.NilError(t, err)
	assert.Equal(t, cmd.Warning, "--model is ignored: select m in crush")
}

func TestClaudeOnboardingIsCompleted(t *testing.T) {
	withPath(t, "claude")
	home := t.TempDir()
	path := filepath.Join(home, ".claude.json")
	assert.NilError(t, os.WriteFile(path, []byte(`{"theme":"light","projects":{"/x":{"n":12345678901}},"customApiKeyResponses":{"approved":["old"]}}`), 0o600))
	s := Session{Mode: Run, Sandboxed: true, Bypass: true, Program: "/ralph", Getenv: env("HOME", home, "ANTHROPIC_API_KEY", "sk-ant-0123456789abcdefghij")}
	for range 2 {
		cmd, err := claude{}.Interactive(t.Context(), s)
		assert.NilError(t, err)
		assert.Equal(t, cmd.Warning, "")
		assert.Assert(t, cmp.Contains(cmd.Env, "IS_SANDBOX=1"))
	}
	content, err := os.ReadFile(path)
	assert.NilError(t, err)
	var state struct {
		Theme      string
		Onboarding bool `json:"hasCompletedOnboarding"`
		Bypass     bool `json:"bypassPermissionsModeAccepted"`
		Projects   map[string]struct {
			Trusted bool `json:"hasTrustDialogAccepted"`
		}
		Keys struct{ Approved []string } `json:"customApiKeyResponses"`
	}
	assert.NilError(t, json.Unmarshal(content, &state))
	dir, err := os.Getwd()
	assert.NilError(t, err)
	assert.Assert(t, state.Onboarding && state.Bypass && state.Projects[dir].Trusted)
	assert.Equal(t, state.Theme, "light")
	assert.Assert(t, cmp.Contains(string(content), "12345678901"))
	assert.DeepEqual(t, state.Keys.Approved, []string{"old", "0123456789abcdefghij"})
	assert.Assert(t, !strings.Contains(string(content), "sk-ant"))

	assert.NilError(t, os.WriteFile(path, []byte(`{`), 0o600))
	cmd, err := claude{}.Interactive(t.Context(), s)
	assert.NilError(t, err)
	assert.Assert(t, cmp.Contains(cmd.Warning, path))
}

func TestPromptIsPassedUnchanged(t *testing.T) {
	withPath(t, "claude", "codex", "mine")
	for _, tc := range []struct{ agent, args string }{
		{"claude", "-p --output-format=stream-json --verbose"},
		{"codex", "exec --json --skip-git-repo-check --config allow_login_shell=false --sandbox workspace-write -"},
		{"mine", "--quiet"},
	} {
		t.Run(tc.agent, func(t *testing.T) {
			a, err := Lookup(tc.agent, map[string]config.CustomAgent{"mine": {Command: []string{"mine", "--quiet"}}})
			assert.NilError(t, err)
			const asked = "---\nx: y\n---\nsay !`rm -rf /`"
			cmd, err := a.Prepare(t.Context(), Session{Mode: Run, Ask: asked, Prompts: testPrompts, Getenv: env(), TempDir: t.TempDir()})
			assert.NilError(t, err)
			assert.Equal(t, strings.Join(cmd.Args, " "), tc.args)
			assert.Equal(t, cmd.Stdin, asked)
		})
	}
}
