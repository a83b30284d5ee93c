package backlog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// A copy has all of the backlog, claims and receipts included, and none of its changes reaches the original.
func TestCopy(t *testing.T) {
	ctx := t.Context()
	s := openStore(t, dbPath(t), testScope())
	add(t, s, "open", "active", "done")
	assert.NilError(t, s.Block(ctx, "open", "active"))
	claim(t, s, "active", "3c9e")
	claim(t, s, "done", "3c9e")
	assert.NilError(t, s.Done(ctx, "done", `{"commit":"1"}`))

	path := filepath.Join(t.TempDir(), "copies", "it's", "tasks.db")
	assert.NilError(t, s.CopyTo(ctx, path))
	dump := func(path string) string {
		return query(t, path, "SELECT slug, status, assignee, attempt, lease_expires_at, result FROM tasks ORDER BY rowid") +
			query(t, path, "SELECT task_id, blocked_by FROM task_deps") + query(t, path, "SELECT id, status FROM agents")
	}
	before := dump(s.path)
	assert.Equal(t, dump(path), before)

	copied := openHost(t, path, testScope())
	sync(t, copied, `{"id":"new","t":"New"}`)
	assert.NilError(t, copied.Update(ctx, "open", Changes{Title: new("Changed")}))
	assert.Equal(t, dump(s.path), before)
	assert.Equal(t, query(t, s.path, "SELECT title FROM tasks WHERE slug = 'open'"), "Title of open\n")

	add(t, s, "later")
	assert.NilError(t, copied.Close())
	assert.NilError(t, s.CopyTo(ctx, path), "it is replaced")
	assert.Equal(t, query(t, path, "SELECT count(*) FROM tasks WHERE slug IN ('new', 'later')"), "1\n")
}

// A process that is writing does not delay a copy.
func TestCopyWhileAnotherProcessWrites(t *testing.T) {
	s := newStore(t)
	add(t, s, "a")
	other := openStore(t, s.path, testScope())
	tx, err := other.db.BeginTx(t.Context(), nil)
	assert.NilError(t, err)
	_, err = tx.ExecContext(t.Context(), "UPDATE tasks SET title = 'half'")
	assert.NilError(t, err)
	path := filepath.Join(t.TempDir(), "tasks.db")
	assert.NilError(t, s.CopyTo(t.Context(), path))
	assert.Equal(t, query(t, path, "SELECT title FROM tasks"), "Title of a\n")
	assert.NilError(t, tx.Rollback())
}

func TestCopyFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	assert.NilError(t, os.WriteFile(file, nil, 0o600))
	assert.ErrorContains(t, newStore(t).CopyTo(t.Context(), filepath.Join(file, "tasks.db")), "copying the backlog: ")
}

// Task commands in the environment of a dry run use its copy, and the specs of the worktree.
func TestOpenHereOpensACopy(t *testing.T) {
	top := t.TempDir()
	stubGit(t, "'rev-parse --show-toplevel') echo '"+top+"';;\n"+stubRemote+stubBranch)
	own, err := OpenHere(t.Context(), func(string) string { return "" })
	assert.NilError(t, err)
	defer func() { assert.NilError(t, own.Close()) }()
	add(t, own, "a")
	path := filepath.Join(t.TempDir(), "copy", "tasks.db")
	assert.NilError(t, own.CopyTo(t.Context(), path))
	env := map[string]string{CopyEnv: path}
	copied, err := OpenHere(t.Context(), func(name string) string { return env[name] })
	assert.NilError(t, err)
	defer func() { assert.NilError(t, copied.Close()) }()
	add(t, copied, "b")
	assert.Equal(t, copied.Top(), top)
	assert.Equal(t, copied.Scope(), own.Scope())
	assert.Equal(t, strings.TrimSpace(query(t, own.path, "SELECT slug FROM tasks")), "a")
}
