package run

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/gofrs/flock"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// discard removes a sandbox that was made for one dispatch, also when the user has
// interrupted it. If its commits were not fetched at the end, that is done before;
// if it cannot be done, the sandbox stays, and the next dispatch tries again.
func discard(ctx context.Context, h host.Host, t Target, sb lifecycle.Sandbox, fetched bool) error {
	ctx = context.WithoutCancel(ctx)
	if !fetched {
		if err := t.save(h)(ctx, sb); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return t.Driver.Remove(ctx, sb)
}

// sweep removes sandboxes for one dispatch whose dispatch was killed. A live
// dispatch holds the lock that is returned for this one; a killed one has let
// go of it, but what it started may still be at work.
func sweep(ctx context.Context, h host.Host, driver lifecycle.Driver, spec lifecycle.Spec, save func(context.Context, lifecycle.Sandbox) error) (*flock.Flock, error) {
	all, err := driver.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, sb := range all {
		if sb.Ephemeral && sb.Scope == spec.Scope && sb.Root == spec.Root {
			if err := sweepOne(ctx, h, driver, sb, save); err != nil {
				return nil, err
			}
		}
	}
	alive, ok, err := alive(h, spec.Name)
	if err == nil && !ok {
		err = fmt.Errorf("the name %s is taken by another dispatch: try again", spec.Name)
	}
	return alive, err
}

func sweepOne(ctx context.Context, h host.Host, driver lifecycle.Driver, sb lifecycle.Sandbox, save func(context.Context, lifecycle.Sandbox) error) error {
	lock, dead, err := alive(h, sb.Name)
	if err != nil || !dead {
		return err
	}
	defer func() { _ = lock.Close() }()
	if sb.State == lifecycle.Running {
		if busy, err := driver.Busy(ctx, sb); err != nil || busy {
			return err
		}
	}
	if err := save(ctx, sb); err != nil {
		return err
	}
	if err := driver.Remove(ctx, sb); err != nil {
		return err
	}
	_ = os.Remove(lock.Path())
	return nil
}

// alive takes the lock that shows that a sandbox's dispatch lives. It is not
// taken when another process holds it.
func alive(h host.Host, name string) (lock *flock.Flock, taken bool, err error) {
	dir := filepath.Join(h.StateDir, "locks")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, false, fmt.Errorf("making the folder for locks: %w", err)
	}
	lock = flock.New(filepath.Join(dir, name+".alive"))
	if taken, err = lock.TryLock(); err != nil {
		err = fmt.Errorf("locking %s: %w", lock.Path(), err)
	}
	return lock, taken, err
}

// enter attends the scope of a command that is about to run. A sandbox that is
// for this command alone is marked as such, and what earlier ones have left goes.
func enter(ctx context.Context, h host.Host, t Target) (leave func(), err error) {
	unattended, err := h.Attend(ctx, t.wt.Scope)
	if err != nil || !t.spec.Ephemeral {
		return unattended, err
	}
	alive, err := sweep(ctx, h, t.Driver, t.spec, t.save(h))
	if err != nil {
		unattended()
		return nil, err
	}
	return func() {
		_ = alive.Close()
		unattended()
	}, nil
}
