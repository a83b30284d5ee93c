package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/scopes"
)

// LockFile returns a file of the lock directory.
func (h Host) LockFile(name string) (*flock.Flock, error) {
	if err := os.MkdirAll(h.LockDir(), 0o700); err != nil {
		return nil, fmt.Errorf("creating the lock directory: %w", err)
	}
	return flock.New(filepath.Join(h.LockDir(), name)), nil
}

// forgetLocks removes the lock files of a sandbox whose name is not used again.
func (h Host) forgetLocks(sandbox string) {
	for _, name := range []string{setupLock(sandbox), agentLock(sandbox), BuildLock(sandbox), useLock(sandbox), scopes.LockFile(sandbox)} {
		_ = os.Remove(filepath.Join(h.LockDir(), name)) // it may not exist
	}
}

func setupLock(sandbox string) string { return sandbox + ".lock" }

// TryLockSandbox takes the lock of [lifecycle.Ensurer]; unlock is nil if it is held.
func (h Host) TryLockSandbox(name string) (unlock func(), err error) {
	return h.tryLock(setupLock(name))
}

func (h Host) tryLock(name string) (unlock func(), err error) {
	lock, err := h.LockFile(name)
	if err != nil {
		return nil, err
	}
	free, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", lock.Path(), err)
	}
	if !free {
		return nil, nil
	}
	return func() { _ = lock.Close() }, nil
}

// BuildLock is the name of the lock of the "build" that has its turn in a sandbox.
func BuildLock(sandbox string) string { return sandbox + ".build" }

// agentLock is the name of the lock that commands share while their agents work in a sandbox.
func agentLock(sandbox string) string { return sandbox + ".agents" }

// AgentKeys is the file that records which keys the proxy of a sandbox has.
func (h Host) AgentKeys(sandbox string) string {
	return filepath.Join(h.LockDir(), agentLock(sandbox))
}

// ShareAgents keeps other commands from repairing a sandbox under an agent that works in it,
// until leave is called. first is called before; if it is alone, no agent of another command
// works there, and none can start until it returns.
func (h Host) ShareAgents(ctx context.Context, sandbox string, first func(alone bool) error) (leave func(), err error) {
	lock, err := h.LockFile(agentLock(sandbox))
	if err != nil {
		return nil, err
	}
	leave = func() { _ = lock.Close() }
	alone, err := lockAny(ctx, lock)
	if err == nil {
		if err := first(alone); err != nil {
			leave()
			return nil, err
		}
		if alone {
			_ = lock.Unlock()
			_, err = lock.TryRLockContext(ctx, 10*time.Millisecond)
		}
	}
	if err != nil {
		leave()
		return nil, fmt.Errorf("locking %s: %w", lock.Path(), err)
	}
	return leave, nil
}

// lockAny locks a file exclusively or, if others share it, like them.
func lockAny(ctx context.Context, lock *flock.Flock) (exclusive bool, err error) {
	for {
		if exclusive, err = lock.TryLock(); err != nil || exclusive {
			return exclusive, err
		}
		if shared, err := lock.TryRLock(); err != nil || shared {
			return false, err
		}
		select { // a command that ends holds it while it fetches commits
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TryLockAgents keeps agents from starting in a sandbox until leave is called; leave is nil if
// one may work there.
func (h Host) TryLockAgents(sandbox string) (leave func(), err error) {
	return h.tryLock(agentLock(sandbox))
}

// useLock is the name of the lock that commands share while they use a sandbox.
func useLock(sandbox string) string { return sandbox + ".use" }

// Use is the use of a sandbox by a command: others do not stop or remove it.
type Use struct {
	sandbox string
	lock    *flock.Flock
}

// Leave ends the use.
func (u *Use) Leave() { _ = u.lock.Close() }

// Exclude keeps other commands from using the sandbox until done is called. It is an error if one
// does.
func (u *Use) Exclude() (done func(), err error) {
	// Not every system can convert a lock. The use has ended with an error.
	if err := u.lock.Unlock(); err != nil {
		return nil, fmt.Errorf("locking %s: %w", u.lock.Path(), err)
	}
	free, err := u.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", u.lock.Path(), err)
	}
	if !free {
		return nil, hint.Wrap(fmt.Errorf("keeping sandbox %s: another command is using it", u.sandbox), "wait for it, or stop it with %q", "docker ralph stop "+u.sandbox)
	}
	return func() {
		_ = u.lock.Unlock()
		_ = u.lock.RLock()
	}, nil
}

// LockShared keeps other commands from stopping or removing a sandbox until its use ends.
func (h Host) LockShared(ctx context.Context, sandbox string) (*Use, error) {
	lock, err := h.LockFile(useLock(sandbox))
	if err != nil {
		return nil, err
	}
	free, err := lock.TryRLock()
	if err == nil && !free {
		h.Report("Waiting for another command that is stopping or removing the sandbox")
		_, err = lock.TryRLockContext(ctx, 50*time.Millisecond)
	}
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", lock.Path(), err)
	}
	return &Use{sandbox, lock}, nil
}

// LockExclusive keeps other commands on this machine from using a sandbox until leave is
// called. leave is nil if it is still in use after the timeout.
func (h Host) LockExclusive(ctx context.Context, sandbox string, timeout time.Duration) (leave func(), err error) {
	lock, err := h.LockFile(useLock(sandbox))
	if err != nil {
		return nil, err
	}
	free, err := lock.TryLock()
	if err == nil && !free && timeout > 0 {
		waiting, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		free, err = lock.TryLockContext(waiting, 50*time.Millisecond)
		if waiting.Err() != nil && ctx.Err() == nil {
			err = nil
		}
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("locking %s: %w", lock.Path(), err)
	case !free:
		return nil, nil
	}
	return func() { _ = lock.Close() }, nil
}
