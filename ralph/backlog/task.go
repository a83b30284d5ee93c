package backlog

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Task is a task of the backlog. Times are UTC, as YYYY-MM-DD HH:MM:SS.
type Task struct {
	Slug           string
	Title          string
	Description    string
	Category       string
	Priority       int // lower is more urgent
	Status         string
	SpecRef        string // path of the specification below specs/
	Ref            string
	Result         string // JSON
	Assignee       string // id of the last agent
	ClaimedBy      string // the agent that has claimed it last; empty without one
	Assigned       bool   // the assignee is not NULL; it can be empty
	LeaseExpiresAt string
	RetryCount     int
	Attempt        int // number of claims
	FailReason     string
	Steps          []string
	Deps           []string   // slugs of the Blockers
	Blockers       []Blocker  // by slug
	Questions      []Question // oldest first
	CreatedAt      string
	UpdatedAt      string
	DeletedAt      string
	Receipt        *Receipt // the latest; of [Store.Show] only
}

// Blocker is a task that another one depends on.
type Blocker struct {
	Slug   string
	Status string
	Result string // JSON
}

// Conditions on a task t. The first two arguments of a query that uses them
// are repository and branch.
const (
	inScope = "t.scope_repo = ?1 AND t.scope_branch = ?2"
	blocked = "(" + dependent + " OR " + tooManyFailures + ")"
	// A lease of NULL, as written by other programs, has not expired.
	expired  = "t.status = 'active' AND t.lease_expires_at < datetime('now')"
	eligible = "(t.status = 'open' OR (" + expired + ")) AND NOT " + blocked
	inOrder  = "t.priority, t.created_at, t.rowid"
)

// firstEligible selects the ids of the first n eligible tasks, or of all if n is
// negative. Open and expired tasks are selected separately, each in the order of
// the index, so that SQLite can stop early. n is not a parameter: SQLite plans a
// statement again for each value of a limit.
func firstEligible(n int) string {
	first := func(state string) string {
		return fmt.Sprintf(`
			SELECT * FROM (SELECT t.id, t.priority, t.created_at, t.rowid AS number FROM tasks t
			WHERE %s AND %s AND NOT %s ORDER BY %s LIMIT %d)`, inScope, state, blocked, inOrder, n)
	}
	return fmt.Sprintf("SELECT id FROM (%s UNION ALL %s) ORDER BY priority, created_at, number LIMIT %d",
		first("t.status = 'open'"), first(expired), n)
}

// taskColumns returns the columns that rowSet.scan reads.
func taskColumns(status string) string {
	return `id, slug, title, COALESCE(description, ''), COALESCE(category, ''),
	COALESCE(CAST(priority AS INTEGER), 2), COALESCE(` + status + `, ''), COALESCE(spec_ref, ''),
	COALESCE(ref, ''), COALESCE(result, ''), COALESCE(assignee, ''), assignee IS NOT NULL,
	COALESCE(lease_expires_at, ''), COALESCE(CAST(retry_count AS INTEGER), 0),
	COALESCE(fail_reason, ''), COALESCE(steps, ''), COALESCE(created_at, ''),
	COALESCE(updated_at, ''), COALESCE(deleted_at, ''), COALESCE(CAST(attempt AS INTEGER), 0),
	COALESCE(questions, ''), COALESCE(claimed_by, '')`
}

// rowSet is the result of a query, with the id of each task.
type rowSet struct {
	tasks []Task
	ids   []string
}

func (r *rowSet) scan(rows *sql.Rows) error {
	var t Task
	var id, steps, questions string
	err := rows.Scan(&id, &t.Slug, &t.Title, &t.Description, &t.Category, &t.Priority, &t.Status, &t.SpecRef,
		&t.Ref, &t.Result, &t.Assignee, &t.Assigned, &t.LeaseExpiresAt, &t.RetryCount, &t.FailReason,
		&steps, &t.CreatedAt, &t.UpdatedAt, &t.DeletedAt, &t.Attempt, &questions, &t.ClaimedBy)
	t.Steps, t.Questions = decodeSteps(steps), decodeQuestions(questions)
	r.tasks, r.ids = append(r.tasks, t), append(r.ids, id)
	return err
}

// selectTasks returns the tasks of the scope that meet a condition on t.
func (s *Store) selectTasks(ctx context.Context, tx *sql.Tx, where string, args ...any) ([]Task, error) {
	var found rowSet
	err := each(ctx, tx, "SELECT "+taskColumns(shownStatus)+" FROM tasks t WHERE "+inScope+" AND "+where+" ORDER BY "+inOrder,
		s.args(args...), found.scan)
	if err == nil && len(found.tasks) > 0 {
		err = found.addBlockers(ctx, tx, where, s.args(args...))
	}
	return found.tasks, err
}

// args returns the arguments of a query with inScope.
func (s *Store) args(more ...any) []any {
	return append([]any{s.scope.Repo, s.scope.Branch}, more...)
}

// addBlockers adds the blockers of the tasks that meet a condition on t. The result of one that blocks many tasks is in
// memory once: an agent could exhaust it.
func (r *rowSet) addBlockers(ctx context.Context, tx *sql.Tx, where string, args []any) error {
	results := map[string]string{}
	err := each(ctx, tx, `
		SELECT b.id, b.result FROM tasks b WHERE b.result IS NOT NULL AND b.id IN (
			SELECT d.blocked_by FROM tasks t JOIN task_deps d ON d.task_id = t.id WHERE `+inScope+" AND "+where+")", args, func(rows *sql.Rows) error {
		var id, result string
		err := rows.Scan(&id, &result)
		results[id] = result
		return err
	})
	if err != nil {
		return err
	}
	at := make(map[string]int, len(r.ids))
	for i, id := range r.ids {
		at[id] = i
	}
	return each(ctx, tx, `
		SELECT d.task_id, b.id, b.slug, `+shownBlocker+`
		FROM tasks t JOIN task_deps d ON d.task_id = t.id JOIN tasks b ON b.id = d.blocked_by
		WHERE `+inScope+" AND "+where+" ORDER BY b.slug", args, func(rows *sql.Rows) error {
		var id, blocker string
		var b Blocker
		if err := rows.Scan(&id, &blocker, &b.Slug, &b.Status); err != nil {
			return err
		}
		b.Result = results[blocker]
		if i, ok := at[id]; ok {
			r.tasks[i].Deps = append(r.tasks[i].Deps, b.Slug)
			r.tasks[i].Blockers = append(r.tasks[i].Blockers, b)
		}
		return nil
	})
}

// find returns the id and the status of a task.
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
	return encode(steps)
}

// encode returns compact JSON.
func encode(value any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// decodeSteps reads the stored form. Other programs may have stored other values:
// elements that are not strings are shown as JSON, and anything else than an
// array as a single step.
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
