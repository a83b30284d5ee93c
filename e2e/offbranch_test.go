//go:build unix

package e2e

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// A run that commits outside of the user's branch is refused, with its commits at the ref of the attempt, and another one
// brings them to the branch.
func TestCommitsThatLeaveTheBranch(t *testing.T) {
	const other = "git checkout -qb other && echo a > a.txt && git add a.txt && git commit -qm 'On other'"
	for _, tc := range sample([]struct {
		name, step string
		live       bool
	}{
		{name: "other branch", step: other},
		{name: "left again", step: other + "; git checkout -q main"},
		{name: "detached", step: "git checkout -q --detach; echo a > a.txt"},
		{name: "orphan", step: "git checkout -q --orphan pages; echo a > a.txt"},
		{name: "live", live: true, step: other},
	}, 2) {
		t.Run(tc.name, func(t *testing.T) {
			onEngines(t, func(t *testing.T, w *world) {
				w.setenv("RALPH_WORKSPACE", map[bool]string{false: "clone", true: "live"}[tc.live])
				const again = "if test -e ~/once; then git checkout -q $(git for-each-ref --format='%(refname)' refs/heads/ralph-attempts) -- a.txt; exit; fi; touch ~/once; "
				w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{again + tc.step}})
				res := w.ralph(t, "build").expect(t, 0)
				assert.Check(t, is.Contains(res.stdout+res.stderr, "Warning: the run was not accepted: 1 commit not on the branch: "))
				assert.Check(t, is.Contains(res.stdout, "Iteration 1: refused a | "))
				assert.Check(t, is.Contains(res.stdout, "Iteration 2: done a | "))
				assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "done"})
				assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "Add a")
				assert.Equal(t, w.git(t, "show", "main:a.txt"), "a")
				ref := "refs/heads/ralph-attempts/a/1"
				if !tc.live {
					ref = w.sandboxRef(t, "attempts/a/1")
				}
				assert.Equal(t, w.git(t, "show", ref+":a.txt"), "a")
				assert.Check(t, !strings.Contains(w.ok(t, "status"), "unmerged"))
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
