package backlog

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"time"
)

// backoff configures retries while the database is locked.
type backoff struct {
	busyTimeout time.Duration // of SQLite, for one attempt
	timeout     time.Duration // of all attempts
	pause       time.Duration // between attempts, at most
}

// defaultBackoff has a short busy timeout: SQLite's polling interval grows to
// 100 ms, so that a process can starve while many others write.
func defaultBackoff() backoff {
	return backoff{busyTimeout: 100 * time.Millisecond, timeout: 20 * time.Second, pause: 20 * time.Millisecond}
}

// retry repeats f while the database is busy. SQLite does not use its busy timeout
// for concurrent switches to WAL and recoveries.
func (b backoff) retry(ctx context.Context, f func() error) error {
	for end := time.Now().Add(b.timeout); ; {
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

// write runs f in an immediate transaction, which holds the write lock from the
// start. f may run several times.
func (s *Store) write(ctx context.Context, f func(*sql.Tx) error) error {
	return s.transact(ctx, &sql.TxOptions{}, s.limit(ctx, f))
}

// read runs f on a snapshot of the database, without blocking writers.
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
			_ = tx.Rollback() // the first error says more
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
