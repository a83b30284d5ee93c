package gitrepo

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"
)

// A git process that has not answered for pipeDelay may wait at a named pipe. It is
// looked for then, because the search reads every folder.
const pipeDelay = time.Second

// PipeError names a file of a working tree that git would wait at for ever.
type PipeError struct{ Path string }

func (e *PipeError) Error() string {
	return fmt.Sprintf("git waits for ever at %s, which is no regular file: remove it", e.Path)
}

// Unwrap makes it a timeout: that is what it would become.
func (e *PipeError) Unwrap() error { return context.DeadlineExceeded }

// AtPipe calls run, which has git read the files of a working tree, and cancels it
// with a [*PipeError] if an agent has put a named pipe or a device where git opens
// a file.
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
	if found, ok := context.Cause(limited).(*PipeError); ok && err != nil { //nolint:errorlint // it is the cause itself
		err = found
	}
	return result, err
}

// pipe returns a file below root that git would open and that is neither a regular
// file nor a folder nor a link; empty for none.
func pipe(ctx context.Context, root string) string {
	found := ""
	_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return fs.SkipAll
		case err != nil:
			return nil //nolint:nilerr // what cannot be read, git cannot read either
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
