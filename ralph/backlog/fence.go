package backlog

import (
	"context"
	"database/sql"
	"slices"
)

// fence restricts what a store changes.
type fence struct {
	attempts map[string]int // by slug
	agent    *string        // nil: a user
	limited  bool           // to a part of the database
}

// Limited returns a store that does not let the database grow above half of its maximum size. An agent that fills it up
// leaves room for its loop, and for users.
func (s *Store) Limited() *Store {
	limited := *s
	limited.fence.limited = s.maxPages > 0
	return &limited
}

// limit is f with the limit of the store.
func (s *Store) limit(ctx context.Context, f func(*sql.Tx) error) func(*sql.Tx) error {
	if !s.fence.limited {
		return f
	}
	return func(tx *sql.Tx) error {
		before, err := usedPages(ctx, tx)
		if err == nil {
			err = f(tx)
		}
		if err != nil {
			return err
		}
		used, err := usedPages(ctx, tx)
		if err == nil && used > before && used > s.maxPages/2 {
			err = faultf(ErrTooLarge, "task database %s has reached the size limit of agents", s.path)
		}
		return err
	}
}

func usedPages(ctx context.Context, tx *sql.Tx) (used int, err error) {
	err = tx.QueryRowContext(ctx, "SELECT p.page_count - f.freelist_count FROM pragma_page_count p, pragma_freelist_count f").Scan(&used)
	return used, err
}

// Fence returns a store whose Renew, Done, Finish, Fail, Ask and Block return [ErrLost] for a task that has been claimed again
// since this attempt.
func (s *Store) Fence(slug string, attempt int) *Store {
	fenced := *s
	fenced.fence.attempts = map[string]int{slug: attempt}
	return &fenced
}

// As returns a store for an agent: it changes only tasks that the agent holds, and limits the size of new ones.
func (s *Store) As(agent string) *Store {
	restricted := *s
	restricted.fence.agent = &agent
	return &restricted
}

// checkFence returns [ErrLost] for a task that was claimed again since the attempt of the store, and, in the store of an
// agent, an error for one that the agent does not hold: it is active, or has one of the other statuses.
func (s *Store) checkFence(ctx context.Context, tx *sql.Tx, id, slug string, others ...string) error {
	attempt, fenced := s.fence.attempts[slug]
	if !fenced && s.fence.agent == nil {
		return nil
	}
	var now int
	var assignee, status string
	err := tx.QueryRowContext(ctx, `SELECT COALESCE(CAST(attempt AS INTEGER), 0), COALESCE(assignee, ''), COALESCE(status, '')
		FROM tasks WHERE id = ?`, id).Scan(&now, &assignee, &status)
	switch {
	case err != nil:
		return err
	case fenced && now != attempt:
		return faultf(ErrLost, "attempt %d of task '%s' was superseded by attempt %d", attempt, slug, now)
	case s.fence.agent == nil:
		return nil
	case status != StatusActive && !slices.Contains(others, status):
		return notActive(slug, status)
	case assignee != *s.fence.agent:
		return faultf(ErrLost, "task '%s' is held by agent '%s'", slug, assignee)
	}
	return nil
}

const (
	maxSlug = 256       // in bytes, of an agent's task
	maxText = 256 << 10 // in bytes, of a field
)

// checkSize limits the size of a task that an agent creates.
func (s *Store) checkSize(t NewTask) error {
	if s.fence.agent == nil {
		return nil
	}
	if len(t.Slug) > maxSlug {
		return faultf(ErrTooLarge, "task ID is longer than %d bytes", maxSlug)
	}
	size := 0
	for _, text := range append([]string{t.Title, t.Description, t.Category, t.SpecRef, t.Ref}, append(t.Steps, t.Deps...)...) {
		size += len(text)
	}
	if size > maxText {
		return faultf(ErrTooLarge, "task '%s' is larger than %d bytes", t.Slug, maxText)
	}
	return nil
}
