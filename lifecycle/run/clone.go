package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/backlogs"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
	"github.com/docker-ralph/docker-ralph/lifecycle/mirror"
	"github.com/docker-ralph/docker-ralph/wire/budget"
)

// checkOwner returns an error, before a sandbox is created, if another one has the backlog. One that
// replaces a clone of the same driver gets its backlog.
func (t Target) checkOwner(ctx context.Context, h host.Host) error {
	vm, made := microvm.Remembered(h.StateDir, config.DriverSbx, t.name)
	cloneInVM := made && vm.Clone
	if t.spec.Clone || cloneInVM && t.Kind != config.DriverSbx {
		if err := errors.Join(t.checkRenamed(ctx, h), t.checkMicroVMs(ctx, h)); err != nil {
			return err
		}
	}
	replaces := t.Kind == config.DriverContainer || t.Kind == config.DriverSbx && cloneInVM
	if replaces && !t.spec.Ephemeral {
		return nil
	}
	return t.checkClone(ctx, h)
}

// maxReflog is the budget of a branch's reflog, which the agent of a live sandbox can write.
const maxReflog = 16 << 20

// checkRenamed returns an error if the backlog is in a clone from before the branch was renamed, or
// origin was changed.
func (t Target) checkRenamed(ctx context.Context, h host.Host) error {
	renamed, err := RenamedSandboxes(h, t.wt)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(renamed)) {
		was := renamed[name].Scope
		inside, err := backlogs.Backlog{Host: h, Sandbox: name}.InSandbox(ctx)
		if err == nil && inside {
			err = hint.Wrap(fmt.Errorf("the backlog of %s, branch %s, is in the clone %s", was.Repo, was.Branch, name), "move it back with %q, and take it over with %q", "docker ralph clean "+name, "docker ralph task adopt")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// RenamedSandboxes returns the owners of the sandboxes of a worktree and its branch from before the branch was
// renamed, or origin was changed, by the names of the sandboxes.
func RenamedSandboxes(h host.Host, wt gitrepo.Worktree) (map[string]host.Owner, error) {
	owners, err := h.Owners()
	if err != nil {
		return nil, err
	}
	branch := wt.Scope.Branch
	reflog, _ := budget.ReadFile(filepath.Join(wt.CommonDir, "logs", "refs", "heads", branch), maxReflog) // none: not renamed
	maps.DeleteFunc(owners, func(_ string, o host.Owner) bool {
		renamed := o.Scope.Branch == branch || strings.Contains(string(reflog), fmt.Sprintf("renamed refs/heads/%s to refs/heads/%s\n", o.Scope.Branch, branch))
		return o.Scope == wt.Scope || o.Root != wt.Root || !renamed
	})
	return owners, nil
}

// checkClone returns an error if the backlog of the worktree is in a clone.
func (t Target) checkClone(ctx context.Context, h host.Host) error {
	inside, err := backlogs.Backlog{Host: h, Sandbox: t.name}.InSandbox(ctx)
	if err != nil || !inside {
		return err
	}
	err = fmt.Errorf("the backlog of branch %s is in the clone %s", t.wt.Scope.Branch, t.name)
	if t.spec.Clone { // one for this command only
		return hint.Wrap(err, "move it back with %q", "docker ralph clean "+t.name)
	}
	return hint.Wrap(err, "move it back with %q, or pass --workspace %s", "docker ralph clean "+t.name, config.WorkspaceClone)
}

// checkMicroVMs returns an error if another microVM uses the backlog of the worktree, or has it.
func (t Target) checkMicroVMs(ctx context.Context, h host.Host) error {
	for _, kind := range microvm.Drivers() {
		made, known := microvm.Remembered(h.StateDir, kind, t.name)
		own := kind == t.Kind && !t.spec.Ephemeral
		if !known || own || made.Name != "" && t.spec.Check(made) != nil {
			continue
		}
		sb, err := h.MicroVM(kind, nil).Lookup(ctx, t.name)
		if err != nil {
			return err
		}
		if sb.State != lifecycle.NotFound {
			return hint.Wrap(fmt.Errorf("the backlog of branch %s is in the microVM %s", t.wt.Scope.Branch, t.name), "remove it with %q", "docker ralph clean "+t.name)
		}
		if made.Clone {
			if err := t.reclaim(ctx, h); err != nil {
				return err
			}
		}
	}
	return nil
}

// reclaim makes the worktree the owner of a backlog that was in a microVM that is gone.
func (t Target) reclaim(ctx context.Context, h host.Host) error {
	lost := backlogs.Backlog{Host: h, Sandbox: t.name}
	inside, err := lost.InSandbox(ctx)
	if err != nil || !inside {
		return err
	}
	h.Warn(hint.Wrap(fmt.Errorf("the microVM %s was removed with its backlog: using the worktree's earlier one", t.name), "list newer copies with %q", "docker ralph task restore --list"))
	return lost.Reclaim(ctx)
}

// checkUnused returns an error while another sandbox uses the backlog of the worktree.
func (t Target) checkUnused(ctx context.Context, h host.Host) error {
	records, err := h.RecordsIn(t.wt)
	if err != nil {
		return err
	}
	for _, r := range records {
		if r.Live && r.Sandbox != t.spec.Name {
			return hint.Wrap(fmt.Errorf("%q is using the backlog in the sandbox %s", strings.Join(r.Command, " "), r.Sandbox), "wait for it, or stop it with %q", "docker ralph stop "+r.Sandbox)
		}
	}
	return t.checkMicroVMs(ctx, h)
}

// enterClone moves the backlog into a clone, and the logs that a resumed loop needs. It is an
// error if a live sandbox would use a backlog that is in a clone.
func enterClone(ctx context.Context, h host.Host, r Ready, sb lifecycle.Sandbox, resumed bool) error {
	if !sb.Clone {
		return r.checkClone(ctx, h)
	}
	if err := r.git.Repo.SetReleased(ctx, false); err != nil {
		return err
	}
	if err := r.backlog(h).MoveIn(ctx, r.Driver, sb, func() error { return r.checkUnused(ctx, h) }); err != nil {
		return err
	}
	if resumed || host.IsLoop(r.opts.Command) && slices.Contains(r.opts.Args, "--resume") {
		return mirror.Push(ctx, h, r.Driver, sb)
	}
	return nil
}
