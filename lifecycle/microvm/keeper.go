package microvm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/creack/pty"
	"github.com/gofrs/flock"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/scopes"
	"github.com/docker-ralph/docker-ralph/wire"
)

// startKeeper starts a process that outlives this one and keeps the sandbox running
// for a command: both programs stop a sandbox without connections (contract,
// sections 1 and 4).
func (d *Driver) startKeeper(ctx context.Context, name, id string) error {
	if len(d.Keeper) == 0 {
		return errors.New("no keeper program")
	}
	log, err := os.OpenFile(d.keeperLog(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("writing the keeper's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	if err := d.createLock(keeperLock(d.name, name)); err != nil {
		return err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), d.Keeper[0], slices.Concat(d.Keeper[1:], []string{d.name, name, id})...)
	cmd.Env, cmd.Dir, cmd.Stderr = environment(), string(filepath.Separator), log
	lifecycle.Outlive(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the keeper: %w", err)
	}
	go func() { _ = cmd.Wait() }() // it does not matter to us how it ends
	return nil
}

func keeperLock(driver, sandbox string) string { return driver + "-" + sandbox + ".keeper" }

// keeperLog is the log file of a sandbox's keepers.
func (d *Driver) keeperLog(name string) string {
	return scopes.Path(d.StateDir, name, d.name+".keeper.log")
}

// keeperTries is how many consecutive sessions of a keeper may fail.
const keeperTries = 20

// Keep prevents that a sandbox stops as idle while commands run in it, and at least
// until the one with this ID has had time to start. One keeper serves a sandbox;
// another waits to take over.
func (d *Driver) Keep(ctx context.Context, name, id string) error {
	// A keeper that starts after the sandbox was forgotten does not create its lock file again.
	unlock, err := d.lock(ctx, keeperLock(d.name, name), flock.SetFlag(os.O_RDWR))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	for failed := 0; ; {
		// A session starts a stopped sandbox, which may have been stopped while this keeper waited.
		if sb, err := d.Lookup(ctx, name); err == nil && (sb.State == lifecycle.Stopped || sb.State == lifecycle.NotFound) {
			return nil
		}
		done, err := d.hold(ctx, name, id)
		if done || ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			failed = 0
			continue
		}
		// A restart of the daemon breaks the session; a stopped sandbox needs none.
		sb, lookErr := d.Lookup(ctx, name)
		if lookErr == nil && (sb.State == lifecycle.Stopped || sb.State == lifecycle.NotFound) {
			return nil
		}
		if failed++; failed == keeperTries {
			return fmt.Errorf("keeping the sandbox %s alive: %w", name, errors.Join(err, lookErr))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(time.Duration(failed)*time.Second, 10*time.Second)):
		}
	}
}

// hold keeps one session open until no command runs any more.
func (d *Driver) hold(ctx context.Context, name, id string) (done bool, err error) {
	rec, known, err := d.records().read(name)
	if err != nil || !known {
		return !known, err
	}
	c, err := d.client(ctx)
	if err != nil {
		return false, err
	}
	ralph := d.guestFolder().path(rec.Prepared)
	if d.beat > 0 {
		err = runOnTerminal(c.command(ctx, d.exec(name, execOptions{terminal: true}, ralph, "_hold", id, d.beat.String())))
	} else {
		err = c.command(ctx, d.exec(name, execOptions{}, ralph, "_hold", id)).Run()
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == wire.HoldTimeUp {
		return false, nil
	}
	return err == nil, err
}

// runOnTerminal runs a command on a pseudo-terminal and discards its output.
func runOnTerminal(cmd *exec.Cmd) error {
	cmd.SysProcAttr, cmd.Cancel = nil, nil
	master, err := pty.Start(cmd)
	if err != nil {
		return fmt.Errorf("opening a pseudo-terminal: %w", err)
	}
	defer func() { _ = master.Close() }()
	go func() { _, _ = io.Copy(io.Discard, master) }() // so that nothing waits to write to it
	return cmd.Wait()
}
