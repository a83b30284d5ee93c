package worktrees

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

func TestBacklogOfARemovedWorktreeIsKept(t *testing.T) {
	root := newRoot(t)
	r := open(t, root)
	tree := add(t, r, "login", "login")
	now := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	where, err := r.SetAside("login", now)
	assert.NilError(t, err)
	assert.Equal(t, where, "", "there is none")

	backlog := filepath.Join(tree.Path, ".ralph", "tasks.db")
	assert.NilError(t, os.MkdirAll(filepath.Dir(backlog), 0o755))
	assert.NilError(t, os.WriteFile(backlog, []byte("tasks"), 0o644))
	where, err = r.SetAside("login", now)
	assert.NilError(t, err)
	assert.Equal(t, where, filepath.Join(".ralph", "removed", "login-20310203-040506.000"))
	assert.NilError(t, r.Remove(t.Context(), tree))
	content, err := os.ReadFile(filepath.Join(root, where, "tasks.db"))
	assert.NilError(t, err)
	assert.Equal(t, string(content), "tasks")
	assert.Equal(t, gitIn(t, root, "status", "--porcelain"), "")
}

// A link that the repository has put there leads nowhere.
func TestBacklogIsNotMovedThroughLinks(t *testing.T) {
	for _, at := range []string{".ralph", ".ralph/removed"} {
		t.Run(at, func(t *testing.T) {
			root, outside := newRoot(t), t.TempDir()
			r := open(t, root)
			tree := add(t, r, "login", "login")
			assert.NilError(t, os.MkdirAll(filepath.Join(tree.Path, ".ralph"), 0o755))
			assert.NilError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, at)), 0o755))
			assert.NilError(t, os.Symlink(outside, filepath.Join(root, at)))
			_, err := r.SetAside("login", time.Now())
			assert.ErrorContains(t, err, "moving ")
			left, err := os.ReadDir(outside)
			assert.NilError(t, err)
			assert.Equal(t, len(left), 0)
			_, err = os.Lstat(filepath.Join(tree.Path, ".ralph"))
			assert.NilError(t, err)
		})
	}
}
