package dispatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
)

// RepairSandboxes brings sandboxes back to where a command can run in them: those of
// these names or, without names, that of the current scope. What runs in one goes
// on, unless it cannot be reached any more. Nothing in it is lost but that.
func RepairSandboxes(ctx context.Context, h Host, names []string) error {
	at, err := h.home(ctx)
	if err != nil && len(names) == 0 {
		return err
	}
	boxes, err := h.chosen(ctx, at, names)
	if err != nil {
		return err
	}
	if len(boxes) == 0 {
		return hint.Wrap(errors.New("this worktree and branch have no sandbox"), "list all with %q", "docker ralph ls --all")
	}
	var errs []error
	for _, l := range boxes {
		if err := h.repair(ctx, l); err != nil {
			errs = append(errs, fmt.Errorf("repairing the sandbox %s: %w", l.sb.Name, err))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return errors.Join(errs...)
}

func (h Host) repair(ctx context.Context, l located) error {
	if gone(l.sb.Root) {
		return hint.Wrap(fmt.Errorf("its worktree %s is gone", l.sb.Root), "if you have moved it, run %q there", "docker ralph --recreate task list")
	}
	h.Dir, h.Confirm = l.sb.Root, nil
	j := &job{Host: h, opts: Options{Command: taskCommand}}
	if err := j.decide(ctx, h.connect()); err != nil {
		return err
	}
	if _, err := j.equip(ctx); err != nil {
		return err
	}
	leave, err := h.attend(ctx, j.wt.Scope)
	if err != nil {
		return err
	}
	defer leave()
	if err := h.revive(ctx, l); err != nil {
		return err
	}
	ensurer := j.ensurer(j.at, j.opts)
	ensurer.AnyAgent = j.egressOf(j.spec, j.cfg, j.at)
	sb, err := ensurer.Ensure(ctx, j.spec, false)
	if err != nil {
		return err
	}
	if err := answersInside(ctx, j.at.driver, sb); err != nil {
		return err
	}
	if err := h.resync(ctx, j.at, sb); err != nil {
		return err
	}
	h.sweepOrphans(ctx, j.at.driver)
	h.report(fmt.Sprintf("The sandbox %s works", sb.Name))
	return nil
}

// resync fetches the commits of a sandbox, and restores its git directory if that is
// broken. A command that works in it does so itself.
func (h Host) resync(ctx context.Context, at place, sb lifecycle.Sandbox) error {
	if at.git == nil {
		return nil
	}
	if free, err := at.git.alive.TryLock(); err != nil || !free {
		return err
	}
	defer func() { _ = at.git.alive.Close() }()
	return h.takeIn(ctx, at, sb)
}

// revive stops a sandbox in which nothing can be started any more, and has a
// container prepared again, whatever is noted of it.
func (h Host) revive(ctx context.Context, l located) error {
	sb, err := l.at.driver.Lookup(ctx, l.sb.Name)
	if err != nil {
		return err
	}
	d, ok := l.at.driver.(*container.Driver)
	why := ""
	switch {
	case sb.State != lifecycle.Running:
		h.report(fmt.Sprintf("It is %s", sb.State))
	case ok && d.Stranded(sb):
		why = "it has lost its network"
	default:
		if err := answersInside(ctx, l.at.driver, sb); err != nil {
			why = "no process can be started in it"
		}
	}
	if why != "" {
		h.report("Restarting it: " + why)
		if err := l.at.driver.Stop(ctx, sb); err != nil {
			return err
		}
	}
	if ok {
		return d.Unprepare(sb)
	}
	return nil
}

// answersInside starts a process in a sandbox that runs, to see that one can be. A
// sandbox that was not prepared yet has no say.
func answersInside(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	if _, err := driver.Dispatches(ctx, sb); err != nil && !errors.Is(err, lifecycle.ErrNotPrepared) {
		return err
	}
	return nil
}
