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

// The host has copies of the backlog, and brings one back whatever became of the
// database.
func TestTheBacklogComesBackFromACopy(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "first", Title: "Add a", Steps: []string{"echo a >a.txt"}},
			task{ID: "second", Title: "Wipe", Steps: []string{"git clean -fdxq; echo b >b.txt"}})
		w.ralph(t, "build").expect(t, 0)
		done := map[string]string{"first": "done", "second": "done"}
		assert.DeepEqual(t, w.statuses(t), done)

		assert.NilError(t, os.RemoveAll(filepath.Join(w.repo, ".ralph")))
		const remedy = `bring a copy back with "docker ralph task restore"`
		res := w.ralph(t, "build")
		assert.Check(t, res.code != 0)
		assert.Check(t, is.Contains(res.stderr, "Error: the backlog is gone: "))
		assert.Check(t, is.Contains(res.stderr, "Hint: "+remedy))
		res = w.ralph(t, "task", "list").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "Warning: the backlog is gone: "))

		res = w.ralph(t, "task", "restore", "--list").expect(t, 0)
		copies := strings.Split(strings.TrimSpace(res.stdout), "\n")
		assert.Assert(t, len(copies) >= 2, res.stdout)
		oldest := strings.Fields(copies[len(copies)-1])[0]
		assert.Equal(t, w.ralph(t, "task", "restore").expect(t, 0).stdout, "restored 2 tasks\n")
		assert.DeepEqual(t, w.statuses(t), done)

		// A new database is what the next command makes of one that was emptied.
		w.write(t, filepath.Join(w.repo, ".ralph", "tasks.db"), "")
		res = w.ralph(t, "build")
		assert.Check(t, res.code != 0, res.stdout)
		assert.Check(t, is.Contains(res.stderr, "Error: the backlog is gone: its database has no tasks\nHint: "+remedy))
		w.ralph(t, "task", "restore").expect(t, 0)
		assert.DeepEqual(t, w.statuses(t), done)

		w.write(t, filepath.Join(w.repo, ".ralph", "tasks.db"), strings.Repeat("garbage ", 2000))
		res = w.ralph(t, "task", "list")
		assert.Check(t, res.code != 0)
		assert.Check(t, is.Contains(res.stdout+res.stderr, `restore a copy with "docker ralph task restore"`))
		w.ralph(t, "task", "restore", oldest).expect(t, 0)
		assert.Check(t, is.Equal(len(w.statuses(t)), 2))
		assert.Check(t, w.ralph(t, "task", "restore", "none").code != 0)
	})
}
