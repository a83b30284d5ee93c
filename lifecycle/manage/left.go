package manage

import (
	"context"
	"slices"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/run"
)

// serveLeft answers the requests of loops in a sandbox whose processes on this machine have died, until hangUp is
// called: they cannot end without.
func serveLeft(ctx context.Context, h host.Host, l host.Located, running []lifecycle.Dispatch) (hangUp func()) {
	sb := l.Sandbox
	wt := gitrepo.Worktree{Root: sb.Root, MainRoot: sb.MainRoot, Scope: sb.Scope}
	records, err := h.RecordsFor(sb.Name)
	if err != nil {
		h.Warn(err)
	}
	var served []func()
	for _, n := range records {
		if n.Live || !n.IsLoop() || !slices.ContainsFunc(running, func(d lifecycle.Dispatch) bool { return d.ID == n.ID }) {
			continue
		}
		stop, err := run.ServeLeft(ctx, h, l, wt, n)
		if err != nil {
			h.Warn(err)
			continue
		}
		served = append(served, stop)
	}
	return func() {
		for _, stop := range served {
			stop()
		}
	}
}
