package backlog

import (
	"context"
	"database/sql"
	"fmt"
)

// Filter chooses tasks for [Store.List]. The zero value means every task that
// is not deleted.
type Filter struct {
	All      bool     // deleted ones too
	Statuses []string // exactly these; beats All
	Assignee string   // if not empty, only those of this agent
}

// sql returns the condition on t and its arguments behind those of the scope.
func (f Filter) sql() (where string, args []any) {
	where = "1"
	switch {
	case len(f.Statuses) > 0:
		var marks string
		marks, args = placeholders(f.Statuses)
		where = shownStatus + " IN (" + marks + ")"
	case !f.All:
		where = "t.status IS NOT 'deleted'"
	}
	if f.Assignee != "" {
		where += " AND t.assignee = ?"
		args = append(args, f.Assignee)
	}
	return where, args
}

// List returns the tasks that match, by priority and then by age.
func (s *Store) List(ctx context.Context, f Filter) (tasks []Task, err error) {
	where, args := f.sql()
	err = s.read(ctx, func(tx *sql.Tx) (err error) {
		tasks, err = s.selectTasks(ctx, tx, where, args...)
		return err
	})
	return tasks, err
}

// Line is what a table shows of a task.
type Line struct {
	Slug, Title, Category string
	Priority              int
	Status, Assignee      string
	Assigned              bool // an assignee is recorded, be it the empty one
}

// Lines is List for tables. With thousands of tasks it takes a fraction of the
// time.
func (s *Store) Lines(ctx context.Context, f Filter) (lines []Line, err error) {
	where, args := f.sql()
	err = s.read(ctx, func(tx *sql.Tx) error {
		lines = nil
		// What can be NULL goes into any: database/sql converts it by way of text
		// otherwise, and SQLite takes longer to do without NULL.
		return each(ctx, tx, `
			SELECT t.slug, t.title, t.category, CAST(t.priority AS INTEGER), `+shownStatus+`, t.assignee
			FROM tasks t WHERE `+inScope+" AND "+where+" ORDER BY "+inOrder, s.args(args...), func(rows *sql.Rows) error {
			var l Line
			var category, priority, status, assignee any
			err := rows.Scan(&l.Slug, &l.Title, &category, &priority, &status, &assignee)
			l.Category, l.Status, l.Assignee = text(category), text(status), text(assignee)
			l.Assigned, l.Priority = assignee != nil, DefaultPriority
			if n, ok := priority.(int64); ok {
				l.Priority = int(n)
			}
			lines = append(lines, l)
			return err
		})
	})
	return lines, err
}

// text is what a column of text holds; old programs may have written others.
func text(column any) string {
	switch c := column.(type) {
	case nil:
		return ""
	case string:
		return c
	case []byte:
		return string(c)
	default:
		return fmt.Sprint(c)
	}
}

// Show returns one task, deleted ones too.
func (s *Store) Show(ctx context.Context, slug string) (Task, error) {
	var task Task
	err := s.read(ctx, func(tx *sql.Tx) error {
		tasks, err := s.selectTasks(ctx, tx, "t.slug = ?", slug)
		if err != nil {
			return err
		}
		if len(tasks) == 0 {
			return taskNotFound(slug)
		}
		task = tasks[0]
		return nil
	})
	return task, err
}

// Peek returns, on one snapshot, up to n tasks that can be claimed (all of
// them if n is negative), and all tasks that somebody holds with a lease that
// has not expired. A claimable task may be active: its lease has expired.
func (s *Store) Peek(ctx context.Context, n int) (claimable, held []Task, err error) {
	err = s.read(ctx, func(tx *sql.Tx) (err error) {
		if claimable, err = s.selectTasks(ctx, tx, "t.id IN ("+firstEligible(n)+")"); err != nil {
			return err
		}
		held, err = s.selectTasks(ctx, tx, "t.status = 'active' AND t.lease_expires_at >= datetime('now')")
		return err
	})
	return claimable, held, err
}

// Counts is the state of a backlog in numbers. Open and Active leave out
// blocked tasks. Blocked counts every task that waits for another one,
// whatever its own status; Waiting only those of them that are to be done.
type Counts struct{ Open, Active, Done, Blocked, Deleted, Waiting int }

// Counts counts the tasks of the scope.
func (s *Store) Counts(ctx context.Context) (Counts, error) {
	var c Counts
	err := s.read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `
			SELECT COUNT(*) FILTER (WHERE status = 'open' AND NOT waits),
				COUNT(*) FILTER (WHERE status = 'active' AND NOT waits),
				COUNT(*) FILTER (WHERE status = 'done'),
				COUNT(*) FILTER (WHERE waits),
				COUNT(*) FILTER (WHERE status = 'deleted'),
				COUNT(*) FILTER (WHERE waits AND status NOT IN ('done', 'deleted'))
			FROM (SELECT t.status, `+blocked+` AS waits FROM tasks t WHERE `+inScope+`)`,
			s.args()...).Scan(&c.Open, &c.Active, &c.Done, &c.Blocked, &c.Deleted, &c.Waiting)
	})
	return c, err
}
