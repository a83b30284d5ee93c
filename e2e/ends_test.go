//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// Tasks made by hand are built where there are no specs, also from a subfolder.
func TestTasksAreBuiltWithoutSpecs(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.write(t, filepath.Join(w.repo, "sub", "file"), "x\n")
		w.own(t, w.repo)
		w.git(t, "rm", "-rq", "specs")
		w.git(t, "add", "-A")
		w.git(t, "commit", "-qm", "no specs")
		below := w.in(filepath.Join(w.repo, "sub"))
		res := below.ralph(t, "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stdout, "Error: No specs found."))
		assert.Check(t, is.Contains(res.stderr, "Hint: write specs in ./specs/, or create tasks with \"docker ralph task create ID TITLE\"\n"))
		below.ok(t, "task", "create", "a", "Add a", "-s", `["echo a >a.txt"]`)
		below.ok(t, "build", "-n", "1")
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "Add a")
		assert.Equal(t, len(w.sandboxes(t)), 1)
	})
}

// The exit code of a loop says whether its work was done, with -n as without.
func TestExitCodesOfLoops(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		bad := func(id string) task { return task{ID: id, Title: "Fail", Priority: 1, Steps: []string{"exit 3"}} }
		good := func(id string) task { return task{ID: id, Title: "Work", Priority: 2, Steps: []string{"true"}} }
		for _, tc := range []struct {
			name, command string
			tasks         []task
			code          int
			said          string
		}{
			{"the only run failed", "build -n 1", []task{bad("b1")}, 6, "the agent shell failed"},
			{"all runs failed", "build -n 2", []task{bad("b2")}, 6, "the agent shell failed"},
			{"a run before the last failed", "build -n 2", []task{bad("b3"), good("g3")}, 10, "worked on but not done: b3"},
			{"all is done", "build -n 1", []task{good("g4")}, 0, "Iteration 1: done g4"},
			{"nothing is left", "build", nil, 0, "the backlog has no tasks"},
			{"the only plan failed", "plan", nil, 6, "the agent shell failed"},
		} {
			if tc.tasks != nil {
				w.plan(t, tc.tasks...)
			}
			if strings.HasPrefix(tc.command, "plan") {
				w.write(t, filepath.Join(w.repo, "specs", "bad.md"), "```ralph-tasks\nhello\n```\n")
			}
			res := w.ralph(t, strings.Fields(tc.command)...)
			assert.Check(t, is.Equal(res.code, tc.code), "%s:\n%s\n%s", tc.name, res.stdout, res.stderr)
			assert.Check(t, is.Contains(res.stdout+res.stderr, tc.said), tc.name)
			w.ok(t, "task", "delete", "--all", "--confirm")
		}

		// A check that cannot run is none that has passed.
		assert.NilError(t, os.Remove(filepath.Join(w.repo, "specs", "bad.md")))
		w.configure(t, "[checks]\ncommands = [\"./no-such-check\"]\n")
		w.plan(t, good("g5"))
		res := w.ralph(t, "build", "-n", "1")
		assert.Check(t, is.Equal(res.code, 10), "%s\n%s", res.stdout, res.stderr)
		assert.Check(t, is.Contains(res.stdout, "reopened g5"))
		assert.DeepEqual(t, w.statuses(t), map[string]string{"g5": "open"})
	})
}

// talkative is a claude that says 5 MB at last.
const talkative = `#!/bin/sh
ralph task claim a >/dev/null
touch a && git add a && git commit -qm "Add a"
ralph task done a --result "{\"commit\":\"$(git rev-parse HEAD)\"}" >/dev/null
printf '{"type":"result","subtype":"success","is_error":false,"num_turns":2,"result":"'
head -c 5000000 /dev/zero | tr '\0' x
printf '","total_cost_usd":0.5}\n'
`

// However long an agent's last message is, its cost is known, and bounds the loop.
func TestALongLastMessageHasItsCost(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		flags := []string{"--agent", "claude", "--image", w.imageWith(t, "/usr/local/bin/claude", talkative)}
		for _, id := range []string{"a", "b"} {
			w.ok(t, append(flags, "task", "create", id, "Add "+id)...)
		}
		res := w.ralph(t, append(flags, "build", "--max-cost-usd", "0.25")...).expect(t, 4)
		assert.Check(t, is.Contains(res.stdout, "Iteration 1: done a"))
		assert.Check(t, is.Contains(res.stdout, "$0.5"))
		assert.Check(t, is.Contains(res.stderr, "cost limit reached: $0.50 of $0.25"))
		assert.Check(t, !strings.Contains(res.stdout, "Iteration 2"))
	})
}

// A run whose task another worker has claimed meanwhile does not count. What it has
// committed is kept, and the claim stays the other's.
func TestAnOvertakenRunDoesNotCount(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.setenv("RALPH_GIT", "private")
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{
			"echo a >a.txt; git add a.txt; git commit -qm 'Of the first'; touch .ralph/begun; while ! test -e .ralph/go; do sleep 0.05; done",
		}})
		build := start(t, w.docker("ralph", "build", "-n", "1"))
		appears(t, filepath.Join(w.repo, ".ralph", "begun"))
		w.ok(t, "task", "update", "a", "--status", "open")
		w.ok(t, "task", "claim", "a", "--agent", "beef")
		w.write(t, filepath.Join(w.repo, ".ralph", "go"), "")
		res := build.wait(t)
		assert.Check(t, res.code != 0)
		assert.Check(t, is.Contains(res.stderr, "Warning: another agent has claimed a"))
		assert.Check(t, is.Contains(res.stdout, "Iteration 1: overtaken a"))
		assert.Check(t, is.Contains(res.stdout, "Total: 1 run, 0 tasks done, 1 left, 0 commits"))
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "Of the first")
		shown := w.ok(t, "task", "show", "a")
		assert.Check(t, is.Contains(shown, "active"))
		assert.Check(t, is.Contains(shown, "beef"))
	})
}
