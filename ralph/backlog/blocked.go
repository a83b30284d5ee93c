package backlog

import (
	"context"
	"database/sql"
)

// Displayed statuses of open tasks that cannot be claimed.
const (
	// StatusBlocked: the task has failed [MaxAttempts] times in a row. Setting its
	// status to open unblocks it.
	StatusBlocked = "blocked"
	// StatusWaiting: the task depends on one that is not done.
	StatusWaiting = "waiting"
)

// MaxAttempts is how often in a row a task may fail; it is part of tooManyFailures.
const MaxAttempts = 3

// Conditions on a task t, and its displayed status. shownBlocker is that of a task b.
const (
	tooManyFailures = "(t.status = 'open' AND COALESCE(t.failures, 0) >= 3)"
	dependent       = `EXISTS (
		SELECT 1 FROM task_deps bd JOIN tasks ob ON ob.id = bd.blocked_by
		WHERE bd.task_id = t.id AND ob.status NOT IN ('done', 'deleted'))`
	shownStatus = "CASE WHEN " + tooManyFailures + " THEN 'blocked' WHEN t.status = 'open' AND " + dependent +
		" THEN 'waiting' ELSE t.status END"
	shownBlocker = `CASE WHEN b.status = 'open' AND COALESCE(b.failures, 0) >= 3 THEN 'blocked'
		WHEN b.status = 'open' AND EXISTS (
			SELECT 1 FROM task_deps bd JOIN tasks ob ON ob.id = bd.blocked_by
			WHERE bd.task_id = b.id AND ob.status NOT IN ('done', 'deleted'))
		THEN 'waiting' ELSE COALESCE(b.status, '') END`
)

// failOnce counts a failed attempt.
const failOnce = "retry_count = COALESCE(retry_count, 0) + 1, failures = COALESCE(failures, 0) + 1"

// unfail takes back what [failOnce] counted.
const unfail = "retry_count = max(COALESCE(retry_count, 0) - 1, 0), failures = max(COALESCE(failures, 0) - 1, 0)"

// Forgive does not count the last failed attempt of a task, neither as a retry nor towards [MaxAttempts].
func (s *Store) Forgive(ctx context.Context, slug string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		id, _, err := s.find(ctx, tx, slug)
		if err == nil {
			_, err = tx.ExecContext(ctx, "UPDATE tasks SET "+unfail+" WHERE id = ?", id)
		}
		return err
	})
}

const reasonExpired = "lease expired"

// blockExpired blocks tasks whose last allowed attempt ended with an expired lease,
// as after the death of the whole sandbox.
func (s *Store) blockExpired(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `
		UPDATE tasks AS t SET status = 'open', assignee = NULL, lease_expires_at = NULL, `+failOnce+`,
			fail_reason = ?4, updated_at = datetime('now')
		WHERE `+inScope+" AND "+expired+" AND COALESCE(t.failures, 0) >= ?3 - 1", s.args(MaxAttempts, reasonExpired)...)
	return err
}
