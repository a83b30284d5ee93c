package backlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/google/uuid"
)

// NewTask is a task to create. Empty strings are stored as NULL.
type NewTask struct {
	Slug, Title, Description, Category string
	Priority                           int
	SpecRef, Ref                       string
	Steps                              []string
	Deps                               []string // slugs; duplicates are ignored
	Done                               bool     // of a plan: the task was done elsewhere
}

// Create adds an open task. Its blockers must exist, without a cycle. A deleted task with
// its slug is replaced.
func (s *Store) Create(ctx context.Context, t NewTask) error {
	if err := checkSlug(t.Slug); err != nil {
		return err
	}
	if err := s.checkSize(t); err != nil {
		return err
	}
	return s.write(ctx, func(tx *sql.Tx) error {
		id, status, err := s.find(ctx, tx, t.Slug)
		switch {
		case errors.Is(err, ErrNotFound):
			id, err = s.insert(ctx, tx, t)
		case err == nil && status == StatusDeleted:
			err = recreate(ctx, tx, id, t)
		case err == nil:
			err = fmt.Errorf("task '%s' already exists (status: %s)", t.Slug, status)
		}
		if err != nil {
			return err
		}
		return s.replaceDeps(ctx, tx, id, t.Deps)
	})
}

// checkSlug refuses ids that a command line or a list would split.
func checkSlug(slug string) error {
	if strings.ContainsFunc(slug, unicode.IsSpace) {
		return fmt.Errorf("task ID '%s' contains white space", slug)
	}
	return nil
}

func (s *Store) insert(ctx context.Context, tx *sql.Tx, t NewTask) (id string, err error) {
	steps, err := encodeSteps(t.Steps)
	if err != nil {
		return "", fmt.Errorf("encoding the steps of task '%s': %w", t.Slug, err)
	}
	id = uuid.NewString()
	_, err = tx.ExecContext(ctx, `
		INSERT INTO tasks (id, slug, scope_repo, scope_branch, title, description, category, priority,
			spec_ref, ref, steps, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, datetime('now'))`,
		id, t.Slug, s.scope.Repo, s.scope.Branch, t.Title, null(t.Description), null(t.Category), t.Priority,
		null(t.SpecRef), null(t.Ref), steps)
	return id, err
}

// Changes are new values for a task; nil keeps a field.
type Changes struct {
	Title, Description, Category, SpecRef, Ref, Status *string
	Priority                                           *int
	Steps                                              *[]string
}

// Update changes a task that is not done. A task set to active gets a lease of
// [DefaultLease].
func (s *Store) Update(ctx context.Context, slug string, c Changes) error {
	assignments, args, err := c.sql()
	if err != nil {
		return err
	}
	return s.write(ctx, func(tx *sql.Tx) error {
		id, status, err := s.find(ctx, tx, slug)
		if err != nil {
			return err
		}
		if err := s.checkFence(ctx, tx, id, slug); err != nil {
			return err
		}
		if status == StatusDone {
			return fmt.Errorf("task '%s' is done and cannot be updated", slug)
		}
		_, err = tx.ExecContext(ctx, "UPDATE tasks SET "+strings.Join(assignments, ", ")+" WHERE id = ?", append(slices.Clone(args), id)...)
		if err != nil || c.Status == nil || status != StatusDeleted {
			return err
		}
		return s.checkCycles(ctx, tx, id) // a deleted task is back
	})
}

// sql returns the assignments of an UPDATE and their arguments.
func (c Changes) sql() (assignments []string, args []any, err error) {
	assignments = []string{"updated_at = datetime('now')"}
	set := func(column string, value any) {
		assignments = append(assignments, column+" = ?")
		args = append(args, value)
	}
	if c.Title != nil {
		set("title", *c.Title)
	}
	if c.Description != nil {
		set("description", *c.Description)
	}
	for column, value := range map[string]*string{"category": c.Category, "spec_ref": c.SpecRef, "ref": c.Ref} {
		if value != nil {
			set(column, null(*value))
		}
	}
	if c.Priority != nil {
		set("priority", *c.Priority)
	}
	if c.Steps != nil {
		steps, err := encodeSteps(*c.Steps)
		if err != nil {
			return nil, nil, fmt.Errorf("encoding the steps: %w", err)
		}
		set("steps", steps)
	}
	if c.Status == nil {
		return assignments, args, nil
	}
	set("status", *c.Status)
	assignments = append(assignments, "taken_from = CASE WHEN status IN ('active', 'finished') THEN claimed_by ELSE taken_from END")
	switch *c.Status {
	case StatusOpen, StatusDone:
		if *c.Status == StatusDone {
			set("fail_reason", nil)
		}
		set("failures", 0)
		set("deleted_at", nil)
	case StatusActive:
		set("deleted_at", nil)
		assignments = append(assignments, `lease_expires_at = CASE
			WHEN status = 'active' AND lease_expires_at IS NOT NULL THEN lease_expires_at
			ELSE datetime('now', ?) END`)
		args = append(args, leaseModifier(DefaultLease))
	case StatusDeleted:
		assignments = append(assignments, "deleted_at = datetime('now')")
	default:
		return nil, nil, fmt.Errorf("status must be open, active, done or deleted, got: %s", *c.Status)
	}
	return assignments, args, nil
}

// Delete marks a task as deleted, whatever its status.
func (s *Store) Delete(ctx context.Context, slug string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		id, _, err := s.find(ctx, tx, slug)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, markDeleted+" WHERE t.id = ?", id)
		return err
	})
}

const markDeleted = "UPDATE tasks AS t SET status = 'deleted', deleted_at = datetime('now'), updated_at = datetime('now')"

// DeleteFilter selects tasks for [Store.DeleteMatching]. The zero value matches
// nothing; SpecRef and Category, if set, must match as well.
type DeleteFilter struct {
	All      bool     // any status
	Statuses []string // one of these
	SpecRef  string
	Category string
}

// DeleteMatching marks matching tasks as deleted and returns their number.
func (s *Store) DeleteMatching(ctx context.Context, f DeleteFilter) (int, error) {
	where := inScope + " AND t.status IS NOT 'deleted'"
	args := s.args()
	if !f.All {
		marks, values := placeholders(f.Statuses)
		where += " AND t.status IN (" + marks + ")"
		args = append(args, values...)
	}
	if f.SpecRef != "" {
		where += " AND t.spec_ref = ?"
		args = append(args, f.SpecRef)
	}
	if f.Category != "" {
		where += " AND t.category = ?"
		args = append(args, f.Category)
	}
	var n int
	err := s.write(ctx, func(tx *sql.Tx) (err error) {
		n, err = affected(ctx, tx, markDeleted+" WHERE "+where, args...)
		return err
	})
	return n, err
}
