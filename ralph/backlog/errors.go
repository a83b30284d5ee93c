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
	"github.com/docker-ralph/docker-ralph/ralph/diskspace"
)

var (
	// ErrNotFound is wrapped by every error about a task, dependency or agent
	// that the scope does not have.
	ErrNotFound = errors.New("not found")
	// ErrNoneEligible says that no task can be claimed now.
	ErrNoneEligible = errors.New("no task can be claimed")
	// ErrNotEligible says that the wanted task cannot be claimed now: it is
	// unknown, blocked, done, deleted or held by somebody else.
	ErrNotEligible = errors.New("task cannot be claimed")
	// ErrNotActive is wrapped when a task is not active where it must be.
	ErrNotActive = errors.New("task is not active")
	// ErrNotAssignee is wrapped when somebody else holds the task.
	ErrNotAssignee = errors.New("not the assignee")
	// ErrLost is wrapped when the task has been claimed anew since the caller
	// claimed it: the caller's work does not count any more.
	ErrLost = errors.New("claimed by another agent")
	// ErrDamaged is wrapped when the database is none of ours, or cannot be read.
	ErrDamaged = errors.New("database is damaged")
	// ErrLocked says that other processes held the database for too long.
	ErrLocked = errors.New("database is locked")
)

// fault is an error with a kind for programs and a text for people.
type fault struct {
	kind error
	text string
}

func (f *fault) Error() string { return f.text }
func (f *fault) Unwrap() error { return f.kind }

func faultf(kind error, format string, args ...any) error {
	return &fault{kind: kind, text: fmt.Sprintf(format, args...)}
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

// unusable reports a database that must be restored.
func unusable(format string, args ...any) error {
	return hint.Wrap(faultf(ErrDamaged, format, args...),
		`restore a copy with "docker ralph task restore", or move it away to start with an empty backlog`)
}

// explain adds hints to errors of SQLite.
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
	if code == sqlite3.SQLITE_FULL || code == sqlite3.SQLITE_IOERR && diskspace.Full(filepath.Dir(s.path)) != "" {
		return hint.Wrap(faultf(syscall.ENOSPC, "writing task database %s: no space left on device", s.path), "free some disk space")
	}
	return fmt.Errorf("using task database %s: %w", s.path, err)
}
