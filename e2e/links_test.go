//go:build unix

package e2e

import (
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// What cannot leave a sandbox strands no later commit.

// A scaffolder that leaves a repository in a subdirectory fails its task. The next one commits
// that again with git add -A, and is done.
func TestNestedRepositoryStrandsNoCommit(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		const reason = `"app" is a git repository of its own, so your commits had none of its files: remove app/.git and commit the files`
		w.plan(
			t,
			task{ID: "a", Title: "Scaffold", Steps: []string{
				"mkdir -p app && cd app && git init -q && echo '{}' > package.json && git add -A && (git commit -qm scaffolded || true)",
				"echo a > a.txt && git add -A && git commit -qm 'Add the app' || true",
			}},
			task{ID: "b", Title: "Add b", Priority: 2, Steps: []string{"echo b > b.txt && git add -A && git commit -qm 'Add b'"}},
		)
		res := w.ralph(t, "build").expect(t, 10)
		assert.Check(t, is.Contains(res.stderr, "Warning: left out of the commits: "+reason))
		assert.Check(t, is.Contains(res.stderr, "Error: unfinished tasks: a\n"))
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "blocked", "b": "done"})
		assert.Check(t, is.Contains(w.ok(t, "task", "show", "a"), "Fail reason: "+reason+"\n"))
		assert.Check(t, is.Contains(w.ok(t, "logs"), "Warning: left out of the commits: "+reason))

		assert.Equal(t, w.git(t, "log", "--format=%s", "main", "--", "a.txt", "b.txt", "app"), "Add b")
		assert.Equal(t, w.read(t, "b.txt"), "b\n")
		assert.Equal(t, w.git(t, "status", "--porcelain"), "")
		assert.Check(t, is.Contains(w.ok(t, "task", "show", "b"), w.git(t, "rev-parse", "main")), "the result has the commit")

		w.ok(t, "task", "update", "a", "--steps", `["rm -rf app/.git"]`)
		w.ok(t, "task", "reopen", "a")
		w.ralph(t, "build").expect(t, 0)
		assert.Equal(t, w.read(t, filepath.Join("app", "package.json")), "{}\n")
	})
}

// Neither does a repository without a commit, with which git add -A fails.
func TestEmptyRepositoryStrandsNoCommit(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		const reason = `"app" is a git repository of its own, so your commits had none of its files: remove app/.git and commit the files`
		w.plan(
			t,
			task{ID: "a", Title: "Scaffold", Steps: []string{"git init -q app && echo '{}' > app/package.json"}},
			task{ID: "b", Title: "Add b", Priority: 2, Steps: []string{"echo b > b.txt && git add -A && git commit -qm 'Add b'"}},
			task{ID: "c", Title: "Add c", Priority: 2, Steps: []string{"echo c > c.txt"}},
		)
		w.ralph(t, "build").expect(t, 10)
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "blocked", "b": "done", "c": "done"})
		assert.Check(t, is.Contains(w.ok(t, "task", "show", "a"), "Fail reason: "+reason+"\n"))
		assert.Equal(t, w.read(t, "b.txt")+w.read(t, "c.txt"), "b\nc\n")
		assert.Equal(t, w.git(t, "status", "--porcelain"), "")

		w.ok(t, "task", "update", "a", "--steps", `["rm -rf app/.git"]`)
		w.ok(t, "task", "reopen", "a")
		w.ralph(t, "build").expect(t, 0)
		assert.Equal(t, w.read(t, filepath.Join("app", "package.json")), "{}\n")
	})
}

// Content that a filter of the user encodes is not committed raw: a loop leaves it out, and the
// commits of a shell are refused.
func TestContentWithoutAFilterIsNotDelivered(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		w.git(t, "config", "filter.up.clean", "tr a-z A-Z")
		w.git(t, "config", "filter.up.smudge", "tr A-Z a-z")
		w.write(t, filepath.Join(w.repo, ".gitattributes"), "*.up filter=up\n")
		w.write(t, filepath.Join(w.repo, "old.up"), "old\n")
		w.git(t, "add", "-A")
		w.git(t, "commit", "-qm", "filtered")
		const reason = `"new.up" needs the git filter "up", which this sandbox does not have: do not commit it`
		w.plan(
			t,
			task{ID: "a", Title: "Add raw", Steps: []string{"echo raw > new.up; echo raw > old.up; echo a > a.txt"}},
			task{ID: "b", Title: "Add b", Priority: 2, Steps: []string{"test ! -e new.up && echo b > b.txt"}},
		)
		res := w.ralph(t, "build").expect(t, 10)
		assert.Check(t, is.Contains(res.stderr, "Warning: left out of the commits: "+reason))
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "blocked", "b": "done"})
		assert.Equal(t, w.git(t, "ls-tree", "-r", "--name-only", "main", "--", "a.txt", "b.txt", "new.up"), "b.txt")
		assert.Equal(t, w.git(t, "show", "main:old.up"), "OLD")
		assert.Equal(t, w.git(t, "status", "--porcelain"), "")

		before := w.git(t, "rev-parse", "main")
		res = w.ralph(t, "shell", "--", "sh", "-c", "echo raw > new.up && git add -A && git commit -qm raw").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, `the sandbox's commits change "new.up", which your git encodes with the filter "up", but the sandbox cannot`))
		assert.Equal(t, w.git(t, "rev-parse", "main"), before)
		w.ralph(t, "build").expect(t, 1)
		w.ralph(t, "shell", "--", "sh", "-c", "git rm -q --cached new.up && git commit -q --amend -m fixed --allow-empty").expect(t, 0)
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "fixed")
	})
}
