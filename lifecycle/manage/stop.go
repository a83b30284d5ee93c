package manage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/wire"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
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
func StopSandboxes(ctx context.Context, h host.Host, opts SandboxStop) error {
	at, err := h.Here(ctx)
	if err != nil && len(opts.Names) == 0 {
		return err
	}
	boxes, err := h.Select(ctx, at, opts.Names)
	if err != nil {
		return err
	}
	if len(boxes) == 0 {
		h.Report("There is no sandbox of this work tree and branch, so nothing runs")
		return nil
	}
	var errs []error
	for _, l := range boxes {
		errs = append(errs, stop(ctx, h, l, opts.Now))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return errors.Join(errs...)
}

func stop(ctx context.Context, h host.Host, l host.Located, now bool) error {
	switch l.Sandbox.State {
	case lifecycle.Running:
	case lifecycle.Stopped, lifecycle.NotFound, lifecycle.Dead:
		h.Report(fmt.Sprintf("Nothing runs in %s: it is stopped", l.Sandbox.Name))
		return nil
	default:
		return hint.Wrap(fmt.Errorf("the sandbox %s is %s", l.Sandbox.Name, l.Sandbox.State), "repair it with %q", "docker ralph repair "+l.Sandbox.Name)
	}
	running, err := whatRuns(ctx, l, now)
	if err != nil {
		return err
	}
	if now {
		terminate(ctx, h, l, running)
		return halt(ctx, h, l, true)
	}
	if len(running) == 0 {
		h.Report("Nothing runs in " + l.Sandbox.Name)
		return halt(ctx, h, l, false)
	}
	return finishLoops(ctx, h, l, running)
}

// whatRuns asks a sandbox what runs in it. One that another version of ours has
// prepared cannot tell.
func whatRuns(ctx context.Context, l host.Located, now bool) ([]lifecycle.Dispatch, error) {
	running, err := l.Backend.Driver.Dispatches(ctx, l.Sandbox)
	if err == nil || now {
		return running, ctx.Err()
	}
	busy, busyErr := l.Backend.Driver.Busy(ctx, l.Sandbox)
	if busyErr != nil || busy {
		return nil, hint.Wrap(fmt.Errorf("unknown what is running in the sandbox %s: %w", l.Sandbox.Name, errors.Join(err, busyErr)), "stop it with --now")
	}
	return nil, nil
}

// finishLoops asks the loops in a sandbox to end after their tasks, and stops the
// sandbox when they have, unless something else runs there.
func finishLoops(ctx context.Context, h host.Host, l host.Located, running []lifecycle.Dispatch) error {
	var others []string
	var errs []error
	for _, d := range running {
		switch name, loop := host.LoopCommand(d.Command); {
		case loop:
			errs = append(errs, finishLoop(ctx, h, l, d, name))
		case name == "task" || d.Service(): // takes a moment: a loop that has just ended saves its backlog and commits
			errs = append(errs, waitFor(ctx, l, d.ID))
		default:
			others = append(others, fmt.Sprintf("%q", name))
		}
	}
	switch {
	case errors.Join(errs...) != nil:
		return errors.Join(errs...)
	case len(others) > 0:
		return hint.Wrap(fmt.Errorf("sandbox %s kept running: %s is still active", l.Sandbox.Name, strings.Join(others, " and ")), "stop it with --now")
	}
	return halt(ctx, h, l, false)
}

func finishLoop(ctx context.Context, h host.Host, l host.Located, d lifecycle.Dispatch, name string) error {
	if err := instruct(ctx, l, "_finish", d.ID); err != nil && stillRuns(ctx, l, d.ID) {
		return hint.Wrap(fmt.Errorf("stopping %q in the sandbox %s: %w", name, l.Sandbox.Name, err), "stop it with --now")
	}
	what := "its run"
	if status := runningLoop([]lifecycle.Dispatch{d}, loopsOf(l.Sandbox)); len(status.Tasks) > 0 {
		what = strings.Join(status.Tasks, ", ")
	}
	h.Report(fmt.Sprintf("Asked %q in %s to stop after %s. Press Ctrl+C to stop waiting; --now stops the loop at once", name, l.Sandbox.Name, what))
	if err := waitFor(ctx, l, d.ID); err != nil {
		return err
	}
	tellOutcome(h, l, d, name)
	return ctx.Err()
}

// waitFor waits until a process in a sandbox has ended.
func waitFor(ctx context.Context, l host.Located, id string) error {
	tick := time.NewTicker(commits.LookEvery)
	defer tick.Stop()
	for stillRuns(ctx, l, id) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// tellOutcome says how a loop has ended, as far as its log tells.
func tellOutcome(h host.Host, l host.Located, d lifecycle.Dispatch, name string) {
	for _, log := range loopsOf(l.Sandbox) {
		if log.Ended.IsZero() || log.Dispatch != d.ID {
			continue
		}
		line := fmt.Sprintf("%q has ended: %s (exit code %d)", name, strings.ReplaceAll(termsafe.Line(log.Stop), "_", " "), log.ExitCode)
		if log.Summary != "" {
			line += "\n" + termsafe.Line(log.Summary)
		}
		h.Report(line)
		return
	}
	h.Report(fmt.Sprintf("%q has ended", name))
}

// stillRuns reports whether a process still runs. While nobody can tell, it does, unless
// its sandbox does not.
func stillRuns(ctx context.Context, l host.Located, id string) bool {
	running, err := l.Backend.Driver.Dispatches(ctx, l.Sandbox)
	if err == nil {
		return slices.ContainsFunc(running, func(d lifecycle.Dispatch) bool { return d.ID == id })
	}
	sb, err := l.Backend.Driver.Lookup(ctx, l.Sandbox.Name)
	return err != nil || sb.State == lifecycle.Running
}

// instruct runs one of ralph's own commands in a sandbox.
func instruct(ctx context.Context, l host.Located, args ...string) error {
	var said strings.Builder
	code, err := l.Backend.Driver.Exec(ctx, l.Sandbox, lifecycle.Process{
		ID: lifecycle.NewServiceID(), Args: append([]string{wire.Program}, args...), Dir: l.Sandbox.Root, Stdout: io.Discard, Stderr: &said,
	})
	if err == nil && code != 0 {
		err = fmt.Errorf("it ended with %d: %s", code, termsafe.Line(strings.TrimSpace(said.String())))
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
func terminate(ctx context.Context, h host.Host, l host.Located, running []lifecycle.Dispatch) {
	for _, d := range running {
		name, _ := host.LoopCommand(d.Command)
		h.Report(fmt.Sprintf("Ending %q in %s", name, l.Sandbox.Name))
		_ = instruct(ctx, l, "_signal", "TERM", d.ID) // if it cannot be told, the sandbox is stopped
	}
	patience, cancel := context.WithTimeout(ctx, termGrace)
	defer cancel()
	tick := time.NewTicker(commits.LookEvery / 4)
	defer tick.Stop()
	for len(running) > 0 {
		running = slices.DeleteFunc(running, func(d lifecycle.Dispatch) bool { return !stillRuns(patience, l, d.ID) })
		select {
		case <-patience.Done():
			return
		case <-tick.C:
		}
	}
}

// halt stops a sandbox, after the command that has used it has brought its
// commits home, or else after we have.
func halt(ctx context.Context, h host.Host, l host.Located, force bool) error {
	leave, err := h.Exclude(ctx, l.Sandbox, homeGrace)
	if err != nil {
		return err
	}
	if leave != nil {
		defer leave()
	} else if !force {
		return fmt.Errorf("another command still works with the sandbox %s, so it was left running: stop it with --now", l.Sandbox.Name)
	}
	sb, err := l.Backend.Driver.Lookup(ctx, l.Sandbox.Name)
	if err != nil {
		return err
	}
	if l.Sandbox = sb; sb.State != lifecycle.Running {
		return nil
	}
	if !force {
		running, err := whatRuns(ctx, l, false)
		running = slices.DeleteFunc(running, lifecycle.Dispatch.Service)
		if err != nil || len(running) > 0 {
			return errors.Join(err, fmt.Errorf("something was started in the sandbox %s, so it was left running", sb.Name))
		}
	}
	if err := commits.FetchFrom(ctx, h, l); err != nil {
		h.Report(fmt.Sprintf("Warning: %v. They stay in the sandbox", err))
	}
	h.NoteStop(sb.Name)
	if err := l.Backend.Driver.Stop(ctx, sb); err != nil {
		return err
	}
	h.Report("Stopped the sandbox " + sb.Name)
	return nil
}
