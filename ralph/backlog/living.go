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

// An agent lives as long as some process holds the lock of the file
// .ralph/agents/<id>.lock. The kernel takes a lock back when its process ends,
// however it ends.
//
// Locks are seen by all processes of one kernel: on the host and in all of its
// containers. They may not be seen through the file sharing of a virtual
// machine. That is why only agents of one's own host name are judged, and each
// container has a name of its own.

// Hold shows that an agent lives for as long as this process does, or until it
// is released.
type Hold struct {
	store *Store
	id    string
	lock  *flock.Flock
	file  fs.FileInfo // of the lock
}

// HoldAgent shows that an agent lives.
func (s *Store) HoldAgent(id string) (*Hold, error) {
	h := &Hold{store: s, id: id}
	if err := h.take(); err != nil {
		return nil, err
	}
	return h, nil
}

// Release ends the sign of life.
func (h *Hold) Release() error { return h.store.drop(h.lock) }

// Restore gives the sign of life again if its file is not there any more, or is
// another one.
func (h *Hold) Restore() error {
	if there, err := os.Lstat(h.lock.Path()); err == nil && os.SameFile(h.file, there) {
		return nil
	}
	if info, err := os.Lstat(h.store.agentsDir()); err == nil && !info.IsDir() {
		if err := os.Remove(h.store.agentsDir()); err != nil {
			return fmt.Errorf("marking agent %s as alive: %w", h.id, err)
		}
	}
	if err := os.RemoveAll(h.lock.Path()); err != nil {
		return fmt.Errorf("marking agent %s as alive: %w", h.id, err)
	}
	_ = h.lock.Close() // its file is gone
	return h.take()
}

func (h *Hold) take() error {
	s, id := h.store, h.id
	if !agentIDs().MatchString(id) {
		return fmt.Errorf("invalid agent ID '%s'", id)
	}
	if err := os.Mkdir(s.agentsDir(), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("marking agent %s as alive: %w", id, err)
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
		return fmt.Errorf("marking agent %s as alive: %w", id, err)
	}
	return nil
}

var agentIDs = lazyregexp.New(`^[0-9a-f]{4}$`)

func (s *Store) agentsDir() string { return filepath.Join(filepath.Dir(s.path), "agents") }

// guarded runs f while no other process makes, tests or removes a lock file.
// Between making a file and locking it a live agent would look like a dead
// one, and a file that has just been removed can still be locked.
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

// guardTimeout bounds the wait for the guard. It is normally held for less than a
// millisecond, but an agent can hold it on purpose.
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

// lockFile names a file to lock. Symbolic links are refused: a repository
// could use them to have files written elsewhere. To open a pipe could take
// for ever.
func (s *Store) lockFile(name string) (*flock.Flock, error) {
	path := filepath.Join(s.agentsDir(), name)
	for _, p := range []string{s.agentsDir(), path} {
		info, err := os.Lstat(p)
		switch {
		case err != nil: // it need not exist
		case info.Mode()&fs.ModeSymlink != 0:
			return nil, hint.Wrap(fmt.Errorf("%s is a symbolic link", p), "remove it")
		case p == path && !info.Mode().IsRegular():
			return nil, hint.Wrap(fmt.Errorf("%s is not a regular file", p), "remove it")
		}
	}
	return flock.New(path), nil
}

// Alive says whether a process is known to hold an agent now.
func (s *Store) Alive(id string) bool {
	lock, free, err := s.tryAgent(id)
	if free {
		_ = lock.Close() // nothing was written
	}
	return err == nil && lock != nil && !free
}

// tryAgent takes the lock of an agent that no process holds. The lock is nil
// if none ever held the agent, or if it has been let go.
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

// Released is a task that a dead agent had held.
type Released struct{ Agent, Slug string }

const reasonDead = "agent process died"

// ReleaseDead gives back the tasks of agents that were held by a process of
// this host which is gone, and marks these agents as stopped. Agents that no
// process ever held are left alone: nothing can be said of them.
func (s *Store) ReleaseDead(ctx context.Context, hostname string) ([]Released, error) {
	agents, err := s.Agents(ctx)
	if err == nil {
		err = s.write(ctx, func(tx *sql.Tx) error { return s.parkExpired(ctx, tx) })
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
			return all, fmt.Errorf("checking whether agent %s is alive: %w", a.ID, err)
		}
		if !dead {
			continue
		}
		// The lock is kept meanwhile, so that of several processes one does it.
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
		// Its loop did not come to look at what it has deleted.
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
