// Package run runs one command of the host in a sandbox: it resolves scope, configuration and
// driver, prepares the sandbox, executes the command, and fetches its commits.
package run

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
)

// Options are the options of [Run].
type Options struct {
	// Command is plan, build, run or shell.
	Command string
	// Args are passed to the command unchanged.
	Args []string
	// Overrides are configuration from the command line.
	Overrides config.Overrides
	// Recreate recreates the sandbox.
	Recreate bool
	// Rebuild rebuilds the image.
	Rebuild bool
	// Move moves the sandbox to the selected engine, if it is on another one.
	Move bool
	// CredScan scans the worktree, and commits before they are fetched, for secrets:
	// [commits.CredScanBlock] or [commits.CredScanWarn]; empty for no scan.
	CredScan string
	// Worktree is the worktree to run in, which is created if necessary; nil for the
	// current one.
	Worktree *host.Worktree
	// Raw does not filter the command's output, for a program that controls the
	// terminal, or whose output is parsed.
	Raw bool
	// AnyCode says that the exit code can be that of another program.
	AnyCode bool
	// RequireClean refuses a working tree with uncommitted changes.
	RequireClean bool
	// WithChanges sends uncommitted changes to a clone.
	WithChanges bool
	// NoHostConfig does not copy the user's agent settings.
	NoHostConfig bool

	Config *config.Effective // overrides the configuration, in the self-test
}

// session is a running command.
type session struct {
	host.Host
	background *background      // nil for a command that cannot be detached
	id         string           // of the dispatch
	record     *host.HeldRecord // nil before the command is recorded
}

// Run runs a command in the sandbox of the current scope and returns its exit code. With an
// error, the command did not run, or its exit code is unknown.
func Run(ctx context.Context, from host.Host, opts Options) (int, error) {
	h := session{Host: from, id: rand.Text()}
	if h.Background != nil && host.IsLoop(opts.Command) {
		var stop func()
		h, stop = h.inBackground(ctx)
		defer stop()
	}
	code, err := run(ctx, h, opts)
	if err != nil && h.background.isDetached() {
		h.saveEnd("", code, err)
		return max(code, 1), nil // the error is saved
	}
	return code, err
}

func run(ctx context.Context, h session, opts Options) (int, error) {
	connected := h.Connect()
	var err error
	h.Host, err = h.Into(ctx, opts.Worktree, func(at gitrepo.Worktree) error { return checkDriver(ctx, h.Host, at, opts, connected) })
	if err != nil {
		return 0, err
	}
	t, err := resolve(ctx, h.Host, opts, connected)
	if err != nil {
		return 0, err
	}
	if err := t.checkWork(ctx, h.Host); err != nil {
		return 0, err
	}
	if err := commits.CheckUncommitted(ctx, h.Host, t.wt, t.spec, opts.Command, opts.RequireClean); err != nil {
		return 0, err
	}
	if err := t.move(ctx, h.Host); err != nil {
		return 0, err
	}
	r, err := prepare(ctx, h.Host, t)
	if err != nil {
		return 0, err
	}
	if r.use, err = h.LockShared(ctx, t.spec.Name); err != nil {
		return 0, err
	}
	defer r.use.Leave()
	if err := t.checkOwner(ctx, h.Host); err != nil {
		return 0, err
	}
	if t.spec.Ephemeral {
		if err := sweep(ctx, h.Host, t.Driver, t.spec, t.save(h.Host)); err != nil {
			return 0, err
		}
	}
	if err := t.scan.Worktree(ctx); err != nil {
		return 0, err
	}
	if host.IsLoop(opts.Command) {
		h.ReportEnd(t.name)
		h.ReportBackgroundLoops(t.wt)
	}
	h.record, err = h.NewRecord(host.Record{ID: h.id, Token: rand.Text(), Command: r.args(), Scope: t.spec.Scope, Root: t.spec.Root, Sandbox: t.spec.Name})
	if err != nil {
		return 0, err
	}
	r.notify = h.notifications(ctx, r)
	res := Result{Err: h.background.recorded(h.record)}
	defer func() {
		if h.background.isDetached() && !errors.Is(res.Err, lifecycle.ErrDisconnected) { // how it ended is saved
			res.lost = nil
		}
		h.record.Done(res.lost)
	}()
	watched, err := r.watch(ctx, h.Host)
	if err != nil {
		return 0, err
	}
	report := h.holdReport(opts)
	if res.Err == nil {
		res = h.execute(ctx, r)
	}
	code, err := finish(ctx, h.Host, r, res)
	err = errors.Join(err, watched(ctx, !h.background.isDetached(), !continues(res.Err)))
	err = report.end(code, err)
	h.saveEnd(t.name, code, err)
	if !continues(res.Err) {
		unpin(ctx, h.Host, r, res.Sandbox)
	}
	r.notify.Ended(code, err)
	return code, err
}
