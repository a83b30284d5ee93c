package manage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/run"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// LoopLog selects the log of a loop.
type LoopLog struct {
	LoopTarget
	// Loop is the ID of a loop, of any branch of the repository; empty for the last one of the branch.
	Loop string
	// Follow reads until the loop ends.
	Follow bool
}

// read shows the selected log: with Follow, repeatedly until the loop has ended, whose exit code it returns. Only then
// an engine is needed, and only for a loop whose command on this machine is gone.
func (l LoopLog) read(ctx context.Context, h host.Host, wt gitrepo.Worktree, name string, show func(log *runlog.Reader, last bool) error) (int, error) {
	if !l.Follow {
		return l.show(ctx, h, wt, name, show)
	}
	stop := contact(ctx, h, wt, name)
	code, err := l.show(ctx, h, wt, name, show)
	stop(err == nil || errors.Is(err, run.ErrUnknownEnd))
	if err != nil {
		return code, err
	}
	return endFor(ctx, h, wt, name, code)
}

func (l LoopLog) show(ctx context.Context, h host.Host, wt gitrepo.Worktree, name string, show func(log *runlog.Reader, last bool) error) (int, error) {
	log, err := l.open(ctx, h, wt, name)
	if errors.Is(err, fs.ErrNotExist) && l.Loop != "" {
		return 0, hint.Wrap(fmt.Errorf("no log of a loop %q", l.Loop), "list loops with %q", "docker ralph ls --loops")
	}
	if errors.Is(err, fs.ErrNotExist) {
		return 0, noLoop(wt)
	}
	if err != nil {
		return 0, fmt.Errorf("reading the loop's log: %w", err)
	}
	defer log.Close()
	if !l.Follow {
		return 0, show(log, true)
	}
	f := newFollower(h, name, log.Loop.Dispatch)
	done := func(ctx context.Context) (int, bool, error) { return loopDone(ctx, log, f) }
	return follow(ctx, done, func(last bool) error { return show(log, last) }, func(tick <-chan time.Time) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick:
			return nil
		}
	})
}

// loopDone trusts the log first: it needs no engine. A command that fetches the loop's last commits is waited for, and a
// loop that this command serves: it waits for the answer to what it has sent last.
func loopDone(ctx context.Context, log *runlog.Reader, f *follower) (code int, done bool, err error) {
	if loop, err := log.Reload(); err == nil && !loop.Ended.IsZero() {
		return loop.ExitCode, !f.accompanied() && !f.leaving(ctx), nil
	}
	if f.id == "" {
		return 0, false, nil
	}
	return f.done(ctx)
}

// selected reports whether a log is that of the selected loop.
func (l LoopLog) selected(loop runlog.Loop) bool {
	return l.Loop == "" || termsafe.Line(loop.ID) == l.Loop
}

// open opens the selected log. With Follow, it waits for that of a running loop.
func (l LoopLog) open(ctx context.Context, h host.Host, wt gitrepo.Worktree, name string) (*runlog.Reader, error) {
	if n := liveLoop(h, wt, name); n.ID != "" && l.Follow && l.Loop == "" {
		log, err := newFollower(h, name, n.ID).awaitLog(ctx)
		if !errors.Is(err, fs.ErrNotExist) {
			return log, err
		}
		return nil, hint.Wrap(fmt.Errorf("%q has ended without a log", strings.Join(n.Command, " ")), "see its state with %q", "docker ralph status")
	}
	log, err := runlog.Find(h.LogsDir(name), l.selected)
	if l.Loop == "" || l.Sandbox != "" || !errors.Is(err, fs.ErrNotExist) {
		return log, err
	}
	scopes, listErr := loopScopes(ctx, h, false)
	if listErr != nil {
		return nil, err // outside of a repository
	}
	for _, s := range scopes {
		if log, err := runlog.Find(h.LogsDir(s.name), l.selected); err == nil {
			return log, nil
		}
	}
	return nil, err
}

// noLoop returns the error for a missing log.
func noLoop(wt gitrepo.Worktree) error {
	return hint.Wrap(fmt.Errorf("no loop logs for branch %s", wt.Scope.Branch), "start one with %q", "docker ralph build")
}

// contact answers the requests of the loops of a worktree whose commands on this machine are gone, until stop is
// called, which fetches the rest of their commits if they have ended. Without such a loop no engine is needed.
func contact(ctx context.Context, h host.Host, wt gitrepo.Worktree, name string) (stop func(ended bool)) {
	records, err := h.RecordsOf(name)
	if err != nil {
		h.Warn(err)
	}
	records = slices.DeleteFunc(records, func(n host.Record) bool { return n.Scope != wt.Scope || n.Root != wt.Root })
	hangUp := run.ServeLeft(ctx, h, wt, records)
	return func(ended bool) {
		hangUp()
		if ended {
			fetchRest(context.WithoutCancel(ctx), h, name)
		}
	}
}

// fetchRest fetches what a loop has left whose command on this machine is gone.
func fetchRest(ctx context.Context, h host.Host, name string) {
	if !commits.WasLeft(h, name) {
		return
	}
	l, err := h.Locate(ctx, name)
	if err == nil {
		err = commits.FetchLeft(ctx, h, l)
	}
	if err != nil {
		h.Warn(err)
	}
}
