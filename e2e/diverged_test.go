//go:build unix

package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/wire"
)

// A loop stops after its current run once both sides have new commits: those of more agents would have to be merged
// as well.
func TestLoopStopsForTheUser(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		w.plan(t,
			task{ID: "a", Title: "Add a", Steps: []string{"touch .ralph/begun; while ! test -e .ralph/go; do sleep 0.1; done", "echo a > a.txt"}},
			task{ID: "b", Title: "Add b", Priority: 1, Steps: []string{"echo b > b.txt"}},
		)
		build := start(t, w.docker("ralph", "build"))
		waitForFile(t, w.pathInside(t, ".ralph/begun"))
		w.write(t, filepath.Join(w.repo, "user.txt"), "u\n")
		w.git(t, "add", "user.txt")
		w.git(t, "commit", "-qm", "The user's")
		w.write(t, w.pathInside(t, ".ralph/go"), "")

		res := build.wait(t).expect(t, wire.ExitUnmerged)

		const why = "your branch and the sandbox's have diverged"
		assert.Check(t, is.Contains(res.stdout+res.stderr, "the loop stops after this run: "+why))
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "done", "b": "open"})
		shown := w.ok(t, "status")
		assert.Check(t, is.Contains(shown, "unmerged"))
		assert.Check(t, is.Contains(shown, why))
	})
}

// What a shell has committed and the user's branch lacks is in the status until it is merged.
func TestStatusShowsCommitsOfAShell(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		w.createSandbox(t)
		w.write(t, filepath.Join(w.repo, "user.txt"), "u\n")
		w.git(t, "add", "user.txt")
		shell := start(t, w.docker("ralph", "shell", "--", "sh", "-c", "touch .ralph-begun; while ! test -e .ralph-go; do sleep 0.1; done; git commit -q --allow-empty -m agent; rm .ralph-*"))
		waitForFile(t, w.pathInside(t, ".ralph-begun"))
		w.git(t, "commit", "-qm", "The user's")
		w.write(t, w.pathInside(t, ".ralph-go"), "")
		shell.wait(t).expect(t, 0)

		assert.Check(t, is.Contains(w.ok(t, "status"), "Not merged your branch and the sandbox's have diverged: "))
		w.git(t, "merge", "-q", "-m", "Merge", "refs/ralph/"+w.sandbox(t).Name+"/main")
		assert.Check(t, !strings.Contains(w.ok(t, "status"), "Not merged"))
	})
}
