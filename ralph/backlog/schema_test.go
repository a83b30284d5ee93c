package backlog

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
)

func TestOpenCreatesTheDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b%41?x=#", ".ralph", "tasks.db")
	s := openStore(t, path, testScope())
	add(t, s, "a")

	ignore, err := os.ReadFile(filepath.Join(filepath.Dir(path), ".gitignore"))
	assert.NilError(t, err)
	assert.Equal(t, string(ignore), "*\n")
	assert.Equal(t, query(t, path, "PRAGMA journal_mode; PRAGMA user_version; SELECT slug FROM tasks"), "wal\n0\na\n")
	assert.Equal(t, query(t, path, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"), "agents\ntask_deps\ntasks\n")
}

func TestOpenWithARelativePath(t *testing.T) {
	t.Chdir(t.TempDir())
	add(t, openStore(t, filepath.Join("a", "tasks.db"), testScope()), "a")
	assert.Equal(t, query(t, filepath.Join("a", "tasks.db"), "SELECT slug FROM tasks"), "a\n")
}

func TestOpenKeepsGitignore(t *testing.T) {
	path := dbPath(t)
	ignore := filepath.Join(filepath.Dir(path), ".gitignore")
	assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	assert.NilError(t, os.WriteFile(ignore, []byte("tasks.db\n"), 0o644))
	openStore(t, path, testScope())
	content, err := os.ReadFile(ignore)
	assert.NilError(t, err)
	assert.Equal(t, string(content), "tasks.db\n")
}

func TestCloseRemovesTheJournals(t *testing.T) {
	path := dbPath(t)
	s, err := Open(t.Context(), path, testScope())
	assert.NilError(t, err)
	add(t, s, "a")
	assert.NilError(t, s.Close())
	for _, suffix := range []string{"-wal", "-shm"} {
		_, err := os.Stat(path + suffix)
		assert.ErrorIs(t, err, os.ErrNotExist)
	}
}

func TestColumnTypesAndDefaults(t *testing.T) {
	path := dbPath(t)
	openStore(t, path, testScope())
	assert.Equal(t, query(t, path, "SELECT name, type, \"notnull\", pk, coalesce(dflt_value, '') FROM pragma_table_info('tasks')"), `id|TEXT|0|1|
slug|TEXT|1|0|
scope_repo|TEXT|1|0|
scope_branch|TEXT|1|0|
title|TEXT|1|0|
description|TEXT|0|0|
category|TEXT|0|0|
priority|INTEGER|0|0|2
status|TEXT|0|0|'open'
spec_ref|TEXT|0|0|
ref|TEXT|0|0|
result|TEXT|0|0|
assignee|TEXT|0|0|
lease_expires_at|TEXT|0|0|
retry_count|INTEGER|0|0|0
fail_reason|TEXT|0|0|
steps|TEXT|0|0|
created_at|TEXT|0|0|datetime('now')
updated_at|TEXT|0|0|
deleted_at|TEXT|0|0|
attempt|INTEGER|0|0|0
failures|INTEGER|0|0|0
questions|TEXT|0|0|
claimed_by|TEXT|0|0|
taken_from|TEXT|0|0|
imported|TEXT|0|0|
`)
	assert.Equal(t, query(t, path, "SELECT count(*) FROM pragma_index_list('tasks') l WHERE l.\"unique\" AND (SELECT count(*) FROM pragma_index_info(l.name)) = 3"), "1\n")
	assert.Equal(t, query(t, path, "SELECT group_concat(name) FROM pragma_index_info('idx_tasks_scope_status')"),
		"scope_repo,scope_branch,status,priority,created_at\n")
	assert.Equal(t, query(t, path, `
		INSERT INTO tasks (id, slug, scope_repo, scope_branch, title) VALUES ('1', 'a', 'r', 'b', 't');
		SELECT priority, status, retry_count, created_at GLOB '????-??-?? ??:??:??' FROM tasks`), "2|open|0|1\n")
}

func TestDeletedRowsCascadeToDependencies(t *testing.T) {
	path := dbPath(t)
	s := openStore(t, path, testScope())
	add(t, s, "a", "b")
	assert.NilError(t, s.Block(t.Context(), "a", "b"))
	assert.Equal(t, query(t, path, "PRAGMA foreign_keys = ON; DELETE FROM tasks WHERE slug = 'b'; SELECT count(*) FROM task_deps"), "0\n")
}

// foreignSchema is a database of another program with the same interface.
const foreignSchema = `
CREATE TABLE tasks (id TEXT PRIMARY KEY, slug TEXT NOT NULL, scope_repo TEXT NOT NULL, scope_branch TEXT NOT NULL,
 title TEXT NOT NULL, description TEXT, category TEXT, priority INTEGER DEFAULT 2, status TEXT DEFAULT 'open', spec_ref TEXT,
 ref TEXT, result TEXT, assignee TEXT, lease_expires_at TEXT, retry_count INTEGER DEFAULT 0, fail_reason TEXT, steps TEXT,
 created_at TEXT DEFAULT (datetime('now')), updated_at TEXT, deleted_at TEXT, UNIQUE(scope_repo, scope_branch, slug));
CREATE TABLE task_deps (task_id TEXT REFERENCES tasks(id) ON DELETE CASCADE, blocked_by TEXT REFERENCES tasks(id) ON DELETE CASCADE,
 PRIMARY KEY (task_id, blocked_by));
INSERT INTO tasks (id, slug, scope_repo, scope_branch, title, steps, priority) VALUES
 ('1', 'it''s/1', 'acme/shop', 'main', 'T', '["one",2]', NULL), ('2', 'two', 'acme/shop', 'main', 'T', 'no json', 1.5),
 ('4', 'word', 'acme/shop', 'main', X'42', '{}', 'high'), ('5', 'fifth', 'acme/shop', 'main', 'T', '[]', 9);
INSERT INTO tasks (id, slug, scope_repo, scope_branch, title, status, priority, result, lease_expires_at, retry_count, created_at) VALUES
 ('3', 'done', 'acme/shop', 'main', 'T', 'done', 3, 'no json', '2001-01-01 00:00:00', NULL, NULL),
 ('6', 'none', 'acme/shop', 'main', 'T', NULL, 3, NULL, NULL, NULL, NULL),
 ('7', 'stuck', 'acme/shop', 'main', 'T', 'active', 3, NULL, NULL, NULL, NULL),
 ('8', 'late', 'acme/shop', 'main', 'T', 'active', 4, NULL, '2001-01-01 00:00:00', NULL, NULL);
INSERT INTO task_deps VALUES ('1', NULL), ('1', NULL), ('1', 'gone'), ('5', '3'), (NULL, '5');`

func TestOpenUsesADatabaseOfAnotherProgram(t *testing.T) {
	for _, mode := range []string{"WAL", "DELETE", "PERSIST"} {
		t.Run(mode, func(t *testing.T) {
			path := dbPath(t)
			assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			query(t, path, "PRAGMA journal_mode = "+mode+";"+foreignSchema)
			useForeign(t, openStore(t, path, testScope()))
			assert.Equal(t, query(t, path, "PRAGMA journal_mode; PRAGMA integrity_check"), "wal\nok\n")
		})
	}
}

func useForeign(t *testing.T, s *Store) {
	t.Helper()
	tasks, err := s.List(t.Context(), Filter{})
	assert.NilError(t, err)
	assert.DeepEqual(t, slugs(tasks), []string{"it's/1", "two", "done", "none", "stuck", "late", "fifth", "word"})
	lines, err := s.Lines(t.Context(), Filter{})
	assert.NilError(t, err)
	for i, task := range tasks {
		assert.Equal(t, lines[i], Line{Slug: task.Slug, Title: task.Title, Category: task.Category, Priority: task.Priority, Status: task.Status})
		_, err := s.Deps(t.Context(), task.Slug)
		assert.NilError(t, err)
	}
	assert.DeepEqual(t, tasks[0].Steps, []string{"one", "2"})
	assert.DeepEqual(t, tasks[1].Steps, []string{"no json"})
	assert.Equal(t, tasks[0].Priority, DefaultPriority)
	assert.Equal(t, tasks[6].Blockers[0].Result, "no json")
	counts, err := s.Counts(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, counts, Counts{Open: 4, Active: 2, Done: 1})

	// A lease of NULL has not expired; fail frees it.
	var order []string
	for range 5 {
		order = append(order, claim(t, s, "", "me").Slug)
	}
	assert.DeepEqual(t, order, []string{"it's/1", "two", "late", "fifth", "word"})
	assert.Equal(t, get(t, s, "late").RetryCount, 1)
	_, err = s.Claim(t.Context(), ClaimOptions{})
	assert.ErrorIs(t, err, ErrNoneEligible)
	assert.NilError(t, s.Fail(t.Context(), "stuck", ""))
	assert.Equal(t, claim(t, s, "", "me").Slug, "stuck")

	assert.DeepEqual(t, sync(t, s, `{"id":"two","t":"T2","deps":["it's/1"]}`, `{"id":"new","t":"N","deps":["two"]}`), SyncSummary{Inserted: 1, Updated: 1})
	_, err = s.RegisterAgent(t.Context(), Agent{PID: 1, Hostname: "h"}) // the table was missing
	assert.NilError(t, err)
	n, err := s.DeleteMatching(t.Context(), DeleteFilter{All: true})
	assert.NilError(t, err)
	assert.Equal(t, n, 9)
}

func TestOpenRefusesIncompatibleDatabasesUnchanged(t *testing.T) {
	type test struct{ name, sql, content, want string }
	tests := []test{
		{name: "newer", sql: "CREATE TABLE tasks (id); PRAGMA user_version = 7", want: "was written by a newer ralph: schema version 7"},
		{name: "newer, in WAL mode", sql: schema + "PRAGMA journal_mode = WAL; PRAGMA user_version = 7", want: "written by a newer ralph"},
		{name: "older", sql: "CREATE TABLE tasks (id, slug, title)", want: "was written by an older ralph: missing column tasks.scope_repo"},
		{name: "foreign agents", sql: "CREATE TABLE agents (name)", want: "missing column agents.id"},
		{name: "tasks are a view", sql: "CREATE VIEW tasks AS SELECT 1 AS id", want: "tasks is not a table"},
		{name: "no database", content: strings.Repeat("this is not a database\n", 100), want: "is damaged: "},
		{name: "short text", content: "xyz", want: "is damaged: "},
		{name: "only a header", content: "SQLite format 3\x00", want: "is damaged: "},
	}
	for table := range requiredColumns() {
		tests = append(tests, test{
			name: "newer " + table, sql: strings.Replace(schema, table+" (", table+" (\n needed TEXT NOT NULL,", 1),
			want: "was written by a newer ralph: unknown column " + table + ".needed",
		})
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			path := dbPath(t)
			assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			if tc.sql != "" {
				query(t, path, tc.sql)
			} else {
				assert.NilError(t, os.WriteFile(path, []byte(tc.content), 0o644))
			}
			refusedUntouched(t, path, tc.want)
		})
	}
}

// refusedUntouched checks that Open fails and changes nothing.
func refusedUntouched(t *testing.T, path, want string) {
	t.Helper()
	before, err := os.ReadFile(path)
	assert.NilError(t, err)
	_, err = Open(t.Context(), path, testScope())
	assert.ErrorContains(t, err, want)
	assert.ErrorContains(t, err, path)
	after, err := os.ReadFile(path)
	assert.NilError(t, err)
	assert.Equal(t, sha256.Sum256(before), sha256.Sum256(after))
	for _, suffix := range []string{"-wal", "-shm", "-journal"} {
		_, err := os.Stat(path + suffix)
		assert.ErrorIs(t, err, os.ErrNotExist)
	}
}

func TestOpenRefusesTruncatedDatabases(t *testing.T) {
	whole := dbPath(t)
	s, err := Open(t.Context(), whole, testScope())
	assert.NilError(t, err)
	_, err = s.Sync(t.Context(), strings.NewReader(bigPlan()))
	assert.NilError(t, err)
	assert.NilError(t, s.Close())
	content, err := os.ReadFile(whole)
	assert.NilError(t, err)
	for _, size := range []int{99, 100, 512, 4095, 4096, 4097, 8192, len(content) / 2, len(content) - 4096} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			path := dbPath(t)
			assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			assert.NilError(t, os.WriteFile(path, content[:size], 0o644))
			refusedUntouched(t, path, "is damaged: ")
		})
	}
}

func TestOpenIgnoresUnknownColumnsAndTables(t *testing.T) {
	path := dbPath(t)
	assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	query(t, path, strings.Replace(schema, "UNIQUE (", "extra TEXT, more TEXT NOT NULL DEFAULT 'x', UNIQUE (", 1)+"CREATE TABLE other (id);")
	s := openStore(t, path, testScope())
	add(t, s, "a")
	assert.Equal(t, claim(t, s, "a", "me").Slug, "a")
	assert.Equal(t, query(t, path, "SELECT more FROM tasks"), "x\n")
}

// An agent can remove the permissions.
func TestOpenRestoresPermissions(t *testing.T) {
	path := dbPath(t)
	s, err := Open(t.Context(), path, testScope())
	assert.NilError(t, err)
	add(t, s, "a")
	assert.NilError(t, s.Close())
	for _, p := range []string{path, filepath.Dir(path)} {
		assert.NilError(t, os.Chmod(p, 0))
	}
	s = openStore(t, path, testScope())
	assert.Equal(t, get(t, s, "a").Status, StatusOpen)
	for p, needed := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		info, err := os.Stat(p)
		assert.NilError(t, err)
		assert.Equal(t, info.Mode()&needed, needed, p) // root can open the file anyway
	}
}

func TestOpenRefusesLinksAndSpecialFiles(t *testing.T) {
	outside := t.TempDir()
	for _, tc := range []struct {
		name, want string
		prepare    func(t *testing.T, path string) error
	}{
		{"folder is a link", "is a symbolic link", func(_ *testing.T, path string) error {
			return os.Symlink(outside, filepath.Dir(path))
		}},
		{"file is a link", "is a symbolic link", func(t *testing.T, path string) error {
			assert.NilError(t, os.Mkdir(filepath.Dir(path), 0o755))
			return os.Symlink(filepath.Join(outside, "victim"), path)
		}},
		{"file is a folder", "is not a regular file", func(_ *testing.T, path string) error {
			return os.MkdirAll(path, 0o755)
		}},
		{"folder is a file", "creating ", func(_ *testing.T, path string) error {
			return os.WriteFile(filepath.Dir(path), nil, 0o644)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := dbPath(t)
			assert.NilError(t, tc.prepare(t, path))
			_, err := Open(t.Context(), path, testScope())
			assert.ErrorContains(t, err, tc.want)
			entries, err := os.ReadDir(outside)
			assert.NilError(t, err)
			assert.Check(t, cmp.Len(entries, 0))
		})
	}
}
