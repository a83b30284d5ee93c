package backlog

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Copy is a snapshot of a database in memory.
type Copy struct {
	Tasks  []Row `json:"tasks"`
	Deps   []Row `json:"deps"`
	Agents []Row `json:"agents,omitempty"`
}

// Row is a row of a table by column; a value is nil, a string or a number.
type Row map[string]any

func (r Row) str(column string) string { return toString(r[column]) }

func (r Row) scope() Scope {
	return Scope{Repo: r.str("scope_repo"), Branch: r.str("scope_branch")}
}

// columnsOf returns the columns of a table that a copy holds.
func columnsOf(table string) []string {
	columns := requiredColumns()[table]
	if table == "tasks" {
		for _, added := range addedColumns() {
			columns = append(columns, added[0])
		}
	}
	return columns
}

// Copy copies the whole database, with all scopes, after an integrity check.
func (s *Store) Copy(ctx context.Context) (*Copy, error) {
	c := &Copy{}
	err := s.read(ctx, func(tx *sql.Tx) (err error) {
		if err := s.quickCheck(ctx, tx); err != nil {
			return err
		}
		for table, rows := range c.tables() {
			if *rows, err = copyTable(ctx, tx, table); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Copy) tables() map[string]*[]Row {
	return map[string]*[]Row{"tasks": &c.Tasks, "task_deps": &c.Deps, "agents": &c.Agents}
}

func copyTable(ctx context.Context, tx *sql.Tx, table string) ([]Row, error) {
	var all []Row
	columns := columnsOf(table)
	values, pointers := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		pointers[i] = &values[i]
	}
	err := each(ctx, tx, "SELECT "+strings.Join(columns, ", ")+" FROM "+table+" ORDER BY rowid", nil, func(rows *sql.Rows) error {
		if err := rows.Scan(pointers...); err != nil {
			return err
		}
		row := Row{}
		for i, column := range columns {
			if blob, ok := values[i].([]byte); ok {
				values[i] = string(blob)
			}
			row[column] = values[i]
		}
		all = append(all, row)
		return nil
	})
	return all, err
}

// Of returns the tasks and dependencies of one scope.
func (c *Copy) Of(scope Scope) *Copy {
	part, ids := &Copy{}, map[string]bool{}
	for _, t := range c.Tasks {
		if t.scope() == scope {
			part.Tasks = append(part.Tasks, t)
			ids[t.str("id")] = true
		}
	}
	for _, d := range c.Deps {
		if ids[d.str("task_id")] && ids[d.str("blocked_by")] {
			part.Deps = append(part.Deps, d)
		}
	}
	return part
}

// Undelete restores tasks deleted by active agents, as their loops do after the
// run and [Store.ReleaseDead] does for dead agents.
func (c *Copy) Undelete() {
	active := map[string]bool{}
	for _, a := range c.Agents {
		active[a.str("id")] = a.str("status") == "active"
	}
	for _, t := range c.Tasks {
		by := t.str("deleted_by")
		if t.str("status") != StatusDeleted || !active[by] {
			continue
		}
		if t["result"] != nil || t["assignee"] != nil && t.str("assignee") != by {
			t["status"] = StatusDone
		} else {
			t["status"], t["assignee"] = StatusOpen, nil
		}
		t["deleted_at"], t["deleted_by"] = nil, nil
	}
}

// Write writes a copy as JSON.
func (c *Copy) Write(w io.Writer) error {
	if err := json.NewEncoder(w).Encode(c); err != nil {
		return fmt.Errorf("writing a copy of the backlog: %w", err)
	}
	return nil
}

// ReadCopy reads the output of [Copy.Write].
func ReadCopy(r io.Reader) (*Copy, error) {
	var c Copy
	d := json.NewDecoder(r)
	d.UseNumber()
	if err := d.Decode(&c); err != nil {
		return nil, fmt.Errorf("reading a copy of the backlog: %w", err)
	}
	for table, rows := range c.tables() {
		for _, row := range *rows {
			if err := row.check(columnsOf(table)); err != nil {
				return nil, fmt.Errorf("reading a copy of the backlog: %s: %w", table, err)
			}
		}
	}
	return &c, nil
}

// check validates columns and types. The type of a number is up to its column.
func (r Row) check(columns []string) error {
	for column, value := range r {
		if !slices.Contains(columns, column) {
			return fmt.Errorf("unknown column %q", column)
		}
		switch value.(type) {
		case nil, string, json.Number:
		default:
			return fmt.Errorf("column %q holds %T", column, value)
		}
	}
	return nil
}

// insert adds a row.
func (r Row) insert(ctx context.Context, tx *sql.Tx, table string) error {
	var columns []string
	for _, column := range columnsOf(table) {
		if _, ok := r[column]; ok {
			columns = append(columns, column)
		}
	}
	args := make([]any, len(columns))
	for i, column := range columns {
		args[i] = r[column]
	}
	marks := strings.TrimSuffix(strings.Repeat("?,", len(columns)), ",")
	_, err := tx.ExecContext(ctx, "INSERT OR IGNORE INTO "+table+" ("+strings.Join(columns, ", ")+") VALUES ("+marks+")", args...)
	return err
}

// insertDep adds a dependency if both tasks exist.
func (r Row) insertDep(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `
		INSERT OR IGNORE INTO task_deps (task_id, blocked_by) SELECT ?1, ?2
		WHERE EXISTS (SELECT 1 FROM tasks WHERE id = ?1) AND EXISTS (SELECT 1 FROM tasks WHERE id = ?2)`,
		r["task_id"], r["blocked_by"])
	return err
}

// Replace replaces the tasks of the scope by those of a copy. Active tasks become
// open.
func (s *Store) Replace(ctx context.Context, c *Copy) error {
	c = c.Of(s.scope)
	return s.write(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM tasks AS t WHERE "+inScope, s.args()...); err != nil {
			return err
		}
		for _, t := range c.Tasks {
			if err := t.insert(ctx, tx, "tasks"); err != nil {
				return err
			}
		}
		for _, d := range c.Deps {
			if err := d.insertDep(ctx, tx); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, "UPDATE tasks AS t SET status = 'open', assignee = NULL, lease_expires_at = NULL WHERE status = 'active' AND "+inScope, s.args()...)
		return err
	})
}
