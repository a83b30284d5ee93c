package projectimage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// lockPoll is the interval of attempts to take a lock.
const lockPoll = 100 * time.Millisecond

// lock takes the lock of tag, so that only one process builds an image. The file stays:
// otherwise two processes could lock two files.
func (b *Builder) lock(ctx context.Context, tag string) (unlock func(), _ error) {
	return b.wait(ctx, tag, (*flock.Flock).TryLock, (*flock.Flock).TryLockContext)
}

// share takes a shared lock of tag: the image is neither rebuilt nor removed until release is
// called.
func (b *Builder) share(ctx context.Context, tag string) (release func(), _ error) {
	return b.wait(ctx, tag, (*flock.Flock).TryRLock, (*flock.Flock).TryRLockContext)
}

// tryLock takes the lock of tag if it is free.
func (b *Builder) tryLock(tag string) (unlock func(), free bool, _ error) {
	lock, err := b.lockFile(tag)
	if err != nil {
		return nil, false, err
	}
	free, err = lock.TryLock()
	if err != nil || !free {
		_ = lock.Close()
	}
	if err != nil {
		return nil, false, fmt.Errorf("locking image %q with %s: %w", tag, lock.Path(), err)
	}
	return func() { _ = lock.Close() }, free, nil
}

// wait takes a lock with try, or reports that it waits.
func (b *Builder) wait(ctx context.Context, tag string, try func(*flock.Flock) (bool, error),
	poll func(*flock.Flock, context.Context, time.Duration) (bool, error),
) (unlock func(), _ error) {
	lock, err := b.lockFile(tag)
	if err != nil {
		return nil, err
	}
	unlock = func() { _ = lock.Close() }
	locked, err := try(lock)
	if err != nil {
		return nil, fmt.Errorf("locking image %q with %s: %w", tag, lock.Path(), err)
	}
	if locked {
		return unlock, nil
	}
	b.Progress.notice("waiting for another docker ralph to build image %s", tag)
	if _, err := poll(lock, ctx, lockPoll); err != nil {
		unlock()
		return nil, fmt.Errorf("waiting for the lock of image %q (%s): %w", tag, lock.Path(), err)
	}
	return unlock, nil
}

func (b *Builder) lockFile(tag string) (*flock.Flock, error) {
	if err := os.MkdirAll(b.LockDir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the lock directory: %w", err)
	}
	sum := sha256.Sum256([]byte(b.Engine.DaemonHost())) // others have images of their own
	name := strings.NewReplacer(":", "-", "/", "-").Replace(tag) + "-" + hex.EncodeToString(sum[:4])
	return flock.New(filepath.Join(b.LockDir, "image-"+name+".lock")), nil
}

// ensureShared ensures an agent image, and keeps it unchanged until release is called.
func (b *Builder) ensureShared(ctx context.Context, agent buildSpec, req Request) (_ Image, release func(), _ error) {
	for {
		image, err := b.ensureBuilt(ctx, agent, req)
		if err != nil {
			return Image{}, nil, err
		}
		if release, err = b.share(ctx, agent.tag); err != nil {
			return Image{}, nil, err
		}
		current, found, err := b.lookupBuilt(ctx, agent)
		if err == nil && found {
			current.Built = image.Built
			return current, release, nil
		}
		release()
		if err != nil {
			return Image{}, nil, err
		}
		// It was removed since; what was forced has been done.
		req.Rebuild, req.Pull, req.NoCache, req.Again = false, false, false, false
	}
}
