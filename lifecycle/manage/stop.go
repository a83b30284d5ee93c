package manage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/run"
	"github.com/docker-ralph/docker-ralph/wire"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// StopOptions are the options of [StopSandboxes].
type StopOptions struct {
	// Names are the sandboxes to stop; without them, those of the current scope.
	Names []string
	// Now terminates what runs instead of waiting for the current task.
	Now bool
	// Timeout terminates what still runs after it; nil for no limit.
	Timeout *time.Duration
}

// StopSandboxes stops sandboxes, after the current task of the loop that runs in
// them.
func StopSandboxes(ctx context.Context, h host.Host, opts StopOptions) error {
	at, err := h.Here(ctx)
	if err != nil && len(opts.Names) == 0 {
		return err
	}
	boxes, err := h.Select(ctx, at, opts.Names)
	if err == nil && len(boxes) == 0 {
		boxes, err = awaitSandbox(ctx, h, at)
	}
	if err != nil {
		return err
	}
	if len(boxes) == 0 {
		h.Report("Nothing to stop: this worktree and branch have no sandbox")
		return nil
	}
	var errs []error
	for _, l := range boxes {
		errs = append(errs, stopWithin(ctx, h, l, opts))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return errors.Join(errs...)
}

// awaitSandbox ends the loops of a worktree without a sandbox, which would create one. It
// returns what they have created meanwhile.
func awaitSandbox(ctx context.Context, h host.Host, at host.Here) ([]host.Located, error) {
	for {
		loops, err := h.RecordsIn(at.Worktree)
		loops = slices.DeleteFunc(loops, func(n host.Record) bool { return !n.Live || !n.IsLoop() })
		if err != nil || len(loops) == 0 {
			return nil, err
		}
		for _, loop := range loops {
			err = errors.Join(err, h.RecordStop(loop.Sandbox))
		}
		if err := errors.Join(err, pause(ctx)); err != nil {
			return nil, err
		}
		if boxes, err := h.Select(ctx, at, nil); err != nil || len(boxes) > 0 {
			return boxes, err
		}
	}
}

// stopWithin stops a sandbox, and terminates what still runs there after the timeout.
func stopWithin(ctx context.Context, h host.Host, l host.Located, opts StopOptions) error {
	if opts.Now || opts.Timeout == nil {
		return stop(ctx, h, l, opts.Now)
	}
	limited, cancel := context.WithTimeout(ctx, *opts.Timeout)
	defer cancel()
	err := stop(limited, h, l, false)
	if limited.Err() == nil || ctx.Err() != nil {
		return err
	}
	h.Report(fmt.Sprintf("Stopping %s: it still runs after %s", l.Sandbox.Name, opts.Timeout))
	if l.Sandbox, err = l.Backend.Driver.Lookup(ctx, l.Sandbox.Name); err != nil {
		return err
	}
	return stop(ctx, h, l, true)
}

// stop stops a sandbox, and ends the loops that would restart it.
func stop(ctx context.Context, h host.Host, l host.Located, now bool) error {
	if err := l.Backend.Unusable; err != nil {
		return fmt.Errorf("stopping sandbox %s: %w", l.Sandbox.Name, err)
	}
	name := l.Sandbox.Name
	loops, err := h.LiveLoops(name)
	for waiting := false; err == nil && len(loops) > 0; {
		if err := h.RecordStop(name); err != nil {
			return err
		}
		active := l.Sandbox.State == lifecycle.Paused || l.Sandbox.State == lifecycle.Running && (now || hasCommands(ctx, l))
		if active {
			if err := stopSandbox(ctx, h, l, now); err != nil {
				return err
			}
		} else if !waiting {
			h.Report(fmt.Sprintf("Waiting for %q to end, which uses sandbox %s", strings.Join(loops[0].Command, " "), name))
			waiting = true
		}
		if loops, err = h.LiveLoops(name); active && len(loops) == 0 {
			return err
		}
		if err := pause(ctx); err != nil {
			return err
		}
		if l.Sandbox, err = l.Backend.Driver.Lookup(ctx, name); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	return stopSandbox(ctx, h, l, now)
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(host.PollInterval):
		return nil
	}
}

// hasCommands reports whether commands run in a sandbox, or that is unknown.
func hasCommands(ctx context.Context, l host.Located) bool {
	running, err := l.Backend.Driver.Dispatches(ctx, l.Sandbox)
	return err != nil || len(running) > 0
}

func stopSandbox(ctx context.Context, h host.Host, l host.Located, now bool) error {
	switch l.Sandbox.State {
	case lifecycle.Running:
	case lifecycle.Paused:
		h.Report("Unpausing sandbox " + l.Sandbox.Name)
		if err := l.Backend.Driver.Start(ctx, l.Sandbox); err != nil {
			return err
		}
	case lifecycle.Stopped, lifecycle.NotFound, lifecycle.Dead:
		h.Report(fmt.Sprintf("Nothing runs in %s: it is stopped", l.Sandbox.Name))
		return nil
	default:
		return hint.Wrap(fmt.Errorf("sandbox %s is %s", l.Sandbox.Name, l.Sandbox.State), "repair it with %q", "docker ralph repair "+l.Sandbox.Name)
	}
	running, err := activeCommands(ctx, l, now)
	if err != nil {
		return err
	}
	defer serveLeft(ctx, h, l.Sandbox)()
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

// serveLeft answers the requests of loops whose processes on this machine have died, until stop is called: they cannot
// end without. The end fetches their commits.
func serveLeft(ctx context.Context, h host.Host, sb lifecycle.Sandbox) (stop func()) {
	records, err := h.RecordsFor(sb.Name)
	if err != nil {
		h.Warn(err)
	}
	wt := gitrepo.Worktree{Root: sb.Root, MainRoot: sb.MainRoot, Scope: sb.Scope}
	return run.ServeLeft(ctx, h, wt, records)
}

// activeCommands returns what runs in a sandbox. Another version of docker-ralph
// may have prepared it, which only Busy understands.
func activeCommands(ctx context.Context, l host.Located, now bool) ([]lifecycle.Dispatch, error) {
	running, err := l.Backend.Driver.Dispatches(ctx, l.Sandbox)
	if err == nil || now {
		return running, ctx.Err()
	}
	if sb, lookErr := l.Backend.Driver.Lookup(ctx, l.Sandbox.Name); lookErr == nil && sb.State != lifecycle.Running {
		return nil, ctx.Err() // it has just ended
	}
	busy, busyErr := l.Backend.Driver.Busy(ctx, l.Sandbox)
	if busyErr != nil || busy {
		return nil, hint.Wrap(fmt.Errorf("listing processes in sandbox %s: %w", l.Sandbox.Name, errors.Join(err, busyErr)), "stop it with --now")
	}
	return nil, nil
}

// finishLoops waits for the current tasks of the loops in a sandbox and stops it,
// unless something else runs there.
func finishLoops(ctx context.Context, h host.Host, l host.Located, running []lifecycle.Dispatch) error {
	var others []string
	var errs []error
	for _, d := range running {
		switch name, loop := host.LoopCommand(d.Command); {
		case loop:
			errs = append(errs, finishLoop(ctx, h, l, d, name))
		case name == "task" || d.Service(): // a loop that has just ended saves its backlog and commits
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
	if err := lifecycle.RunService(ctx, l.Backend.Driver, l.Sandbox, nil, io.Discard, wire.Program, "_finish", d.ID); err != nil && stillRuns(ctx, l, d.ID) {
		return hint.Wrap(fmt.Errorf("stopping %q in sandbox %s: %w", name, l.Sandbox.Name, err), "stop it with --now")
	}
	what := "its run"
	if status := runningLoop([]lifecycle.Dispatch{d}, loopsOf(h, l.Sandbox)); len(status.Tasks) > 0 {
		what = strings.Join(status.Tasks, ", ")
	}
	h.Report(fmt.Sprintf("Asked %q in %s to stop after %s\nHint: press Ctrl+C to stop waiting; stop the loop at once with --now", name, l.Sandbox.Name, what))
	if err := waitFor(ctx, l, d.ID); err != nil {
		return err
	}
	reportOutcome(ctx, h, l, d, name)
	return ctx.Err()
}

// waitFor waits until a process in a sandbox has exited.
func waitFor(ctx context.Context, l host.Located, id string) error {
	for stillRuns(ctx, l, id) {
		if err := pause(ctx); err != nil {
			return err
		}
	}
	return nil
}

// reportOutcome reports how a loop ended, from its log.
func reportOutcome(ctx context.Context, h host.Host, l host.Located, d lifecycle.Dispatch, name string) {
	for _, log := range loopsOf(h, l.Sandbox) {
		if log.Ended.IsZero() || log.Dispatch != d.ID {
			continue
		}
		end := log.Loop
		if commits.UnmergedOf(ctx, h, l.Sandbox) != nil { // what was not fetched yet follows
			end = commits.EndOf(ctx, h, l.Sandbox, end)
		}
		line := fmt.Sprintf("%q has ended: %s (exit code %d)", name, strings.ReplaceAll(termsafe.Line(end.Stop), "_", " "), end.ExitCode)
		if log.Summary != "" {
			line += "\n" + termsafe.Line(log.Summary)
		}
		h.Report(line)
		return
	}
	h.Report(fmt.Sprintf("%q has ended", name))
}

// stillRuns reports whether a process runs. If the sandbox does not answer, it is assumed to.
func stillRuns(ctx context.Context, l host.Located, id string) bool {
	running, _ := run.Runs(ctx, l.Backend.Driver, l.Sandbox, id)
	return running
}

const (
	// termGrace is how long processes may take to exit after SIGTERM.
	termGrace = 10 * time.Second
	// fetchGrace is how long another command may take to fetch its loop's commits.
	fetchGrace = 30 * time.Second
)

// terminate sends SIGTERM to what runs in a sandbox and waits. Loops release their
// tasks then.
func terminate(ctx context.Context, h host.Host, l host.Located, running []lifecycle.Dispatch) {
	for _, d := range running {
		name, _ := host.LoopCommand(d.Command)
		h.Report(fmt.Sprintf("Ending %q in %s", name, l.Sandbox.Name))
		_ = lifecycle.Signal(ctx, l.Backend.Driver, l.Sandbox, syscall.SIGTERM, d.ID) // if it fails, stopping the sandbox ends the process
	}
	timeout, cancel := context.WithTimeout(ctx, termGrace)
	defer cancel()
	tick := time.NewTicker(host.PollInterval / 4)
	defer tick.Stop()
	for len(running) > 0 {
		running = slices.DeleteFunc(running, func(d lifecycle.Dispatch) bool { return !stillRuns(timeout, l, d.ID) })
		select {
		case <-timeout.Done():
			return
		case <-tick.C:
		}
	}
}

// halt stops a sandbox, after the command that used it has fetched the commits, or
// after fetching them itself.
func halt(ctx context.Context, h host.Host, l host.Located, force bool) error {
	leave, err := h.LockExclusive(ctx, l.Sandbox.Name, fetchGrace)
	if err != nil {
		return err
	}
	if leave != nil {
		defer leave()
	} else if !force {
		return hint.Wrap(fmt.Errorf("sandbox %s kept running: another command is using it", l.Sandbox.Name), "stop it with --now")
	}
	sb, err := l.Backend.Driver.Lookup(ctx, l.Sandbox.Name)
	if err != nil {
		return err
	}
	if l.Sandbox = sb; sb.State != lifecycle.Running {
		return nil
	}
	if !force {
		running, err := activeCommands(ctx, l, false)
		running = slices.DeleteFunc(running, lifecycle.Dispatch.Service)
		if err != nil || len(running) > 0 {
			return errors.Join(err, fmt.Errorf("sandbox %s kept running: a command has started in it", sb.Name))
		}
	}
	if err := commits.FetchRunning(ctx, h, l); err != nil {
		h.Warn(err)
	}
	if err := h.RecordStop(sb.Name); err != nil {
		return err
	}
	if err := l.Backend.Driver.Stop(ctx, sb); err != nil {
		return err
	}
	h.Report("Stopped sandbox " + sb.Name)
	return nil
}
