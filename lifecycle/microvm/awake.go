package microvm

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"time"

	"github.com/creack/pty"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// keepAwake prevents that a sandbox stops as idle while a process runs in it, until stop is called. A session does with
// sbx, but a lasting process goes on without one; docker sandbox notices only sessions with a terminal (contract, sections
// 1 and 4).
func (d *Driver) keepAwake(ctx context.Context, sb lifecycle.Sandbox, p lifecycle.Process) (stop func()) {
	if p.Lasting && len(d.pin) > 0 {
		if _, err := d.call(ctx, limitStart, append(slices.Clone(d.pin), sb.Name)...); err != nil {
			d.Report(fmt.Sprintf("Warning: the sandbox may stop as idle without a connection: %v", err))
		}
	}
	if d.beat == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		tick := time.NewTicker(d.beat)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				d.touch(ctx, sb.Name)
			}
		}
	}()
	return cancel
}

// touch opens a session with a terminal in a running sandbox. A failed one is repeated by the next.
func (d *Driver) touch(ctx context.Context, name string) {
	if sb, err := d.Lookup(ctx, name); err != nil || sb.State != lifecycle.Running { // a session would start it
		return
	}
	c, err := d.client(ctx)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, d.scaled(limitExec))
	defer cancel()
	_ = runOnTerminal(c.command(ctx, d.exec(name, execOptions{terminal: true}, "true")))
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

// Unpin implements [lifecycle.Pinner].
func (d *Driver) Unpin(ctx context.Context, sb lifecycle.Sandbox) error {
	if len(d.pin) == 0 {
		return nil
	}
	if busy, err := d.Busy(ctx, sb); err != nil || busy {
		return err
	}
	return d.Stop(ctx, sb)
}
