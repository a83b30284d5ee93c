package backlog

import (
	"context"
	"database/sql"
)

// StatusBlocked is the displayed status of an open task that has failed
// [MaxAttempts] times in a row. Setting its status to open unblocks it.
const StatusBlocked = "blocked"

// MaxAttempts is how often in a row a task may fail; it is part of tooManyFailures.
const MaxAttempts = 3

// tooManyFailures is the condition on such a task t. shownStatus is the displayed
// status; returnedStatus is the same in a RETURNING clause.
const (
	tooManyFailures = "(t.status = 'open' AND COALESCE(t.failures, 0) >= 3)"
	shownStatus     = "CASE WHEN " + tooManyFailures + " THEN 'blocked' ELSE t.status END"
	returnedStatus  = "CASE WHEN status = 'open' AND COALESCE(failures, 0) >= 3 THEN 'blocked' ELSE COALESCE(status, '') END"
)

// failOnce counts a failed attempt.
const failOnce = "retry_count = COALESCE(retry_count, 0) + 1, failures = COALESCE(failures, 0) + 1"

// Forgive does not count the last failed attempt of a task towards [MaxAttempts].
func (s *Store) Forgive(ctx context.Context, slug string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		id, _, err := s.find(ctx, tx, slug)
		if err == nil {
			_, err = tx.ExecContext(ctx, "UPDATE tasks SET failures = max(COALESCE(failures, 0) - 1, 0) WHERE id = ?", id)
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
