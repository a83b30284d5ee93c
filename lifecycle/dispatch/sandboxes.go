package dispatch

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
)

// located is a sandbox and who made it.
type located struct {
	sb lifecycle.Sandbox
	at place
}

// sandboxes lists those of all drivers, by their names. A driver whose program is
// not there has none; an error says that some may be missing.
func (h Host) sandboxes(ctx context.Context, connected func() (API, error)) ([]located, error) {
	listers := []func(context.Context) ([]located, error){
		func(ctx context.Context) ([]located, error) { return h.containers(ctx, connected) },
	}
	for _, kind := range microvm.Drivers() {
		listers = append(listers, func(ctx context.Context) ([]located, error) { return h.microVMs(ctx, kind) })
	}
	found, errs := make([][]located, len(listers)), make([]error, len(listers))
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
	all := slices.Concat(found...)
	slices.SortStableFunc(all, func(a, b located) int { return strings.Compare(a.sb.Name, b.sb.Name) })
	return all, errors.Join(errs...)
}

func (h Host) containers(ctx context.Context, connected func() (API, error)) ([]located, error) {
	api, err := connected()
	if err != nil {
		return nil, fmt.Errorf("the driver %s: %w", config.DriverContainer, err)
	}
	return list(ctx, place{kind: config.DriverContainer, driver: h.containerDriver(api), api: api})
}

func (h Host) containerDriver(api API) *container.Driver {
	return &container.Driver{API: api, Host: api.DaemonHost(), StateDir: h.StateDir, Report: h.report}
}

// microVMs lists those of a program. One that lists nothing at all may have lost
// its engine: what it had is unknown then, and not gone.
func (h Host) microVMs(ctx context.Context, kind string) ([]located, error) {
	driver := h.microVM(kind, nil)
	at := place{kind: kind, driver: driver}
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
		if _, foreign := errors.AsType[*lifecycle.ForeignError](err); foreign {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("the driver %s: %w", kind, err)
		}
		if sb.State != lifecycle.NotFound {
			all = append(all, located{sb, at})
		}
	}
	return all, nil
}

// list asks no program that has never made a sandbox.
func list(ctx context.Context, at place) ([]located, error) {
	found, err := at.driver.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("the driver %s: %w", at.kind, err)
	}
	all := make([]located, 0, len(found))
	for _, sb := range found {
		all = append(all, located{sb, at})
	}
	return all, nil
}

// home is where a command about sandboxes was given.
type home struct {
	inside bool             // there is a work tree
	wt     gitrepo.Worktree // its Scope is empty where there is a work tree, but no branch or origin
	dir    string           // links resolved
	host   Host
}

func (h Host) home(ctx context.Context) (home, error) {
	at := home{dir: h.Dir, host: h}
	if resolved, err := filepath.EvalSymlinks(h.Dir); err == nil {
		at.dir = resolved
	}
	var err error
	at.wt, at.inside, err = h.workTree(ctx)
	return at, err
}

// has tells whether a sandbox is one of this repository. Outside of one, it is
// that of a repository which is gone from here.
func (at home) has(sb lifecycle.Sandbox) bool {
	if !at.inside {
		return sb.Root == at.dir || sb.MainRoot == at.dir
	}
	if at.host.moved(sb, at.wt) {
		return true
	}
	if sb.MainRoot != "" && at.wt.MainRoot != "" {
		return sb.MainRoot == at.wt.MainRoot
	}
	return sb.Root == at.wt.Root || at.wt.Scope.Repo != "" && sb.Scope.Repo == at.wt.Scope.Repo
}

// current tells whether a sandbox is the one of this work tree and branch.
func (at home) current(sb lifecycle.Sandbox) bool {
	if !at.inside {
		return sb.Root == at.dir
	}
	return sb.Root == at.wt.Root && sb.Scope == at.wt.Scope || at.host.moved(sb, at.wt)
}

// chosen are the sandboxes of these names, or without names those of the work
// tree and branch that the command was given in. failed is told if one may be
// missing because of it.
func (h Host) chosen(ctx context.Context, at home, names []string) ([]located, error) {
	all, failed := h.sandboxes(ctx, h.connect())
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if len(names) == 0 {
		mine := slices.DeleteFunc(all, func(l located) bool { return !at.current(l.sb) })
		if len(mine) == 0 && failed != nil {
			return nil, failed
		}
		return mine, nil
	}
	var found []located
	for _, name := range names {
		i := slices.IndexFunc(all, func(l located) bool { return l.sb.Name == name })
		switch {
		case i >= 0:
			found = append(found, all[i])
		case failed != nil:
			return nil, fmt.Errorf("there is no sandbox %q as far as can be seen: %w", name, failed)
		default:
			return nil, fmt.Errorf("there is no sandbox %q: see which there are with \"docker ralph ls --all\"", name)
		}
	}
	return found, nil
}

// whose says what a sandbox is for, for people.
func whose(sb lifecycle.Sandbox) string {
	return fmt.Sprintf("%s, branch %s", sb.Scope.Repo, sb.Scope.Branch)
}
