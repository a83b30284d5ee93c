package backlog

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"slices"
)

// SyncSummary is the result of [Store.Sync].
type SyncSummary struct {
	Inserted int // new tasks
	Updated  int // tasks changed or undeleted
	Deleted  int // tasks removed from their specification
	Skipped  int // tasks that are finished or done
	Unknown  []UnknownDep
	NotDone  []string // tasks that the plan has as done, and that stay as they are
}

func (s SyncSummary) String() string {
	return fmt.Sprintf("inserted: %d, updated: %d, deleted: %d, skipped (done): %d", s.Inserted, s.Updated, s.Deleted, s.Skipped)
}

// UnknownDep is an ignored dependency on a task that does not exist.
type UnknownDep struct{ Task, Dep string }

func (u UnknownDep) String() string {
	return fmt.Sprintf("task '%s' depends on '%s', which does not exist; dependency ignored", u.Task, u.Dep)
}

// Sync makes the backlog match a plan of JSON objects, one per line. Tasks that
// are finished or done are not changed; active ones stay with their agents. Tasks that are
// missing from the plan are deleted if the plan has others of their
// specification. A cycle of dependencies is an error. specs are the paths of the
// specifications, see [SpecFiles].
func (s *Store) Sync(ctx context.Context, r io.Reader, specs ...string) (SyncSummary, error) {
	plan, err := parsePlan(r)
	if err != nil {
		return SyncSummary{}, err
	}
	for i, task := range plan {
		if plan[i].SpecRef, err = specPath(task.SpecRef, specs); err != nil {
			return SyncSummary{}, fmt.Errorf("writing task '%s': %w", task.Slug, err)
		}
	}
	for _, task := range plan {
		if err := s.checkSize(task); err != nil {
			return SyncSummary{}, err
		}
	}
	var summary SyncSummary
	err = s.write(ctx, func(tx *sql.Tx) error {
		run := syncRun{store: s, tx: tx, plan: plan}
		if err := run.all(ctx); err != nil {
			return err
		}
		summary = run.summary
		return nil
	})
	return summary, err
}

// syncRun is a sync in one transaction.
type syncRun struct {
	store   *Store
	tx      *sql.Tx
	plan    []NewTask
	rows    map[string]syncRow // by slug; new ones too
	summary SyncSummary
}

type syncRow struct {
	id, status, imported string
	now                  NewTask // without dependencies
}

// ended reports whether the work on the task is over.
func (r syncRow) ended() bool { return r.status == StatusFinished || r.status == StatusDone }

func (r *syncRun) all(ctx context.Context) error {
	if err := r.load(ctx); err != nil {
		return err
	}
	for _, task := range r.plan {
		if err := r.apply(ctx, task); err != nil {
			return fmt.Errorf("writing task '%s': %w", task.Slug, err)
		}
	}
	// A task can depend on one of a later line.
	for _, task := range r.plan {
		if err := r.replaceDeps(ctx, task); err != nil {
			return fmt.Errorf("writing the dependencies of task '%s': %w", task.Slug, err)
		}
	}
	if err := r.deleteOrphans(ctx); err != nil {
		return err
	}
	var ids []string
	for _, task := range r.plan {
		ids = append(ids, r.rows[task.Slug].id)
	}
	return r.store.checkCycles(ctx, r.tx, ids...)
}

func (r *syncRun) load(ctx context.Context) error {
	r.rows = map[string]syncRow{}
	return each(ctx, r.tx, `
		SELECT t.id, COALESCE(t.status, ''), t.slug, t.title, COALESCE(t.description, ''), COALESCE(t.category, ''),
			COALESCE(CAST(t.priority AS INTEGER), 2), COALESCE(t.spec_ref, ''), COALESCE(t.ref, ''), COALESCE(t.steps, ''), COALESCE(t.imported, '')
		FROM tasks t WHERE `+inScope, r.store.args(), func(rows *sql.Rows) error {
		var row syncRow
		var steps string
		err := rows.Scan(&row.id, &row.status, &row.now.Slug, &row.now.Title, &row.now.Description, &row.now.Category,
			&row.now.Priority, &row.now.SpecRef, &row.now.Ref, &steps, &row.imported)
		row.now.Steps = decodeSteps(steps)
		r.rows[row.now.Slug] = row
		return err
	})
}

func (r *syncRun) apply(ctx context.Context, task NewTask) error {
	row, exists := r.rows[task.Slug]
	if task.Done && exists && row.status != StatusDone && row.status != StatusDeleted {
		r.summary.NotDone = append(r.summary.NotDone, task.Slug)
	}
	switch {
	case !exists:
		id, err := r.store.insert(ctx, r.tx, task)
		r.summary.Inserted++
		if err == nil && task.Done {
			err = r.finish(ctx, id)
		}
		r.rows[task.Slug] = syncRow{id: id, status: StatusOpen}
		return err
	case row.ended():
		r.summary.Skipped++
		return nil
	case row.status == StatusDeleted:
		r.summary.Updated++
		if _, err := r.tx.ExecContext(ctx, `
			UPDATE tasks SET status = 'open', deleted_at = NULL, assignee = NULL, lease_expires_at = NULL
			WHERE id = ?`, row.id); err != nil {
			return err
		}
		if task.Done {
			if err := r.finish(ctx, row.id); err != nil {
				return err
			}
		}
		return overwrite(ctx, r.tx, row.id, task)
	case !sameFields(row.now, task):
		r.summary.Updated++
		return overwrite(ctx, r.tx, row.id, task)
	}
	return nil
}

// importedResult is the result of a task that was done elsewhere.
const importedResult = `{"note":"imported as done"}`

// finish enters a task as done that no agent has claimed.
func (r *syncRun) finish(ctx context.Context, id string) error {
	_, err := r.tx.ExecContext(ctx, `
		UPDATE tasks SET status = 'done', result = ?, fail_reason = NULL, updated_at = datetime('now') WHERE id = ?`, importedResult, id)
	return err
}

func sameFields(a, b NewTask) bool {
	return a.Title == b.Title && a.Description == b.Description && a.Category == b.Category &&
		a.Priority == b.Priority && a.SpecRef == b.SpecRef && a.Ref == b.Ref && slices.Equal(a.Steps, b.Steps)
}

func (r *syncRun) replaceDeps(ctx context.Context, task NewTask) error {
	row := r.rows[task.Slug]
	if row.ended() {
		return nil
	}
	if _, err := r.tx.ExecContext(ctx, "DELETE FROM task_deps WHERE task_id = ?", row.id); err != nil {
		return err
	}
	for _, dep := range task.Deps {
		blocker, exists := r.rows[dep]
		if !exists {
			r.summary.Unknown = append(r.summary.Unknown, UnknownDep{Task: task.Slug, Dep: dep})
			continue
		}
		if err := addDep(ctx, r.tx, row.id, blocker.id); err != nil {
			return err
		}
	}
	return nil
}

// deleteOrphans deletes tasks that are missing from the plan of their
// specification.
func (r *syncRun) deleteOrphans(ctx context.Context) error {
	specs, planned := map[string]bool{}, map[string]bool{}
	for _, task := range r.plan {
		specs[task.SpecRef] = task.SpecRef != ""
		planned[task.Slug] = true
	}
	for slug, row := range r.rows {
		if planned[slug] || !specs[row.now.SpecRef] || row.ended() || row.status == StatusDeleted {
			continue
		}
		if _, err := r.tx.ExecContext(ctx, markDeleted+" WHERE t.id = ?", row.id); err != nil {
			return fmt.Errorf("deleting task '%s': %w", slug, err)
		}
		r.summary.Deleted++
	}
	return nil
}
