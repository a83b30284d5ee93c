package backlog

import (
	"context"
	"database/sql"
	"time"
)

// backoff says how long to wait for other processes.
type backoff struct {
	busyTimeout time.Duration   // inside SQLite, for each lock
	pauses      []time.Duration // between attempts at a whole transaction
}

func defaultBackoff() backoff {
	return backoff{
		busyTimeout: 5 * time.Second,
		pauses:      []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, 900 * time.Millisecond},
	}
}

// retry repeats f while the database is busy. SQLite does not call its own
// busy handler everywhere: not when a switch to WAL or a recovery collides.
func (b backoff) retry(ctx context.Context, f func() error) error {
	for _, pause := range b.pauses {
		err := f()
		if !isBusy(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
	return f()
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
