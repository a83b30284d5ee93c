package backlog

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
)

// MakeOpen makes a task open that is finished, done, deleted, blocked after too many failures, or
// waiting for an answer. A result is discarded; a reason, if not empty, is for the next
// agent.
func (s *Store) MakeOpen(ctx context.Context, slug, reason string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		id, status, err := s.find(ctx, tx, slug)
		if err != nil {
			return err
		}
		if status == StatusActive {
			return fmt.Errorf("task '%s' is active", slug)
		}
		_, err = tx.ExecContext(ctx, "UPDATE tasks SET "+startOver+", fail_reason = COALESCE(?, fail_reason) WHERE id = ?", null(reason), id)
		if err != nil {
			return err
		}
		return s.checkCycles(ctx, tx, id)
	})
}

// startOver makes a task open as if it had not been attempted.
const startOver = `status = 'open', assignee = NULL, lease_expires_at = NULL, result = NULL, failures = 0,
	deleted_at = NULL, updated_at = datetime('now')`

// recreate replaces a deleted task by a new one. It keeps its id, by which copies know it.
func recreate(ctx context.Context, tx *sql.Tx, id string, t NewTask) error {
	steps, err := encodeSteps(t.Steps)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "UPDATE tasks SET "+startOver+`, retry_count = 0, fail_reason = NULL, questions = NULL,
		created_at = datetime('now'), `+setFields+" WHERE id = ?", t.fields(steps, id)...)
	if err != nil {
		return err
	}
	return deleteReceipts(ctx, tx, id)
}

// setFields sets the fields of a task to t.fields.
const setFields = "title = ?, description = ?, category = ?, priority = ?, spec_ref = ?, ref = ?, steps = ?"

func (t NewTask) fields(steps any, more ...any) []any {
	return append([]any{t.Title, null(t.Description), null(t.Category), t.Priority, null(t.SpecRef), null(t.Ref), steps}, more...)
}

// Rewrite changes the fields of a task that is not done from before to after, unless they
// have changed since. A task blocked after too many failures can be claimed again.
func (s *Store) Rewrite(ctx context.Context, before, after NewTask) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		found, err := s.selectTasks(ctx, tx, "t.slug = ?", before.Slug)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return taskNotFound(before.Slug)
		}
		t := found[0]
		now := NewTask{
			Slug: t.Slug, Title: t.Title, Description: t.Description, Category: t.Category, Priority: t.Priority,
			SpecRef: t.SpecRef, Ref: t.Ref, Steps: t.Steps, Deps: t.Deps,
		}
		switch {
		case t.Status == StatusDone:
			return fmt.Errorf("task '%s' is done and cannot be updated", t.Slug)
		case !sameFields(now, before) || !slices.Equal(now.Deps, before.Deps):
			return fmt.Errorf("task '%s' was changed meanwhile", t.Slug)
		}
		id, _, err := s.find(ctx, tx, t.Slug)
		if err != nil {
			return err
		}
		if err := overwrite(ctx, tx, id, after); err != nil {
			return err
		}
		if slices.Equal(before.Deps, after.Deps) {
			return nil
		}
		return s.replaceDeps(ctx, tx, id, after.Deps)
	})
}

// overwrite sets the fields of a task.
func overwrite(ctx context.Context, tx *sql.Tx, id string, t NewTask) error {
	steps, err := encodeSteps(t.Steps)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "UPDATE tasks SET "+setFields+", failures = 0, updated_at = datetime('now') WHERE id = ?", t.fields(steps, id)...)
	return err
}

// replaceDeps sets the dependencies of a task. A cycle is an error.
func (s *Store) replaceDeps(ctx context.Context, tx *sql.Tx, id string, deps []string) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM task_deps WHERE task_id = ?", id); err != nil {
		return err
	}
	for _, dep := range deps {
		blocker, err := s.findBlocker(ctx, tx, dep)
		if err == nil {
			err = addDep(ctx, tx, id, blocker)
		}
		if err != nil {
			return err
		}
	}
	return s.checkCycles(ctx, tx, id)
}
