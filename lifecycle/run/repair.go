package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
)

// RepairSandboxes repairs sandboxes so that commands can run in them: those of these names or,
// without names, that of the current scope. Processes in them continue, unless none can be
// started beside them.
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
		return host.ErrNoSandbox
	}
	var errs []error
	for _, l := range boxes {
		if err := repair(ctx, h, l); err != nil {
			errs = append(errs, fmt.Errorf("repairing sandbox %s: %w", l.Sandbox.Name, err))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return errors.Join(errs...)
}

func repair(ctx context.Context, h host.Host, l host.Located) error {
	if err := l.Backend.Unusable; err != nil {
		return err
	}
	if host.Missing(l.Sandbox.Root) {
		return hint.Wrap(fmt.Errorf("worktree %s does not exist", l.Sandbox.Root), "if you have moved it, run %q there", "docker ralph shell --recreate -- true")
	}
	h.Dir, h.Confirm = l.Sandbox.Root, nil
	t, err := configure(ctx, h, Options{})
	if err != nil {
		return err
	}
	connected := h.Connect()
	if err := t.choose(ctx, h, connected); err != nil {
		return err
	}
	if err := t.describe(ctx, h, connected); err != nil {
		return err
	}
	git, err := commits.Open(ctx, h, t.wt, t.Backend, t.scan, &t.spec, commits.Brings{Ignored: t.cfg.Include})
	if err != nil {
		return err
	}
	if _, err := makeSignable(ctx, h, t, git != nil, &t.spec); err != nil {
		return err
	}
	use, err := h.LockShared(ctx, t.spec.Name)
	if err != nil {
		return err
	}
	defer use.Leave()
	if err := restartIfStuck(ctx, h, l); err != nil {
		return err
	}
	e := ensurer(h, t, use)
	e.AnyAgent = egressOf(h, t.spec, t.cfg, t.Choice)
	sb, err := e.Ensure(ctx, t.spec, false)
	if err != nil {
		return err
	}
	if err := checkProcesses(ctx, t.Driver, sb); err != nil {
		return err
	}
	if err := git.Sync(ctx, sb); err != nil {
		return err
	}
	sweepOrphans(ctx, h, t.Driver)
	h.Report(fmt.Sprintf("Sandbox %s works", sb.Name))
	return nil
}

// restartIfStuck stops a sandbox in which no process can be started. A container is prepared again by
// the next command.
func restartIfStuck(ctx context.Context, h host.Host, l host.Located) error {
	sb, err := l.Backend.Driver.Lookup(ctx, l.Sandbox.Name)
	if err != nil {
		return err
	}
	if sb.State != lifecycle.Running {
		h.Report(fmt.Sprintf("It is %s", sb.State))
	} else if err := checkProcesses(ctx, l.Backend.Driver, sb); err != nil {
		h.Report("Restarting it: no process can be started in it")
		if err := l.Backend.Driver.Stop(ctx, sb); err != nil {
			return err
		}
	}
	if d, ok := l.Backend.Driver.(*container.Driver); ok {
		return d.Unprepare(sb)
	}
	return nil
}

// checkProcesses checks that a process can be started in a running sandbox, if that was
// prepared.
func checkProcesses(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox) error {
	ctx, cancel := context.WithTimeout(ctx, host.AskTimeout)
	defer cancel()
	if _, err := driver.Dispatches(ctx, sb); err != nil && !errors.Is(err, lifecycle.ErrNotPrepared) {
		return err
	}
	return nil
}
