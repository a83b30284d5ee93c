package backlog

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// ErrNotDone is wrapped when a task is not done where it must be.
var ErrNotDone = errors.New("task is not done")

// Reopen makes a finished task open again, with the reason: what it came to
// did not count. It has no result any more, and its retry count goes up.
func (s *Store) Reopen(ctx context.Context, slug, reason string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		id, status, err := s.find(ctx, tx, slug)
		if err != nil {
			return err
		}
		if status != StatusDone {
			return faultf(ErrNotDone, "task '%s' is not done (status: %s)", slug, status)
		}
		_, err = tx.ExecContext(ctx, reopen+" result = NULL WHERE id = ?", null(reason), id)
		return err
	})
}

// reopen makes a task open; its argument is the reason.
const reopen = `
	UPDATE tasks SET status = 'open', assignee = NULL, lease_expires_at = NULL,
		` + failOnce + `, fail_reason = ?, updated_at = datetime('now'),`

// RenewHeld lets the leases of all tasks that an agent holds end no sooner
// than lease from now. A lease that ends later stays as it is. It returns how
// many tasks the agent holds.
func (s *Store) RenewHeld(ctx context.Context, agentID string, lease time.Duration) (int, error) {
	var n int
	err := s.write(ctx, func(tx *sql.Tx) (err error) {
		n, err = affected(ctx, tx, `
			UPDATE tasks AS t SET lease_expires_at = max(COALESCE(t.lease_expires_at, ''), datetime('now', ?3)),
				updated_at = datetime('now')
			WHERE `+inScope+` AND t.status = 'active' AND t.assignee = ?4`,
			s.args(leaseModifier(lease), agentID)...)
		return err
	})
	return n, err
}
