package run

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// takeTurn waits for a "build" of another process of this machine in the sandbox, and keeps the next one waiting
// until leave is called. Two would check and count each other's work, and the user's branch would get commits
// whose checks have not passed.
func (h session) takeTurn(ctx context.Context, r Ready) (leave func(), err error) {
	if r.opts.Command != host.BuildCommand || r.spec.Ephemeral {
		return func() {}, nil
	}
	lock, err := h.LockFile(host.BuildLock(r.spec.Name))
	if err != nil {
		return nil, err
	}

	free, err := lock.TryLock()
	if err == nil && !free {
		h.reportTurn(r.spec.Name)
		_, err = lock.TryLockContext(ctx, host.PollInterval/10)
	}
	if err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("locking %s: %w", lock.Path(), err)
	}
	return func() { _ = lock.Close() }, nil
}

// awaitLeft waits for each "build" in the sandbox whose process on this machine has died.
func (h session) awaitLeft(ctx context.Context, r Ready, sb lifecycle.Sandbox, left []host.Record) error {
	left = slices.DeleteFunc(slices.Clone(left), func(n host.Record) bool {
		return r.opts.Command != host.BuildCommand || !n.IsLoop() || n.Command[1] != host.BuildCommand
	})
	for i, n := range left {
		if i == 0 {
			h.reportTurn(sb.Name)
		}
		for {
			if running, err := Runs(ctx, r.Driver, sb, n.ID); err != nil || !running {
				if err != nil {
					return err
				}
				break
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(host.PollInterval):
			}
		}
	}
	return nil
}

func (h session) reportTurn(sandbox string) {
	h.Report(fmt.Sprintf("Waiting for another loop in sandbox %s\nHint: pass --worktree=NAME to run a loop beside it", sandbox))
}
