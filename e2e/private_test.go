//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
)

// A sandbox that works on a clone of its own leaves the user's branch and work
// tree as they are. Its commits come home after every build, and making it anew
// loses none.
func TestASandboxWithACloneOfItsOwn(t *testing.T) {
	with(t, config.DriverSbx, func(t *testing.T, w *world) {
		w.setenv("RALPH_GIT", "private")
		before := w.git(t, "rev-parse", "HEAD")
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"echo a > a.txt"}})
		res := w.ralph(t, "build").expect(t, 0)
		name := w.sandbox(t).Name
		ref := "refs/ralph/" + name + "/main"
		assert.Assert(t, is.Contains(res.stderr, `The sandbox has 1 commits that your branch has not: take them with "git merge `+ref+`"`))
		assert.Equal(t, w.git(t, "rev-parse", "HEAD"), before)
		assert.Equal(t, w.git(t, "status", "--porcelain"), "")
		_, err := os.Stat(filepath.Join(w.repo, "a.txt"))
		assert.Assert(t, os.IsNotExist(err))
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s", ref), "Add a")

		// What is not committed is nowhere else.
		w.plan(t, task{ID: "b", Title: "Add b", Steps: []string{"touch begun; exit 1"}})
		w.ralph(t, "build", "-n", "1")
		res = w.ralph(t, "--recreate", "task", "list")
		res.expect(t, 1)
		assert.Assert(t, is.Contains(res.stderr, "there are changes that are not committed"))
		assert.Assert(t, is.Contains(res.stderr, "docker ralph clean --discard-commits "+name))
		w.ok(t, "task", "delete", "b")
		w.plan(t, task{ID: "c", Title: "Add c", Steps: []string{"true"}})
		w.ralph(t, "build").expect(t, 0)

		w.ok(t, "--recreate", "task", "list")
		assert.Assert(t, w.sandbox(t).ID != "")
		assert.Equal(t, w.git(t, "log", "--format=%s", "HEAD.."+ref), "Add c\nAdd a")
		w.git(t, "merge", "-q", "--ff-only", ref)
		assert.Equal(t, w.read(t, "a.txt"), "a\n")
	})
}

func TestWhereThereCannotBeAClone(t *testing.T) {
	inMicroVMs(t, func(t *testing.T, w *world) {
		w.setenv("RALPH_GIT", "private")
		if w.driver == config.DriverDockerSandbox {
			res := w.ralph(t, "task", "list").expect(t, 1)
			assert.Assert(t, is.Contains(res.stderr, `Error: sandbox.git = "private" works with the drivers container and sbx only, and this is docker-sandbox`))
			return
		}
		linked := filepath.Join(w.dir, "linked")
		w.git(t, "worktree", "add", "-q", "-b", "side", linked)
		cmd := w.docker("ralph", "task", "list")
		cmd.Dir = linked
		res := run(t, cmd).expect(t, 1)
		assert.Assert(t, is.Contains(res.stderr, "Error: this is a linked work tree, which sbx cannot clone: go to the main one, "+w.repo))

		w.git(t, "commit", "-q", "--allow-empty", "-m", "second")
		shallow := filepath.Join(w.dir, "shallow")
		w.git(t, "clone", "-q", "--depth", "1", "file://"+w.repo, shallow)
		cmd = w.command("git", "remote", "set-url", "origin", "https://git.example/"+w.slug+".git")
		cmd.Dir = shallow
		run(t, cmd).expect(t, 0)
		cmd = w.docker("ralph", "task", "list")
		cmd.Dir = shallow
		res = run(t, cmd).expect(t, 1)
		assert.Assert(t, is.Contains(res.stderr, `Error: this repository is a shallow clone, of which sbx makes an empty one: fetch the rest with "git fetch --unshallow"`))
		assert.Equal(t, len(w.sandboxes(t)), 0, "nothing was made")
	})
}
