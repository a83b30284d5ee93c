package manage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/mirror"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/run"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// LogOptions are the options of [Logs].
type LogOptions struct {
	LoopTarget
	// Loop is the ID of a loop, of any branch and worktree of the repository; empty for the last
	// one of the branch.
	Loop string
	// Command is one of [run.Transcribed], or empty for loops.
	Command string
	// Follow prints new output until the loop ends.
	Follow bool
	// Iteration selects one run; 0 selects all.
	Iteration int
	// Raw prints the agent's own output.
	Raw bool
	// Plain is set if Stdout is not a terminal.
	Plain bool
}

// logEvery is how often a log is read while it is followed.
const logEvery = 200 * time.Millisecond

// Logs prints the log of the latest loop, or the latest output of another command in the
// same worktree. With Follow it returns the loop's
// exit code, otherwise 0.
func Logs(ctx context.Context, h host.Host, opts LogOptions) (int, error) {
	wt, name, err := opts.find(ctx, h)
	if err != nil {
		return 0, err
	}
	out := h.Stdout
	if !opts.Raw || !opts.Plain {
		out = termsafe.NewWriter(h.Stdout)
	}
	if opts.Command != "" {
		return 0, transcript(wt, opts, out)
	}
	stop := func(bool) {}
	if !opts.complete(h, wt, name) {
		stop = contact(ctx, h, name, opts.Follow)
	}
	code, err := opts.show(ctx, h, wt, name, out)
	stop(err == nil || errors.Is(err, run.ErrUnknownEnd))
	if err != nil || !opts.Follow {
		return code, err
	}
	return endFor(ctx, h, wt, name, code)
}

// show prints the log of the latest loop of a worktree.
func (opts LogOptions) show(ctx context.Context, h host.Host, wt gitrepo.Worktree, name string, out io.Writer) (int, error) {
	log, err := opts.open(ctx, h, wt, name)
	if errors.Is(err, fs.ErrNotExist) && opts.Loop != "" {
		return 0, hint.Wrap(fmt.Errorf("no log of a loop %q", opts.Loop), "list loops with %q", "docker ralph ls --loops")
	}
	if errors.Is(err, fs.ErrNotExist) {
		return 0, noLoop(wt)
	}
	if err != nil {
		return 0, fmt.Errorf("reading the loop's log: %w", err)
	}
	defer log.Close()
	reading := logReading{log: log, opts: opts, out: out, kind: runlog.Rendered}
	if opts.Raw {
		reading.kind = runlog.Raw
	}
	if !opts.Follow {
		return 0, reading.all()
	}
	f := newFollower(h, name, wt.Root, log.Loop.Dispatch)
	return follow(ctx, func(ctx context.Context) (int, bool, error) { return reading.done(ctx, f) }, reading.show, func(tick <-chan time.Time) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick:
			return nil
		}
	})
}

// selects reports whether a log in the worktree is that of the selected loop.
func (opts LogOptions) selects(wt gitrepo.Worktree) func(runlog.Loop) bool {
	if opts.Loop != "" {
		return func(l runlog.Loop) bool { return termsafe.Line(l.ID) == opts.Loop }
	}
	return func(l runlog.Loop) bool { return l.Repo == wt.Scope.Repo && l.Branch == wt.Scope.Branch }
}

// complete reports whether the selected log is complete on the host, so that no engine is needed.
func (opts LogOptions) complete(h host.Host, wt gitrepo.Worktree, name string) bool {
	if opts.Follow || commits.WasLeft(h, name) {
		return false
	}
	log, err := runlog.Find(wt.Root, opts.selects(wt))
	if err != nil {
		return false
	}
	defer log.Close()
	if opts.Loop == "" { // a later one may be running
		if records, err := h.RecordsOf(name); err != nil || len(records) > 0 {
			return false
		}
	}
	return !log.Loop.Ended.IsZero()
}

// open opens the log of the selected loop. With Follow, it waits for that of a running one.
func (opts LogOptions) open(ctx context.Context, h host.Host, wt gitrepo.Worktree, name string) (*runlog.Reader, error) {
	if n := liveLoop(h, wt, name); n.ID != "" && opts.Follow && opts.Loop == "" {
		log, err := newFollower(h, name, wt.Root, n.ID).awaitLog(ctx)
		if !errors.Is(err, fs.ErrNotExist) {
			return log, err
		}
		return nil, hint.Wrap(fmt.Errorf("%q has ended without a log", strings.Join(n.Command, " ")), "see its state with %q", "docker ralph status")
	}
	log, err := runlog.Find(wt.Root, opts.selects(wt))
	if opts.Loop == "" {
		return log, err
	}
	if !errors.Is(err, fs.ErrNotExist) || opts.Sandbox != "" {
		return log, err
	}
	places, listErr := loopPlaces(ctx, h, false)
	if listErr != nil {
		return nil, err // outside of a repository
	}
	for _, other := range places {
		if log, err := runlog.Find(other.Root, opts.selects(other)); err == nil {
			return log, nil
		}
	}
	return nil, err
}

// contact copies the logs of a clone to the worktree, and fetches the commits of a loop whose
// command on this machine is gone; with follow, until stop is called.
func contact(ctx context.Context, h host.Host, name string, follow bool) (stop func(ended bool)) {
	stop = func(bool) {}
	left := commits.WasLeft(h, name) || follow && gitsync.Unfinished(h.StateDir, name) // it can be killed
	if !left && !gitsync.IsClone(h.StateDir, name) {
		return stop
	}
	l, err := h.Locate(ctx, name)
	if err == nil && l.Sandbox.State != lifecycle.Running {
		return stop
	}
	driver, sb := l.Backend.Driver, l.Sandbox
	if err == nil {
		err = mirror.Sync(ctx, h, driver, sb)
	}
	if err == nil && !follow {
		err = commits.FetchLeft(ctx, h, l)
	}
	if err != nil {
		h.Warn(err)
	}
	if err != nil || !follow {
		return stop
	}
	stopLogs, stopCommits := mirror.Follow(ctx, h, driver, sb), commits.FollowLeft(ctx, h, l)
	return func(ended bool) {
		stopLogs()
		stopCommits(ended)
	}
}

// noLoop returns the error for a missing log.
func noLoop(wt gitrepo.Worktree) error {
	return hint.Wrap(fmt.Errorf("no loop of %s has a log in %s", wt.Scope.Branch, wt.Root), "start one with %q", "docker ralph build")
}

// logReading prints the log of one loop.
type logReading struct {
	log  *runlog.Reader
	opts LogOptions
	out  io.Writer
	kind runlog.Kind

	at     runlog.Cursor
	offset int64
}

// all prints the rest.
func (r *logReading) all() error {
	err := r.more()
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the loop %s has no iteration %d", r.log.Loop.ID, r.opts.Iteration)
	}
	return err
}

// more prints new output.
func (r *logReading) more() (err error) {
	if r.opts.Iteration > 0 {
		r.offset, err = r.log.CopyRun(r.out, r.kind, r.opts.Iteration, r.offset)
		return err
	}
	r.at, err = r.log.Copy(r.out, r.kind, r.at)
	return err
}

// show prints new output. The selected run may start later, unless the loop has ended.
func (r *logReading) show(last bool) error {
	if last {
		return r.all()
	}
	if err := r.more(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// done trusts the log first: the loop may have been started inside the sandbox. A command that
// fetches its last commits is waited for.
func (r *logReading) done(ctx context.Context, f *follower) (code int, done bool, err error) {
	if loop, err := r.log.Reload(); err == nil && !loop.Ended.IsZero() {
		return loop.ExitCode, !f.accompanied(), nil
	}
	if f.id == "" {
		return 0, false, nil
	}
	return f.done(ctx)
}

// transcript prints the latest output of a command that is not a loop.
func transcript(wt gitrepo.Worktree, opts LogOptions, out io.Writer) (err error) {
	if opts.Follow || opts.Iteration > 0 || opts.Loop != "" {
		return fmt.Errorf("--follow, --iteration and --loop work with plan and build only, not with %s", opts.Command)
	}
	log, err := runlog.LatestTranscript(wt.Root, opts.Command)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no recorded output of %q in %s", "docker ralph "+opts.Command, wt.Root)
	}
	if err != nil {
		return fmt.Errorf("reading the output of %s: %w", opts.Command, err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	_, err = io.Copy(out, log)
	return err
}
