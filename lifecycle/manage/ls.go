// Package manage is what users do with sandboxes that are there: list, stop, clean,
// attach, read logs; worktrees, and the self-test.
package manage

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/backlogs"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire/denylog"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
)

// SandboxStatus describes a sandbox. Its names in JSON are part of the command's
// interface.
type SandboxStatus struct {
	Name     string      `json:"name"`
	Repo     string      `json:"repo"` // as in its origin
	Branch   string      `json:"branch"`
	Driver   string      `json:"driver"`
	Engine   string      `json:"engine"` // context or address of the engine; empty for a microVM
	Remote   bool        `json:"-"`      // the engine is on another machine
	Agent    string      `json:"agent"`
	State    string      `json:"state"` // running, stopped, paused, unknown, not found, …
	Loop     *LoopStatus `json:"loop"`  // nil if no loop of it is known
	Worktree string      `json:"worktree"`
	Logs     string      `json:"-"` // directory of its logs
	// Workspace is "clone", or "live" for a sandbox that has the worktree itself; empty if it is not known, as for a removed one.
	Workspace string `json:"workspace"`
	Gone      bool   `json:"worktree_gone"`
	Image     string `json:"image"`
	Size      *int64 `json:"size"` // bytes of its writable layer; nil without ListOptions.Size, or if unknown
	Current   bool   `json:"current"`
	// OtherClient names the client that created it; empty for this one. What its loop does is unknown then.
	OtherClient string   `json:"other_client"`
	Activity    Activity `json:"activity"`
	// Counts are the numbers of tasks; nil if unknown.
	Counts *runlog.Counts `json:"counts"`
	// Questions are those without an answer. Their texts are untrusted.
	Questions []taskjson.OpenQuestion `json:"questions"`
	// Blocked are the connections that were blocked in finished runs of the loop.
	Blocked []denylog.Refusal `json:"blocked"`
	// Unfetched is the number of commits of these runs that the repository does not have;
	// nil if unknown.
	Unfetched *int `json:"unfetched"`
	// Unmerged says why the user's branch does not have all commits of the sandbox, unless the loop's error does;
	// empty if it has.
	Unmerged string `json:"unmerged"`
}

// ListOptions are the options of [Sandboxes].
type ListOptions struct {
	// All lists the sandboxes of this machine instead of this repository.
	All bool
	// Size adds their disk usage, which can be slow.
	Size bool
	// Names leaves out what takes a call per sandbox.
	Names bool
	// Former adds the scopes without a sandbox that have tasks or logs. It has no effect with Names.
	Former bool
}

// Sandboxes lists the sandboxes of all drivers.
func Sandboxes(ctx context.Context, h host.Host, opts ListOptions) ([]SandboxStatus, error) {
	connected := h.Connect()
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
		return nil, hint.Wrap(gitrepo.ErrNotRepository, "list all sandboxes with --all")
	}
	if failed != nil {
		if len(mine) == 0 {
			return nil, failed // an empty list would say that there are none
		}
		h.Warn(fmt.Errorf("some sandboxes may be missing: %w", failed))
	}
	list := sandboxStatuses(ctx, h, at, mine, opts)
	if opts.Size {
		addSizes(ctx, h, mine, list)
	}
	if opts.Former && !opts.Names {
		list = append(list, formerScopes(ctx, h, at, all, failed == nil)...)
	}
	return list, ctx.Err()
}

// formerScopes describes the scopes without a sandbox that have tasks or logs. Unless all sandboxes are known, one that
// was created and is not listed may exist.
func formerScopes(ctx context.Context, h host.Host, at host.Here, all []host.Located, known bool) (list []SandboxStatus) {
	owners, err := h.Owners()
	if err != nil {
		h.Warn(err)
	}
	for _, name := range slices.Sorted(maps.Keys(owners)) {
		o := owners[name]
		exists := slices.ContainsFunc(all, func(l host.Located) bool { return l.Sandbox.Name == name && l.Sandbox.OtherClient == "" })
		used, err := h.SandboxName(gitrepo.Worktree{Root: o.Root, Scope: o.Scope})
		if exists || !known && h.CreatedBy(name) != "" || err != nil || used != name { // an ephemeral one uses the state of its worktree
			continue
		}
		sb := lifecycle.Sandbox{Name: name, State: lifecycle.NotFound, Scope: o.Scope, Root: o.Root}
		s := describe(ctx, h, host.Located{Sandbox: sb}, at.Current(sb))
		counts, err := backlogs.CountsOf(ctx, h, name, o.Scope)
		if s.Loop != nil || err != nil || counts != nil && *counts != (runlog.Counts{}) {
			list = append(list, s)
		}
	}
	return list
}

// parallelCalls limits how many sandboxes, or worktrees, are queried at once.
const parallelCalls = 8

func sandboxStatuses(ctx context.Context, h host.Host, at host.Here, mine []host.Located, opts ListOptions) []SandboxStatus {
	list := make([]SandboxStatus, len(mine))
	var group errgroup.Group
	group.SetLimit(parallelCalls)
	for i, l := range mine {
		if opts.Names {
			list[i] = SandboxStatus{Name: l.Sandbox.Name, State: string(l.Sandbox.State)}
			continue
		}
		group.Go(func() error {
			list[i] = describe(ctx, h, l, at.Current(l.Sandbox))
			return nil
		})
	}
	_ = group.Wait()
	return list
}

// addSizes adds the disk usage of containers.
func addSizes(ctx context.Context, h host.Host, mine []host.Located, list []SandboxStatus) {
	sizes, err := host.Sizes(ctx, mine)
	if err != nil && ctx.Err() == nil {
		h.Warn(fmt.Errorf("reading the disk usage of sandboxes: %w", err))
	}
	for i := range list {
		if size, known := sizes[mine[i].Sandbox.ID]; known {
			list[i].Size = &size
		}
	}
}

// SandboxNames returns the names of this repository's sandboxes for shell
// completion; outside of a repository, those of all sandboxes. It asks no engine.
func SandboxNames(ctx context.Context, h host.Host) (names []string, err error) {
	at, _ := h.Here(ctx) // an error is an incomplete worktree
	all, err := h.AllRecorded()
	for _, sb := range all {
		if !at.Inside || at.Has(sb) {
			names = append(names, sb.Name)
		}
	}
	return names, err
}
