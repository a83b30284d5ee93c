package backlog

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// ClaimOptions says what to claim, for whom, for how long.
type ClaimOptions struct {
	Slug  string        // empty: the first task that can be claimed
	Agent string        // recorded as it is, also when empty
	Lease time.Duration // whole seconds; the rest is cut off
}

// leaseModifier returns a lease in the words of SQLite's datetime function.
func leaseModifier(lease time.Duration) string {
	return fmt.Sprintf("+%d seconds", int64(lease/time.Second))
}

// Claim takes a task for an agent and returns it. A task whose lease has
// expired is taken over, which counts as a retry. Of several claims at the
// same time one wins. Each claim has a number of its own, the task's attempt.
// The errors are [ErrNoneEligible] without a slug, and
// [ErrNotEligible] with one.
func (s *Store) Claim(ctx context.Context, o ClaimOptions) (task Task, err error) {
	which, none := inScope+" AND t.slug = ?3 AND "+eligible, ErrNotEligible
	if o.Slug == "" {
		which, none = "t.id = ("+firstEligible(1)+")", ErrNoneEligible
	}
	err = s.write(ctx, func(tx *sql.Tx) error {
		if err := s.parkExpired(ctx, tx); err != nil {
			return err
		}
		var found rowSet
		err := each(ctx, tx, `
			UPDATE tasks AS t SET retry_count = COALESCE(retry_count, 0) + (status = 'active'),
				failures = COALESCE(failures, 0) + (status = 'active'), status = 'active',
				assignee = ?4, attempt = COALESCE(attempt, 0) + 1, lease_expires_at = datetime('now', ?5), updated_at = datetime('now')
			WHERE `+which+" RETURNING "+taskColumns,
			s.args(o.Slug, o.Agent, leaseModifier(o.Lease)), found.scan)
		if err != nil {
			return err
		}
		if len(found.tasks) == 0 {
			return none
		}
		if err := found.addBlockers(ctx, tx, "t.id = ?3", s.args(found.ids[0])); err != nil {
			return err
		}
		task = found.tasks[0]
		return nil
	})
	if err == nil {
		s.log(Entry{Op: opClaim, Slug: task.Slug, Agent: o.Agent, Attempt: task.Attempt})
	}
	return task, err
}

// Renew lets a lease end a full lease from now, also one that has expired
// already, unless somebody else took the task over.
func (s *Store) Renew(ctx context.Context, slug, agent string, lease time.Duration) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		id, err := s.findActive(ctx, tx, slug)
		if err != nil {
			return err
		}
		n, err := affected(ctx, tx, `
			UPDATE tasks SET lease_expires_at = datetime('now', ?), updated_at = datetime('now')
			WHERE id = ? AND COALESCE(assignee, '') = ?`, leaseModifier(lease), id, agent)
		if err == nil && n == 0 {
			return faultf(ErrNotAssignee, "agent '%s' is not the assignee of task '%s'", agent, slug)
		}
		return err
	})
}

// Done finishes an active task. resultJSON is stored byte for byte; an empty
// one leaves the stored result as it is. Neither assignee nor lease matter: an
// agent whose task was taken over may still finish it, unless the store knows
// its attempt (see [Store.Fence]).
func (s *Store) Done(ctx context.Context, slug, resultJSON string) error {
	return s.logged(Entry{Op: opDone, Slug: slug, Result: resultJSON}, s.write(ctx, func(tx *sql.Tx) error {
		id, err := s.findActive(ctx, tx, slug)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `
			UPDATE tasks SET status = 'done', result = COALESCE(?, result), updated_at = datetime('now')
			WHERE id = ?`, null(resultJSON), id)
		return err
	}))
}

// Fail gives an active task back: it is open again, and its retry count goes
// up. reason may be empty.
func (s *Store) Fail(ctx context.Context, slug, reason string) error {
	return s.logged(Entry{Op: opFail, Slug: slug, Reason: reason}, s.write(ctx, func(tx *sql.Tx) error {
		id, err := s.findActive(ctx, tx, slug)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `
			UPDATE tasks SET status = 'open', assignee = NULL, lease_expires_at = NULL,
				`+failOnce+`, fail_reason = ?, updated_at = datetime('now')
			WHERE id = ?`, null(reason), id)
		return err
	}))
}

// findActive finds an active task that the caller still holds, as far as the
// store knows who the caller is.
func (s *Store) findActive(ctx context.Context, tx *sql.Tx, slug string) (id string, err error) {
	id, status, err := s.find(ctx, tx, slug)
	if err != nil {
		return "", err
	}
	if err := s.checkFence(ctx, tx, id, slug); err != nil {
		return "", err
	}
	if status != StatusActive {
		return "", faultf(ErrNotActive, "task '%s' is not active (status: %s)", slug, status)
	}
	return id, nil
}
