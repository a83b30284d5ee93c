package projectimage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// lockPoll is how often a waiting process looks whether the lock is free.
const lockPoll = 100 * time.Millisecond

// lock takes the lock of tag, so that of several processes in need of one image
// only the first builds it. It waits until the lock is free or ctx ends. The
// lock file stays: removing it would let two processes lock two files.
func (b *Builder) lock(ctx context.Context, tag string) (unlock func(), _ error) {
	if err := os.MkdirAll(b.LockDir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder for image locks: %w", err)
	}
	path := filepath.Join(b.LockDir, "image-"+strings.NewReplacer(":", "-", "/", "-").Replace(tag)+".lock")
	lock := flock.New(path)
	unlock = func() { _ = lock.Close() }
	locked, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("locking image %q with %s: %w", tag, path, err)
	}
	if locked {
		return unlock, nil
	}
	b.Progress.notice("waiting for another docker ralph that builds image %s", tag)
	if _, err := lock.TryLockContext(ctx, lockPoll); err != nil {
		unlock()
		return nil, fmt.Errorf("waiting for the lock of image %q (%s): %w", tag, path, err)
	}
	return unlock, nil
}
