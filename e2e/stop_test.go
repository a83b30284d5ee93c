//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func TestStopLetsTheLoopFinishItsTask(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		next := slowTask()
		next.ID = "untouched"
		first := slowTask()
		first.Priority, next.Priority = 1, 2
		w.plan(t, first, next)
		build := start(t, w.docker("ralph", "build"))
		appears(t, filepath.Join(w.repo, "begun"))
		stop := start(t, w.docker("ralph", "stop"))
		stop.stderr.waitFor(t, `Asked "build" in `+w.sandbox(t).Name+" to stop after ")
		build.stdout.waitFor(t, "Asked to stop: the loop ends after this run.")
		w.write(t, filepath.Join(w.repo, "go"), "")
		build.wait(t).expect(t, 0)
		res := stop.wait(t).expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, `"build" has ended: stopped (exit code 0)`))
		assert.Check(t, is.Contains(res.stderr, "Stopped the sandbox "+w.sandbox(t).Name))
		assert.Assert(t, !w.sandbox(t).Running)
		_, err := os.Stat(filepath.Join(w.repo, "signals"))
		assert.Assert(t, os.IsNotExist(err), "the agent was not disturbed")
		assert.DeepEqual(t, w.statuses(t), map[string]string{"slow": "done", "untouched": "open"})
	})
}

func TestStopNowEndsALoopThatNobodySees(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.plan(t, slowTask())
		build := start(t, w.docker("ralph", "build"))
		appears(t, filepath.Join(w.repo, "begun"))
		build.signalGroup(syscall.SIGKILL)
		build.wait(t)
		res := w.ralph(t, "stop", "--now").expect(t, 0)
		sb := w.sandbox(t)
		assert.Check(t, is.Contains(res.stderr, `Ending "build" in `+sb.Name))
		assert.Check(t, is.Contains(res.stderr, "Stopped the sandbox "+sb.Name))
		assert.Assert(t, !sb.Running)
		w.write(t, filepath.Join(w.repo, "go"), "")
		assert.DeepEqual(t, w.statuses(t), map[string]string{"slow": "open"})
	})
}

func TestStopWhereNothingRuns(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		res := w.ralph(t, "stop").expect(t, 0)
		assert.Check(t, is.Equal(res.stderr, "There is no sandbox of this work tree and branch, so nothing runs\n"))
		w.ok(t, "task", "create", "a", "Title")
		name := w.sandbox(t).Name
		res = w.ralph(t, "stop", name).expect(t, 0)
		assert.Check(t, is.Equal(res.stderr, "Nothing runs in "+name+"\nStopped the sandbox "+name+"\n"))
		assert.Assert(t, !w.sandbox(t).Running)
		res = w.ralph(t, "stop").expect(t, 0)
		assert.Check(t, is.Equal(res.stderr, "Nothing runs in "+name+": it is stopped\n"))
		res = w.ralph(t, "stop", "ralph-nobody").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, `there is no sandbox "ralph-nobody"`))
	})
}

// Commits of a loop whose command was killed come home when it is ended.
func TestStopNowBringsCommitsHome(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.byDefault()
		w.plan(t, task{ID: "b", Title: "Commit and hang", Steps: []string{"echo b > b.txt; git add b.txt; git commit -qm b; touch committed; sleep 1000"}})
		build := start(t, w.docker("ralph", "build", "-n", "1"))
		appears(t, filepath.Join(w.repo, "committed"))
		build.signalGroup(syscall.SIGKILL)
		build.wait(t)
		w.ralph(t, "stop", "--now").expect(t, 0)
		assert.Assert(t, !w.sandbox(t).Running)
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "b")
	})
}
