package backlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// CopyEnv names a copy of the database, which [OpenHere] opens in place of that of the worktree.
const CopyEnv = "RALPH_BACKLOG_COPY"

// CopyTo copies the database to a new file, which replaces an existing one.
func (s *Store) CopyTo(ctx context.Context, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("copying the backlog: %w", err)
	}
	err := s.wait.retry(ctx, func() error {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		_, err := s.db.ExecContext(ctx, "VACUUM INTO ?", path)
		return err
	})
	if err = s.explain(ctx, err); err != nil {
		return fmt.Errorf("copying the backlog: %w", err)
	}
	return nil
}

// OpenCopy opens the copy of a worktree's database, whose root is top.
func OpenCopy(ctx context.Context, path, top string, scope Scope) (*Store, error) {
	s, err := OpenHost(ctx, path, scope)
	if err != nil {
		return nil, err
	}
	s.top = top
	return s, nil
}
