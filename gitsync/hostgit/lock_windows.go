package hostgit

import (
	"context"
	"os"
	"os/exec"
	"time"

	"github.com/gofrs/flock"
)

// Lock waits for a lock. Processes cannot inherit it.
func Lock(ctx context.Context, path string) (held *os.File, release func(), err error) {
	l := flock.New(path)
	if _, err := l.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		return nil, nil, err
	}
	return nil, func() { _ = l.Close() }, nil
}

func inherit(*exec.Cmd, *os.File) {}
