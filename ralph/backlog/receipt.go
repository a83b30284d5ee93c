package backlog

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/docker-ralph/docker-ralph/wire/taskjson"
)

// Receipt proves that a task is done: what the user's repository took, and how it came about.
type Receipt = taskjson.Receipt

// receiptTable is created with the first receipt: databases of plain hosts have none.
const receiptTable = `
CREATE TABLE IF NOT EXISTS receipts (
  task_id TEXT REFERENCES tasks(id) ON DELETE CASCADE,
  attempt INTEGER,
  receipt TEXT NOT NULL,
  PRIMARY KEY (task_id, attempt)
)`

// Accept makes tasks done that an agent has finished, and stores their receipts, by slug. It returns them with task,
// attempt and time. A task that is not finished any more is skipped.
func (s *Store) Accept(ctx context.Context, agent string, receipts map[string]Receipt) (accepted []Receipt, err error) {
	err = s.write(ctx, func(tx *sql.Tx) (err error) {
		accepted, err = s.accept(ctx, tx, agent, receipts)
		return err
	})
	return accepted, err
}

func (s *Store) accept(ctx context.Context, tx *sql.Tx, agent string, receipts map[string]Receipt) (accepted []Receipt, err error) {
	at, err := now(ctx, tx)
	if err != nil {
		return nil, err
	}
	finished, err := s.selectTasks(ctx, tx, "t.status = 'finished' AND t.assignee = ?3", agent)
	if err != nil {
		return nil, err
	}
	for _, t := range finished {
		r, ok := receipts[t.Slug]
		if !ok {
			continue
		}
		r.Task, r.Attempt, r.Time = t.Slug, t.Attempt, at
		if err := s.acceptTask(ctx, tx, r); err != nil {
			return nil, err
		}
		accepted = append(accepted, r)
	}
	return accepted, nil
}

func (s *Store) acceptTask(ctx context.Context, tx *sql.Tx, r Receipt) error {
	stored, err := json.Marshal(r)
	switch {
	case err != nil:
		return fmt.Errorf("encoding the receipt of task '%s': %w", r.Task, err)
	case len(stored) > maxText:
		return faultf(ErrTooLarge, "the receipt of task '%s' is larger than %d bytes", r.Task, maxText)
	}
	id, _, err := s.find(ctx, tx, r.Task)
	if err != nil {
		return err
	}
	if _, err = tx.ExecContext(ctx, "UPDATE tasks SET status = 'done', updated_at = datetime('now') WHERE id = ?", id); err != nil {
		return err
	}
	return addReceipts(ctx, tx, receiptRow{id, r.Attempt, string(stored)})
}

// receiptRow is a stored receipt.
type receiptRow struct {
	task    string // its id
	attempt int
	receipt string // JSON
}

func addReceipts(ctx context.Context, tx *sql.Tx, all ...receiptRow) error {
	if len(all) == 0 {
		return nil
	}
	if _, err := tx.ExecContext(ctx, receiptTable); err != nil {
		return err
	}
	for _, r := range all {
		if _, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO receipts (task_id, attempt, receipt) VALUES (?, ?, ?)", r.task, r.attempt, r.receipt); err != nil {
			return err
		}
	}
	return nil
}

// receipt returns the latest receipt of a task, or nil.
func (s *Store) receipt(ctx context.Context, tx *sql.Tx, slug string) (*Receipt, error) {
	if has, err := hasReceipts(ctx, tx); !has {
		return nil, err
	}
	var stored string
	err := tx.QueryRowContext(ctx, "SELECT r.receipt FROM tasks t JOIN receipts r ON r.task_id = t.id WHERE "+inScope+
		" AND t.slug = ?3 ORDER BY r.attempt DESC LIMIT 1", s.args(slug)...).Scan(&stored)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := &Receipt{}
	if err := json.Unmarshal([]byte(stored), r); err != nil {
		return nil, s.damaged(fmt.Errorf("receipt of task '%s': %w", slug, err))
	}
	return r, nil
}

// receipts returns the receipts of the scope.
func (s *Store) receipts(ctx context.Context, tx *sql.Tx) (all []receiptRow, err error) {
	if has, err := hasReceipts(ctx, tx); !has {
		return nil, err
	}
	err = each(ctx, tx, "SELECT r.task_id, r.attempt, r.receipt FROM tasks t JOIN receipts r ON r.task_id = t.id WHERE "+inScope, s.args(),
		func(rows *sql.Rows) error {
			var r receiptRow
			err := rows.Scan(&r.task, &r.attempt, &r.receipt)
			all = append(all, r)
			return err
		})
	return all, err
}

func hasReceipts(ctx context.Context, tx *sql.Tx) (has bool, err error) {
	err = tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'receipts')").Scan(&has)
	return has, err
}

// deleteReceipts deletes the receipts of a task.
func deleteReceipts(ctx context.Context, tx *sql.Tx, id string) error {
	has, err := hasReceipts(ctx, tx)
	if has {
		_, err = tx.ExecContext(ctx, "DELETE FROM receipts WHERE task_id = ?", id)
	}
	return err
}

// Accepted returns the done tasks with the receipt of their last attempt, by its time. Those that the user has
// finished have none.
func (s *Store) Accepted(ctx context.Context) (tasks []Task, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		tasks = nil
		done, err := s.selectTasks(ctx, tx, "t.status = 'done'")
		if err != nil {
			return err
		}
		for _, t := range done {
			if t.Receipt, err = s.receipt(ctx, tx, t.Slug); err != nil {
				return err
			}
			if t.Receipt != nil && t.Receipt.Attempt == t.Attempt {
				tasks = append(tasks, t)
			}
		}
		return nil
	})
	slices.SortStableFunc(tasks, func(a, b Task) int { return a.Receipt.Time.Compare(b.Receipt.Time) })
	return tasks, err
}
