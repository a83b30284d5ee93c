package dispatch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/wire"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire/printable"
)

// SandboxStop says which sandboxes to stop, and how.
type SandboxStop struct {
	// Names are those of the sandboxes; none for that of the current scope.
	Names []string
	// Now ends what runs there instead of asking it to come to an end.
	Now bool
}

// StopSandboxes stops sandboxes. A loop that runs in one is asked to end after
// its task, and waited for. What is in the sandbox stays there.
func StopSandboxes(ctx context.Context, h Host, opts SandboxStop) error {
	at, err := h.home(ctx)
	if err != nil && len(opts.Names) == 0 {
		return err
	}
	boxes, err := h.chosen(ctx, at, opts.Names)
	if err != nil {
		return err
	}
	if len(boxes) == 0 {
		h.report("There is no sandbox of this work tree and branch, so nothing runs")
		return nil
	}
	var errs []error
	for _, l := range boxes {
		errs = append(errs, h.stop(ctx, l, opts.Now))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return errors.Join(errs...)
}

func (h Host) stop(ctx context.Context, l located, now bool) error {
	switch l.sb.State {
	case lifecycle.Running:
	case lifecycle.Stopped, lifecycle.NotFound, lifecycle.Dead:
		h.report(fmt.Sprintf("Nothing runs in %s: it is stopped", l.sb.Name))
		return nil
	default:
		return hint.Wrap(fmt.Errorf("the sandbox %s is %s", l.sb.Name, l.sb.State), "repair it with %q", "docker ralph repair "+l.sb.Name)
	}
	running, err := h.whatRuns(ctx, l, now)
	if err != nil {
		return err
	}
	if now {
		h.terminate(ctx, l, running)
		return h.halt(ctx, l, true)
	}
	if len(running) == 0 {
		h.report("Nothing runs in " + l.sb.Name)
		return h.halt(ctx, l, false)
	}
	return h.finishLoops(ctx, l, running)
}

// whatRuns asks a sandbox what runs in it. One that another version of ours has
// prepared cannot tell.
func (h Host) whatRuns(ctx context.Context, l located, now bool) ([]lifecycle.Dispatch, error) {
	running, err := l.at.driver.Dispatches(ctx, l.sb)
	if err == nil || now {
		return running, ctx.Err()
	}
	busy, busyErr := l.at.driver.Busy(ctx, l.sb)
	if busyErr != nil || busy {
		return nil, fmt.Errorf("it cannot be told what runs in the sandbox %s: %w. End it, whatever it is, with --now", l.sb.Name, errors.Join(err, busyErr))
	}
	return nil, nil
}

// finishLoops asks the loops in a sandbox to end after their tasks, and stops the
// sandbox when they have, unless something else runs there.
func (h Host) finishLoops(ctx context.Context, l located, running []lifecycle.Dispatch) error {
	var others []string
	var errs []error
	for _, d := range running {
		switch name, loop := loopCommand(d.Command); {
		case loop:
			errs = append(errs, h.finishLoop(ctx, l, d, name))
		case name == "task": // takes a moment: a loop that has just ended saves its backlog with one
			errs = append(errs, h.waitFor(ctx, l, d.ID))
		default:
			others = append(others, fmt.Sprintf("%q", name))
		}
	}
	switch {
	case errors.Join(errs...) != nil:
		return errors.Join(errs...)
	case len(others) > 0:
		return fmt.Errorf("the sandbox %s goes on, because %s runs in it, which is no loop: end it yourself, or with --now", l.sb.Name, strings.Join(others, " and "))
	}
	return h.halt(ctx, l, false)
}

func (h Host) finishLoop(ctx context.Context, l located, d lifecycle.Dispatch, name string) error {
	if err := h.instruct(ctx, l, "_finish", d.ID); err != nil && h.runs(ctx, l, d.ID) {
		return fmt.Errorf("%q in the sandbox %s cannot be asked to stop: %w. End it with --now", name, l.sb.Name, err)
	}
	what := "its run"
	if status := runningLoop([]lifecycle.Dispatch{d}, loopsOf(l.sb)); len(status.Tasks) > 0 {
		what = strings.Join(status.Tasks, ", ")
	}
	h.report(fmt.Sprintf("Asked %q in %s to stop after %s. Ctrl+C ends the waiting, not the loop; --now ends the loop at once", name, l.sb.Name, what))
	if err := h.waitFor(ctx, l, d.ID); err != nil {
		return err
	}
	h.tellOutcome(l, d, name)
	return ctx.Err()
}

// waitFor waits until a process in a sandbox has ended.
func (h Host) waitFor(ctx context.Context, l located, id string) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for h.runs(ctx, l, id) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// tellOutcome says how a loop has ended, as far as its log tells.
func (h Host) tellOutcome(l located, d lifecycle.Dispatch, name string) {
	for _, log := range loopsOf(l.sb) {
		if log.Ended.IsZero() || log.Dispatch != d.ID {
			continue
		}
		line := fmt.Sprintf("%q has ended: %s (exit code %d)", name, strings.ReplaceAll(printable.Line(log.Stop), "_", " "), log.ExitCode)
		if log.Summary != "" {
			line += "\n" + printable.Line(log.Summary)
		}
		h.report(line)
		return
	}
	h.report(fmt.Sprintf("%q has ended", name))
}

// runs tells whether a process still runs. While nobody can tell, it does, unless
// its sandbox does not.
func (h Host) runs(ctx context.Context, l located, id string) bool {
	running, err := l.at.driver.Dispatches(ctx, l.sb)
	if err == nil {
		return slices.ContainsFunc(running, func(d lifecycle.Dispatch) bool { return d.ID == id })
	}
	sb, err := l.at.driver.Lookup(ctx, l.sb.Name)
	return err != nil || sb.State == lifecycle.Running
}

// instruct runs one of ralph's own commands in a sandbox.
func (h Host) instruct(ctx context.Context, l located, args ...string) error {
	var said strings.Builder
	code, err := l.at.driver.Exec(ctx, l.sb, lifecycle.Process{
		ID: rand.Text(), Args: append([]string{wire.Program}, args...), Dir: l.sb.Root, Stdout: io.Discard, Stderr: &said,
	})
	if err == nil && code != 0 {
		err = fmt.Errorf("it ended with %d: %s", code, printable.Line(strings.TrimSpace(said.String())))
	}
	return err
}

const (
	// termGrace is how long what runs may take to end when it is told to, before
	// its sandbox is stopped under it.
	termGrace = 10 * time.Second
	// homeGrace is how long another command may take to bring home what its loop
	// has made.
	homeGrace = 30 * time.Second
)

// terminate ends what runs in a sandbox. Loops give their tasks back then.
func (h Host) terminate(ctx context.Context, l located, running []lifecycle.Dispatch) {
	for _, d := range running {
		name, _ := loopCommand(d.Command)
		h.report(fmt.Sprintf("Ending %q in %s", name, l.sb.Name))
		_ = h.instruct(ctx, l, "_signal", "TERM", d.ID) // if it cannot be told, the sandbox is stopped
	}
	patience, cancel := context.WithTimeout(ctx, termGrace)
	defer cancel()
	tick := time.NewTicker(lookEvery / 4)
	defer tick.Stop()
	for len(running) > 0 {
		running = slices.DeleteFunc(running, func(d lifecycle.Dispatch) bool { return !h.runs(patience, l, d.ID) })
		select {
		case <-patience.Done():
			return
		case <-tick.C:
		}
	}
}

// halt stops a sandbox, after the command that has used it has brought its
// commits home, or else after we have.
func (h Host) halt(ctx context.Context, l located, force bool) error {
	leave, err := h.exclude(ctx, l.sb, homeGrace)
	if err != nil {
		return err
	}
	if leave != nil {
		defer leave()
	} else if !force {
		return fmt.Errorf("another command still works with the sandbox %s, so it was left running: stop it with --now", l.sb.Name)
	}
	sb, err := l.at.driver.Lookup(ctx, l.sb.Name)
	if err != nil {
		return err
	}
	if l.sb = sb; sb.State != lifecycle.Running {
		return nil
	}
	if !force {
		if running, err := h.whatRuns(ctx, l, false); err != nil || len(running) > 0 {
			return errors.Join(err, fmt.Errorf("something was started in the sandbox %s, so it was left running", sb.Name))
		}
	}
	if err := h.fetch(ctx, l); err != nil {
		h.report(fmt.Sprintf("Warning: %v. They stay in the sandbox", err))
	}
	h.noteStop(sb.Name)
	if err := l.at.driver.Stop(ctx, sb); err != nil {
		return err
	}
	h.report("Stopped the sandbox " + sb.Name)
	return nil
}

func (h Host) stopPath(name string) string { return filepath.Join(h.lockDir(), name+".stopped") }

// noteStop notes that a sandbox is about to be stopped on purpose, for a loop in it
// whose driver cannot tell that from an accident.
func (h Host) noteStop(name string) {
	if err := os.MkdirAll(h.lockDir(), 0o700); err == nil {
		_ = os.WriteFile(h.stopPath(name), nil, 0o600) // without it, the loop is started again
	}
}

func (h Host) stoppedSince(name string, t time.Time) bool {
	info, err := os.Stat(h.stopPath(name))
	return err == nil && info.ModTime().After(t)
}
