// Package backlog stores the tasks of a repository, their dependencies and
// leases, and the agents that work on them, in one SQLite file. Several
// processes, on the host and in containers, can use it at the same time.
//
// A [Store] sees one [Scope] only.
package backlog

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"time"

	"modernc.org/sqlite"
)

// The states of a task. Done is final for [Store.Update] and [Store.Sync].
const (
	StatusOpen   = "open"
	StatusActive = "active"
	// StatusFinished: the agent of a loop reports it as done, and still holds it until [Store.Accept].
	StatusFinished = "finished"
	StatusDone     = "done"
	StatusDeleted  = "deleted"
)

const (
	// DefaultPriority is the default priority of a task; lower is more urgent.
	DefaultPriority = 2
	// DefaultLease is the default duration of a claim.
	DefaultLease = 600 * time.Second
)

// Scope separates the tasks in one database. A slug is unique within its scope.
type Scope struct {
	Repo   string // usually owner/repo
	Branch string
}

// Store is the backlog of one scope. It is safe for use by several
// goroutines. Every change is one transaction, all or nothing.
//
// Methods return [ErrLocked] when the database stays locked by other processes,
// and errors that wrap [ErrNotFound] for unknown tasks and agents.
type Store struct {
	db    *sql.DB
	path  string
	top   string // of the worktree, if the database is not in it
	scope Scope
	wait  backoff
	fence fence
	// maxPages limits the size of the database, unless it is 0.
	maxPages int
}

// Path returns the path of the database.
func (s *Store) Path() string { return s.path }

// Top returns the root of the worktree of the database.
func (s *Store) Top() string {
	if s.top != "" {
		return s.top
	}
	return filepath.Dir(filepath.Dir(s.path))
}

// Open opens the task database at path and creates missing tables. A missing
// directory is created, with a .gitignore that hides it from git. An
// incompatible database is an error and is not changed.
func Open(ctx context.Context, path string, scope Scope) (*Store, error) {
	if err := prepareDir(path); err != nil {
		return nil, err
	}
	if err := hideFromGit(filepath.Dir(path)); err != nil {
		return nil, err
	}
	return open(ctx, path, scope, defaultBackoff(), 0)
}

const (
	// maxDatabase bounds the size of a database of the host, in bytes.
	maxDatabase = 256 << 20
	// pageSize is SQLite's default.
	pageSize = 4096
)

// OpenHost is Open for a database outside of a worktree, which agents fill only through this program. Its size is limited.
func OpenHost(ctx context.Context, path string, scope Scope) (*Store, error) {
	if err := prepareDir(path); err != nil {
		return nil, err
	}
	return open(ctx, path, scope, defaultBackoff(), maxDatabase/pageSize)
}

// open opens a database, which has at most maxPages unless that is 0.
func open(ctx context.Context, path string, scope Scope, wait backoff, maxPages int) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("locating the task database: %w", err)
	}
	connector, err := sqlite.NewConnector(dataSource(path, wait.busyTimeout, maxPages))
	if err != nil {
		return nil, fmt.Errorf("opening task database %s: %w", path, err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1) // several would wait for each other's locks
	s := &Store{db: db, path: path, scope: scope, wait: wait, maxPages: maxPages}
	err = s.prepareSchema(ctx)
	if err == nil {
		err = s.migrateScope(ctx)
	}
	if err != nil {
		_ = db.Close() // the first error says more
		return nil, err
	}
	return s, nil
}

// Close closes the database. The last process to close it checkpoints the
// write-ahead log.
func (s *Store) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("closing task database %s: %w", s.path, err)
	}
	return nil
}

// Scope returns the scope that the store was opened for.
func (s *Store) Scope() Scope { return s.scope }
