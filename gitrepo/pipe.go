package gitrepo

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/docker-ralph/docker-ralph/hint"
)

// pipeDelay is after how long a git process may be blocked by a named pipe. The search for
// one reads every directory.
const pipeDelay = time.Second

// PipeError names a file of a working tree that blocks git.
type PipeError struct{ Path string }

func (e *PipeError) Error() string {
	return fmt.Sprintf("git is blocked by %s: not a regular file", e.Path)
}

// Unwrap makes it a timeout.
func (e *PipeError) Unwrap() error { return context.DeadlineExceeded }

// AtPipe calls run, which makes git read a working tree, and cancels it with a [*PipeError]
// if an agent has created a named pipe or a device where git opens a file.
func AtPipe[T any](ctx context.Context, root string, run func(context.Context) (T, error)) (T, error) {
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(pipeDelay, func() {
		if path := pipe(limited, root); path != "" {
			cancel(&PipeError{Path: path})
		}
	})
	defer timer.Stop()
	result, err := run(limited)
	if found, ok := context.Cause(limited).(*PipeError); ok && err != nil { //nolint:errorlint // the cause is not wrapped
		err = hint.Wrap(found, "remove it")
	}
	return result, err
}

// pipe returns a named pipe or device below root that git would open; empty for none.
func pipe(ctx context.Context, root string) string {
	found := ""
	_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return fs.SkipAll
		case err != nil:
			return nil //nolint:nilerr // git cannot read it either
		case e.IsDir() && e.Name() == ".git":
			return fs.SkipDir
		case e.Type()&(fs.ModeNamedPipe|fs.ModeDevice) == 0:
			return nil
		}
		switch e.Name() {
		case ".gitattributes", ".gitignore", ".gitmodules":
			found = path
			return fs.SkipAll
		}
		return nil
	})
	return found
}
