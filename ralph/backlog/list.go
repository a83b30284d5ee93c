package backlog

import (
	"context"
	"database/sql"
)

// Filter chooses tasks for [Store.List]. The zero value means every task that
// is not deleted.
type Filter struct {
	All      bool     // deleted ones too
	Statuses []string // exactly these; beats All
	Assignee string   // if not empty, only those of this agent
	// Brief leaves out what a table has no room for: only slug, title,
	// category, priority, status and assignee are read.
	Brief bool
}

// List returns the tasks that match, by priority and then by age.
func (s *Store) List(ctx context.Context, f Filter) ([]Task, error) {
	where, args := "1", []any(nil)
	switch {
	case len(f.Statuses) > 0:
		var marks string
		marks, args = placeholders(f.Statuses)
		where = "t.status IN (" + marks + ")"
	case !f.All:
		where = "t.status IS NOT 'deleted'"
	}
	if f.Assignee != "" {
		where += " AND t.assignee = ?"
		args = append(args, f.Assignee)
	}
	var tasks []Task
	find := s.selectTasks
	if f.Brief {
		find = s.selectBrief
	}
	err := s.read(ctx, func(tx *sql.Tx) (err error) {
		tasks, err = find(ctx, tx, where, args...)
		return err
	})
	return tasks, err
}

// selectBrief is selectTasks for tables: with thousands of tasks, each column
// counts.
func (s *Store) selectBrief(ctx context.Context, tx *sql.Tx, where string, args ...any) (tasks []Task, err error) {
	args = append([]any{s.scope.Repo, s.scope.Branch}, args...)
	// Text goes into strings and the number into any: database/sql converts
	// everything else by way of text.
	err = each(ctx, tx, `
		SELECT t.slug, t.title, COALESCE(t.category, ''), COALESCE(CAST(t.priority AS INTEGER), 2),
			COALESCE(t.status, ''), COALESCE(t.assignee, ''), iif(t.assignee IS NULL, '', 'x')
		FROM tasks t WHERE `+inScope+" AND "+where+" ORDER BY "+inOrder, args, func(rows *sql.Rows) error {
		var t Task
		var priority any
		var assigned string
		err := rows.Scan(&t.Slug, &t.Title, &t.Category, &priority, &t.Status, &t.Assignee, &assigned)
		n, _ := priority.(int64)
		t.Priority, t.Assigned = int(n), assigned != ""
		tasks = append(tasks, t)
		return err
	})
	return tasks, err
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
		if claimable, err = s.selectTasks(ctx, tx, eligible); err != nil {
			return err
		}
		held, err = s.selectTasks(ctx, tx, "t.status = 'active' AND t.lease_expires_at >= datetime('now')")
		return err
	})
	if n >= 0 && len(claimable) > n {
		claimable = claimable[:n]
	}
	return claimable, held, err
}

// Counts is the state of a backlog in numbers. Open and Active leave out
// blocked tasks. Blocked counts every task that waits for another one,
// whatever its own status.
type Counts struct{ Open, Active, Done, Blocked, Deleted int }

// Counts counts the tasks of the scope.
func (s *Store) Counts(ctx context.Context) (Counts, error) {
	var c Counts
	err := s.read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `
			SELECT COUNT(*) FILTER (WHERE status = 'open' AND NOT waits),
				COUNT(*) FILTER (WHERE status = 'active' AND NOT waits),
				COUNT(*) FILTER (WHERE status = 'done'),
				COUNT(*) FILTER (WHERE waits),
				COUNT(*) FILTER (WHERE status = 'deleted')
			FROM (SELECT t.status, `+blocked+` AS waits FROM tasks t WHERE `+inScope+`)`,
			s.scope.Repo, s.scope.Branch).Scan(&c.Open, &c.Active, &c.Done, &c.Blocked, &c.Deleted)
	})
	return c, err
}
