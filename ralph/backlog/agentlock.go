package backlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// An agent is alive while a process holds the lock of .ralph/agents/<id>.lock.
// The kernel releases the lock when the process ends.
//
// Locks work between the host and its containers, but not necessarily across the
// file sharing of a virtual machine. So only agents with the caller's host name
// are checked; each container has its own.

// Hold is the lock of a live agent. The end of the process releases it.
type Hold struct {
	store *Store
	id    string
	lock  *flock.Flock
	file  fs.FileInfo // of the lock
}

// HoldAgent locks an agent.
func (s *Store) HoldAgent(id string) (*Hold, error) {
	h := &Hold{store: s, id: id}
	if err := h.take(); err != nil {
		return nil, err
	}
	return h, nil
}

// Release releases the lock.
func (h *Hold) Release() error { return h.store.drop(h.lock) }

// Restore locks the agent again if the lock file was removed or replaced.
func (h *Hold) Restore() error {
	if current, err := os.Lstat(h.lock.Path()); err == nil && os.SameFile(h.file, current) {
		return nil
	}
	var err error
	if info, statErr := os.Lstat(h.store.agentsDir()); statErr == nil && !info.IsDir() {
		err = os.Remove(h.store.agentsDir())
	}
	if err == nil {
		err = os.RemoveAll(h.lock.Path())
	}
	if err != nil {
		return fmt.Errorf("locking agent %s: %w", h.id, err)
	}
	_ = h.lock.Close() // the file was removed
	return h.take()
}

func (h *Hold) take() error {
	s, id := h.store, h.id
	if !agentIDs().MatchString(id) {
		return fmt.Errorf("invalid agent ID '%s'", id)
	}
	if err := os.Mkdir(s.agentsDir(), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("locking agent %s: %w", id, err)
	}
	err := s.guarded(func() error {
		lock, err := s.agentLock(id)
		if err != nil {
			return err
		}
		held, err := lock.TryLock()
		if err == nil && !held {
			err = errors.New("held by another process")
		}
		if err == nil {
			h.lock = lock
			h.file, err = os.Lstat(lock.Path())
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("locking agent %s: %w", id, err)
	}
	return nil
}

var agentIDs = lazyregexp.New(`^[0-9a-f]{4}$`)

func (s *Store) agentsDir() string { return filepath.Join(filepath.Dir(s.path), "agents") }

// guarded runs f while no other process creates, tests or removes a lock file:
// a new file is not locked at once, and a removed one can still be locked.
func (s *Store) guarded(f func() error) (err error) {
	guard, err := s.lockFile("guard")
	if err != nil {
		return err
	}
	if err := waitForLock(guard); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, guard.Close()) }()
	return f()
}

// guardTimeout bounds the wait for the guard, which an agent can hold on purpose.
const guardTimeout = 5 * time.Second

func waitForLock(lock *flock.Flock) error {
	for end := time.Now().Add(guardTimeout); ; <-time.After(time.Millisecond) {
		held, err := lock.TryLock()
		switch {
		case err != nil:
			return fmt.Errorf("locking %s: %w", lock.Path(), err)
		case held:
			return nil
		case time.Now().After(end):
			return hint.Wrap(fmt.Errorf("locking %s: held by another process", lock.Path()), "stop that process")
		}
	}
}

// drop releases a lock and removes its file.
func (s *Store) drop(lock *flock.Flock) error {
	return s.guarded(func() error {
		err := errors.Join(lock.Close(), os.Remove(lock.Path()))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the directory was removed
		}
		return err
	})
}

func (s *Store) agentLock(id string) (*flock.Flock, error) { return s.lockFile(id + ".lock") }

// lockFile returns a lock of the named file. Symbolic links are refused: a
// repository could use them to have files written elsewhere. Opening a pipe
// could block.
func (s *Store) lockFile(name string) (*flock.Flock, error) {
	path := filepath.Join(s.agentsDir(), name)
	for _, p := range []string{s.agentsDir(), path} {
		info, err := os.Lstat(p)
		switch {
		case err != nil: // it does not exist
		case info.Mode()&fs.ModeSymlink != 0:
			return nil, hint.Wrap(fmt.Errorf("%s is a symbolic link", p), "remove it")
		case p == path && !info.Mode().IsRegular():
			return nil, hint.Wrap(fmt.Errorf("%s is not a regular file", p), "remove it")
		}
	}
	return flock.New(path), nil
}

// Alive reports whether a process holds the lock of an agent.
func (s *Store) Alive(id string) bool {
	lock, free, err := s.tryAgent(id)
	if free {
		_ = lock.Close() // nothing was written
	}
	return err == nil && lock != nil && !free
}

// tryAgent locks an agent if no process does. The lock is nil if the agent has no
// lock file.
func (s *Store) tryAgent(id string) (lock *flock.Flock, free bool, err error) {
	if !agentIDs().MatchString(id) {
		return nil, false, nil
	}
	if _, err := os.Lstat(s.agentsDir()); err != nil {
		return nil, false, nil
	}
	err = s.guarded(func() error {
		named, err := s.agentLock(id)
		if err != nil {
			return err
		}
		if _, err := os.Lstat(named.Path()); err != nil {
			return nil
		}
		lock = named
		free, err = lock.TryLock()
		return err
	})
	return lock, free, err
}

// Released is a task released from a dead agent.
type Released struct{ Agent, Slug string }

const reasonDead = "agent process died"

// ReleaseDead reopens the tasks of dead agents of this host and marks these agents
// as stopped. Agents that were never locked are ignored.
func (s *Store) ReleaseDead(ctx context.Context, hostname string) ([]Released, error) {
	agents, err := s.Agents(ctx)
	if err == nil {
		err = s.write(ctx, func(tx *sql.Tx) error { return s.blockExpired(ctx, tx) })
	}
	if err != nil {
		return nil, err
	}
	var all []Released
	for _, a := range agents {
		if a.Hostname != hostname {
			continue
		}
		lock, dead, err := s.tryAgent(a.ID)
		if err != nil {
			return all, fmt.Errorf("checking agent %s: %w", a.ID, err)
		}
		if !dead {
			continue
		}
		// The lock excludes other processes that release this agent.
		released, err := s.releaseAll(ctx, a.ID)
		if err != nil {
			return all, errors.Join(err, lock.Close())
		}
		all = append(all, released...)
		if err := s.drop(lock); err != nil {
			return all, fmt.Errorf("removing the lock of agent %s: %w", a.ID, err)
		}
	}
	return all, nil
}

func (s *Store) releaseAll(ctx context.Context, id string) (released []Released, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		released = nil
		err := each(ctx, tx, reopen+`
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
		// The loop died before it could undo the agent's deletions.
		_, err = tx.ExecContext(ctx, `
			UPDATE tasks SET deleted_at = NULL, deleted_by = NULL, updated_at = datetime('now'),
				status = CASE WHEN result IS NOT NULL OR assignee <> ?3 THEN 'done' ELSE 'open' END,
				assignee = CASE WHEN result IS NOT NULL OR assignee <> ?3 THEN assignee END
			WHERE scope_repo = ?1 AND scope_branch = ?2 AND status = 'deleted' AND deleted_by = ?3`,
			s.scope.Repo, s.scope.Branch, id)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE agents SET status = 'stopped' WHERE id = ? AND scope_repo = ? AND scope_branch = ?",
			id, s.scope.Repo, s.scope.Branch)
		return err
	})
	return released, err
}
