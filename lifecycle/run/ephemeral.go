package run

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
)

// discard removes an ephemeral sandbox, even after an interrupt. It fetches unfetched commits
// first; if that fails, the next command tries again.
func discard(ctx context.Context, h host.Host, t Target, sb lifecycle.Sandbox, fetched bool) error {
	ctx = context.WithoutCancel(ctx)
	if !fetched || sb.Clone { // what is not committed
		if err := t.save(h)(ctx, sb); err != nil {
			return err
		}
	} else {
		commits.ReopenUnmerged(ctx, h, sb)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return h.Remove(ctx, t.Driver, sb)
}

// sweep removes ephemeral sandboxes of killed commands, unless a process still runs in them.
func sweep(ctx context.Context, h host.Host, driver lifecycle.Driver, spec lifecycle.Spec, save func(context.Context, lifecycle.Sandbox) error) error {
	all, err := driver.List(ctx)
	if err != nil {
		return err
	}
	for _, sb := range all {
		if sb.OtherClient == "" && sb.Ephemeral && sb.Scope == spec.Scope && sb.Root == spec.Root {
			if err := sweepOne(ctx, h, driver, sb, save); err != nil {
				return err
			}
		}
	}
	return nil
}

func sweepOne(ctx context.Context, h host.Host, driver lifecycle.Driver, sb lifecycle.Sandbox, save func(context.Context, lifecycle.Sandbox) error) error {
	return removeIdle(ctx, h, driver, sb, func() (bool, error) {
		records, err := h.RecordsOf(sb.Name)
		if err != nil || slices.ContainsFunc(records, func(r host.Record) bool { return r.Live }) {
			return false, err
		}
		return true, save(ctx, sb)
	}, func() error {
		return os.RemoveAll(h.RecordDir(sb.Name))
	})
}

// removeIdle removes a sandbox, unless a command sets it up or runs in it, or may returns false.
// removed is called before another command can set it up.
func removeIdle(ctx context.Context, h host.Host, driver lifecycle.Driver, sb lifecycle.Sandbox, may func() (bool, error), removed func() error) error {
	unlock, err := h.TryLockSandbox(sb.Name)
	if err != nil || unlock == nil {
		return err
	}
	defer unlock()
	if sb.State == lifecycle.Running {
		if busy, err := driver.Busy(ctx, sb); err != nil || busy {
			return err
		}
	}
	if ok, err := may(); err != nil || !ok {
		return err
	}
	if err := h.Remove(ctx, driver, sb); err != nil {
		return err
	}
	return removed()
}
