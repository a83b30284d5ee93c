package backlog

import (
	"context"
	"database/sql"
)

// StatusBlocked is what an open task shows that has failed [MaxAttempts] times in
// a row. It is not tried again until somebody sets its status to open.
const StatusBlocked = "blocked"

// MaxAttempts is how often in a row a task may fail; parked knows it too.
const MaxAttempts = 3

// parked is the condition on such a task t. shownStatus is what others see of a
// status; returnedStatus is the same where a statement returns what it changed.
const (
	parked         = "(t.status = 'open' AND COALESCE(t.failures, 0) >= 3)"
	shownStatus    = "CASE WHEN " + parked + " THEN 'blocked' ELSE t.status END"
	returnedStatus = "CASE WHEN status = 'open' AND COALESCE(failures, 0) >= 3 THEN 'blocked' ELSE COALESCE(status, '') END"
)

// failOnce counts a failed attempt.
const failOnce = "retry_count = COALESCE(retry_count, 0) + 1, failures = COALESCE(failures, 0) + 1"

// Forgive takes the last failed attempt of a task back, as far as it could have
// the task blocked: the task was not to blame.
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

// parkExpired opens tasks whose last attempt ended with its lease, as when the
// whole sandbox died, and was one too many.
func (s *Store) parkExpired(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `
		UPDATE tasks AS t SET status = 'open', assignee = NULL, lease_expires_at = NULL, `+failOnce+`,
			fail_reason = ?4, updated_at = datetime('now')
		WHERE `+inScope+" AND "+expired+" AND COALESCE(t.failures, 0) >= ?3 - 1", s.args(MaxAttempts, reasonExpired)...)
	return err
}
