//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// in is the world with the current directory in another work tree.
func (w *world) in(dir string) *world {
	other := *w
	other.repo = dir
	return &other
}

// A repository that an agent makes in a subfolder chooses neither mounts nor
// tokens when the user runs a command there.
func TestARepositoryThatAnAgentMadeIsNotUsed(t *testing.T) {
	privately(t, func(t *testing.T, w *world) {
		secret := filepath.Join(w.dir, "src", "secret")
		assert.NilError(t, os.MkdirAll(secret, 0o755))
		w.own(t, secret)
		private := w.in(secret)
		private.git(t, "init", "-q")
		private.write(t, filepath.Join(secret, "key"), "swordfish\n")
		private.git(t, "add", "key")
		private.git(t, "commit", "-q", "-m", "key")
		blob := private.git(t, "rev-parse", "HEAD:key")

		w.plan(t, task{ID: "a", Title: "Make a repository", Steps: []string{
			"mkdir tool && cd tool && git init -q && git remote add origin https://git.example/" + w.slug + "-other.git && git commit -q --allow-empty -m made",
			"echo " + filepath.Join(secret, ".git", "objects") + " >tool/.git/objects/info/alternates",
		}})
		w.ok(t, "build")
		before := len(w.containers(t))
		tool := w.in(filepath.Join(w.repo, "tool"))
		const unapproved = " is not approved (it lies inside the repository "
		for _, args := range [][]string{{"build"}, {"task", "list"}, {"--git-token=read", "shell", "--", "true"}} {
			res := tool.ralph(t, args...).expect(t, 1)
			assert.Check(t, is.Contains(res.stderr, "Error: the repository "+tool.repo+unapproved+w.repo+", which does not know it)\n"), "%v", args)
			assert.Check(t, is.Contains(res.stderr, "Hint: review it, then run \"docker ralph trust\"\n"))
		}
		tool.dialogue(t, "task list", "Use it? [y/N]", "n").expect(t, 1)

		// Whoever uses it all the same decides on what it borrows, too.
		res := func() result {
			tm := tool.shell(t, "task list")
			tm.answer(t, "Use it? [y/N]", "y", "Let the agent read them? [y/N]", "n")
			return tm.wait(t)
		}()
		res.expect(t, 1)
		assert.Check(t, is.Contains(res.stdout, filepath.Join(secret, ".git", "objects")))
		assert.Equal(t, len(w.containers(t)), before)
		tool.ralph(t, "task", "list").expect(t, 1)

		// Approved, it works, as a clone with --shared does.
		tool.ok(t, "trust", "--force")
		t.Cleanup(func() { tool.ralph(t, "clean", "--force") })
		assert.Equal(t, tool.ok(t, "shell", "--", "git", "cat-file", "-p", blob), "swordfish\n")
	})
}
