// Package backlog keeps the tasks of a repository: their life cycle, their
// dependencies, the leases by which agents hold them, and the agents
// themselves. Everything lives in one SQLite file, which several processes,
// on the host and in containers, may use at the same time.
//
// A [Store] sees one [Scope] only. The package knows nothing of command lines
// or of printing.
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
	StatusOpen    = "open"
	StatusActive  = "active"
	StatusDone    = "done"
	StatusDeleted = "deleted"
)

const (
	// DefaultPriority is the priority of a task that names none; lower is
	// more urgent.
	DefaultPriority = 2
	// DefaultLease is how long a claim lasts when nobody says otherwise.
	DefaultLease = 600 * time.Second
)

// Scope is what separates the tasks in one database: the same slug may exist
// once in each scope.
type Scope struct {
	Repo   string // usually owner/repo
	Branch string
}

// Store is the backlog of one scope. It is safe for use by several
// goroutines. Every change is one transaction, all or nothing.
//
// Methods return [ErrLocked] when other processes hold the database for too
// long, and errors that wrap [ErrNotFound] for tasks and agents that the scope
// does not have.
type Store struct {
	db    *sql.DB
	path  string
	scope Scope
	wait  backoff
	fence fence
}

// Open opens the task database at path and makes sure that its tables exist.
// The folder is created if missing, with a .gitignore that hides it from git.
// A database that this package cannot use safely is refused and left as it is.
func Open(ctx context.Context, path string, scope Scope) (*Store, error) {
	return open(ctx, path, scope, defaultBackoff())
}

func open(ctx context.Context, path string, scope Scope, wait backoff) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("finding the task database: %w", err)
	}
	if err := prepareFolder(path); err != nil {
		return nil, err
	}
	plain, err := sqlite.NewConnector(dataSource(path, wait.attempt))
	if err != nil {
		return nil, fmt.Errorf("opening task database %s: %w", path, err)
	}
	db := sql.OpenDB(connector{plain})
	// One connection is enough for a process, and it can never wait for a
	// lock of its own siblings.
	db.SetMaxOpenConns(1)
	s := &Store{db: db, path: path, scope: scope, wait: wait}
	if err := s.prepareSchema(ctx); err != nil {
		_ = db.Close() // the first error says more
		return nil, err
	}
	if err := s.adopt(ctx); err != nil {
		_ = db.Close() // the first error says more
		return nil, err
	}
	return s, nil
}

// Close releases the database. The last process to close it folds the
// write-ahead log back into the file.
func (s *Store) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("closing task database %s: %w", s.path, err)
	}
	return nil
}

// Scope returns the scope that the store was opened for.
func (s *Store) Scope() Scope { return s.scope }
