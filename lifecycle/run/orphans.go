package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/containerd/errdefs"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
)

// OrphanGrace is the minimum age of orphaned resources before they are removed.
const OrphanGrace = 10 * time.Minute

// sweepOrphans removes proxies and networks whose sandbox was removed by hand, and
// sandboxes of this client without a worktree. It only warns: another command may be doing the same.
func sweepOrphans(ctx context.Context, h host.Host, driver lifecycle.Driver) {
	d, ok := driver.(*container.Driver)
	if !ok {
		return
	}
	err := sweepSandboxes(ctx, h, d)
	if err == nil {
		_, err = d.SweepOrphans(ctx, OrphanGrace)
	}
	// Another command may be removing a proxy, whose network is in use until then.
	if err != nil && ctx.Err() == nil && !errdefs.IsConflict(err) && !errdefs.IsPermissionDenied(err) {
		h.Warn(err)
	}
}

// sweepSandboxes removes sandboxes without a worktree, if no commits are lost.
func sweepSandboxes(ctx context.Context, h host.Host, d *container.Driver) error {
	all, err := d.List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, sb := range all {
		// One without a label of its client may be another user's, whose worktrees are not on this machine.
		if sb.OtherClient == "" && container.Known(h.StateDir, sb.Name) && host.Missing(sb.Root) {
			errs = append(errs, sweepSandbox(ctx, h, d, sb))
		}
	}
	return errors.Join(errs...)
}

// sweepSandbox removes a sandbox without a worktree, unless it may have the only copy of its
// commits.
func sweepSandbox(ctx context.Context, h host.Host, d *container.Driver, sb lifecycle.Sandbox) error {
	return removeIdle(ctx, h, d, sb, func() (bool, error) {
		if commits.Fetched(ctx, h, sb) { // but for what is not committed, and the backlog
			at := host.Located{Sandbox: sb, Backend: host.Backend{Kind: config.DriverContainer, Driver: d}}
			return true, commits.FetchFrom(ctx, h, at)
		}
		if at, err := h.Here(ctx); err == nil && at.Has(sb) { // it is of this repository
			h.Report(fmt.Sprintf("Warning: keeping sandbox %s, whose worktree %s does not exist: it may have the only copy of its commits\nHint: %s", sb.Name, sb.Root, commits.DiscardHint(sb.Name)))
		}
		return false, nil
	}, func() error {
		h.Report(fmt.Sprintf("Removed sandbox %s: its worktree %s does not exist", sb.Name, sb.Root))
		return nil
	})
}
