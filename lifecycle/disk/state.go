package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle/backlogs"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
	"github.com/docker-ralph/docker-ralph/scopes"
)

// addState adds the files below the state directory: those of each sandbox as one item, the
// versions of ralph for microVMs, and the other directories.
func (inv *inventory) addState(ctx context.Context) error {
	names, err := scopes.Names(inv.host.StateDir)
	if err != nil {
		return err
	}
	for _, name := range names {
		inv.items = append(inv.items, inv.stateItem(ctx, name))
	}
	entries, err := os.ReadDir(inv.host.StateDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if e.IsDir() && !slices.Contains([]string{"scopes", "guest"}, e.Name()) {
			inv.items = append(inv.items, Item{Type: State, Name: e.Name(), Size: sizeOf(filepath.Join(inv.host.StateDir, e.Name()))})
		}
	}
	return inv.addMicroVMPrograms()
}

func (inv *inventory) addMicroVMPrograms() error {
	all, err := microvm.Programs(inv.host.StateDir)
	if err != nil {
		return fmt.Errorf("listing the versions of ralph for microVMs: %w", err)
	}
	for _, p := range all {
		item := Item{Type: State, Name: filepath.Join("guest", filepath.Base(p.Dir)), Kind: "helper", Size: sizeOf(p.Dir), Active: p.Needed}
		if !p.Needed {
			item.Reclaimable, item.Reason = true, "it belongs to another version of docker-ralph"
			item.remove = func(context.Context) error { return os.RemoveAll(p.Dir) }
		}
		inv.items = append(inv.items, item)
	}
	return nil
}

// stateItem is what the host keeps of one sandbox.
func (inv *inventory) stateItem(ctx context.Context, name string) Item {
	dir := scopes.Dir(inv.host.StateDir, name)
	item := Item{Type: State, Name: name, Kind: "sandbox"}
	owner, known := inv.owners[name]
	box := inv.sandboxItem(name)
	if box != nil {
		i := slices.IndexFunc(inv.located, func(l host.Located) bool { return l.Sandbox.Name == name && l.Sandbox.OtherClient == "" })
		sb := inv.located[i].Sandbox
		owner, known = host.Owner{Scope: sb.Scope, Root: sb.Root}, true
		item.sandbox, item.Active = name, true
	}
	if known {
		item.Repository, item.Path = owner.Scope.Repo, owner.Root
	}
	item.Size = sizeOf(dir)
	if !known || !inv.gone(owner.Root) || owner.Scope == inv.here.Worktree.Scope {
		return item
	}
	switch {
	case box != nil:
		item.Reclaimable, item.Reason = box.Reclaimable, box.Reason
	case inv.mayExist(name):
		item.Reason = "its sandbox may exist"
	case !inv.discard && gitsync.Known(inv.host.StateDir, name) && !gitsync.Saved(inv.host.StateDir, name):
		item.Reason = onlyCopy
	default:
		item.Reclaimable, item.Reason = true, doesNotExist(owner.Root)+inv.unfinished(ctx, name, owner.Scope)
	}
	item.remove = func(ctx context.Context) error { return inv.removeState(ctx, name, dir) }
	return item
}

// unfinished names the unfinished tasks in the backlog of a sandbox.
func (inv *inventory) unfinished(ctx context.Context, name string, scope gitrepo.Scope) string {
	counts, err := backlogs.CountsOf(ctx, inv.host, name, scope)
	if err != nil && ctx.Err() == nil {
		inv.host.Warn(fmt.Errorf("reading the backlog of %s: %w", name, err))
	}
	if counts == nil || counts.Left() == 0 {
		return ""
	}
	return fmt.Sprintf(", and %s would be lost", host.Count(counts.Left(), "unfinished task"))
}

// onlyCopy is why something is kept.
const onlyCopy = "it may have the only copy of its commits"

// mayExist reports whether a sandbox that was not listed can exist: its driver could not be
// reached.
func (inv *inventory) mayExist(name string) bool {
	return inv.driver == nil && container.Known(inv.host.StateDir, name) || slices.ContainsFunc(microvm.Drivers(), func(kind string) bool {
		_, known := microvm.Remembered(inv.host.StateDir, kind, name)
		return known
	})
}

// removeState removes the files of a sandbox that does not exist.
func (inv *inventory) removeState(ctx context.Context, name, dir string) error {
	leave, err := inv.host.LockExclusive(ctx, name, 0)
	if err != nil {
		return err
	}
	if leave == nil {
		return fmt.Errorf("keeping the state of %s: another command is using it", name)
	}
	defer leave()
	return os.RemoveAll(dir)
}

// sizeOf returns the size of all files below a directory. Files that disappear meanwhile count as
// nothing.
func sizeOf(dir string) *int64 {
	var size int64
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil //nolint:nilerr // unreadable or removed
		}
		if info, err := e.Info(); err == nil {
			size += info.Size()
		}
		return nil
	})
	return &size
}
