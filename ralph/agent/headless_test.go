package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/wire/event"
)

var testPrompts = []Prompt{
	{Skill: "ralph-plan", Text: "---\nname: ralph-plan\nallowed-tools: Bash(ralph task:*), Read\n---\nPlan it."},
	{Skill: "ralph-build", Text: "---\nname: ralph-build\nallowed-tools: Bash(ralph task:*), Bash(git add:*), Edit, Write\n---\n# Build\n!`echo one; echo two`\nuse `x`, wow!\n"},
}

const buildPrompt = "# Build\none\ntwo\nuse `x`, wow!\n"

func TestHeadlessCommandLines(t *testing.T) {
	withPath(t, "codex", "gemini", "opencode", "crush", "copilot")
	t.Setenv("PATH", os.Getenv("PATH")+":/bin:/usr/bin")
	temp := t.TempDir()
	for _, tc := range []struct{ agent, careful, bypass string }{
		{
			"codex", "exec --json --skip-git-repo-check --config allow_login_shell=false --sandbox workspace-write -",
			"exec --json --skip-git-repo-check --config allow_login_shell=false --dangerously-bypass-approvals-and-sandbox --model m -",
		},
		{
			"gemini", "--output-format stream-json --approval-mode auto_edit --policy " + temp + "/gemini-policy.toml -p Do what is written above.",
			"--output-format stream-json --skip-trust --approval-mode yolo --model m -p Do what is written above.",
		},
		{"opencode", "run --format json", "run --format json --auto --model m"},
		{
			"copilot", "--output-format json --no-ask-user --allow-tool write --allow-tool shell(ralph:*) --allow-tool shell(git add:*)" +
				" --deny-tool shell(ralph build:*) --deny-tool shell(ralph plan:*)",
			"--output-format json --no-ask-user --allow-all --model m",
		},
		{"crush", "", "run --quiet --model m"},
	} {
		t.Run(tc.agent, func(t *testing.T) {
			a, err := Lookup(tc.agent, nil)
			assert.NilError(t, err)
			careful := Session{Mode: Build, Prompts: testPrompts, Getenv: env(), TempDir: temp}
			cmd, err := a.Prepare(t.Context(), careful)
			if tc.careful == "" {
				assert.ErrorContains(t, err, "without a sandbox")
				assert.ErrorContains(t, a.Check(careful), "without a sandbox")
			} else {
				assert.NilError(t, err)
				assert.NilError(t, a.Check(careful))
				assert.Equal(t, strings.Join(cmd.Args, " "), tc.careful)
				assert.Equal(t, cmd.Stdin, buildPrompt, "prompts are not in the command line")
				assert.Equal(t, filepath.Base(cmd.Path), tc.agent)
			}
			cmd, err = a.Prepare(t.Context(), Session{Mode: Plan, Prompts: testPrompts, Getenv: env(), Model: "m", Danger: true, TempDir: temp})
			assert.NilError(t, err)
			assert.Equal(t, strings.Join(cmd.Args, " "), tc.bypass)
			assert.Equal(t, cmd.Stdin, "Plan it.")

			cmd, err = a.Prepare(t.Context(), Session{Mode: Plan, Prompts: testPrompts, Getenv: env(), Sandboxed: true, Bypass: true, TempDir: temp})
			assert.NilError(t, err)
			for _, flag := range strings.Fields(strings.Replace(strings.TrimSuffix(tc.bypass, "Do what is written above."), "--model m", "", 1)) {
				assert.Assert(t, cmp.Contains(cmd.Args, flag))
			}
			assert.Assert(t, len(cmd.Env) > 0 || tc.agent == "codex")
		})
	}
}

// Without bypass, an agent may only do what the front matter allows.
func TestPermissionsFollowThePrompt(t *testing.T) {
	s := Session{Mode: Plan, Prompts: testPrompts, Getenv: env(), TempDir: t.TempDir()}
	cmd := Command{}
	assert.NilError(t, geminiCommand(t.Context(), s, &cmd, false))
	assert.Assert(t, cmp.Contains(strings.Join(cmd.Args, " "), "--approval-mode default"))
	b, err := os.ReadFile(filepath.Join(s.TempDir, "gemini-policy.toml"))
	assert.NilError(t, err)
	assert.Equal(t, string(b), "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = [\"ralph task\"]\ndecision = \"allow\"\npriority = 100\n")

	assert.DeepEqual(t, copilotRules(s), []string{"--allow-tool", "shell(ralph:*)", "--deny-tool", "shell(ralph build:*)", "--deny-tool", "shell(ralph plan:*)"})
	assert.Equal(t, opencodePermissions(s), `{"bash":{"*":"deny","ralph task *":"allow"},"edit":"deny"}`)
	s.Mode = Build
	assert.Equal(t, opencodePermissions(s), `{"bash":{"*":"deny","git add *":"allow","ralph task *":"allow"}}`)

	s.Prompts = []Prompt{{Skill: "ralph-build", Text: "no front matter\nallowed-tools: Bash(rm:*), Edit\n"}}
	assert.Equal(t, opencodePermissions(s), `{"bash":{"*":"deny"},"edit":"deny"}`)

	cmd = Command{}
	s.Getenv = env("OPENCODE_PERMISSION", `{"bash":"allow"}`)
	assert.NilError(t, opencodeCommand(t.Context(), s, &cmd, false))
	assert.Equal(t, len(cmd.Env), 1, "the user's own permissions were replaced")
}

func TestOpencodeVersions(t *testing.T) {
	t.Setenv("PATH", withPath(t)+":"+os.Getenv("PATH"))
	bin := filepath.Join(t.TempDir(), "opencode")
	for version, alone := range map[string]bool{"1.18.34": false, "2.0.18": true, "v2.1": true, "": false, "0.9": false} {
		assert.NilError(t, os.WriteFile(bin, []byte("#!/bin/sh\necho "+version+"\n"), 0o755))
		s := Session{Mode: Build, Prompts: testPrompts, Getenv: env("OPENCODE_CONFIG_CONTENT", `{"a":1,"plugin":["mine"]}`), TempDir: t.TempDir(), Danger: true}
		cmd := Command{Path: bin}
		assert.NilError(t, opencodeCommand(t.Context(), s, &cmd, false))
		assert.Equal(t, slices.Contains(cmd.Args, "--standalone"), alone, version)
		if alone {
			assert.Equal(t, len(cmd.Env), 0)
			continue
		}
		plugin := filepath.Join(s.TempDir, "opencode.js")
		assert.DeepEqual(t, cmd.Env, []string{`OPENCODE_CONFIG_CONTENT={"a":1,"plugin":["mine","file://` + plugin + `"]}`})
		_, err := os.Stat(plugin)
		assert.NilError(t, err)
	}
	cmd := Command{Path: bin}
	s := Session{Getenv: env("OPENCODE_CONFIG_CONTENT", "{ // a comment\n}"), TempDir: t.TempDir(), Danger: true}
	assert.NilError(t, opencodeCommand(t.Context(), s, &cmd, false))
	assert.Equal(t, len(cmd.Env), 0)
}

func TestHeadlessAgentsNotInstalled(t *testing.T) {
	withPath(t)
	for _, name := range config.BuiltinAgents() {
		if name == "shell" {
			continue
		}
		a, err := Lookup(name, nil)
		assert.NilError(t, err)
		assert.ErrorContains(t, a.Check(Session{Getenv: env(), Danger: true}), name+" is not installed or not on PATH")
	}
}

func TestEnvironmentOfHeadlessAgents(t *testing.T) {
	home := filepath.Join(t.TempDir(), "codex")
	assert.NilError(t, codexCommand(t.Context(), Session{Getenv: env("CODEX_HOME", home)}, &Command{}, false))
	_, err := os.Stat(home)
	assert.NilError(t, err)
	for _, tc := range []struct {
		env  []string
		want []string
	}{
		{nil, nil},
		{[]string{"GEMINI_API_KEY", "k"}, []string{"GEMINI_DEFAULT_AUTH_TYPE=gemini-api-key"}},
		{[]string{"GEMINI_API_KEY", "k", "GOOGLE_GENAI_USE_VERTEXAI", "true"}, nil},
	} {
		var cmd Command
		assert.NilError(t, geminiCommand(t.Context(), Session{Getenv: env(tc.env...), Danger: true}, &cmd, false))
		assert.DeepEqual(t, cmd.Env, tc.want)
	}
}

func TestPromptText(t *testing.T) {
	s := Session{Mode: Build, Note: "The check !`make test` failed.", Prompts: []Prompt{
		{Skill: "ralph-build", Text: "---\r\nname: x\r\n---\r\na !`echo $X`\n!`echo part; echo why >&2; exit 3`\n!`echo fine; echo noise >&2`"},
	}, Env: []string{"X=from the session", "PATH=" + os.Getenv("PATH")}}
	text, err := promptText(t.Context(), s)
	assert.NilError(t, err)
	assert.Equal(t, text, "a from the session\npart\n\nwhy\n(echo part; echo why >&2; exit 3: exit status 3)\nfine"+
		"\n## From the session before\n\nThe check ! `make test` failed.")
	_, err = promptText(t.Context(), Session{Mode: Plan})
	assert.ErrorContains(t, err, "no prompt for mode plan")
}

func TestPromptCommandsAreBounded(t *testing.T) {
	env := []string{"PATH=" + os.Getenv("PATH")}
	started := time.Now()
	text := commandOutput(t.Context(), env, "echo begun; sleep 600 & sleep 600", 300*time.Millisecond)
	assert.Equal(t, text, "begun\n\n(echo begun; sleep 600 & sleep 600: timed out after 300ms)")
	assert.Assert(t, time.Since(started) < 10*time.Second)

	text = commandOutput(t.Context(), env, "head -c 3000000 /dev/zero | tr '\\0' x", time.Minute)
	assert.Equal(t, len(text), promptCommandOutput+len("\n(cut)"))
	assert.Equal(t, commandOutput(t.Context(), env, "printf 'a\\033[2Jb'", time.Minute), "ab")
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
		{"standard input", []string{"mine", "-x"}, "", []string{"-x"}, buildPrompt},
		{"argument", []string{"mine", "--prompt={prompt}", "{x}", `{"a":1}`}, "", []string{"--prompt=" + buildPrompt, "{x}", `{"a":1}`}, ""},
		{"model", []string{"mine", "--model", "{model}"}, "m", []string{"--model", "m"}, buildPrompt},
		{"no model", []string{"mine", "a", "--model", "{model}", "{model}", "b"}, "", []string{"a", "b"}, buildPrompt},
		{"model within", []string{"mine", "-m={model}"}, "", []string{"-m="}, buildPrompt},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, err := Lookup("mine", map[string]config.CustomAgent{"mine": {Command: tc.command, Stream: "text"}})
			assert.NilError(t, err)
			cmd, err := a.Prepare(t.Context(), Session{Mode: Build, Prompts: testPrompts, Model: tc.model, TempDir: t.TempDir()})
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
	cmd, err := a.Prepare(t.Context(), Session{Mode: Build, Prompts: testPrompts, TempDir: dir})
	assert.NilError(t, err)
	path := strings.TrimPrefix(cmd.Args[0], "@")
	assert.Equal(t, filepath.Dir(path), dir)
	info, err := os.Stat(path)
	assert.NilError(t, err)
	assert.Equal(t, info.Mode().Perm(), os.FileMode(0o600))
	b, err := os.ReadFile(path)
	assert.NilError(t, err)
	assert.Equal(t, string(b), buildPrompt)
	assert.Equal(t, a.Model(Session{Model: "m"}), "m")

	long := []Prompt{{Skill: "ralph-build", Text: strings.Repeat("x", 200<<10)}}
	_, err = a.Prepare(t.Context(), Session{Mode: Build, Prompts: long, TempDir: dir})
	assert.NilError(t, err)
	tooLong, err := Lookup("mine", map[string]config.CustomAgent{"mine": {Command: []string{"mine", "{prompt}"}}})
	assert.NilError(t, err)
	_, err = tooLong.Prepare(t.Context(), Session{Mode: Build, Prompts: long, TempDir: dir})
	assert.ErrorContains(t, err, "agent mine: prompt of 200 KiB is too long for an argument")

	missing, err := Lookup("mine", map[string]config.CustomAgent{"mine": {Command: []string{"nowhere"}}})
	assert.NilError(t, err)
	assert.ErrorContains(t, missing.Check(Session{}), "agent mine: nowhere is not installed or not on PATH")
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
