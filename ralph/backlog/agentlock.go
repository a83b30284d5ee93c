package backlog

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// An agent is alive while a process holds the lock of .ralph/agents/<id>.lock.
// The kernel releases the lock when the process ends.
//
// Locks work between the host and its containers, but not necessarily across the
// file sharing of a virtual machine. So only agents with the caller's host name
// are checked; each container has its own.

// AgentLock is the lock of a live agent. The end of the process releases it.
type AgentLock struct {
	store *Store
	id    string
	file  *os.File
}

// LockAgent locks an agent.
func (s *Store) LockAgent(id string) (*AgentLock, error) {
	if !agentIDs().MatchString(id) {
		return nil, fmt.Errorf("locking agent %s: invalid agent ID", id)
	}
	h := &AgentLock{store: s, id: id}
	return h, h.take(false)
}

// Release releases the lock.
func (h *AgentLock) Release() error { return h.store.dropLock(h.id, h.file) }

// Restore locks the agent again if the lock file was removed or replaced.
func (h *AgentLock) Restore() error {
	mine, err := h.file.Stat()
	if err != nil {
		return fmt.Errorf("locking agent %s: %w", h.id, err)
	}
	current, err := os.Lstat(filepath.Join(filepath.Dir(h.store.path), lockName(h.id)))
	if err == nil && os.SameFile(mine, current) {
		return nil
	}
	_ = h.file.Close() // it was removed
	return h.take(true)
}

// take creates the lock file under another name, so that other processes never see it
// unlocked. With replace it removes what an agent has put in its place.
func (h *AgentLock) take(replace bool) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("locking agent %s: %w", h.id, err)
		}
	}()
	dir, err := h.store.dir()
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if info, err := dir.Lstat(lockDir); replace && err == nil && !info.IsDir() {
		_ = dir.Remove(lockDir) // or else Mkdir fails
	}
	if err := dir.Mkdir(lockDir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	name := lockName(h.id)
	if replace {
		_ = dir.RemoveAll(name) // or else Rename fails
	}
	temp := name + "." + rand.Text()
	if h.file, err = dir.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644); err != nil {
		return err
	}
	err = unix.Flock(int(h.file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = dir.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, dir.Remove(temp), h.file.Close())
	}
	return nil
}

var agentIDs = lazyregexp.New(`^[0-9a-f]{4}$`)

// lockDir is the directory of the locks, beside the database.
const lockDir = "agents"

func lockName(id string) string { return lockDir + "/" + id + ".lock" }

// dir opens the database's directory. A repository could have symbolic links in it to
// have files written elsewhere.
func (s *Store) dir() (*os.Root, error) { return os.OpenRoot(filepath.Dir(s.path)) }

// dropLock releases a lock and removes its file.
func (s *Store) dropLock(id string, lock *os.File) error {
	dir, err := s.dir()
	if err == nil {
		err = errors.Join(dir.Remove(lockName(id)), dir.Close())
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, lock.Close())
}

// errHeld is returned for an agent that another process holds.
var errHeld = errors.New("held by another process")

// tryAgent locks an agent, or returns [errHeld]. The file is nil if the agent has no
// lock file.
func (s *Store) tryAgent(id string, how int) (*os.File, error) {
	if !agentIDs().MatchString(id) {
		return nil, nil
	}
	dir, err := s.dir()
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	lock, err := dir.OpenFile(lockName(id), os.O_RDONLY|unix.O_NONBLOCK, 0) // it could be a pipe
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err = unix.Flock(int(lock.Fd()), how|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		err = errHeld
	}
	if err != nil {
		_ = lock.Close() // not locked
		return nil, err
	}
	return lock, nil
}

// Alive reports whether a process holds the lock of an agent.
func (s *Store) Alive(id string) bool {
	lock, err := s.tryAgent(id, unix.LOCK_SH)
	if lock != nil {
		_ = lock.Close() // nothing was written
	}
	return errors.Is(err, errHeld)
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
		lock, err := s.tryAgent(a.ID, unix.LOCK_EX)
		if errors.Is(err, errHeld) || err == nil && lock == nil {
			continue
		}
		if err != nil {
			return all, fmt.Errorf("checking agent %s: %w", a.ID, err)
		}
		// The lock excludes other processes that release this agent.
		released, err := s.releaseAll(ctx, a.ID)
		if err != nil {
			return all, errors.Join(err, lock.Close())
		}
		all = append(all, released...)
		if err := s.dropLock(a.ID, lock); err != nil {
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
