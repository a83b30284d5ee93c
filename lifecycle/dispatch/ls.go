package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"

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
func Sandboxes(ctx context.Context, h Host, opts SandboxList) ([]SandboxStatus, error) {
	connected := once(h.connect())
	at, err := h.home(ctx)
	if err != nil && !opts.All {
		return nil, err
	}
	all, failed := h.sandboxes(ctx, connected)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var mine []located
	for _, l := range all {
		if opts.All || at.has(l.sb) {
			mine = append(mine, l)
		}
	}
	if !opts.All && !at.inside && len(mine) == 0 {
		return nil, fmt.Errorf("%w: list the sandboxes of this machine with --all", gitrepo.ErrNotRepository)
	}
	if failed != nil {
		if len(all) == 0 {
			return nil, failed
		}
		h.report(fmt.Sprintf("Warning: some sandboxes may be missing: %v", failed))
	}
	list := h.sandboxStatuses(ctx, at, mine, opts)
	if opts.Size {
		h.addSizes(ctx, connected, mine, list)
	}
	return list, ctx.Err()
}

// askedAtOnce bounds how many sandboxes are asked at the same time what runs in
// them.
const askedAtOnce = 8

func (h Host) sandboxStatuses(ctx context.Context, at home, mine []located, opts SandboxList) []SandboxStatus {
	list := make([]SandboxStatus, len(mine))
	slots := make(chan struct{}, askedAtOnce)
	var group sync.WaitGroup
	for i, l := range mine {
		list[i] = SandboxStatus{
			Name: l.sb.Name, Repo: l.sb.Scope.Repo, Branch: l.sb.Scope.Branch, Driver: l.at.kind, Agent: l.sb.Agent, State: string(l.sb.State),
			Worktree: l.sb.Root, Gone: gone(l.sb.Root), Image: l.sb.Image, Current: at.current(l.sb),
		}
		if opts.Names {
			continue
		}
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			var err error
			if list[i].Loop, err = h.loopOf(ctx, l); err != nil && ctx.Err() == nil {
				h.report(fmt.Sprintf("Warning: what runs in %s is unknown: %v", l.sb.Name, err))
			}
		})
	}
	group.Wait()
	return list
}

// addSizes fills in what containers take for themselves. No microVM's program
// tells.
func (h Host) addSizes(ctx context.Context, connected func() (API, error), mine []located, list []SandboxStatus) {
	var containers []lifecycle.Sandbox
	for _, l := range mine {
		if l.at.kind == config.DriverContainer {
			containers = append(containers, l.sb)
		}
	}
	if len(containers) == 0 {
		return
	}
	api, err := connected()
	var sizes map[string]int64
	if err == nil {
		sizes, err = h.containerDriver(api).Sizes(ctx, containers)
	}
	if err != nil && ctx.Err() == nil {
		h.report(fmt.Sprintf("Warning: what sandboxes take is unknown: %v", err))
	}
	for i := range list {
		if size, known := sizes[mine[i].sb.ID]; known {
			list[i].Size = &size
		}
	}
}

// SandboxNames returns the names of this repository's sandboxes, or of all, for
// who completes what is typed.
func SandboxNames(ctx context.Context, h Host) ([]string, error) {
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
