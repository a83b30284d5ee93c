package run

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// recordEngine records the engine of a container before it is created or used. The first record of
// a sandbox is not written without a response: it would bind the sandbox to an engine that never had it.
func recordEngine(ctx context.Context, h host.Host, r Ready) error {
	if r.Kind != config.DriverContainer {
		return nil
	}
	if _, found := h.EngineRecord(r.spec.Name); !found && ping(ctx, r.API) != nil {
		return nil // which [lifecycle.Ensurer.Ensure] reports
	}
	return h.SaveEngine(r.spec.Name, host.NewEngineRecord(r.Engine, r.spec))
}

// move removes the sandbox from the engine where it is, after its work was brought back. The
// command creates it on the selected engine.
func (t Target) move(ctx context.Context, h host.Host) error {
	if t.from == nil {
		return nil
	}
	from := t.from.Engine
	api, err := h.ConnectRecorded(ctx, t.name, from)
	if err != nil {
		return err
	}
	driver := h.ContainerDriver(api)
	sb, err := driver.Lookup(ctx, t.name)
	if _, foreign := errors.AsType[*lifecycle.ForeignError](err); foreign {
		sb, err = lifecycle.Sandbox{Name: t.name, State: lifecycle.NotFound}, nil
	}
	if err != nil {
		return err
	}
	if sb.State == lifecycle.NotFound {
		err = t.moveVolume(ctx, h, driver)
	} else {
		err = t.moveSandbox(ctx, h, driver, sb)
	}
	if err != nil {
		return fmt.Errorf("moving the sandbox %s from the engine %s: %w", t.name, from, err)
	}
	return errors.Join(os.RemoveAll(h.RecordDir(t.name)), h.ForgetEngine(t.name))
}

// moveSandbox brings the work of a sandbox back and removes it.
func (t Target) moveSandbox(ctx context.Context, h host.Host, driver *container.Driver, sb lifecycle.Sandbox) error {
	if err := t.spec.Check(sb); err != nil && !h.Moved(sb, t.wt) {
		return err
	}
	leave, err := h.LockExclusive(ctx, sb.Name, 0)
	if err != nil {
		return err
	}
	if leave == nil {
		return hint.Wrap(errors.New("another command is using it"), "wait for it, or stop it with %q", "docker ralph stop "+sb.Name)
	}
	defer leave()
	if sb.State == lifecycle.Running {
		busy, err := driver.Busy(ctx, sb)
		if err == nil && busy {
			err = hint.Wrap(errors.New("a command is still running in it"), "stop it with %q", "docker ralph stop "+sb.Name)
		}
		if err != nil {
			return err
		}
	}
	h.Report(fmt.Sprintf("Moving the sandbox %s from the engine %s to %s", t.name, t.from.Engine, h.Selected))
	if err := t.moveIn(ctx, h, driver, sb); err != nil {
		return err
	}
	return driver.Remove(ctx, sb)
}

// moveIn brings back to this machine what only the sandbox has: commits, and of a clone logs and
// backlog, too.
func (t Target) moveIn(ctx context.Context, h host.Host, driver *container.Driver, sb lifecycle.Sandbox) error {
	at := host.Backend{Kind: config.DriverContainer, Driver: driver, Engine: t.from.Engine}
	if err := commits.Save(h, at, t.scan, t.wt)(ctx, sb); err != nil {
		return err
	}
	if sb.Private && !gitsync.Saved(h.StateDir, sb.Name) {
		return hint.Wrap(errors.New("its commits cannot be fetched"), "run %q without --move first, or %s", "docker ralph task list", commits.DiscardHint(sb.Name))
	}
	return nil
}

// moveVolume removes the git volume of a sandbox that does not exist any more.
func (t Target) moveVolume(ctx context.Context, h host.Host, driver *container.Driver) error {
	volume := container.GitVolumeOf(t.name)
	has, err := driver.HasVolume(ctx, volume)
	if _, foreign := errors.AsType[*lifecycle.ForeignError](err); foreign || err == nil && !has {
		return nil
	}
	if err != nil {
		return err
	}
	if !gitsync.Saved(h.StateDir, t.name) {
		return hint.Wrap(fmt.Errorf("the volume %s may have the only copy of commits", volume),
			"run %q without --move first, which recreates the sandbox with that volume", "docker ralph task list")
	}
	return driver.RemoveGit(ctx, t.name)
}
