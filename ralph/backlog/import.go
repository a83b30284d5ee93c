package backlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"

	"github.com/docker-ralph/docker-ralph/hint"
)

// Import creates a database of the host at path with the tasks of the scope from another database, which an agent may
// have written, and returns their number. It ignores receipts: only the host makes them. If path exists meanwhile, it
// is kept.
func Import(ctx context.Context, from, path string, scope Scope) (tasks int, err error) {
	if tasks, err = importDatabase(ctx, from, path, scope); err != nil {
		return 0, fmt.Errorf("importing %s: %w", from, err)
	}
	return tasks, nil
}

func importDatabase(ctx context.Context, from, path string, scope Scope) (tasks int, err error) {
	info, err := os.Lstat(from)
	if err != nil {
		return 0, err
	}
	if info.Size() > maxDatabase {
		return 0, faultf(ErrTooLarge, "database is larger than %d MiB", maxDatabase>>20)
	}
	if err := prepareDir(from); err != nil {
		return 0, err
	}
	if err := checkPassive(ctx, from); err != nil {
		return 0, err
	}
	source, err := open(ctx, from, scope, defaultBackoff(), 0) // without a .gitignore of ours
	if err != nil {
		return 0, err
	}
	var all rows
	err = source.read(ctx, func(tx *sql.Tx) error {
		if err := source.quickCheck(ctx, tx); err != nil {
			return err
		}
		all, err = source.rows(ctx, tx)
		return err
	})
	if err = errors.Join(err, source.Close()); err != nil {
		return 0, err
	}
	return len(all.tasks), all.create(ctx, path, scope)
}

// create creates a database with the rows, completely or not at all.
func (r rows) create(ctx context.Context, path string, scope Scope) error {
	dir, err := os.MkdirTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a remainder is in no one's way
	temp := filepath.Join(dir, filepath.Base(path))
	s, err := OpenHost(ctx, temp, scope)
	if err != nil {
		return err
	}
	err = s.write(ctx, func(tx *sql.Tx) error { return r.insert(ctx, tx, scope) })
	if err = errors.Join(err, s.Close()); err != nil { // Close writes the log into the database
		return err
	}
	if err = os.Link(temp, path); errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// checkPassive refuses a database that computes: its author could have it run without end, and fill the disk.
func checkPassive(ctx context.Context, path string) error {
	connector, err := sqlite.NewConnector(dataSource(path, defaultBackoff().busyTimeout, 0))
	if err != nil {
		return fmt.Errorf("opening task database %s: %w", path, err)
	}
	s := &Store{db: sql.OpenDB(connector), path: path, wait: defaultBackoff()}
	var computing sql.NullString
	err = s.read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `
			SELECT MIN(m.type || ' ' || m.name) FROM sqlite_master m
			WHERE m.type = 'trigger' OR m.sql LIKE 'CREATE VIRTUAL%'
				OR m.type = 'table' AND EXISTS (SELECT 1 FROM pragma_table_xinfo(m.name) c WHERE c.hidden > 0)
				OR m.type = 'index' AND EXISTS (SELECT 1 FROM pragma_index_xinfo(m.name) c WHERE c.cid = -2)
				OR m.type = 'index' AND EXISTS (SELECT 1 FROM pragma_index_list(m.tbl_name) i WHERE i.name = m.name AND i.partial)`).
			Scan(&computing)
	})
	if err == nil && computing.Valid {
		err = unusable("task database %s belongs to another program: it has the %s", path, computing.String)
	}
	return errors.Join(err, s.Close())
}

func (s *Store) quickCheck(ctx context.Context, tx *sql.Tx) error {
	var found string
	if err := tx.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&found); err != nil {
		return err
	}
	if found != "ok" {
		return s.damaged(errors.New(found))
	}
	return nil
}

// AdoptFrom moves the tasks of another database to this one, and returns their number. A task of this backlog is not
// replaced, and a claimed one not moved. It can be repeated after a failure.
func (s *Store) AdoptFrom(ctx context.Context, other *Store) (moved int64, err error) {
	err = other.write(ctx, func(source *sql.Tx) error {
		all, err := other.rows(ctx, source)
		if err != nil {
			return err
		}
		if len(all.tasks) == 0 {
			return errNoTasks
		}
		claimed, err := other.claimed(ctx, source)
		if err != nil {
			return err
		}
		if claimed != "" {
			return activeElsewhere(claimed)
		}
		if all.receipts, err = other.receipts(ctx, source); err != nil {
			return err
		}
		if err := s.write(ctx, func(tx *sql.Tx) error { return s.addRows(ctx, tx, all) }); err != nil {
			return err
		}
		// The tasks are in this database from here on. Should the removal fail, a repetition recognizes them by their IDs.
		moved = int64(len(all.tasks))
		_, err = source.ExecContext(ctx, "DELETE FROM tasks AS t WHERE "+inScope, other.args()...)
		return err
	})
	return moved, err
}

var errNoTasks = errors.New("there are no tasks of that branch")

func existsTwice(slug string) error { return fmt.Errorf("task '%s' exists on both branches", slug) }

func activeElsewhere(slug string) error {
	return hint.Wrap(fmt.Errorf("task '%s' is active", slug), "wait until its loop has ended, or stop it")
}

// claimed returns a task with an unexpired lease, if there is one.
func (s *Store) claimed(ctx context.Context, tx *sql.Tx) (string, error) {
	var slug sql.NullString
	err := tx.QueryRowContext(ctx, "SELECT MIN(t.slug) FROM tasks t WHERE "+inScope+
		" AND t.status IN ('active', 'finished') AND t.lease_expires_at > datetime('now')", s.args()...).Scan(&slug)
	return slug.String, err
}

// addRows adds the rows that are not there yet.
func (s *Store) addRows(ctx context.Context, tx *sql.Tx, all rows) error {
	ids := map[string]string{} // by slug
	err := each(ctx, tx, "SELECT t.slug, t.id FROM tasks t WHERE "+inScope, s.args(), func(rows *sql.Rows) error {
		var slug, id string
		err := rows.Scan(&slug, &id)
		ids[slug] = id
		return err
	})
	if err != nil {
		return err
	}
	for _, t := range all.tasks {
		slug := toString(t["slug"])
		if id, exists := ids[slug]; exists && id != t["id"] {
			return existsTwice(slug)
		}
	}
	return all.insert(ctx, tx, s.scope)
}

// rows are the tasks of one scope, the dependencies between them, and their receipts.
type rows struct {
	tasks    []row
	deps     [][2]string
	receipts []receiptRow
}

// row is a task by column; a value is nil, a string or a number.
type row map[string]any

// What a task and a dependency take in memory, in bytes, without their texts.
const (
	rowSize = 2 << 10
	depSize = 64
)

// rows reads the tasks of the scope.
func (s *Store) rows(ctx context.Context, tx *sql.Tx) (all rows, err error) {
	columns := taskColumnNames()
	values, pointers := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		pointers[i] = &values[i]
	}
	size := 0
	grow := func(bytes int) error {
		if size += bytes; size > maxDatabase {
			return faultf(ErrTooLarge, "backlog is larger than %d MiB", maxDatabase>>20)
		}
		return nil
	}
	err = each(ctx, tx, "SELECT "+strings.Join(columns, ", ")+" FROM tasks t WHERE "+inScope+" ORDER BY rowid", s.args(), func(found *sql.Rows) error {
		if err := found.Scan(pointers...); err != nil {
			return err
		}
		r, length := row{}, rowSize
		for i, column := range columns {
			if blob, ok := values[i].([]byte); ok {
				values[i] = string(blob)
			}
			if text, ok := values[i].(string); ok {
				length += len(text)
			}
			r[column] = values[i]
		}
		all.tasks = append(all.tasks, r)
		return grow(length)
	})
	if err != nil {
		return rows{}, err
	}
	err = each(ctx, tx, `SELECT d.task_id, d.blocked_by FROM tasks t JOIN task_deps d ON d.task_id = t.id
		JOIN tasks b ON b.id = d.blocked_by WHERE `+inScope+" AND b.scope_repo = ?1 AND b.scope_branch = ?2", s.args(), func(found *sql.Rows) error {
		var d [2]string
		if err := found.Scan(&d[0], &d[1]); err != nil {
			return err
		}
		all.deps = append(all.deps, d)
		return grow(depSize + len(d[0]) + len(d[1]))
	})
	return all, err
}

// taskColumnNames returns the columns of a task.
func taskColumnNames() []string {
	columns := requiredColumns()["tasks"]
	for _, added := range addedColumns() {
		if added.table == "tasks" {
			columns = append(columns, added.name)
		}
	}
	return columns
}

// insert adds the rows to a scope, except for tasks that have been added before. Active and finished tasks become open:
// their agents are not registered there.
func (r rows) insert(ctx context.Context, tx *sql.Tx, scope Scope) error {
	columns := taskColumnNames()
	marks, _ := placeholders(columns)
	add := "INSERT INTO tasks (" + strings.Join(columns, ", ") + ") VALUES (" + marks + ") ON CONFLICT (id) DO NOTHING"
	args := make([]any, len(columns))
	for _, t := range r.tasks {
		t["scope_repo"], t["scope_branch"] = scope.Repo, scope.Branch
		if t["status"] == StatusActive || t["status"] == StatusFinished {
			t["status"], t["assignee"], t["lease_expires_at"] = StatusOpen, nil, nil
		}
		for i, column := range columns {
			args[i] = t[column]
		}
		if _, err := tx.ExecContext(ctx, add, args...); err != nil {
			return err
		}
	}
	for _, d := range r.deps {
		if err := addDep(ctx, tx, d[0], d[1]); err != nil {
			return err
		}
	}
	return addReceipts(ctx, tx, r.receipts...)
}
