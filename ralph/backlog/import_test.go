package backlog

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/hint"
)

func hostPath(t *testing.T) string { return filepath.Join(t.TempDir(), "tasks.db") }

func openHost(t *testing.T, path string, scope Scope) *Store {
	t.Helper()
	s, err := OpenHost(t.Context(), path, scope)
	assert.NilError(t, err)
	t.Cleanup(func() { assert.NilError(t, s.Close()) })
	return s
}

func TestHostDatabasesAreLimited(t *testing.T) {
	path := hostPath(t)
	s := openHost(t, path, testScope())
	assert.Equal(t, query(t, path, "PRAGMA page_size"), "4096\n")
	var pages int
	assert.NilError(t, s.db.QueryRowContext(t.Context(), "PRAGMA max_page_count").Scan(&pages))
	assert.Equal(t, pages*pageSize, maxDatabase)
	_, err := os.Stat(filepath.Join(filepath.Dir(path), ".gitignore"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestFullHostDatabase(t *testing.T) {
	s, err := open(t.Context(), hostPath(t), testScope(), defaultBackoff(), 20)
	assert.NilError(t, err)
	defer func() { assert.NilError(t, s.Close()) }()
	err = s.Create(t.Context(), NewTask{Slug: "a", Title: strings.Repeat("x", 30*pageSize)})
	assert.ErrorIs(t, err, ErrTooLarge)
	assert.Error(t, err, "task database "+s.path+" has reached its size limit")
	add(t, s, "b")
}

// An agent that fills the database up leaves its loop and the user room to clean up.
func TestAgentsFillAPartOfADatabase(t *testing.T) {
	ctx := t.Context()
	s, err := open(ctx, hostPath(t), testScope(), defaultBackoff(), 200)
	assert.NilError(t, err)
	defer func() { assert.NilError(t, s.Close()) }()
	agent := s.As("one").Limited()
	add(t, s, "a", "b")
	for i := 0; err == nil; i++ {
		assert.Assert(t, i < 200)
		err = agent.Create(ctx, NewTask{Slug: fmt.Sprint(i), Title: strings.Repeat("x", pageSize)})
	}
	assert.ErrorIs(t, err, ErrTooLarge)
	assert.Error(t, err, "task database "+s.path+" has reached the size limit of agents")
	_, err = agent.Claim(ctx, ClaimOptions{Slug: "a", Agent: "one", Lease: time.Hour})
	assert.NilError(t, err)
	assert.NilError(t, agent.Fail(ctx, "a", "no"))
	claim(t, s, "b", "one")
	assert.ErrorIs(t, agent.Fail(ctx, "b", strings.Repeat("x", 5*pageSize)), ErrTooLarge)
	assert.NilError(t, agent.Finish(ctx, "b", ""))
	assert.NilError(t, s.Delete(ctx, "1"))
	add(t, s, "c")
}

func TestImport(t *testing.T) {
	ctx := t.Context()
	from := openStore(t, dbPath(t), testScope())
	add(t, from, "a", "b", "active", "asked")
	assert.NilError(t, from.Block(ctx, "b", "a"))
	claim(t, from, "a", "3c9e")
	assert.NilError(t, from.Done(ctx, "a", `{"commit":"1"}`))
	claim(t, from, "asked", "3c9e")
	assert.NilError(t, from.Ask(ctx, "asked", "3c9e", NewQuestion{Text: "Which?", Options: []string{"x"}, Default: "x", DefaultAfter: time.Hour}))
	claim(t, from, "active", "3c9e")
	other := openStore(t, from.path, Scope{Repo: "acme/shop", Branch: "other"})
	add(t, other, "o")
	query(t, from.path, "INSERT INTO task_deps SELECT a.id, o.id FROM tasks a, tasks o WHERE a.slug = 'a' AND o.slug = 'o'")

	path := hostPath(t)
	n, err := Import(ctx, from.path, path, testScope())
	assert.NilError(t, err)
	assert.Equal(t, n, 4)
	s := openHost(t, path, testScope())
	query(t, from.path, "DELETE FROM task_deps WHERE blocked_by = (SELECT id FROM tasks WHERE slug = 'o')")
	for _, slug := range []string{"a", "b", "asked"} {
		assert.DeepEqual(t, get(t, s, slug), get(t, from, slug))
	}
	task := get(t, s, "active")
	assert.Equal(t, task.Status+task.Assignee+task.LeaseExpiresAt, StatusOpen)
	assert.Equal(t, task.ClaimedBy, "3c9e")
	assert.Equal(t, query(t, path, "SELECT COUNT(*) FROM tasks; SELECT COUNT(*) FROM task_deps; PRAGMA integrity_check; PRAGMA journal_mode"), "4\n1\nok\nwal\n")

	// The first import wins.
	add(t, from, "late")
	_, err = Import(ctx, from.path, path, testScope())
	assert.NilError(t, err)
	assert.Equal(t, query(t, path, "SELECT COUNT(*) FROM tasks WHERE slug = 'late'"), "0\n")
	entries, err := filepath.Glob(path + ".*")
	assert.NilError(t, err)
	assert.Equal(t, len(entries), 0, "%v", entries)
}

func TestImportOfAnotherProgramsDatabase(t *testing.T) {
	from := dbPath(t)
	assert.NilError(t, os.MkdirAll(filepath.Dir(from), 0o755))
	query(t, from, foreignSchema)
	path := hostPath(t)
	n, err := Import(t.Context(), from, path, testScope())
	assert.NilError(t, err)
	assert.Equal(t, n, 8)
	tasks, err := openHost(t, path, testScope()).List(t.Context(), Filter{})
	assert.NilError(t, err)
	assert.Equal(t, len(tasks), 8)
	assert.DeepEqual(t, get(t, openHost(t, path, testScope()), "it's/1").Steps, []string{"one", "2"})
}

// foreignTask is a database with a task in another spelling of the scope.
const foreignTask = foreignSchema + "INSERT INTO tasks (id, slug, scope_repo, scope_branch, title) VALUES ('m', 'm', 'acme/shop/', 'main', 'T');"

func TestImportRefusesHostileDatabases(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		prepare    func(t *testing.T, path string)
	}{
		{"missing", "no such file", func(*testing.T, string) {}},
		{"link", "is a symbolic link", func(t *testing.T, path string) {
			add(t, openStore(t, path+".victim", testScope()), "a")
			assert.NilError(t, os.Symlink(path+".victim", path))
		}},
		{"folder", "is not a regular file", func(t *testing.T, path string) { assert.NilError(t, os.Mkdir(path, 0o755)) }},
		{"too large", "database is larger than 256 MiB", func(t *testing.T, path string) {
			assert.NilError(t, os.WriteFile(path, nil, 0o644))
			assert.NilError(t, os.Truncate(path, maxDatabase+1))
		}},
		{"garbage", "is damaged", func(t *testing.T, path string) {
			assert.NilError(t, os.WriteFile(path, []byte("this is not a database, whatever it says"), 0o644))
		}},
		{"view", "is not a table", func(t *testing.T, path string) { query(t, path, "CREATE VIEW tasks AS SELECT 1 AS id") }},
		{"no IDs", "NOT NULL constraint failed", func(t *testing.T, path string) {
			query(t, path, "CREATE TABLE tasks AS SELECT 'i' AS id, NULL AS slug, 'acme/shop' AS scope_repo, 'main' AS scope_branch, 'T' AS title, "+
				"NULL AS description, NULL AS category, 2 AS priority, 'open' AS status, NULL AS spec_ref, NULL AS ref, NULL AS result, NULL AS assignee, "+
				"NULL AS lease_expires_at, 0 AS retry_count, NULL AS fail_reason, NULL AS steps, NULL AS created_at, NULL AS updated_at, NULL AS deleted_at")
		}},
		{"many tasks", "larger than 256 MiB", func(t *testing.T, path string) {
			query(t, path, foreignSchema+"INSERT INTO tasks (id, slug, scope_repo, scope_branch, title) "+
				"WITH RECURSIVE c(x) AS (SELECT 10 UNION ALL SELECT x + 1 FROM c LIMIT 150000) SELECT x, x, 'acme/shop', 'main', '' FROM c")
		}},
		// Each would run when the task is moved to this spelling of its scope, or when the database is checked.
		{"trigger", "trigger t", func(t *testing.T, path string) {
			query(t, path, foreignTask+"CREATE TABLE junk (x); CREATE TRIGGER t AFTER UPDATE ON tasks BEGIN "+
				"INSERT INTO junk WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT randomblob(1000000) FROM c; END")
		}},
		{"index on an expression", "index slow", func(t *testing.T, path string) {
			query(t, path, foreignTask+"CREATE INDEX slow ON tasks (hex(zeroblob(length(title) * 900)))")
		}},
		{"partial index", "index slow", func(t *testing.T, path string) {
			query(t, path, foreignTask+"CREATE INDEX slow ON tasks (title) WHERE title LIKE '%a%b'")
		}},
		{"computed column", "table tasks", func(t *testing.T, path string) {
			query(t, path, foreignTask+"ALTER TABLE tasks ADD COLUMN slow TEXT AS (hex(zeroblob(length(title) * 900)))")
		}},
		{"virtual table", "table task_deps", func(t *testing.T, path string) {
			query(t, path, foreignTask+"DROP TABLE task_deps; CREATE VIRTUAL TABLE task_deps USING fts5(task_id, blocked_by)")
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			from, path := dbPath(t), hostPath(t)
			assert.NilError(t, os.MkdirAll(filepath.Dir(from), 0o755))
			tc.prepare(t, from)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := Import(ctx, from, path, testScope())
			assert.ErrorContains(t, err, tc.want)
			_, err = os.Lstat(path)
			assert.ErrorIs(t, err, os.ErrNotExist)
		})
	}
}

// A search whose time is quadratic takes years.
func TestImportDoesNotEvaluateConstraints(t *testing.T) {
	from, path := dbPath(t), hostPath(t)
	assert.NilError(t, os.MkdirAll(filepath.Dir(from), 0o755))
	const slow = "title TEXT NOT NULL CHECK (instr(zeroblob(200000000), zeroblob(100000000) || x'01') = 0)"
	query(t, from, "PRAGMA ignore_check_constraints = ON;"+strings.Replace(foreignTask, "title TEXT NOT NULL", slow, 1))
	n, err := Import(t.Context(), from, path, testScope())
	assert.NilError(t, err)
	assert.Equal(t, n, 9)
}

func TestAdoptFrom(t *testing.T) {
	ctx := t.Context()
	renamed := Scope{Repo: "acme/shop", Branch: "renamed"}
	source, target := openHost(t, hostPath(t), testScope()), openHost(t, hostPath(t), renamed)
	_, err := target.AdoptFrom(ctx, source)
	assert.Error(t, err, "there are no tasks of that branch")
	add(t, source, "a", "b")
	assert.NilError(t, source.Block(ctx, "b", "a"))
	add(t, target, "own")

	claim(t, source, "a", "one")
	_, err = target.AdoptFrom(ctx, source)
	assert.Error(t, err, "task 'a' is active")
	assert.DeepEqual(t, hint.Of(err), []string{"wait until its loop has ended, or stop it"})
	query(t, source.path, expireAll)

	n, err := target.AdoptFrom(ctx, source)
	assert.NilError(t, err)
	assert.Equal(t, n, int64(2))
	assert.Equal(t, get(t, target, "a").Status, StatusOpen)
	assert.DeepEqual(t, get(t, target, "b").Deps, []string{"a"})
	assert.Equal(t, query(t, source.path, "SELECT COUNT(*) FROM tasks; SELECT COUNT(*) FROM task_deps"), "0\n0\n")

	// Neither is changed if a task is on both branches.
	add(t, source, "c", "a")
	_, err = target.AdoptFrom(ctx, source)
	assert.Error(t, err, "task 'a' exists on both branches")
	assert.Equal(t, query(t, source.path, "SELECT COUNT(*) FROM tasks"), "2\n")
	assert.Equal(t, query(t, target.path, "SELECT COUNT(*) FROM tasks"), "3\n")
}

// The process ended after the tasks were added, and before they were removed.
func TestAdoptFromCanBeRepeated(t *testing.T) {
	ctx := t.Context()
	source, target := openHost(t, hostPath(t), testScope()), openHost(t, hostPath(t), Scope{Repo: "acme/shop", Branch: "renamed"})
	add(t, source, "a", "b")
	query(t, source.path, "CREATE TRIGGER stop BEFORE DELETE ON tasks BEGIN SELECT RAISE(ABORT, 'stopped'); END")
	_, err := target.AdoptFrom(ctx, source)
	assert.ErrorContains(t, err, "stopped")
	assert.Equal(t, query(t, source.path, "SELECT COUNT(*) FROM tasks"), "2\n")
	claim(t, target, "a", "one")
	query(t, source.path, "DROP TRIGGER stop")

	n, err := target.AdoptFrom(ctx, source)
	assert.NilError(t, err)
	assert.Equal(t, n, int64(2))
	assert.Equal(t, get(t, target, "a").Status, StatusActive)
	assert.Equal(t, query(t, source.path, "SELECT COUNT(*) FROM tasks"), "0\n")
}
