//go:build unix

package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
)

// A build that finds nothing to do does not hide the loop before it. That loop can be listed, named
// and read, and its costs are added up, also from another branch and without an engine.
func TestLoopsCanBeListedAndNamed(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "login/01", Title: "Greet", Steps: []string{"echo hello from the night"}})
		w.ok(t, "build")
		w.ok(t, "build") // all tasks are done
		assert.Check(t, is.Contains(w.ok(t, "logs"), "hello from the night"))
		assert.Equal(t, w.status(t).Loop.Iteration, 1)

		w.git(t, "switch", "-qc", "other")
		res := w.ralph(t, "logs").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Error: no loop logs for branch other"))
		away := *w
		away.env = append(slices.Clone(w.env), "DOCKER_HOST="+deadHost)
		var loops []manage.LoopRecord
		assert.NilError(t, json.Unmarshal([]byte(away.ok(t, "ls", "--loops", "--format", "json")), &loops))
		var names []string
		for _, l := range loops {
			names = append(names, l.Command)
		}
		assert.DeepEqual(t, names, []string{"build", "build"})
		night := loops[1]
		assert.Equal(t, night.Branch, "main")
		assert.Equal(t, night.Done, 1)
		assert.Check(t, is.Contains(away.ok(t, "logs", "--loop", night.ID), "hello from the night"))
		assert.Equal(t, strings.Count(away.ok(t, "ls", "--loops", "-q"), "\n"), 2)
		res = w.ralph(t, "logs", "--loop", "20000101-000000-build").expect(t, 1)
		assert.Equal(t, res.stderr, "Error: no log of a loop \"20000101-000000-build\"\nHint: list loops with \"docker ralph ls --loops\"\n")

		var costs []manage.CostRecord
		assert.NilError(t, json.Unmarshal([]byte(away.ok(t, "cost", "--format", "json")), &costs))
		runs := 0
		for _, c := range costs { // of two days around midnight
			assert.Equal(t, c.Branch, "main")
			runs += c.Runs
		}
		assert.Equal(t, runs, 1)
		assert.Check(t, is.Contains(away.ok(t, "cost"), w.slug))
	})
}
