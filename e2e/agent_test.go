//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

// tellingClaude writes down what it was given.
const tellingClaude = `#!/bin/sh
printf '%s\n' "$@" >args
cp ~/.claude/skills/ralph-build/SKILL.md skill
echo '{"type":"assistant","message":{"content":[{"type":"text","text":"Looking around."}]}}'
echo '{"type":"result","subtype":"success","is_error":false,"num_turns":2,"total_cost_usd":0.0125,"result":"done","usage":{"output_tokens":5}}'
`

func TestClaudeIsStartedAsConfigured(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		flags := []string{"--agent", "claude", "--image", w.imageWith(t, "/usr/local/bin/claude", tellingClaude)}
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

func TestAnAgentThatTakesTooLongIsEnded(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.plan(t, slowTask())
		res := w.ralph(t, "--timeout", "1s", "build").expect(t, 124)
		assert.Check(t, is.Contains(res.stderr, "the run exceeded its time limit of 1s"))
		w.atRest(t)
		w.write(t, filepath.Join(w.repo, "go"), "")
		w.goesOn(t)
	})
}

func TestAnAgentThatOnlyFailsEndsTheLoop(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "bad", Title: "Cannot work", Steps: []string{"exit 3"}})
		res := w.ralph(t, "build").expect(t, 6)
		assert.DeepEqual(t, w.statuses(t), map[string]string{"bad": "blocked"})
		assert.Check(t, is.Contains(res.stderr, "Warning: task bad is blocked: it failed too often in a row: step 1 failed (exit code 3)"))
	})
}

// Without a name git would refuse to commit, after all the work was done.
func TestCommitsHaveAnAuthorWhereGitKnowsNone(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.setenv("GIT_CONFIG_GLOBAL", os.DevNull)
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"echo a >a"}})
		res := w.ralph(t, "build").expect(t, 0)
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s|%an|%ae"), "Add a|docker-ralph|docker-ralph@localhost")
		assert.Check(t, is.Contains(res.stderr, "Warning: git has no user.name and user.email here"))
		assert.Equal(t, strings.Count(res.stderr, "Warning"), 1)
	})
}

// An agent of one's own runs in any image that has it, and hears of nothing
// that the repository changes while the loop runs.
func TestAnAgentOfOnesOwn(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
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
		w.own(t, filepath.Join(w.repo, ".ralph", "prompts"))
		res := w.ralph(t, append(flags, "build")...).expect(t, 0)
		assert.Check(t, is.Contains(res.stdout, "Check passed after"))
		assert.Check(t, is.Contains(res.stdout, "done by "))
		assert.Check(t, !strings.Contains(res.stdout, "\x1b"))
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "Add both")
		assert.Equal(t, w.ok(t, append(flags, "task", "plan-status")...), "0 open, 0 active, 1 done, 0 blocked, 0 deleted\n")
		w.ownsEverything(t)
	})
}
