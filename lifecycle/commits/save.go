package commits

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// saveOwn fetches all commits before a container is removed. Without ralph of this
// version in it nothing can be fetched; then its git directory stays for the next
// container of that name.
func saveOwn(ctx context.Context, h host.Host, driver lifecycle.Driver, i *Scan, wt gitrepo.Worktree, sb lifecycle.Sandbox) error {
	ctx = context.WithoutCancel(ctx)
	repo, err := gitsync.Open(wt, sb.Name, h.StateDir)
	if err != nil {
		return err
	}
	if sb.State != lifecycle.Running {
		if host.Gone(sb.Root) {
			return nil // it cannot be started; its git directory stays for the next one of that name
		}
		if err := driver.Start(ctx, sb); err != nil {
			return err
		}
	}
	repo = repo.WithGate(i.Incoming(sb.Name))
	res, err := repo.Fetch(ctx, Shell(driver, sb), true)
	if errors.Is(err, lifecycle.ErrNotPrepared) {
		return nil
	}
	if IsBroken(err) {
		h.Report(fmt.Sprintf("Warning: %v", err))
		var lost error
		if res, lost, err = repo.Repair(ctx, Shell(driver, sb)); err == nil {
			err = lost // it stays in the volume, which goes
		}
	}
	ReportSync(h, res)
	for _, ref := range slices.Sorted(maps.Keys(res.Refused)) {
		h.Report(fmt.Sprintf("Warning: %q is lost with the sandbox %s, because it cannot be fetched: %s", ref, sb.Name, res.Refused[ref]))
	}
	if gitsync.Permanent(err) {
		h.Report(fmt.Sprintf("Warning: commits that were not fetched before are lost with the sandbox %s: %v", sb.Name, err))
		return gitsync.Abandon(h.StateDir, sb.Name)
	}
	if err != nil {
		return recreateHint(driver, sb, fmt.Errorf("the sandbox %s cannot be removed without losing commits: %w", sb.Name, err))
	}
	return nil
}

// DiscardHint is the remedy that discards commits which only a sandbox has.
func DiscardHint(which string) string {
	return fmt.Sprintf("discard them with %q", "docker ralph clean --discard-commits "+which)
}
