package backlog

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
)

// Filter selects tasks for [Store.List]. The zero value selects all tasks that
// are not deleted.
type Filter struct {
	All      bool     // include deleted tasks
	Statuses []string // displayed ones; overrides All. Open tasks include waiting ones
	Assignee string   // optional
}

// sql returns the condition on t and its arguments after those of the scope.
func (f Filter) sql() (where string, args []any) {
	where = "1"
	switch {
	case len(f.Statuses) > 0:
		var marks string
		statuses := f.Statuses
		if slices.Contains(statuses, StatusOpen) {
			statuses = append(slices.Clone(statuses), StatusWaiting)
		}
		marks, args = placeholders(statuses)
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

// List returns matching tasks by priority, then by age.
func (s *Store) List(ctx context.Context, f Filter) (tasks []Task, err error) {
	where, args := f.sql()
	err = s.read(ctx, func(tx *sql.Tx) (err error) {
		tasks, err = s.selectTasks(ctx, tx, where, args...)
		return err
	})
	return tasks, err
}

// Line is a task in a table.
type Line struct {
	Slug, Title, Category string
	Priority              int
	Status, Assignee      string
	Assigned              bool // the assignee is not NULL; it can be empty
}

// Lines is List for tables. It is several times as fast with thousands of tasks.
func (s *Store) Lines(ctx context.Context, f Filter) (lines []Line, err error) {
	where, args := f.sql()
	err = s.read(ctx, func(tx *sql.Tx) error {
		lines = nil
		// Scanning into any is faster than sql.NullString and COALESCE.
		return each(ctx, tx, `
			SELECT t.slug, t.title, t.category, CAST(t.priority AS INTEGER), `+shownStatus+`, t.assignee
			FROM tasks t WHERE `+inScope+" AND "+where+" ORDER BY "+inOrder, s.args(args...), func(rows *sql.Rows) error {
			var l Line
			var category, priority, status, assignee any
			err := rows.Scan(&l.Slug, &l.Title, &category, &priority, &status, &assignee)
			l.Category, l.Status, l.Assignee = toString(category), toString(status), toString(assignee)
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

// toString returns the value of a text column. Other programs may have stored
// other types.
func toString(column any) string {
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

// Show returns one task, deleted or not, with its receipt.
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
		task.Receipt, err = s.receipt(ctx, tx, slug)
		return err
	})
	return task, err
}

// Peek returns up to n claimable tasks (all if n is negative), and all tasks with
// an unexpired lease. A claimable task can be active with an expired lease.
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

// Counts are the numbers of tasks. Open and Active exclude tasks that cannot be claimed; Active includes finished ones.
// Blocked counts tasks with an unfinished blocker or too many failures, whatever their own
// status, as plan-status always has; Waiting only the open or active ones with an unfinished
// blocker, and Failed those with too many failures. Questions counts tasks that wait for an
// answer.
type Counts struct{ Open, Active, Done, Blocked, Deleted, Waiting, Failed, Questions int }

// Counts counts the tasks of the scope.
func (s *Store) Counts(ctx context.Context) (Counts, error) {
	var c Counts
	err := s.read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `
			SELECT COUNT(*) FILTER (WHERE status = 'open' AND NOT waits),
				COUNT(*) FILTER (WHERE status IN ('active', 'finished') AND NOT waits),
				COUNT(*) FILTER (WHERE status = 'done'),
				COUNT(*) FILTER (WHERE waits),
				COUNT(*) FILTER (WHERE status = 'deleted'),
				COUNT(*) FILTER (WHERE waits AND NOT failed AND status NOT IN ('done', 'deleted', 'question')),
				COUNT(*) FILTER (WHERE failed),
				COUNT(*) FILTER (WHERE status = 'question')
			FROM (SELECT t.status, `+blocked+` AS waits, `+tooManyFailures+` AS failed FROM tasks t WHERE `+inScope+`)`,
			s.args()...).Scan(&c.Open, &c.Active, &c.Done, &c.Blocked, &c.Deleted, &c.Waiting, &c.Failed, &c.Questions)
	})
	return c, err
}
