package backlog

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"time"
)

// backoff says how long to wait for other processes.
type backoff struct {
	attempt  time.Duration // inside SQLite, for a lock; then all is tried anew
	patience time.Duration // for all attempts
	pause    time.Duration // between attempts, at most
}

// defaultBackoff lets attempts be short: the longer SQLite has waited, the more
// seldom it looks whether a lock is free, up to once in 100 ms. Where many
// processes write at the same time, some would never find it free.
func defaultBackoff() backoff {
	return backoff{attempt: 100 * time.Millisecond, patience: 20 * time.Second, pause: 20 * time.Millisecond}
}

// retry repeats f while the database is busy. SQLite does not call its own
// busy handler everywhere: not when a switch to WAL or a recovery collides.
func (b backoff) retry(ctx context.Context, f func() error) error {
	for end := time.Now().Add(b.patience); ; {
		err := f()
		if !isBusy(err) || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(rand.N(b.pause)):
		}
	}
}

// write runs f in one immediate transaction: it holds the write lock from the
// start, so what f reads stays true until it commits. f may run several times.
func (s *Store) write(ctx context.Context, f func(*sql.Tx) error) error {
	return s.transact(ctx, &sql.TxOptions{}, f)
}

// read runs f on one snapshot of the database, without any lock that keeps
// writers out.
func (s *Store) read(ctx context.Context, f func(*sql.Tx) error) error {
	return s.transact(ctx, &sql.TxOptions{ReadOnly: true}, f)
}

func (s *Store) transact(ctx context.Context, opts *sql.TxOptions, f func(*sql.Tx) error) error {
	err := s.wait.retry(ctx, func() error {
		tx, err := s.db.BeginTx(ctx, opts)
		if err != nil {
			return err
		}
		if err := f(tx); err != nil {
			_ = tx.Rollback() // nothing was changed; the first error says more
			return err
		}
		return tx.Commit()
	})
	return s.explain(ctx, err)
}

// each calls scan for every row of a query.
func each(ctx context.Context, tx *sql.Tx, query string, args []any, scan func(*sql.Rows) error) error {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err below reports what matters
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// affected runs a statement and returns how many rows it changed.
func affected(ctx context.Context, tx *sql.Tx, query string, args ...any) (int, error) {
	res, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}

// null stores the empty string as NULL.
func null(s string) any {
	if s == "" {
		return nil
	}
	return s
}
