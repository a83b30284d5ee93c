//go:build unix

package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/credential/agentconfig"
	"github.com/docker-ralph/docker-ralph/e2e/modelapi"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

// Agents: built-in and custom ones, their settings and the user's configuration of
// them in the sandbox.

// recordingClaude writes down what it was given.
const recordingClaude = `#!/bin/sh
printf '%s\n' "$@" >args
cp ~/.claude/skills/ralph-build/SKILL.md skill
echo '{"type":"assistant","message":{"content":[{"type":"text","text":"Looking around."}]}}'
echo '{"type":"result","subtype":"success","is_error":false,"num_turns":2,"total_cost_usd":0.0125,"result":"done","usage":{"output_tokens":5}}'
`

func TestClaudeGetsItsConfiguredArguments(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.ignore(t, "args", "skill")
		flags := []string{"--agent", "claude", "--image", w.imageWith(t, "/usr/local/bin/claude", recordingClaude)}
		w.ok(t, append(flags, "task", "create", "a", "Title")...)

		res := w.ralph(t, append(flags, "build", "-n", "1")...).expect(t, 0)
		assert.Equal(t, w.read(t, "args"), "-p\n/ralph-build\n--output-format=stream-json\n--verbose\n--dangerously-skip-permissions\n--disallowedTools=ScheduleWakeup\n")
		assert.Check(t, is.Contains(w.read(t, "skill"), "# Build one task"))
		assert.Check(t, is.Contains(res.stdout, "Looking around."))
		assert.Check(t, is.Contains(res.stdout, "━━ Done (success) | cost: $0.0125 | turns: 2 ━━"))

		// The repository may have its own prompt, and be more careful.
		w.write(t, filepath.Join(w.repo, ".ralph", "prompts", "build.md"), "Our own words.\n")
		w.configure(t, "[agent]\npermissions = \"ask\"\nmodel = \"haiku\"\n")
		w.ok(t, append(flags, "build", "-n", "1")...)
		assert.Equal(t, w.read(t, "args"), "-p\n/ralph-build\n--output-format=stream-json\n--verbose\n--model\nhaiku\n--disallowedTools=ScheduleWakeup\n")
		assert.Check(t, is.Contains(w.read(t, "skill"), "Our own words."))

		w.ok(t, append(flags, "build", "-n", "1", "-m", "opus-x")...)
		assert.Check(t, is.Contains(w.read(t, "args"), "--model\nopus-x\n"))
	})
}

func TestTimeoutEndsTheAgent(t *testing.T) {
	andRemote(t, onDrivers, func(t *testing.T, w *world) {
		w.plan(t, slowTask())
		res := w.ralph(t, "--timeout", "1s", "build", "-n", "1").expect(t, 124)
		assert.Check(t, is.Contains(res.stderr, "the run exceeded its time limit of 1s"))
		w.waitForIdle(t)
		w.write(t, w.pathInside(t, "go"), "")
		w.assertResumable(t)
	})
}

func TestLoopEndsWhenTheAgentOnlyFails(t *testing.T) {
	onDrivers(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "bad", Title: "Cannot work", Steps: []string{"exit 3"}})
		res := w.ralph(t, "build").expect(t, 6)
		assert.DeepEqual(t, w.statuses(t), map[string]string{"bad": "blocked"})
		assert.Check(t, is.Contains(res.stderr, "Warning: task bad is blocked after repeated failures: step 1 failed (exit code 3)"))
	})
}

// Without a name git would refuse to commit, after all the work was done.
func TestCommitsHaveADefaultAuthor(t *testing.T) {
	onDrivers(t, func(t *testing.T, w *world) {
		w.setenv("GIT_CONFIG_GLOBAL", os.DevNull)
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"echo a >a"}})
		res := w.ralph(t, "build").expect(t, 0)
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s|%an|%ae"), "Add a|docker-ralph|docker-ralph@localhost")
		assert.Check(t, is.Contains(res.stderr, "Warning: git has no user.name and user.email here"))
		assert.Equal(t, strings.Count(res.stderr, "git has no user.name"), 1)
	})
}

// A custom agent runs in any image that has it. Changes of the repository's
// configuration do not reach a running loop.
func TestCustomAgent(t *testing.T) {
	onDrivers(t, func(t *testing.T, w *world) {
		w.configure(t, `[agent]
name = "mine"
[agents.mine]
command = ["sh", "{prompt_file}"]
[checks]
commands = ["test -e one"]
`)
		flags := []string{"--agent", "mine", "--image", engines.BaseImage()}
		w.ok(t, append(flags, "task", "create", "a", "Add both")...)
		w.write(t, filepath.Join(w.repo, ".ralph", "prompts", "build.md"), `set -e
ralph task claim a
rm -f ralph.toml; touch one two; git add one two; git commit -qm "Add both"
ralph task done a --result "{\"commit\":\"$(git rev-parse HEAD)\"}"
printf '\033]0;evil\007done by %s\n' "$RALPH_AGENT_ID"
`)
		res := w.ralph(t, append(flags, "build")...).expect(t, 0)
		assert.Check(t, is.Contains(res.stdout, "Check passed after"))
		assert.Check(t, is.Contains(res.stdout, "done by "))
		assert.Check(t, !strings.Contains(res.stdout, "\x1b"))
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "Add both")
		w.ok(t, "trust", "--force") // without the check
		assert.Equal(t, w.ok(t, append(flags, "task", "plan-status")...), "0 open, 0 active, 1 done, 0 blocked, 0 deleted\n")
		w.assertOwnership(t)
	})
}

// What the user has configured of the agent is in the sandbox, without secrets,
// and is the user's again with every command.
func TestAgentSettingsAreCopiedWithoutSecrets(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		const key = "sk-ant-e2e-" + "in-a-configuration-file"
		of := func(name string) string { return filepath.Join(w.home, ".claude", name) }
		w.write(t, of("CLAUDE.md"), "Be brief.\n")
		w.write(t, of("settings.json"), `{"model": "opus", "env": {"ANTHROPIC_API_KEY": "`+key+`", "EDITOR": "vi"}}`)
		w.write(t, of(".credentials.json"), `{"token": "`+key+`"}`)
		w.write(t, of("projects/other/session.jsonl"), "said elsewhere\n")
		w.write(t, of("skills/one/run.sh"), "#!/bin/sh\n")
		assert.NilError(t, os.Chmod(of("skills/one/run.sh"), 0o755))
		w.write(t, filepath.Join(w.home, ".codex", "AGENTS.md"), "Of another agent.\n")
		assert.NilError(t, os.Symlink("/etc/passwd", of("commands")))
		w.chown(t, w.home)
		flags := []string{"--agent", "claude", "--image", w.imageOf(t, map[string]string{"/usr/local/bin/claude": "#!/bin/sh\necho not used\n"})}
		inside := func(script string, more ...string) result {
			t.Helper()
			args := append(append(flags, more...), "shell", "--", "sh", "-c", "cd; "+script)
			return w.ralph(t, args...).expect(t, 0)
		}

		res := inside(`find .claude .codex -type f 2>/dev/null | sort; cat .claude/CLAUDE.md .claude/settings.json; test -x .claude/skills/one/run.sh && test -O .claude/CLAUDE.md; echo $?`)
		assert.Equal(t, res.stdout, ".claude/CLAUDE.md\n.claude/settings.json\n.claude/skills/one/run.sh\nBe brief.\n{\n  \"env\": {\n    \"EDITOR\": \"vi\"\n  },\n  \"model\": \"opus\"\n}\n0\n")
		assert.Check(t, is.Contains(res.stderr, "Warning: "+of("settings.json")+" is copied without ANTHROPIC_API_KEY"))
		assert.Check(t, is.Contains(res.stderr, "Warning: "+of("commands")+" is not copied: it is a dangling symbolic link"))

		// It is copied from a folder of the host that is mounted read-only, and in
		// which there is no secret either.
		shown := w.shownConfig("container", w.sandbox(t).Name)
		mounts := w.container(t).Mounts
		mounted := slices.IndexFunc(mounts, func(m container.MountPoint) bool { return m.Source == shown })
		assert.Assert(t, mounted >= 0)
		at := mounts[mounted]
		assert.Assert(t, !at.RW)
		assert.Equal(t, inside("cat "+at.Destination+"/*/.claude/CLAUDE.md; touch "+at.Destination+"/x 2>&1 | grep -o 'Read-only.*'; grep -r "+key+" "+at.Destination+"; true").stdout,
			"Be brief.\nRead-only file system\n")
		assert.Check(t, is.Contains(inside("ls -A "+at.Destination+"/*/.claude").stdout, "CLAUDE.md\nsettings.json\nskills\n"))

		// It is reported once, and changes inside the sandbox are discarded.
		inside("echo changed >.claude/CLAUDE.md")
		w.write(t, of("settings.json"), `{"model": "haiku"}`)
		assert.NilError(t, os.RemoveAll(of("skills")))
		res = inside("cat .claude/CLAUDE.md .claude/settings.json; ls .claude/skills/one")
		assert.Equal(t, res.stdout, "Be brief.\n{\"model\": \"haiku\"}")
		assert.Check(t, !strings.Contains(inside("true").stderr, "is not copied"))

		// A lost copy is made again.
		w.ok(t, "stop", "--now")
		assert.NilError(t, os.RemoveAll(filepath.Dir(filepath.Dir(shown))))
		assert.Equal(t, inside("cat .claude/CLAUDE.md").stdout, "Be brief.\n")

		// The copy can be disabled, and an unreadable file is an error.
		assert.Equal(t, inside("find .claude "+at.Destination+" -type f", "--no-host-config").stdout, "")
		assert.NilError(t, os.Chmod(of("CLAUDE.md"), 0))
		stderr := w.ralph(t, append(flags, "shell", "--", "true")...).expect(t, 1).stderr
		assert.Check(t, is.Contains(stderr, "Error: reading your settings of claude: "))
		assert.Check(t, is.Contains(stderr, "--no-host-config"))
		w.ok(t, append(flags, "task", "list")...)
		w.ok(t, "clean", "--force")
		_, err := os.Stat(filepath.Dir(shown))
		assert.ErrorIs(t, err, fs.ErrNotExist, "nothing is left with the sandbox gone")
	})
}

// shownConfig is the folder of the host in which a sandbox sees configuration.
func (w *world) shownConfig(driver, sandbox string) string {
	return agentconfig.StagingOf(filepath.Join(w.config, "ralph"), driver, sandbox).Shown()
}

// Missing settings are reported in the debug log only.
func TestMissingAgentSettingsAreNotReported(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		flags := []string{"--agent", "claude", "--image", w.imageOf(t, map[string]string{"/usr/local/bin/claude": "#!/bin/sh\n"})}
		missing := "no settings of claude in " + filepath.Join(w.home, ".claude")
		assert.Check(t, !strings.Contains(w.ralph(t, append(flags, "shell", "--", "true")...).expect(t, 0).stderr, missing))
		debugged := run(t, w.docker(append(append([]string{"--debug", "ralph"}, flags...), "shell", "--", "true")...)).expect(t, 0)
		assert.Check(t, is.Contains(debugged.stderr, missing))

		w.write(t, filepath.Join(w.home, ".gitconfig"), "")
		res := w.ralph(t, append(flags, "shell", "--", "git", "config", "user.name")...).expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "Warning: git has no user.name and user.email here"))
	})
}

// It is so in a microVM too, where keys stay with its program's proxy.
func TestAgentSettingsAreCopiedToAMicroVM(t *testing.T) {
	onMicroVMs(t, func(t *testing.T, w *world) {
		w.write(t, filepath.Join(w.home, ".claude", "CLAUDE.md"), "Be brief.\n")
		w.chown(t, w.home)
		flags := w.withClaude(t, "#!/bin/sh\necho not used\n")
		assert.Equal(t, w.ok(t, append(flags, "shell", "--", "sh", "-c", "cd; cat .claude/CLAUDE.md; echo changed >.claude/CLAUDE.md")...), "Be brief.\n")
		assert.Equal(t, w.ok(t, append(flags, "shell", "--", "sh", "-c", "cd; cat .claude/CLAUDE.md")...), "Be brief.\n")
		shown := w.shownConfig(w.driver, w.sandbox(t).Name)
		assert.Equal(t, w.ok(t, append(flags, "shell", "--", "sh", "-c", "cat "+shown+"/*/.claude/CLAUDE.md")...), "Be brief.\n")
		assert.Equal(t, w.ok(t, append(flags, "--no-host-config", "shell", "--", "sh", "-c", "cd; ls .claude; find "+shown+" -type f")...), "")
	})
}

// The real Claude Code has its user's settings, which those of the project override.
func TestProjectSettingsOverrideTheUsers(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		base := claudeBase(t, w)
		hello := []modelapi.Turn{modelapi.Say("Hello.")}
		api, url := w.serveModel(t, [][]modelapi.Turn{hello, hello})
		w.setenv("ANTHROPIC_BASE_URL", url)
		w.setenv("ANTHROPIC_API_KEY", "sk-ant-e2e-whose-settings")
		w.write(t, filepath.Join(w.home, ".claude", "settings.json"), `{"model": "claude-of-the-user"}`)
		w.write(t, filepath.Join(w.home, ".claude", "CLAUDE.md"), "The user wants short answers.\n")
		w.chown(t, w.home)
		asked := func() modelapi.Request {
			t.Helper()
			w.ok(t, "--agent", "claude", "--base", base, "run", "-p", "Say hello.")
			first := api.First()
			return first[len(first)-1]
		}

		alone := asked()
		assert.Equal(t, alone.Model, "claude-of-the-user")
		assert.Check(t, is.Contains(alone.UserText()+alone.System, "The user wants short answers."))

		w.write(t, filepath.Join(w.repo, ".claude", "settings.json"), `{"model": "claude-of-the-project"}`)
		w.write(t, filepath.Join(w.repo, "CLAUDE.md"), "The project wants tests.\n")
		w.chown(t, w.repo)
		w.git(t, "add", "-A")
		w.git(t, "commit", "-qm", "settings")
		both := asked()
		assert.Equal(t, both.Model, "claude-of-the-project")
		assert.Check(t, is.Contains(both.UserText()+both.System, "The user wants short answers."))
		assert.Check(t, is.Contains(both.UserText()+both.System, "The project wants tests."))
	})
}
