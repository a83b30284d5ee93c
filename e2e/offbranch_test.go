//go:build unix

package e2e

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/wire"
)

// A loop whose run commits outside of the user's branch has not succeeded, and no later one has, until the
// branch has the commits or the user discards them.
func TestCommitsThatLeaveTheBranch(t *testing.T) {
	const other = "git checkout -qb other && echo a > a.txt && git add a.txt && git commit -qm 'On other'"
	discard := func(t *testing.T, w *world) { w.git(t, "update-ref", "-d", w.sandboxRef(t, "other")) }
	for _, tc := range sample([]struct {
		name, step string
		live       bool
		ref        string // of the commits; empty for one with the commit's ID
		next       string // a task of the next loop
		user       func(t *testing.T, w *world)
		again      int // exit code of the next loop
	}{
		{name: "other branch", step: other, ref: "other", again: wire.ExitUnmerged},
		{name: "left again", step: other + "; git checkout -q main", ref: "other", again: wire.ExitUnmerged},
		{name: "detached", step: "git checkout -q --detach; echo a > a.txt", again: wire.ExitUnmerged},
		{name: "orphan", step: "git checkout -q --orphan pages; echo a > a.txt", ref: "pages", again: wire.ExitUnmerged},
		{name: "deleted by a later run", step: other, ref: "other", next: "git branch -D other", again: wire.ExitUnmerged},
		{name: "merged by a later run", step: other, ref: "other", next: "git merge -q other"},
		{name: "rebased and merged by a later run", step: other, ref: "other", next: "echo b > b.txt; git add b.txt; git commit -qm b; git rebase -q main other; git checkout -q main; git merge -q other"},
		{name: "merged by the user", step: other, ref: "other", user: func(t *testing.T, w *world) { w.git(t, "merge", "-q", w.sandboxRef(t, "other")) }},
		{name: "squashed by the user", step: other, ref: "other", user: func(t *testing.T, w *world) {
			w.git(t, "merge", "-q", "--squash", w.sandboxRef(t, "other"))
			w.git(t, "commit", "-qm", "squashed")
		}},
		{name: "discarded by the user", step: other, ref: "other", user: discard},
		{name: "live", live: true, step: other, ref: "other", user: func(t *testing.T, w *world) { w.git(t, "merge", "-q", "other") }},
	}, 4) {
		t.Run(tc.name, func(t *testing.T) {
			onEngines(t, func(t *testing.T, w *world) {
				w.setenv("RALPH_WORKSPACE", map[bool]string{false: "clone", true: "live"}[tc.live])
				w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{tc.step}})
				res := w.ralph(t, "build", "--format", "json").expect(t, wire.ExitUnmerged)
				assert.Check(t, is.Contains(res.stdout, `"stop":"unmerged","exit_code":14`))
				assert.Check(t, is.Contains(res.stderr, "Error: a run has committed outside of your branch main: its commits are at refs/"))
				assert.Check(t, is.Contains(res.stderr, "\nHint: merge them with "))
				if tc.ref != "" && !tc.live {
					assert.Check(t, is.Contains(res.stderr, w.sandboxRef(t, tc.ref)))
				}
				assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "done"})
				w.assertUnmerged(t)

				if tc.user != nil {
					tc.user(t, w)
				}
				if tc.next != "" {
					w.plan(t, task{ID: "b", Title: "Go on", Steps: []string{tc.next}})
				}
				res = w.ralph(t, "build").expect(t, tc.again)
				assert.Check(t, is.Contains(res.stdout, "All tasks complete"))
				if tc.again != 0 {
					w.assertUnmerged(t)
					return
				}
				assert.Check(t, !strings.Contains(w.ok(t, "status"), "unmerged"))
				w.ok(t, "logs", "-f")
			})
		})
	}
}

// An agent that replaces the repository has failed: its sandbox is repaired, and after three attempts its task is
// blocked.
func TestTaskThatReplacesTheRepositoryIsBlocked(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.setenv("RALPH_WORKSPACE", "clone")
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"rm -rf .git/*; git init -q -b other; echo a > a.txt"}})
		before := w.git(t, "rev-parse", "HEAD")
		res := w.ralph(t, "build").expect(t, 10)
		assert.Check(t, is.Contains(res.stderr, "has a broken git directory"))
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "blocked"})
		assert.Equal(t, w.git(t, "rev-parse", "HEAD"), before)
	})
}

// sandboxRef returns the user's ref for a branch of the sandbox.
func (w *world) sandboxRef(t *testing.T, branch string) string {
	t.Helper()
	return "refs/ralph/" + w.sandbox(t).Name + "/" + branch
}

// assertUnmerged asserts that all that describes the last loop says that its commits are not on the branch.
func (w *world) assertUnmerged(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{{"status", "--format", "json"}, {"ls", "--format", "json"}} {
		shown := strings.ReplaceAll(w.ok(t, args...), " ", "")
		assert.Check(t, is.Contains(shown, `"exit_code":14`), args)
		assert.Check(t, is.Contains(shown, `"stop":"unmerged"`), args)
	}
	assert.Check(t, is.Contains(w.ok(t, "status"), "outside of your branch main"))
	w.ralph(t, "logs", "-f").expect(t, wire.ExitUnmerged)
}
