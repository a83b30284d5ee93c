package backlog

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
)

// Task is one row of the backlog. Text that is not set is empty. Times are
// UTC, as YYYY-MM-DD HH:MM:SS.
type Task struct {
	Slug           string // what people and agents call the task
	Title          string
	Description    string
	Category       string
	Priority       int // lower is more urgent
	Status         string
	SpecRef        string // file name of the specification
	Ref            string
	Result         string // JSON as it was given
	Assignee       string // id of the agent that holds or held the task
	Assigned       bool   // an assignee is recorded, be it the empty one
	LeaseExpiresAt string
	RetryCount     int
	FailReason     string
	Steps          []string
	Deps           []string  // slugs of the Blockers
	Blockers       []Blocker // what the task depends on, by slug
	CreatedAt      string
	UpdatedAt      string
	DeletedAt      string
}

// Blocker is a task that another one depends on.
type Blocker struct {
	Slug   string
	Status string
	Result string // JSON as it was given
}

// Conditions on a task t.
const (
	inScope = "t.scope_repo = ? AND t.scope_branch = ?"
	blocked = `EXISTS (
		SELECT 1 FROM task_deps bd JOIN tasks b ON b.id = bd.blocked_by
		WHERE bd.task_id = t.id AND b.status NOT IN ('done', 'deleted'))`
	// A lease of NULL has not expired: others may have made the row active.
	eligible = `(t.status = 'open' OR (t.status = 'active' AND t.lease_expires_at < datetime('now')))
		AND NOT ` + blocked
	inOrder = "t.priority, t.created_at, t.rowid"
)

// selectTasks returns the tasks of the scope that meet a condition on t, in
// order.
func (s *Store) selectTasks(ctx context.Context, tx *sql.Tx, where string, args ...any) ([]Task, error) {
	where = inScope + " AND " + where
	args = append([]any{s.scope.Repo, s.scope.Branch}, args...)
	var tasks []Task
	at := map[string]int{} // row id → index
	err := each(ctx, tx, `
		SELECT t.id, t.slug, t.title, COALESCE(t.description, ''), COALESCE(t.category, ''),
			COALESCE(CAST(t.priority AS INTEGER), 2), COALESCE(t.status, ''), COALESCE(t.spec_ref, ''),
			COALESCE(t.ref, ''), COALESCE(t.result, ''), COALESCE(t.assignee, ''), t.assignee IS NOT NULL,
			COALESCE(t.lease_expires_at, ''), COALESCE(CAST(t.retry_count AS INTEGER), 0),
			COALESCE(t.fail_reason, ''), COALESCE(t.steps, ''), COALESCE(t.created_at, ''),
			COALESCE(t.updated_at, ''), COALESCE(t.deleted_at, '')
		FROM tasks t WHERE `+where+` ORDER BY `+inOrder, args, func(rows *sql.Rows) error {
		var t Task
		var id, steps string
		err := rows.Scan(&id, &t.Slug, &t.Title, &t.Description, &t.Category, &t.Priority, &t.Status, &t.SpecRef,
			&t.Ref, &t.Result, &t.Assignee, &t.Assigned, &t.LeaseExpiresAt, &t.RetryCount, &t.FailReason,
			&steps, &t.CreatedAt, &t.UpdatedAt, &t.DeletedAt)
		t.Steps = decodeSteps(steps)
		at[id] = len(tasks)
		tasks = append(tasks, t)
		return err
	})
	if err != nil {
		return nil, err
	}
	return tasks, addBlockers(ctx, tx, where, args, tasks, at)
}

// addBlockers fills in what the tasks depend on; at says which row is which
// task.
func addBlockers(ctx context.Context, tx *sql.Tx, where string, args []any, tasks []Task, at map[string]int) error {
	return each(ctx, tx, `
		SELECT d.task_id, b.slug, COALESCE(b.status, ''), COALESCE(b.result, '')
		FROM tasks t JOIN task_deps d ON d.task_id = t.id JOIN tasks b ON b.id = d.blocked_by
		WHERE `+where+` ORDER BY b.slug`, args, func(rows *sql.Rows) error {
		var id string
		var b Blocker
		if err := rows.Scan(&id, &b.Slug, &b.Status, &b.Result); err != nil {
			return err
		}
		if i, ok := at[id]; ok {
			tasks[i].Deps = append(tasks[i].Deps, b.Slug)
			tasks[i].Blockers = append(tasks[i].Blockers, b)
		}
		return nil
	})
}

// find returns the row id and the status of a task.
func (s *Store) find(ctx context.Context, tx *sql.Tx, slug string) (id, status string, err error) {
	err = tx.QueryRowContext(ctx, "SELECT t.id, COALESCE(t.status, '') FROM tasks t WHERE "+inScope+" AND t.slug = ?",
		s.scope.Repo, s.scope.Branch, slug).Scan(&id, &status)
	if errors.Is(err, sql.ErrNoRows) {
		return "", "", taskNotFound(slug)
	}
	return id, status, err
}

// encodeSteps returns the stored form: a compact JSON array, or NULL.
func encodeSteps(steps []string) (any, error) {
	if len(steps) == 0 {
		return nil, nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(steps); err != nil {
		return nil, err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// decodeSteps reads the stored form. Others may have written the column:
// elements that are not strings are shown as JSON, and text that is no array
// as a single step, so that nothing is hidden.
func decodeSteps(text string) []string {
	if text == "" || text == "null" {
		return nil
	}
	var elements []json.RawMessage
	if err := json.Unmarshal([]byte(text), &elements); err != nil {
		return []string{text}
	}
	var steps []string
	for _, raw := range elements {
		var step string
		if err := json.Unmarshal(raw, &step); err != nil || string(raw) == "null" {
			step = string(raw)
		}
		steps = append(steps, step)
	}
	return steps
}

// placeholders returns "?,?,?" and the values as arguments.
func placeholders(values []string) (string, []any) {
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = v
	}
	return strings.TrimSuffix(strings.Repeat("?,", len(values)), ","), args
}
