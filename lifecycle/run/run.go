// Package run is the way of one command from the host into a sandbox:
// scope, configuration, driver, sandbox, execution.
package run

import (
	"context"
	"crypto/rand"

	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/config"
)

// Options say what to run and how.
type Options struct {
	// Command is plan, build, run, shell or task.
	Command string
	// Args are the command's, handed over as they are.
	Args []string
	// Overrides are configuration from the command line.
	Overrides config.Overrides
	// Recreate makes the sandbox anew.
	Recreate bool
	// Rebuild builds the image anew.
	Rebuild bool
	// CredScan looks for credentials in the work tree first, and in commits of
	// the sandbox before they are fetched: [CredScanBlock] stops for them,
	// [CredScanWarn] tells of them; empty for neither.
	CredScan string
	// Worktree is the worktree to run in, which is made if it is not there; nil
	// for the one that the command was given in.
	Worktree *host.Worktree
	// Raw passes the command's output on as it is, for a program that has the
	// terminal to itself, or for one whose output nobody sees.
	Raw bool
	// AnyCode says that the command's exit code can be that of any program.
	AnyCode bool
	// RequireClean refuses a working tree with uncommitted changes.
	RequireClean bool
	// NoHostConfig leaves the user's configuration of the agent outside.
	NoHostConfig bool

	Config *config.Effective // instead of what is configured; nil but in the self-test
}

// session is one command while it runs.
type session struct {
	host.Host
	background *background // nil for a command that cannot be detached
	id         string      // of the dispatch
	raw        bool        // as [Options.Raw]
}

// Run executes one command in the sandbox of the current scope and returns
// its exit code. An error means that the command did not run, or that nobody
// can tell how it ended.
func Run(ctx context.Context, from host.Host, opts Options) (int, error) {
	h := session{Host: from, id: rand.Text(), raw: opts.Raw}
	if h.Background != nil && host.IsLoop(opts.Command) {
		var stop func()
		h, stop = h.inBackground(ctx)
		defer stop()
	}
	code, err := run(ctx, h, opts)
	if err != nil && h.background.isDetached() {
		h.saveEnd("", "", code, err)
		return max(code, 1), nil // no one is there to read the error
	}
	return code, err
}

func run(ctx context.Context, h session, opts Options) (int, error) {
	connected := h.Connect()
	var err error
	h.Host, err = h.Into(ctx, opts.Worktree)
	if err != nil {
		return 0, err
	}
	t, err := resolve(ctx, h.Host, opts, connected)
	if err != nil {
		return 0, err
	}
	if err := commits.CheckUncommitted(ctx, h.Host, t.wt, t.spec, opts.Command, opts.RequireClean); err != nil {
		return 0, err
	}
	r, err := prepare(ctx, h.Host, t)
	if err != nil {
		return 0, err
	}
	leave, err := h.LockShared(ctx, t.wt.Scope)
	if err != nil {
		return 0, err
	}
	defer leave()
	if t.spec.Ephemeral {
		if err := sweep(ctx, h.Host, t.Driver, t.spec, t.save(h.Host)); err != nil {
			return 0, err
		}
	}
	if err := t.scan.Worktree(ctx, opts.Command); err != nil {
		return 0, err
	}
	if err := t.backlog(h.Host).Check(opts.Command, opts.Args); err != nil {
		return 0, err
	}
	if host.IsLoop(opts.Command) {
		h.ReportEnd(t.name)
		h.ReportBackgroundLoops(t.wt)
	}
	record, err := h.NewRecord(host.Record{ID: h.id, Command: r.args(), Scope: t.spec.Scope, Root: t.spec.Root, Sandbox: t.spec.Name})
	if err != nil {
		return 0, err
	}
	res := Result{Err: h.background.recorded(record)}
	defer func() {
		if h.background.isDetached() { // its end is saved
			res.lost = nil
		}
		record.Done(res.lost)
	}()
	if res.Err == nil {
		res = h.execute(ctx, r)
	}
	code, err := finish(ctx, h.Host, r, res)
	h.saveEnd(t.name, t.wt.Root, code, err)
	return code, err
}
