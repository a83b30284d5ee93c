package gitsync

import (
	"context"
	"os"
	"os/exec"
	"time"

	"github.com/gofrs/flock"
)

// acquire waits for a lock.
func acquire(ctx context.Context, path string) (held *os.File, release func(), err error) {
	l := flock.New(path)
	if _, err := l.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		return nil, nil, err
	}
	return nil, func() { _ = l.Close() }, nil
}

// inherit does nothing: files cannot be handed over so.
func inherit(*exec.Cmd, *os.File) {}
