//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// linked is the world in another work tree of its repository, on a new branch.
func (w *world) linked(t *testing.T, branch string) *world {
	t.Helper()
	other := *w
	other.env = slices.Clone(w.env)
	other.repo = filepath.Join(w.dir, "src", branch)
	w.git(t, "worktree", "add", "-q", "-b", branch, other.repo)
	return &other
}

// branches are those that have a sandbox, in no order.
func (w *world) branches(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, c := range w.containers(t) {
		all[c.Labels[labelPrefix+"scope.branch"]] = true
	}
	return all
}

// A sandbox whose work tree is gone goes when the next one is made, but not with
// commits that are in it alone.
func TestSandboxesWithoutAWorkTree(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.byDefault()
		done, half, open := w.linked(t, "done"), w.linked(t, "half"), w.linked(t, "open")
		open.setenv("RALPH_GIT", "direct")
		done.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"echo a > a.txt"}})
		done.ralph(t, "build").expect(t, 0)
		open.ok(t, "task", "list")
		half.plan(t, task{ID: "b", Title: "Commit and hang", Steps: []string{"echo b > b.txt; git add b.txt; git commit -qm b; touch committed; sleep 1000"}})
		build := start(t, half.docker("ralph", "build", "-n", "1"))
		appears(t, filepath.Join(half.repo, "committed"))
		build.signalGroup(syscall.SIGKILL)
		build.wait(t)
		for _, tree := range []*world{done, half, open} {
			assert.NilError(t, os.RemoveAll(tree.repo))
		}
		for _, c := range w.containers(t) { // what was killed on the host has left its loop at work
			run(t, w.docker("stop", "-t", "0", c.ID)).expect(t, 0)
		}

		res := w.ralph(t, "task", "list").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "its work tree "+done.repo+" is gone"))
		assert.Check(t, is.Contains(res.stderr, "its work tree "+open.repo+" is gone"))
		assert.Check(t, is.Contains(res.stderr, half.repo+", is gone: kept, as it may have the only copy of its commits"))
		assert.DeepEqual(t, w.branches(t), map[string]bool{"main": true, "half": true})
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s", "done"), "Add a")
	})
}
