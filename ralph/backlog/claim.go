package backlog

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"
)

// ClaimOptions are the options of [Store.Claim].
type ClaimOptions struct {
	Slug  string        // empty: the first eligible task
	Agent string        // the assignee; can be empty
	Lease time.Duration // truncated to seconds
}

// leaseModifier returns a lease as a modifier of SQLite's datetime function.
func leaseModifier(lease time.Duration) string {
	return fmt.Sprintf("+%d seconds", int64(lease/time.Second))
}

// Claim assigns a task to an agent and returns it. Claiming a task with an
// expired lease counts as a retry. Each claim increments the task's attempt.
// The errors are [ErrNoneEligible] without a slug, and [ErrNotEligible] with one.
func (s *Store) Claim(ctx context.Context, o ClaimOptions) (task Task, err error) {
	which, none := inScope+" AND t.slug = ?3 AND "+eligible, ErrNotEligible
	if o.Slug == "" {
		which, none = "t.id = ("+firstEligible(1)+")", ErrNoneEligible
	}
	err = s.write(ctx, func(tx *sql.Tx) error {
		if err := s.blockExpired(ctx, tx); err != nil {
			return err
		}
		if _, err := s.applyDefaults(ctx, tx); err != nil {
			return err
		}
		var found rowSet
		err := each(ctx, tx, `
			UPDATE tasks AS t SET retry_count = COALESCE(retry_count, 0) + (status = 'active'),
				failures = COALESCE(failures, 0) + (status = 'active'), status = 'active',
				assignee = ?4,
				taken_from = CASE WHEN status = 'active' THEN claimed_by ELSE taken_from END, claimed_by = ?4, attempt = COALESCE(attempt, 0) + 1, lease_expires_at = datetime('now', ?5), updated_at = datetime('now')
			WHERE `+which+" RETURNING "+taskColumns("status"),
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
	return task, err
}

// Renew extends the lease of the assignee. An expired lease can be renewed until
// another agent claims the task.
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

// Done finishes an active task. resultJSON is stored unchanged; an empty one
// keeps the stored result. Assignee and lease are checked only in a store with a
// [Store.Fence] or of an agent.
func (s *Store) Done(ctx context.Context, slug, resultJSON string) error {
	return s.end(ctx, slug, resultJSON, StatusDone)
}

// Finish is Done for the agent of a loop: the task is done once [Store.Accept] accepts it.
func (s *Store) Finish(ctx context.Context, slug, resultJSON string) error {
	return s.end(ctx, slug, resultJSON, StatusFinished)
}

func (s *Store) end(ctx context.Context, slug, resultJSON, status string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		id, err := s.findActive(ctx, tx, slug)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `
			UPDATE tasks SET status = ?, result = COALESCE(?, result), fail_reason = NULL, updated_at = datetime('now')
			WHERE id = ?`, status, null(resultJSON), id)
		return err
	})
}

// Fail reopens an active or finished task and increments its retry count. reason can be empty.
func (s *Store) Fail(ctx context.Context, slug, reason string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		id, err := s.findActive(ctx, tx, slug, StatusFinished)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, reopen+" WHERE id = ?", null(reason), id)
		return err
	})
}

// Explain puts a cause that the agent does not know before the reason why a task has failed.
func (s *Store) Explain(ctx context.Context, slug, cause string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		id, _, err := s.find(ctx, tx, slug)
		if err == nil {
			_, err = tx.ExecContext(ctx, "UPDATE tasks SET fail_reason = ? || COALESCE(': ' || fail_reason, '') WHERE id = ?", cause, id)
		}
		return err
	})
}

// Reopen reopens a task that is finished or done, discards its result and increments its
// retry count.
func (s *Store) Reopen(ctx context.Context, slug, reason string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		id, status, err := s.find(ctx, tx, slug)
		if err != nil {
			return err
		}
		if status != StatusFinished && status != StatusDone {
			return faultf(ErrNotDone, "task '%s' is not done (status: %s)", slug, status)
		}
		_, err = tx.ExecContext(ctx, reopen+", result = NULL WHERE id = ?", null(reason), id)
		return err
	})
}

// RenameCommit replaces the ID of a commit in the result of a task that is finished or done.
func (s *Store) RenameCommit(ctx context.Context, slug, from, to string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		id, _, err := s.find(ctx, tx, slug)
		if err == nil {
			_, err = tx.ExecContext(ctx, "UPDATE tasks SET result = replace(result, ?, ?) WHERE id = ? AND status IN ('finished', 'done')", from, to, id)
		}
		return err
	})
}

// reopen reopens tasks after a failed attempt; its argument is the reason.
const reopen = `
	UPDATE tasks SET status = 'open', assignee = NULL, lease_expires_at = NULL,
		` + failOnce + `, fail_reason = ?, updated_at = datetime('now')`

// RenewHeld extends the leases of all active and finished tasks of an agent to at least lease from
// now, and returns the number of tasks.
func (s *Store) RenewHeld(ctx context.Context, agentID string, lease time.Duration) (int, error) {
	var n int
	err := s.write(ctx, func(tx *sql.Tx) (err error) {
		n, err = affected(ctx, tx, `
			UPDATE tasks AS t SET lease_expires_at = max(COALESCE(t.lease_expires_at, ''), datetime('now', ?3)),
				updated_at = datetime('now')
			WHERE `+inScope+` AND t.status IN ('active', 'finished') AND t.assignee = ?4`,
			s.args(leaseModifier(lease), agentID)...)
		return err
	})
	return n, err
}

// findActive finds a task that is active, or has one of the other statuses, and checks the fence.
func (s *Store) findActive(ctx context.Context, tx *sql.Tx, slug string, others ...string) (id string, err error) {
	id, status, err := s.find(ctx, tx, slug)
	if err != nil {
		return "", err
	}
	if err := s.checkFence(ctx, tx, id, slug, others...); err != nil {
		return "", err
	}
	if status != StatusActive && !slices.Contains(others, status) {
		return "", notActive(slug, status)
	}
	return id, nil
}
