// Package manage is what users do with sandboxes that are there: list, stop, clean,
// attach, read logs; worktrees, and the self-test.
package manage

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// SandboxStatus is a sandbox and what can be said about it. Its names in JSON are
// part of the command's interface.
type SandboxStatus struct {
	Name     string      `json:"name"`
	Repo     string      `json:"repo"` // as in its origin
	Branch   string      `json:"branch"`
	Driver   string      `json:"driver"`
	Agent    string      `json:"agent"`
	State    string      `json:"state"` // running, stopped, paused, unknown, …
	Loop     *LoopStatus `json:"loop"`  // nil if nothing has run in it yet, as far as is known
	Worktree string      `json:"worktree"`
	Gone     bool        `json:"worktree_gone"` // the work tree is not there any more
	Image    string      `json:"image"`
	Size     *int64      `json:"size"` // bytes that it takes for itself; nil if that was not asked, or is unknown
	Current  bool        `json:"current"`
}

// SandboxList says which sandboxes to list.
type SandboxList struct {
	// All lists those of this machine instead of this repository's.
	All bool
	// Size finds out what they take, which can be slow.
	Size bool
	// Names leaves out what has to be asked of each.
	Names bool
}

// Sandboxes lists sandboxes, whatever they are made with.
func Sandboxes(ctx context.Context, h host.Host, opts SandboxList) ([]SandboxStatus, error) {
	connected := host.Once(h.Connect())
	at, err := h.Here(ctx)
	if err != nil && !opts.All {
		return nil, err
	}
	all, failed := h.Sandboxes(ctx, connected)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var mine []host.Located
	for _, l := range all {
		if opts.All || at.Has(l.Sandbox) {
			mine = append(mine, l)
		}
	}
	if !opts.All && !at.Inside && len(mine) == 0 {
		return nil, fmt.Errorf("%w: list the sandboxes of this machine with --all", gitrepo.ErrNotRepository)
	}
	if failed != nil {
		if len(all) == 0 {
			return nil, failed
		}
		h.Report(fmt.Sprintf("Warning: some sandboxes may be missing: %v", failed))
	}
	list := sandboxStatuses(ctx, h, at, mine, opts)
	if opts.Size {
		addSizes(ctx, h, connected, mine, list)
	}
	return list, ctx.Err()
}

// askedAtOnce bounds how many sandboxes are asked at the same time what runs in
// them.
const askedAtOnce = 8

func sandboxStatuses(ctx context.Context, h host.Host, at host.Here, mine []host.Located, opts SandboxList) []SandboxStatus {
	list := make([]SandboxStatus, len(mine))
	slots := make(chan struct{}, askedAtOnce)
	var group sync.WaitGroup
	for i, l := range mine {
		list[i] = SandboxStatus{
			Name: l.Sandbox.Name, Repo: l.Sandbox.Scope.Repo, Branch: l.Sandbox.Scope.Branch, Driver: l.Backend.Kind, Agent: l.Sandbox.Agent, State: string(l.Sandbox.State),
			Worktree: l.Sandbox.Root, Gone: host.Gone(l.Sandbox.Root), Image: l.Sandbox.Image, Current: at.Current(l.Sandbox),
		}
		if opts.Names {
			continue
		}
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			var err error
			if list[i].Loop, err = loopOf(ctx, h, l); err != nil && ctx.Err() == nil {
				h.Report(fmt.Sprintf("Warning: what runs in %s is unknown: %v", l.Sandbox.Name, err))
			}
		})
	}
	group.Wait()
	return list
}

// addSizes fills in what containers take for themselves. No microVM's program
// tells.
func addSizes(ctx context.Context, h host.Host, connected func() (host.API, error), mine []host.Located, list []SandboxStatus) {
	var containers []lifecycle.Sandbox
	for _, l := range mine {
		if l.Backend.Kind == config.DriverContainer {
			containers = append(containers, l.Sandbox)
		}
	}
	if len(containers) == 0 {
		return
	}
	api, err := connected()
	var sizes map[string]int64
	if err == nil {
		sizes, err = h.ContainerDriver(api).Sizes(ctx, containers)
	}
	if err != nil && ctx.Err() == nil {
		h.Report(fmt.Sprintf("Warning: what sandboxes take is unknown: %v", err))
	}
	for i := range list {
		if size, known := sizes[mine[i].Sandbox.ID]; known {
			list[i].Size = &size
		}
	}
}

// SandboxNames returns the names of this repository's sandboxes, or of all, for
// who completes what is typed.
func SandboxNames(ctx context.Context, h host.Host) ([]string, error) {
	list, err := Sandboxes(ctx, h, SandboxList{Names: true})
	if errors.Is(err, gitrepo.ErrNotRepository) {
		list, err = Sandboxes(ctx, h, SandboxList{Names: true, All: true})
	}
	var names []string
	for _, s := range list {
		if s.State != string(lifecycle.NotFound) {
			names = append(names, s.Name)
		}
	}
	return names, err
}
