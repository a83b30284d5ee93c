package backlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/gofrs/flock"
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
		retry_count = COALESCE(retry_count, 0) + 1, fail_reason = ?, updated_at = datetime('now'),`

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

// HoldAgent shows that an agent lives for as long as this process does, or
// until release is called. The sign is a file lock, which the kernel takes
// back from a process that was killed.
func (s *Store) HoldAgent(id string) (release func() error, err error) {
	if !agentIDs.MatchString(id) {
		return nil, fmt.Errorf("agent '%s' is no agent's id", id)
	}
	dir := filepath.Join(filepath.Dir(s.path), "agents")
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("marking agent %s as alive: %w", id, err)
	}
	lock, err := s.agentLock(id)
	if err != nil {
		return nil, err
	}
	held, err := lock.TryLock()
	switch {
	case err != nil:
		return nil, fmt.Errorf("marking agent %s as alive: %w", id, err)
	case !held:
		return nil, fmt.Errorf("agent %s is held by another process", id)
	}
	return func() error { return errors.Join(os.Remove(lock.Path()), lock.Unlock()) }, nil
}

var agentIDs = regexp.MustCompile(`^[0-9a-f]{4}$`)

// agentLock names the lock of an agent. Symbolic links are refused: a
// repository could use them to have files written elsewhere.
func (s *Store) agentLock(id string) (*flock.Flock, error) {
	dir := filepath.Join(filepath.Dir(s.path), "agents")
	path := filepath.Join(dir, id+".lock")
	for _, p := range []string{dir, path} {
		if info, err := os.Lstat(p); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return nil, fmt.Errorf("%s is a symbolic link, and ralph only writes inside the repository. Remove the link", p)
		}
	}
	return flock.New(path), nil
}

// Alive says whether a process is known to hold an agent now.
func (s *Store) Alive(id string) bool {
	if !agentIDs.MatchString(id) {
		return false
	}
	lock, err := s.agentLock(id)
	if err != nil {
		return false
	}
	if _, err := os.Lstat(lock.Path()); err != nil {
		return false
	}
	free, err := lock.TryRLock()
	if free {
		_ = lock.Unlock()
	}
	return err == nil && !free
}

// Released is a task that a dead agent had held.
type Released struct{ Agent, Slug string }

const reasonDead = "agent process died"

// ReleaseDead gives back the tasks of agents that were held by a process of
// this host which is gone, and marks these agents as stopped. Agents that no
// process ever held are left alone: nothing can be said of them.
func (s *Store) ReleaseDead(ctx context.Context, hostname string) ([]Released, error) {
	agents, err := s.Agents(ctx)
	if err != nil {
		return nil, err
	}
	var all []Released
	for _, a := range agents {
		if a.Hostname != hostname || !agentIDs.MatchString(a.ID) {
			continue
		}
		released, err := s.releaseIfDead(ctx, a.ID)
		if err != nil {
			return all, err
		}
		all = append(all, released...)
	}
	return all, nil
}

// releaseIfDead keeps the dead agent's lock while it works, so that of several
// processes one does.
func (s *Store) releaseIfDead(ctx context.Context, id string) (released []Released, err error) {
	lock, err := s.agentLock(id)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(lock.Path()); err != nil {
		return nil, nil // never held, or somebody else is done with it
	}
	if dead, err := lock.TryLock(); err != nil || !dead {
		return nil, nil // alive, as far as can be told
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	err = s.write(ctx, func(tx *sql.Tx) error {
		released = nil
		err := each(ctx, tx, reopen+` result = result
			WHERE scope_repo = ? AND scope_branch = ? AND status = 'active' AND assignee = ? RETURNING slug`,
			[]any{reasonDead, s.scope.Repo, s.scope.Branch, id}, func(rows *sql.Rows) error {
				r := Released{Agent: id}
				err := rows.Scan(&r.Slug)
				released = append(released, r)
				return err
			})
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE agents SET status = 'stopped' WHERE id = ? AND scope_repo = ? AND scope_branch = ?",
			id, s.scope.Repo, s.scope.Branch)
		return err
	})
	if err != nil {
		return nil, err
	}
	return released, os.Remove(lock.Path())
}
