package worktrees

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func find(t testing.TB, r *Repository, name string) Tree {
	t.Helper()
	tree, found, err := r.Find(t.Context(), name)
	assert.NilError(t, err)
	assert.Assert(t, found)
	return tree
}

func TestStatus(t *testing.T) {
	root := newRoot(t)
	tree := add(t, open(t, root), "x", "x")
	r := open(t, root)
	s, err := r.Status(t.Context(), find(t, r, "x"))
	assert.NilError(t, err)
	assert.DeepEqual(t, s, Status{Against: "main"})

	commit(t, tree.Path, "second")
	commit(t, tree.Path, "third")
	commit(t, root, "other")
	assert.NilError(t, os.WriteFile(filepath.Join(tree.Path, "first"), []byte("changed"), 0o644))
	assert.NilError(t, os.WriteFile(filepath.Join(tree.Path, "new file"), nil, 0o644))
	s, err = r.Status(t.Context(), find(t, r, "x"))
	assert.NilError(t, err)
	assert.DeepEqual(t, s, Status{Changed: []string{"first", "new file"}, Against: "main", Ahead: 2, Behind: 1})

	// An upstream wins over the branch of the main worktree.
	gitIn(t, root, "branch", "up", "x~1")
	gitIn(t, root, "branch", "-q", "--set-upstream-to=up", "x")
	s, err = r.Status(t.Context(), find(t, r, "x"))
	assert.NilError(t, err)
	assert.Equal(t, s.Against, "up")
	assert.Equal(t, s.Ahead, 1)
	gitIn(t, root, "branch", "-q", "-D", "up")
	s, err = r.Status(t.Context(), find(t, r, "x"))
	assert.NilError(t, err)
	assert.Equal(t, s.Against, "main", "an upstream that is gone")

	gitIn(t, tree.Path, "checkout", "-q", "--detach")
	s, err = r.Status(t.Context(), find(t, r, "x"))
	assert.NilError(t, err)
	assert.Equal(t, s.Against, "")
}

// An agent can put another repository where the .git file was, whose
// configuration would have git start programs.
func TestStatusStartsNothingOfTheWorktree(t *testing.T) {
	root := newRoot(t)
	tree := add(t, open(t, root), "x", "x")
	marker := filepath.Join(t.TempDir(), "ran")
	assert.NilError(t, os.Remove(filepath.Join(tree.Path, ".git")))
	gitIn(t, tree.Path, "init", "-q")
	gitIn(t, tree.Path, "add", "first")
	for _, setting := range []string{"core.fsmonitor", "filter.x.clean"} {
		gitIn(t, tree.Path, "config", setting, "touch "+marker)
	}
	for name, content := range map[string]string{".gitattributes": "* filter=x\n", "first": "changed"} {
		assert.NilError(t, os.WriteFile(filepath.Join(tree.Path, name), []byte(content), 0o644))
	}
	r := open(t, root)
	s, err := r.Status(t.Context(), find(t, r, "x"))
	assert.NilError(t, err)
	assert.DeepEqual(t, s.Changed, []string{"first", ".gitattributes"})
	_, err = os.Stat(marker)
	assert.Assert(t, os.IsNotExist(err))
}

func TestUnmerged(t *testing.T) {
	root := newRoot(t)
	r := open(t, root)
	tree := add(t, r, "x", "x")
	count := func() int {
		_, n, err := r.Unmerged(t.Context(), find(t, r, "x"), 0)
		assert.NilError(t, err)
		return n
	}
	assert.Equal(t, count(), 0)
	commit(t, tree.Path, "second")
	commit(t, tree.Path, "third")
	newest, n, err := r.Unmerged(t.Context(), find(t, r, "x"), 1)
	assert.NilError(t, err)
	assert.Equal(t, n, 2)
	assert.Equal(t, len(newest), 1)
	assert.Equal(t, newest[0].Subject, "third")
	assert.Assert(t, strings.HasPrefix(gitIn(t, root, "rev-parse", "x"), newest[0].ID))

	gitIn(t, root, "branch", "copy", "x")
	assert.Equal(t, count(), 2, "another branch with them does not make them merged")
	gitIn(t, root, "merge", "-q", "x~1")
	assert.Equal(t, count(), 1)
	gitIn(t, root, "update-ref", "refs/remotes/origin/x", "x")
	assert.Equal(t, count(), 0, "they were pushed")

	gitIn(t, tree.Path, "checkout", "-q", "--detach")
	commit(t, tree.Path, "fourth")
	assert.Equal(t, count(), 1, "on no branch")
	gitIn(t, root, "branch", "saved", gitIn(t, tree.Path, "rev-parse", "HEAD"))
	assert.Equal(t, count(), 0)
}

func TestStray(t *testing.T) {
	root := newRoot(t)
	r := open(t, root)
	tree := add(t, r, "x", "x")
	commit(t, tree.Path, "second")
	for _, name := range []string{"x", "@base", "other"} {
		gitIn(t, root, "update-ref", "refs/ralph/s/"+name, "x")
	}
	gitIn(t, root, "update-ref", "refs/ralph/s2/x", "x")
	stray, err := r.Stray(t.Context(), "refs/ralph/s", nil, "@base")
	assert.NilError(t, err)
	assert.Equal(t, len(stray), 0)
	gitIn(t, tree.Path, "reset", "-q", "--hard", "HEAD~")
	stray, err = r.Stray(t.Context(), "refs/ralph/s", nil, "@base")
	assert.NilError(t, err)
	assert.DeepEqual(t, stray, []string{"refs/ralph/s/other", "refs/ralph/s/x"})
	gitIn(t, root, "update-ref", "refs/ralph/s/attempts/a/1", "refs/ralph/s/x")
	unknown, err := r.Stray(t.Context(), "refs/ralph/s", []string{"refs/ralph/s/attempts/"}, "@base")
	assert.NilError(t, err)
	assert.Equal(t, len(unknown), 0)
	gitIn(t, root, "update-ref", "-d", "refs/ralph/s/attempts/a/1")

	assert.NilError(t, r.Forget(t.Context(), "refs/ralph/s", stray[:1]))
	assert.Equal(t, gitIn(t, root, "for-each-ref", "--format=%(refname)", "refs/ralph"), "refs/ralph/s/other\nrefs/ralph/s2/x")
}

func FuzzParseStatus(f *testing.F) {
	f.Add(" M a\x00?? b c\x00")
	f.Add("\x00x\x00D  \x00")
	f.Fuzz(func(t *testing.T, out string) {
		for _, name := range parseStatus(out) {
			assert.Assert(t, name != "" && strings.Contains(out, name))
		}
	})
}
