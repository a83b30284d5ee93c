package backlog

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/sysinfo"
)

var (
	// ErrNotFound is wrapped for an unknown task, dependency or agent.
	ErrNotFound = errors.New("not found")
	// ErrNoneEligible is returned if no task can be claimed.
	ErrNoneEligible = errors.New("no task can be claimed")
	// ErrNotEligible is returned if the named task cannot be claimed: it is
	// unknown, blocked, done, deleted or claimed by another agent.
	ErrNotEligible = errors.New("task cannot be claimed")
	// ErrNotActive is wrapped if a task is not active.
	ErrNotActive = errors.New("task is not active")
	// ErrNotDone is wrapped if a task is not done.
	ErrNotDone = errors.New("task is not done")
	// ErrNotAssignee is wrapped if the task is assigned to another agent.
	ErrNotAssignee = errors.New("not the assignee")
	// ErrLost is wrapped if the task has been claimed again since the caller
	// claimed it.
	ErrLost = errors.New("claimed by another agent")
	// ErrTooLarge is wrapped if an agent creates a task that is too large, or a database is.
	ErrTooLarge = errors.New("too large")
	// ErrDamaged is wrapped if the database is corrupt or incompatible.
	ErrDamaged = errors.New("database is damaged")
	// ErrLocked is returned if the database stays locked by other processes.
	ErrLocked = errors.New("database is locked")
)

// fault is an error of a kind with its own message.
type fault struct {
	kind    error
	message string
}

func (f *fault) Error() string { return f.message }
func (f *fault) Unwrap() error { return f.kind }

func faultf(kind error, format string, args ...any) error {
	return &fault{kind: kind, message: fmt.Sprintf(format, args...)}
}

func notActive(slug, status string) error {
	return faultf(ErrNotActive, "task '%s' is not active (status: %s)", slug, status)
}

func taskNotFound(slug string) error {
	return faultf(ErrNotFound, "task '%s' not found", slug)
}

// resultCode returns SQLite's primary result code, or 0 for other errors.
func resultCode(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff
}

func isBusy(err error) bool { return resultCode(err) == sqlite3.SQLITE_BUSY }

func (s *Store) damaged(why error) error {
	return unusable("task database %s is damaged: %s", s.path, why)
}

// unusable returns an error for a database that cannot be used.
func unusable(format string, args ...any) error {
	return hint.Wrap(faultf(ErrDamaged, format, args...),
		"move it away to start with an empty backlog")
}

// explain translates errors of SQLite and adds hints.
func (s *Store) explain(ctx context.Context, err error) error {
	code := resultCode(err)
	if code != 0 && ctx.Err() != nil {
		return fmt.Errorf("using task database %s: %w", s.path, context.Cause(ctx))
	}
	switch code {
	case 0:
		return err
	case sqlite3.SQLITE_BUSY:
		return ErrLocked
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return s.damaged(err)
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN:
		return hint.Wrap(fmt.Errorf("writing task database %s: %w", s.path, err), "check the owner and mode of the file and its directory")
	}
	full := sysinfo.FullDisk(filepath.Dir(s.path)) != ""
	if code == sqlite3.SQLITE_FULL && s.maxPages > 0 && !full {
		return faultf(ErrTooLarge, "task database %s has reached its size limit", s.path)
	}
	if code == sqlite3.SQLITE_FULL || code == sqlite3.SQLITE_IOERR && full {
		return hint.Wrap(faultf(syscall.ENOSPC, "writing task database %s: no space left on device", s.path), "free some disk space")
	}
	return fmt.Errorf("using task database %s: %w", s.path, err)
}
