package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
)

// RepairSandboxes brings sandboxes back to where a command can run in them: those of
// these names or, without names, that of the current scope. What runs in one goes
// on, unless it cannot be reached any more. Nothing in it is lost but that.
func RepairSandboxes(ctx context.Context, h host.Host, names []string) error {
	at, err := h.Here(ctx)
	if err != nil && len(names) == 0 {
		return err
	}
	boxes, err := h.Select(ctx, at, names)
	if err != nil {
		return err
	}
	if len(boxes) == 0 {
		return hint.Wrap(errors.New("this worktree and branch have no sandbox"), "list all with %q", "docker ralph ls --all")
	}
	var errs []error
	for _, l := range boxes {
		if err := repair(ctx, h, l); err != nil {
			errs = append(errs, fmt.Errorf("repairing the sandbox %s: %w", l.Sandbox.Name, err))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return errors.Join(errs...)
}

func repair(ctx context.Context, h host.Host, l host.Located) error {
	if host.Gone(l.Sandbox.Root) {
		return hint.Wrap(fmt.Errorf("its worktree %s does not exist", l.Sandbox.Root), "if you have moved it, run %q there", "docker ralph --recreate task list")
	}
	h.Dir, h.Confirm = l.Sandbox.Root, nil
	t, err := resolve(ctx, h, Options{Command: host.TaskCommand}, h.Connect())
	if err != nil {
		return err
	}
	r, err := prepare(ctx, h, t)
	if err != nil {
		return err
	}
	leave, err := h.LockShared(ctx, t.wt.Scope)
	if err != nil {
		return err
	}
	defer leave()
	if err := revive(ctx, h, l); err != nil {
		return err
	}
	sb, err := ensurer(h, t).Ensure(ctx, r.spec, false)
	if err != nil {
		return err
	}
	if err := checkProcesses(ctx, t.Driver, sb); err != nil {
		return err
	}
	if err := r.git.Sync(ctx, sb); err != nil {
		return err
	}
	sweepOrphans(ctx, h, t.Driver)
	h.Report(fmt.Sprintf("The sandbox %s works", sb.Name))
	return nil
}

// revive stops a sandbox in which nothing can be started any more, and has a
// container prepared again, whatever is noted of it.
func revive(ctx context.Context, h host.Host, l host.Located) error {
	sb, err := l.Backend.Driver.Lookup(ctx, l.Sandbox.Name)
	if err != nil {
		return err
	}
	d, ok := l.Backend.Driver.(*container.Driver)
	why := ""
	switch {
	case sb.State != lifecycle.Running:
		h.Report(fmt.Sprintf("It is %s", sb.State))
	default:
		if err := checkProcesses(ctx, l.Backend.Driver, sb); err != nil {
			why = "no process can be started in it"
		}
	}
	if why != "" {
		h.Report("Restarting it: " + why)
		if err := l.Backend.Driver.Stop(ctx, sb); err != nil {
			return err
		}
	}
	if ok {
		return d.Unprepare(sb)
	}
	return nil
}

// checkProcesses starts a process in a sandbox that runs, to see that one can be. A
// sandbox that was not prepared yet has no say.
func checkProcesses(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox) error {
	ctx, cancel := context.WithTimeout(ctx, host.AskTimeout)
	defer cancel()
	if _, err := driver.Dispatches(ctx, sb); err != nil && !errors.Is(err, lifecycle.ErrNotPrepared) {
		return err
	}
	return nil
}
