//go:build unix

package e2e

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// A run that empties the git directory takes the commit of the run before it along, which the
// host may not have fetched yet. Its task is not done then.
func TestEmptiedGitDirectoryLosesNoTask(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		w.plan(t,
			task{ID: "a", Title: "Add a", Priority: 1, Steps: []string{"echo a > a.txt"}},
			task{ID: "b", Title: "Empty it", Priority: 2, Steps: []string{"rm -rf .git/*; true"}},
			task{ID: "c", Title: "Add c", Priority: 3, Steps: []string{"echo c > c.txt"}},
		)
		w.ralph(t, "build")
		w.ok(t, "task", "delete", "b")
		w.ralph(t, "build")
		for _, id := range []string{"a", "c"} {
			assert.Check(t, is.Equal(w.statuses(t)[id], "done"))
			assert.Check(t, is.Equal(w.git(t, "show", "main:"+id+".txt"), id))
		}
	})
}

// A clone whose git directory was damaged between two loops is repaired before an agent starts, and charges no task.
func TestDamagedGitDirectoryChargesNoTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginesFor(t)[0])
	w.useClone()
	w.plan(t, task{ID: "first", Title: "Add first", Steps: []string{"echo x > first.txt"}})
	w.ok(t, "build")
	for id, damage := range map[string]string{
		"volume": "", "permissions": "chmod 000 .git/.", "head": "rm .git/HEAD", "bare": "git config core.bare true", "lock": "touch .git/index.lock .git/refs/heads/main.lock",
	} {
		name := w.sandbox(t).Name
		if damage == "" {
			run(t, w.docker("rm", "-f", name)).expect(t, 0)
			run(t, w.docker("volume", "rm", "ralph-git-"+name)).expect(t, 0)
		} else {
			run(t, w.docker("exec", "-u", w.insideUser(), "-w", w.repo, name, "sh", "-c", damage)).expect(t, 0)
		}
		w.plan(t, task{ID: id, Title: "Add " + id, Steps: []string{"echo x > " + id + ".txt"}})
		res := w.ralph(t, "build").expect(t, 0)
		assert.Check(t, is.Contains(res.stdout, "Iteration 1: done "+id), damage)
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s", "main"), "Add "+id)
		assert.Equal(t, w.tasks(t)[id].Retries, 0)
	}
}
