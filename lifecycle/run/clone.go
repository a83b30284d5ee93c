package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/backlogs"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
	"github.com/docker-ralph/docker-ralph/lifecycle/mirror"
)

// checkOwner returns an error, before a sandbox is created, if another one has the backlog. A
// container with the name of a clone replaces it, and gets its backlog.
func (t Target) checkOwner(ctx context.Context, h host.Host) error {
	switch {
	case t.spec.Clone && t.spec.Ephemeral:
		return errors.Join(t.checkClone(ctx, h), t.checkMicroVMs(ctx, h))
	case t.spec.Clone:
		return errors.Join(t.checkRenamed(ctx, h), t.checkMicroVMs(ctx, h))
	case t.Kind == config.DriverContainer && !t.spec.Ephemeral:
		return nil
	}
	return t.checkClone(ctx, h)
}

// checkRenamed returns an error if the backlog is in a clone from before the branch was renamed, or
// origin was changed.
func (t Target) checkRenamed(ctx context.Context, h host.Host) error {
	names, err := container.AllKnown(h.StateDir)
	if err != nil {
		return err
	}
	branch := t.spec.Scope.Branch
	reflog, _ := os.ReadFile(filepath.Join(t.wt.CommonDir, "logs", "refs", "heads", branch)) // none: not renamed
	for _, name := range names {
		was, root := container.KnownScope(h.StateDir, name)
		renamed := was.Branch == branch || strings.Contains(string(reflog), fmt.Sprintf("renamed refs/heads/%s to refs/heads/%s\n", was.Branch, branch))
		if was == t.spec.Scope || root != t.spec.Root || !renamed {
			continue
		}
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

// checkMicroVMs returns an error if a microVM uses the backlog of the worktree, or has its own.
func (t Target) checkMicroVMs(ctx context.Context, h host.Host) error {
	for _, kind := range microvm.Drivers() {
		if made, known := microvm.Remembered(h.StateDir, kind, t.name); !known || made.Name != "" && t.spec.Check(made) != nil {
			continue
		}
		sb, err := h.MicroVM(kind, nil).Lookup(ctx, t.name)
		if err != nil {
			return err
		}
		if sb.State != lifecycle.NotFound {
			return hint.Wrap(fmt.Errorf("the backlog of branch %s is in the microVM %s", t.wt.Scope.Branch, t.name), "remove it with %q", "docker ralph clean "+t.name)
		}
	}
	return nil
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
