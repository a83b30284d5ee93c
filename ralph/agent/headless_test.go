package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/ralph/agent/event"
	"github.com/docker-ralph/docker-ralph/ralph/prompt"
)

var told = []prompt.Prompt{
	{Skill: "ralph-plan", Text: "---\nname: ralph-plan\n---\nPlan it."},
	{Skill: "ralph-build", Text: "---\nname: ralph-build\n---\n# Build\n!`echo one; echo two`\nuse `x`, wow!\n"},
}

const toldBuild = "# Build\none\ntwo\nuse `x`, wow!\n"

func TestHeadlessCommandLines(t *testing.T) {
	withPath(t, "codex", "gemini", "opencode", "crush", "copilot")
	t.Setenv("PATH", os.Getenv("PATH")+":/bin:/usr/bin")
	for _, tc := range []struct{ agent, careful, bypass string }{
		{
			"codex", "exec --json --skip-git-repo-check --sandbox workspace-write -",
			"exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox --model m -",
		},
		{
			"gemini", "--output-format stream-json --approval-mode auto_edit -p Do what is written above.",
			"--output-format stream-json --skip-trust --approval-mode yolo --model m -p Do what is written above.",
		},
		{"opencode", "run --format json", "run --format json --auto --model m"},
		{"crush", "run --quiet", "run --quiet --model m"},
		{"copilot", "--output-format json --no-ask-user", "--output-format json --no-ask-user --allow-all --model m"},
	} {
		t.Run(tc.agent, func(t *testing.T) {
			a, err := Lookup(tc.agent, nil)
			assert.NilError(t, err)
			careful := Session{Mode: Build, Prompts: told, Getenv: env()}
			assert.NilError(t, a.Check(careful))
			cmd, err := a.Prepare(t.Context(), careful)
			assert.NilError(t, err)
			assert.Equal(t, strings.Join(cmd.Args, " "), tc.careful)
			assert.Equal(t, cmd.Stdin, toldBuild, "prompts are not in the command line")
			assert.Equal(t, filepath.Base(cmd.Path), tc.agent)

			for _, s := range []Session{
				{Mode: Plan, Prompts: told, Getenv: env(), Model: "m", Danger: true},
				{Mode: Plan, Prompts: told, Getenv: env(), Model: "m", Sandboxed: true, Bypass: true},
			} {
				cmd, err = a.Prepare(t.Context(), s)
				assert.NilError(t, err)
				assert.Equal(t, strings.Join(cmd.Args, " "), tc.bypass)
				assert.Equal(t, cmd.Stdin, "Plan it.")
			}
		})
	}
}

func TestMissingHeadlessAgents(t *testing.T) {
	withPath(t)
	for _, name := range config.BuiltinAgents() {
		if name == "shell" {
			continue
		}
		a, err := Lookup(name, nil)
		assert.NilError(t, err)
		assert.ErrorContains(t, a.Check(Session{Getenv: env()}), name+" is not installed, or not on PATH. Install it: npm install -g ")
	}
}

func TestEnvironmentOfHeadlessAgents(t *testing.T) {
	home := filepath.Join(t.TempDir(), "codex")
	_, err := codexCommand(Session{Getenv: env("CODEX_HOME", home)}, "", false)
	assert.NilError(t, err)
	_, err = os.Stat(home)
	assert.NilError(t, err)
	cmd, err := geminiCommand(Session{Getenv: env("GEMINI_API_KEY", "k")}, "", false)
	assert.NilError(t, err)
	assert.DeepEqual(t, cmd.Env, []string{"GEMINI_DEFAULT_AUTH_TYPE=gemini-api-key"})
}

func TestPromptText(t *testing.T) {
	s := Session{Mode: Build, Note: "The check !`make test` failed.", Prompts: []prompt.Prompt{
		{Skill: "ralph-build", Text: "a !`echo $X`\n!`echo part; exit 3`\n"},
	}, Env: []string{"X=from the session", "PATH=" + os.Getenv("PATH")}}
	text, err := promptText(t.Context(), s)
	assert.NilError(t, err)
	assert.Equal(t, text, "a from the session\npart\n\n(echo part; exit 3: exit status 3)\n"+
		"\n## From the session before\n\nThe check ! `make test` failed.")
	_, err = promptText(t.Context(), Session{Mode: Plan})
	assert.ErrorContains(t, err, "no prompt to plan with")
}

func TestCustomAgent(t *testing.T) {
	withPath(t, "mine")
	t.Setenv("PATH", os.Getenv("PATH")+":/bin:/usr/bin")
	for _, tc := range []struct {
		name    string
		command []string
		model   string
		want    []string
		stdin   string
	}{
		{"standard input", []string{"mine", "-x"}, "", []string{"-x"}, toldBuild},
		{"argument", []string{"mine", "--prompt={prompt}", "{x}", `{"a":1}`}, "", []string{"--prompt=" + toldBuild, "{x}", `{"a":1}`}, ""},
		{"model", []string{"mine", "--model", "{model}"}, "m", []string{"--model", "m"}, toldBuild},
		{"no model", []string{"mine", "a", "--model", "{model}", "{model}", "b"}, "", []string{"a", "b"}, toldBuild},
		{"model within", []string{"mine", "-m={model}"}, "", []string{"-m="}, toldBuild},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, err := Lookup("mine", map[string]config.CustomAgent{"mine": {Command: tc.command, Stream: "text"}})
			assert.NilError(t, err)
			cmd, err := a.Prepare(t.Context(), Session{Mode: Build, Prompts: told, Model: tc.model, TempDir: t.TempDir()})
			assert.NilError(t, err)
			assert.DeepEqual(t, append([]string{}, cmd.Args...), append([]string{}, tc.want...))
			assert.Equal(t, cmd.Stdin, tc.stdin)
		})
	}
}

func TestCustomAgentWithAPromptFile(t *testing.T) {
	withPath(t, "mine")
	t.Setenv("PATH", os.Getenv("PATH")+":/bin:/usr/bin")
	a, err := Lookup("mine", map[string]config.CustomAgent{"mine": {Command: []string{"mine", "@{prompt_file}", "{model}x"}}})
	assert.NilError(t, err)
	dir := t.TempDir()
	cmd, err := a.Prepare(t.Context(), Session{Mode: Build, Prompts: told, TempDir: dir})
	assert.NilError(t, err)
	path := strings.TrimPrefix(cmd.Args[0], "@")
	assert.Equal(t, filepath.Dir(path), dir)
	info, err := os.Stat(path)
	assert.NilError(t, err)
	assert.Equal(t, info.Mode().Perm(), os.FileMode(0o600))
	b, err := os.ReadFile(path)
	assert.NilError(t, err)
	assert.Equal(t, string(b), toldBuild)
	assert.Equal(t, a.Model(Session{Model: "m"}), "m")

	missing, err := Lookup("mine", map[string]config.CustomAgent{"mine": {Command: []string{"nowhere"}}})
	assert.NilError(t, err)
	assert.ErrorContains(t, missing.Check(Session{}), "nowhere, the program of the agent mine, is not installed")
}

func TestCustomStreams(t *testing.T) {
	for stream, line := range map[string]string{
		"claude": `{"type":"result","num_turns":1}`, "codex": `{"type":"turn.completed"}`,
		"gemini": `{"type":"result","status":"success"}`, "copilot": `{"type":"result","exitCode":0}`,
		"opencode": `{"type":"step_finish","part":{"reason":"stop"}}`,
	} {
		var found bool
		for _, e := range (custom{"mine", config.CustomAgent{Stream: stream}}).Decoder().Decode([]byte(line + "\n")) {
			_, isResult := e.(event.Result)
			found = found || isResult
		}
		assert.Check(t, found, stream)
	}
	events := custom{"mine", config.CustomAgent{Stream: "text"}}.Decoder().Decode([]byte("hello"))
	assert.Assert(t, cmp.DeepEqual(events, []event.Event{event.Text{Text: "hello"}}))
}
