//go:build unix

package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// What a loop has done is shown by run and taken back, and a later loop does it again in the same sandbox.
func TestUndo(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		before := w.git(t, "rev-parse", "HEAD")
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"test ! -e a.txt && echo a > a.txt && git add -A && git commit -qm 'Add a'"}},
			task{ID: "b", Title: "Add b", Priority: 1, Steps: []string{"test ! -e b.txt && echo b > b.txt && git add -A && git commit -qm 'Add b'"}})
		w.ralph(t, "build").expect(t, 0)
		tip := w.git(t, "rev-parse", "HEAD")
		w.write(t, filepath.Join(w.repo, "mine.txt"), "not committed\n")

		assert.Equal(t, w.ok(t, "diff", "--stat", "2"), " b.txt | 1 +\n 1 file changed, 1 insertion(+)\n")
		assert.Assert(t, is.Contains(w.ok(t, "diff", "1"), "+++ b/a.txt\n@@ -0,0 +1 @@\n+a\n"))
		res := w.ralph(t, "diff", "3").expect(t, 1)
		assert.Assert(t, is.Contains(res.stderr, "has no completed run 3"))

		res = w.ralph(t, "undo").expect(t, 1)
		assert.Assert(t, is.Contains(res.stderr, "refusing to take commits back without confirmation"))
		out := w.ok(t, "undo", "--dry-run")
		assert.Assert(t, is.Contains(out, "Would move your branch main back to "+before[:7]+", keeping 2 commits of loop "))
		assert.Equal(t, w.git(t, "rev-parse", "HEAD"), tip)

		out = w.ok(t, "undo", "--force")
		name := w.sandbox(t).Name
		assert.Assert(t, is.Contains(out, "Moved your branch main back to "+before[:7]+", keeping 2 commits of loop "))
		assert.Assert(t, is.Contains(out, " at refs/ralph/"+name+"/@undone/"))
		assert.Assert(t, is.Contains(out, "Reopened 2 tasks: a, b"))
		assert.Equal(t, w.git(t, "rev-parse", "HEAD"), before)
		assert.Equal(t, w.git(t, "rev-parse", strings.Fields(out[strings.Index(out, "refs/ralph/"):])[0]), tip)
		assert.Equal(t, w.git(t, "status", "--porcelain"), "?? mine.txt")
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "open", "b": "open"})
		assert.Assert(t, is.Contains(w.ok(t, "task", "show", "a"), "were taken back by the user"))

		assert.Equal(t, w.ok(t, "diff", "--name-only", "2"), "b.txt\n", "they are fetched")

		w.ralph(t, "build").expect(t, 0)
		assert.Equal(t, w.git(t, "log", "--format=%s", before+".."), "Add b\nAdd a")
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "done", "b": "done"})
		assert.Equal(t, w.git(t, "status", "--porcelain"), "?? mine.txt")

		w.git(t, "commit", "-q", "--allow-empty", "-m", "The user's")
		res = w.ralph(t, "undo", "--force").expect(t, 1)
		assert.Assert(t, is.Contains(res.stderr, `has other commits after those of loop `))
		assert.Assert(t, is.Contains(res.stderr, `Hint: revert those of the loop with "git revert `+before[:10]+".."))
	})
}
