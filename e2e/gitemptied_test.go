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
