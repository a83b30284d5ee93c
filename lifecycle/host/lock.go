package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// LockFile returns a file of the lock directory.
func (h Host) LockFile(name string) (*flock.Flock, error) {
	if err := os.MkdirAll(h.LockDir(), 0o700); err != nil {
		return nil, fmt.Errorf("creating the lock directory: %w", err)
	}
	return flock.New(filepath.Join(h.LockDir(), name)), nil
}

// TryLockSandbox takes the lock of [lifecycle.Ensurer]; unlock is nil if it is held.
func (h Host) TryLockSandbox(name string) (unlock func(), err error) {
	return h.tryLock(name + ".lock")
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

// agentLock is the name of the lock that commands share while their agents work in a sandbox.
func agentLock(sandbox string) string { return sandbox + ".agents" }

// AgentKeys is the file that records which keys the proxy of a sandbox has.
func (h Host) AgentKeys(sandbox string) string {
	return filepath.Join(h.LockDir(), agentLock(sandbox))
}

// ShareAgents keeps other commands from repairing a sandbox under an agent that works in it,
// until leave is called.
func (h Host) ShareAgents(ctx context.Context, sandbox string) (leave func(), err error) {
	lock, err := h.LockFile(agentLock(sandbox))
	if err != nil {
		return nil, err
	}
	// A command that ends holds it while it fetches commits.
	if _, err := lock.TryRLockContext(ctx, 10*time.Millisecond); err != nil {
		return nil, fmt.Errorf("locking %s: %w", lock.Path(), err)
	}
	return func() { _ = lock.Close() }, nil
}

// TryLockAgents keeps agents from starting in a sandbox until leave is called; leave is nil if
// one may work there.
func (h Host) TryLockAgents(sandbox string) (leave func(), err error) {
	return h.tryLock(agentLock(sandbox))
}

// scopeLock returns the lock that commands share while they use the sandboxes of a scope.
func (h Host) scopeLock(s gitrepo.Scope) (*flock.Flock, error) {
	name, err := s.SandboxName()
	if err != nil {
		return nil, err
	}
	return h.LockFile(name + ".scope")
}

// LockShared keeps other commands from stopping or removing the scope's sandboxes until
// leave is called.
func (h Host) LockShared(ctx context.Context, s gitrepo.Scope) (leave func(), err error) {
	lock, err := h.scopeLock(s)
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
	return func() { _ = lock.Close() }, nil
}

// LockExclusive keeps other commands on this machine from using the sandboxes of a scope
// until leave is called. leave is nil if they are still in use after the timeout.
func (h Host) LockExclusive(ctx context.Context, sb lifecycle.Sandbox, timeout time.Duration) (leave func(), err error) {
	lock, err := h.scopeLock(sb.Scope)
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
