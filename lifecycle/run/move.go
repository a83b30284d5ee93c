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

// movedFrom returns where the sandbox is, if it is to be moved; nil otherwise.
func (t Target) movedFrom(ctx context.Context, h host.Host, connected func() (host.API, error)) *host.EngineRecord {
	r, elsewhere := h.Elsewhere(t.name)
	if !elsewhere || !t.opts.Move || !t.cfg.Sandbox.Reuse || t.Kind != config.DriverContainer {
		return nil
	}
	if _, same := h.IsSelected(ctx, t.name, connected); same {
		return nil
	}
	return &r
}

// move removes the sandbox from the engine where it is, after its work was brought back. The
// command creates it on the selected engine.
func (t Target) move(ctx context.Context, h host.Host) error {
	if t.from == nil {
		return nil
	}
	api, err := h.ConnectRecorded(ctx, t.name, t.from.Engine)
	if err != nil {
		return err
	}
	driver := h.ContainerDriver(api)
	at := host.Backend{Kind: config.DriverContainer, Driver: driver, Engine: t.from.Engine}
	return move{t, h, driver, commits.Save(h, at, t.scan, t.wt)}.run(ctx)
}

// oldEngine is the driver of the engine that a sandbox is moved from.
type oldEngine interface {
	lifecycle.Driver
	HasVolume(ctx context.Context, name string) (bool, error)
	RemoveGit(ctx context.Context, sandbox string) error
}

// move moves a sandbox. After an interruption at any step, it can be run again: the record of the
// engine changes last, and nothing is removed before this machine has it.
type move struct {
	Target
	host   host.Host
	driver oldEngine
	// save brings back to this machine what only the sandbox has: commits, and of a clone logs and
	// backlog, too.
	save func(context.Context, lifecycle.Sandbox) error
}

func (m move) run(ctx context.Context) error {
	if err := m.locked(ctx); err != nil {
		return fmt.Errorf("moving sandbox %s from engine %s: %w", m.name, m.from.Engine, err)
	}
	return nil
}

// locked moves it while no other command uses it.
func (m move) locked(ctx context.Context) error {
	leave, err := m.host.LockExclusive(ctx, m.name, 0)
	if err != nil {
		return err
	}
	if leave == nil {
		return hint.Wrap(errors.New("another command is using it"), "wait for it, or stop it with %q", "docker ralph stop "+m.name)
	}
	defer leave()
	sb, err := m.driver.Lookup(ctx, m.name)
	if _, foreign := errors.AsType[*lifecycle.ForeignError](err); foreign {
		sb, err = lifecycle.Sandbox{State: lifecycle.NotFound}, nil
	}
	if err != nil {
		return err
	}
	if sb.State == lifecycle.NotFound {
		err = m.removeVolumes(ctx)
	} else {
		err = m.removeSandbox(ctx, sb)
	}
	if err == nil {
		err = os.RemoveAll(m.host.RecordDir(m.name))
	}
	if err != nil {
		return err
	}
	return m.host.MoveEngine(m.name, host.NewEngineRecord(m.Engine, m.spec))
}

// removeSandbox brings the work of the sandbox back and removes it.
func (m move) removeSandbox(ctx context.Context, sb lifecycle.Sandbox) error {
	if err := m.spec.Check(sb); err != nil && !m.host.Moved(sb, m.wt) {
		return err
	}
	if sb.State == lifecycle.Running {
		busy, err := m.driver.Busy(ctx, sb)
		if err == nil && busy {
			err = hint.Wrap(errors.New("a command is still running in it"), "stop it with %q", "docker ralph stop "+sb.Name)
		}
		if err != nil {
			return err
		}
	}
	m.host.Report(fmt.Sprintf("Moving sandbox %s from engine %s to %s", m.name, m.from.Engine, m.Engine))
	if err := m.save(ctx, sb); err != nil {
		return err
	}
	if sb.Private && !gitsync.Saved(m.host.StateDir, sb.Name) {
		return hint.Wrap(errors.New("its commits cannot be fetched"), "run %q without --move first, or %s", "docker ralph repair", commits.DiscardHint(sb.Name))
	}
	return m.driver.Remove(ctx, sb)
}

// removeVolumes removes what is left of a sandbox that does not exist any more.
func (m move) removeVolumes(ctx context.Context) error {
	volume := container.GitVolumeOf(m.name)
	has, err := m.driver.HasVolume(ctx, volume)
	if _, foreign := errors.AsType[*lifecycle.ForeignError](err); foreign {
		return nil
	}
	switch saved := gitsync.Saved(m.host.StateDir, m.name); {
	case err != nil:
		return err
	case saved: // removing the sandbox may have been interrupted
		return m.driver.RemoveGit(ctx, m.name)
	case has:
		return hint.Wrap(fmt.Errorf("volume %s may have the only copy of commits", volume),
			"run %q without --move first, which recreates the sandbox with that volume", "docker ralph shell -- true")
	}
	return nil
}
