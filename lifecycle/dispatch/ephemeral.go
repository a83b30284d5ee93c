package dispatch

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// ephemeralSuffix is the length of what makes such a name its own, with a dash.
const ephemeralSuffix = 9

// ephemeralName makes a name of its own for a sandbox that lives for one
// dispatch, within the length that all drivers accept.
func ephemeralName(name string) string {
	return ephemeralBase(name) + "-" + strings.ToLower(rand.Text()[:ephemeralSuffix-1])
}

func ephemeralBase(name string) string {
	if limit := 63 - ephemeralSuffix; len(name) > limit {
		name = strings.TrimRight(name[:limit], "-")
	}
	return name
}

// isEphemeralOf says whether a name can be that of a sandbox for one dispatch,
// where the scope's own sandbox has the name of.
func isEphemeralOf(name, of string) bool {
	suffix, ok := strings.CutPrefix(name, ephemeralBase(of)+"-")
	return ok && len(suffix) == ephemeralSuffix-1 && !strings.Contains(suffix, "-")
}

// discard removes a sandbox that was made for one dispatch, also when the user has
// interrupted it. If its commits were not fetched at the end, that is done before;
// if it cannot be done, the sandbox stays, and the next dispatch tries again.
func (h Host) discard(ctx context.Context, at place, wt gitrepo.Worktree, sb lifecycle.Sandbox, fetched bool) error {
	ctx = context.WithoutCancel(ctx)
	if !fetched {
		if err := h.save(at, wt)(ctx, sb); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return at.driver.Remove(ctx, sb)
}

// sweep removes sandboxes for one dispatch whose dispatch was killed. A live
// dispatch holds the lock that is returned for this one; a killed one has let
// go of it, but what it started may still be at work.
func (h Host) sweep(ctx context.Context, driver lifecycle.Driver, spec lifecycle.Spec, save func(context.Context, lifecycle.Sandbox) error) (*flock.Flock, error) {
	all, err := driver.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, sb := range all {
		if sb.Ephemeral && sb.Scope == spec.Scope && sb.Root == spec.Root {
			if err := h.sweepOne(ctx, driver, sb, save); err != nil {
				return nil, err
			}
		}
	}
	alive, ok, err := h.alive(spec.Name)
	if err == nil && !ok {
		err = fmt.Errorf("the name %s is taken by another dispatch: try again", spec.Name)
	}
	return alive, err
}

func (h Host) sweepOne(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox, save func(context.Context, lifecycle.Sandbox) error) error {
	lock, dead, err := h.alive(sb.Name)
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
func (h Host) alive(name string) (lock *flock.Flock, taken bool, err error) {
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
