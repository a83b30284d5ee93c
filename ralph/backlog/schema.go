package backlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/hint"
)

// Other tools read this schema: names and types must not change.
const schema = `
CREATE TABLE IF NOT EXISTS tasks (
  id TEXT PRIMARY KEY,
  slug TEXT NOT NULL,
  scope_repo TEXT NOT NULL,
  scope_branch TEXT NOT NULL,
  title TEXT NOT NULL,
  description TEXT,
  category TEXT,
  priority INTEGER DEFAULT 2,
  status TEXT DEFAULT 'open',
  spec_ref TEXT,
  ref TEXT,
  result TEXT,
  assignee TEXT,
  lease_expires_at TEXT,
  retry_count INTEGER DEFAULT 0,
  fail_reason TEXT,
  steps TEXT,
  created_at TEXT DEFAULT (datetime('now')),
  updated_at TEXT,
  deleted_at TEXT,
  attempt INTEGER DEFAULT 0,
  failures INTEGER DEFAULT 0,
  questions TEXT,
  claimed_by TEXT,
  taken_from TEXT,
  imported TEXT,
  UNIQUE (scope_repo, scope_branch, slug)
);
CREATE TABLE IF NOT EXISTS task_deps (
  task_id TEXT REFERENCES tasks(id) ON DELETE CASCADE,
  blocked_by TEXT REFERENCES tasks(id) ON DELETE CASCADE,
  PRIMARY KEY (task_id, blocked_by)
);
CREATE TABLE IF NOT EXISTS agents (
  id TEXT PRIMARY KEY,
  pid INTEGER,
  hostname TEXT,
  scope_repo TEXT NOT NULL DEFAULT '',
  scope_branch TEXT NOT NULL DEFAULT '',
  started_at TEXT DEFAULT (datetime('now')),
  status TEXT DEFAULT 'active',
  session TEXT
);
CREATE INDEX IF NOT EXISTS idx_tasks_scope_status
  ON tasks (scope_repo, scope_branch, status, priority, created_at);
`

const scopeIndex = "idx_tasks_scope_status"

// addedColumn is a column that databases of the original program lack. That program ignores it.
type addedColumn struct{ table, name, definition string }

func addedColumns() []addedColumn {
	return []addedColumn{
		{"tasks", "attempt", "INTEGER DEFAULT 0"},
		{"tasks", "failures", "INTEGER DEFAULT 0"},
		{"tasks", "questions", "TEXT"},
		{"tasks", "claimed_by", "TEXT"}, // the agent of the last claim
		{"tasks", "taken_from", "TEXT"}, // the agent whose expired claim the last one has ended
		{"tasks", "imported", "TEXT"},   // a line of a plan: the task as last imported
		{"agents", "session", "TEXT"},   // NULL for agents that no loop has registered
	}
}

// requiredColumns returns all columns except for the added ones.
func requiredColumns() map[string][]string {
	return map[string][]string{
		"tasks": {
			"id", "slug", "scope_repo", "scope_branch", "title", "description", "category", "priority",
			"status", "spec_ref", "ref", "result", "assignee", "lease_expires_at", "retry_count",
			"fail_reason", "steps", "created_at", "updated_at", "deleted_at",
		},
		"task_deps": {"task_id", "blocked_by"},
		"agents":    {"id", "pid", "hostname", "scope_repo", "scope_branch", "started_at", "status"},
	}
}

// dataSource returns the data source name. The file is not trusted: SQL in its
// schema, which an agent can write, must not reach beyond the file. Constraints, of which the schema has none, could
// take forever.
//
// With synchronous=normal in WAL mode a killed process loses nothing; a power
// failure can lose the last commits but not corrupt the database.
func dataSource(path string, busyTimeout time.Duration, maxPages int) string {
	pragmas := []string{"trusted_schema(0)", "ignore_check_constraints(1)"}
	if maxPages > 0 {
		pragmas = append(pragmas, fmt.Sprintf("max_page_count(%d)", maxPages))
	}
	params := url.Values{
		"_busy_timeout": {fmt.Sprint(busyTimeout.Milliseconds())},
		"_foreign_keys": {"on"},
		"_pragma":       pragmas,
		"_txlock":       {"immediate"},
		"_defensive":    {"1"},
		"_dqs":          {"0"},
		"_error_rc":     {"1"},
		"_synchronous":  {"normal"},
	}
	return "file://" + (&url.URL{Path: path}).EscapedPath() + "?" + params.Encode()
}

// prepareDir creates the directory of the database and restores its permissions. It
// refuses symbolic links: a repository could use them to have files written
// elsewhere.
func prepareDir(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("creating %s: %w", dir, err)
	}
	for _, p := range []string{dir, path, path + "-wal", path + "-shm"} {
		info, err := os.Lstat(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("checking %s: %w", p, err)
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return unusable("%s is a symbolic link", p)
		}
		if p == path && !info.Mode().IsRegular() {
			return unusable("%s is not a regular file", p)
		}
		needed := fs.FileMode(0o600)
		if info.IsDir() {
			needed = 0o700
		}
		_ = ensureMode(p, info, needed) // it fails for another user's file, which may be accessible
	}
	return nil
}

// ensureMode adds missing permission bits to a path.
func ensureMode(path string, info fs.FileInfo, needed fs.FileMode) error {
	if info.Mode()&needed == needed {
		return nil
	}
	return os.Chmod(path, info.Mode().Perm()|needed)
}

// hideFromGit writes a .gitignore unless there is one.
func hideFromGit(dir string) error {
	name := filepath.Join(dir, ".gitignore")
	if _, err := os.Lstat(name); err == nil {
		return nil
	}
	return atomicwriter.WriteFile(name, []byte("*\n"), 0o644)
}

// layout is the schema of an existing database.
type layout struct {
	version int
	journal string
	index   bool
	columns map[string][]column // by table
	other   []string            // names of tables that are not tables
}

type column struct {
	name     string
	required bool // NOT NULL without a default
}

func (l layout) complete() bool {
	return len(l.columns) == len(requiredColumns()) && l.index && l.journal == "wal" && l.current()
}

// current reports whether the tables have all added columns.
func (l layout) current() bool {
	for _, added := range addedColumns() {
		if !slices.ContainsFunc(l.columns[added.table], func(c column) bool { return c.name == added.name }) {
			return false
		}
	}
	return true
}

// prepareSchema checks the schema and writes only if something is missing.
func (s *Store) prepareSchema(ctx context.Context) error {
	err := s.wait.retry(ctx, func() error {
		found, err := s.inspect(ctx)
		if err != nil {
			return err
		}
		if err := s.check(found); err != nil {
			return err
		}
		if found.complete() {
			return nil
		}
		return s.create(ctx)
	})
	return s.explain(ctx, err)
}

func (s *Store) inspect(ctx context.Context) (layout, error) {
	found := layout{columns: map[string][]column{}}
	if err := s.db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&found.version); err != nil {
		return found, err
	}
	if err := s.db.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&found.journal); err != nil {
		return found, err
	}
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return found, err
	}
	defer func() { _ = tx.Rollback() }() // only read
	err = each(ctx, tx, `
		SELECT m.type, m.name, COALESCE(c.name, ''), COALESCE(c."notnull" AND c.dflt_value IS NULL, 0)
		FROM sqlite_master m LEFT JOIN pragma_table_info(m.name) c ON m.type = 'table'
		WHERE m.name IN ('tasks', 'task_deps', 'agents', ?)`,
		[]any{scopeIndex}, func(rows *sql.Rows) error {
			var kind, name string
			var c column
			if err := rows.Scan(&kind, &name, &c.name, &c.required); err != nil {
				return err
			}
			switch {
			case kind == "table":
				found.columns[name] = append(found.columns[name], c)
			case kind == "index" && name == scopeIndex:
				found.index = true
			default:
				found.other = append(found.other, name)
			}
			return nil
		})
	return found, err
}

// check refuses incompatible databases.
func (s *Store) check(found layout) error {
	if found.version != 0 {
		return hint.Wrap(faultf(ErrDamaged, "task database %s was written by a newer ralph: schema version %d", s.path, found.version), "update ralph")
	}
	for _, name := range found.other {
		return unusable("task database %s belongs to another program: %s is not a table", s.path, name)
	}
	for table, needed := range requiredColumns() {
		if have, exists := found.columns[table]; exists {
			if err := s.checkColumns(table, needed, have); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Store) checkColumns(table string, needed []string, have []column) error {
	known := map[string]bool{}
	for _, c := range have {
		known[c.name] = true
		if c.required && !slices.Contains(needed, c.name) {
			return hint.Wrap(faultf(ErrDamaged, "task database %s was written by a newer ralph: unknown column %s.%s", s.path, table, c.name), "update ralph")
		}
	}
	for _, name := range needed {
		if !known[name] {
			return unusable("task database %s was written by an older ralph: missing column %s.%s", s.path, table, name)
		}
	}
	return nil
}

// create switches to write-ahead logging, if the file system supports it, and adds
// missing tables and columns.
func (s *Store) create(ctx context.Context) error {
	var mode string
	if err := s.db.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return err
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := addTables(ctx, tx); err != nil {
		_ = tx.Rollback() // the first error says more
		return err
	}
	return tx.Commit()
}

// addTables adds tables and columns that no other process has added meanwhile.
func addTables(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return err
	}
	for _, added := range addedColumns() {
		var exists bool
		err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM pragma_table_info(?) WHERE name = ?", added.table, added.name).Scan(&exists)
		if err == nil && !exists {
			_, err = tx.ExecContext(ctx, "ALTER TABLE "+added.table+" ADD COLUMN "+added.name+" "+added.definition)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
