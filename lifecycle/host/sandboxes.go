package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
)

// Located is a sandbox with its driver.
type Located struct {
	Sandbox lifecycle.Sandbox
	Backend Backend
}

// ErrNoSandbox is the error for a command without names where the worktree has no sandbox.
var ErrNoSandbox = hint.Wrap(errors.New("this worktree and branch have no sandbox"), "list all with %q", "docker ralph ls --all")

// Sandboxes lists the sandboxes of all drivers, by name, and those on other recorded engines. Those of other
// clients on these engines are listed, too. With
// an error, some may be missing. A driver that is not installed has none.
func (h Host) Sandboxes(ctx context.Context, connected func() (API, error)) ([]Located, error) {
	records, err := h.EngineRecords()
	if err != nil {
		return nil, err
	}
	listers := []func(context.Context) ([]Located, error){
		func(ctx context.Context) ([]Located, error) { return h.containers(ctx, connected, records) },
	}
	for _, e := range h.otherEngines(records) {
		listers = append(listers, func(ctx context.Context) ([]Located, error) { return h.recorded(ctx, e, records), nil })
	}
	for _, kind := range microvm.Drivers() {
		listers = append(listers, func(ctx context.Context) ([]Located, error) { return h.microVMs(ctx, kind) })
	}
	found, errs := make([][]Located, len(listers)), make([]error, len(listers))
	var group sync.WaitGroup
	for i, list := range listers {
		group.Go(func() { found[i], errs[i] = list(ctx) })
	}
	group.Wait()
	for i, err := range errs {
		if errors.Is(err, lifecycle.ErrNotInstalled) {
			errs[i] = nil
		}
	}
	if !h.usesSelected(records) {
		errs[0] = nil
	}
	return withoutDuplicates(slices.Concat(found...)), errors.Join(errs...)
}

// containers lists the sandboxes of the selected engine. If it does not answer in time, these are the recorded ones.
func (h Host) containers(ctx context.Context, connected func() (API, error), records map[string]EngineRecord) ([]Located, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, listTimeout, errNoAnswer)
	defer cancel()
	api, err := within(ctx, connected)
	if err != nil {
		return h.unreachable(h.Selected, records), ofDriver(config.DriverContainer, err)
	}
	found, err := list(ctx, h.onEngine(api, h.Selected))
	if err = late(ctx, err); engine.ConnectionLost(err) || errors.Is(err, errNoAnswer) {
		found = h.unreachable(h.Selected, records)
	}
	return found, err
}

// microVMs lists the sandboxes of a program. An empty list may mean that it has lost its engine:
// recorded sandboxes are looked up then.
func (h Host) microVMs(ctx context.Context, kind string) ([]Located, error) {
	driver := h.MicroVM(kind, nil)
	at := Backend{Kind: kind, Driver: driver}
	all, err := list(ctx, at)
	if err != nil || len(all) > 0 {
		return all, err
	}
	remembered, err := microvm.Images(h.StateDir, kind)
	if err != nil {
		return nil, err
	}
	for name := range remembered {
		sb, err := driver.Lookup(ctx, name)
		if isForeign(err) {
			continue
		}
		if err != nil {
			return nil, ofDriver(kind, err)
		}
		if sb.State != lifecycle.NotFound {
			all = append(all, Located{sb, at})
		}
	}
	return all, nil
}

// list lists the sandboxes of one driver.
func list(ctx context.Context, at Backend) ([]Located, error) {
	found, err := at.Driver.List(ctx)
	if err != nil {
		return nil, ofDriver(at.Kind, err)
	}
	all := make([]Located, 0, len(found))
	for _, sb := range found {
		all = append(all, locate(sb, at))
	}
	return all, nil
}

// ofDriver names the driver in its error, unless that is about the engine alone.
func ofDriver(kind string, err error) error {
	if engine.ConnectionLost(err) {
		return lifecycle.ExplainUnreachable(err)
	}
	return fmt.Errorf("%w (%s driver)", err, kind)
}

// locate returns a sandbox with its driver. That of another client cannot be used.
func locate(sb lifecycle.Sandbox, at Backend) Located {
	if sb.OtherClient != "" {
		at.Unusable = lifecycle.OfOtherClient(sb)
		at.Driver = unusable{at.Engine, at.Unusable}
	}
	return Located{sb, at}
}

// Here is the current directory of a command about sandboxes.
type Here struct {
	Inside   bool             // it is in a worktree
	Worktree gitrepo.Worktree // without a branch or origin, its scope is empty
	Dir      string           // links resolved
	host     Host
}

// Here finds the current worktree.
func (h Host) Here(ctx context.Context) (Here, error) {
	at := Here{Dir: h.Dir, host: h}
	if resolved, err := filepath.EvalSymlinks(h.Dir); err == nil {
		at.Dir = resolved
	}
	var err error
	at.Worktree, at.Inside, err = h.CurrentWorktree(ctx)
	return at, err
}

// Has reports whether a sandbox belongs to this repository or, outside of a worktree, to one that
// was in this directory.
func (at Here) Has(sb lifecycle.Sandbox) bool {
	if !at.Inside {
		return sb.Root == at.Dir || sb.MainRoot == at.Dir
	}
	if at.host.Moved(sb, at.Worktree) {
		return true
	}
	if sb.MainRoot != "" && at.Worktree.MainRoot != "" {
		return sb.MainRoot == at.Worktree.MainRoot
	}
	return sb.Root == at.Worktree.Root || at.Worktree.Scope.Repo != "" && sb.Scope.Repo == at.Worktree.Scope.Repo
}

// Current reports whether a sandbox is the one of this worktree and branch.
func (at Here) Current(sb lifecycle.Sandbox) bool {
	if !at.Inside {
		return sb.Root == at.Dir
	}
	return sb.Root == at.Worktree.Root && sb.Scope == at.Worktree.Scope || at.host.Moved(sb, at.Worktree)
}

// Select returns the sandboxes of these names or, without names, those of the current
// worktree and branch.
func (h Host) Select(ctx context.Context, at Here, names []string) ([]Located, error) {
	all, failed := h.Sandboxes(ctx, h.Connect())
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if len(names) == 0 {
		mine := slices.DeleteFunc(all, func(l Located) bool { return !at.Current(l.Sandbox) })
		if len(mine) == 0 && failed != nil {
			return nil, failed
		}
		return mine, nil
	}
	var found []Located
	for _, name := range names {
		i := slices.IndexFunc(all, func(l Located) bool { return l.Sandbox.Name == name && l.Sandbox.OtherClient == "" })
		if i < 0 { // it can be of another client
			i = slices.IndexFunc(all, func(l Located) bool { return l.Sandbox.Name == name })
		}
		switch {
		case i >= 0:
			found = append(found, all[i])
		case failed != nil:
			return nil, fmt.Errorf("sandbox %q not found: %w", name, failed)
		default:
			return nil, hint.Wrap(fmt.Errorf("no sandbox %q", name), "list all with %q", "docker ralph ls --all")
		}
	}
	return found, nil
}

// DescribeScope describes the scope of a sandbox.
func DescribeScope(sb lifecycle.Sandbox) string {
	return fmt.Sprintf("%s, branch %s", sb.Scope.Repo, sb.Scope.Branch)
}
