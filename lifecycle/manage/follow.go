package manage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/run"
	"github.com/docker-ralph/docker-ralph/wire"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// follower checks whether a loop still runs, and how it ended.
type follower struct {
	host    host.Host
	own     string // name of the scope's sandbox
	sandbox string // of the loop: the same, or an ephemeral one
	logs    string // directory of the scope's
	id      string

	at      host.Located // the zero value before the first check
	checked time.Time
	last    bool // result of the last check
	warned  bool
}

// newFollower returns the follower of a loop in the sandbox of that name, or in an ephemeral one
// of its scope.
func newFollower(h host.Host, name, id string) *follower {
	f := &follower{host: h, own: name, sandbox: name, logs: h.LogsDir(name), id: id}
	if all, err := h.RecordsOf(name); err == nil {
		for _, n := range all {
			if n.ID == id {
				f.sandbox = n.Sandbox
			}
		}
	}
	return f
}

// liveLoop returns the latest loop of a worktree whose command runs on this machine, in the
// sandbox of that name or in an ephemeral one of its scope; a zero record for none.
func liveLoop(h host.Host, wt gitrepo.Worktree, name string) (latest host.Record) {
	all, err := h.RecordsOf(name)
	if err != nil {
		return latest // as if there were none: the logs show what is there
	}
	for _, n := range all {
		if n.Live && n.IsLoop() && n.Scope == wt.Scope && n.Root == wt.Root && n.Since.After(latest.Since) {
			latest = n
		}
	}
	return latest
}

// awaitLog opens the log of a loop, once that has opened it. The error is
// [fs.ErrNotExist] if the loop ends without one.
func (f *follower) awaitLog(ctx context.Context) (*runlog.Reader, error) {
	tick := time.NewTicker(logEvery)
	defer tick.Stop()
	for {
		_, ended, _ := f.done(ctx) // before the log is looked for; it is opened even if the exit code is unknown
		log, err := runlog.Find(f.logs, func(l runlog.Loop) bool { return l.Dispatch == f.id })
		if ended || !errors.Is(err, fs.ErrNotExist) {
			return log, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// checkEvery is the minimum interval of checks.
const checkEvery = 2 * time.Second

// done reports whether the loop has ended, and its exit code. The error is
// [run.ErrUnknownEnd] if that is unknown.
func (f *follower) done(ctx context.Context) (code int, done bool, err error) {
	path := filepath.Join(f.host.RecordDir(f.sandbox), f.id)
	if _, err := os.Lstat(path); err == nil {
		n, ok := host.ReadRecord(path)
		if ok && n.Live || ok && f.runs(ctx) {
			return 0, false, nil
		}
		if ok {
			_ = os.Remove(path)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return 0, false, fmt.Errorf("reading the run record: %w", err)
	}
	if e, err := host.Ended(f.host.StateDir, f.own); err == nil && e.ID == f.id {
		return e.ExitCode, true, nil
	}
	code, err = run.CodeOf(f.logs, f.id)
	if err != nil && f.runs(ctx) {
		return 0, false, nil // another client started it
	}
	return code, true, err
}

// accompanied reports whether a command on this machine runs the loop, or fetches its last commits.
func (f *follower) accompanied() bool {
	r, ok := host.ReadRecord(filepath.Join(f.host.RecordDir(f.sandbox), f.id))
	return f.id != "" && ok && r.Live
}

// leaving reports whether the loop, whose command on this machine has died, is known to be still in its sandbox.
func (f *follower) leaving(ctx context.Context) bool {
	n, ok := host.ReadRecord(filepath.Join(f.host.RecordDir(f.sandbox), f.id))
	if f.id == "" || !ok || n.Live {
		return false
	}
	running, err := f.check(ctx)
	return err == nil && running
}

// endFor returns the exit code of the latest loop of a worktree, whose log says code. It is an
// error if its commits are not on the user's branch.
func endFor(ctx context.Context, h host.Host, wt gitrepo.Worktree, name string, code int) (int, error) {
	if code != 0 {
		return code, nil
	}
	log, err := runlog.Find(h.LogsDir(name), runlog.Any)
	if err != nil {
		return code, nil //nolint:nilerr // pruned
	}
	defer log.Close()
	sb := lifecycle.Sandbox{Name: name, Scope: wt.Scope, Root: wt.Root, MainRoot: wt.MainRoot}
	if u := commits.UnmergedBy(ctx, h, sb, log.Loop); u != nil {
		return wire.ExitUnmerged, commits.NewUnmergedError(*u)
	}
	return code, nil
}

// runs lists the commands in the sandbox, at most once in checkEvery. Without an answer the loop
// is assumed to run.
func (f *follower) runs(ctx context.Context) bool {
	if time.Since(f.checked) < checkEvery {
		return f.last
	}
	f.checked = time.Now()
	running, err := f.check(ctx)
	if err != nil && !f.warned && ctx.Err() == nil {
		f.warned = true
		f.host.Warn(fmt.Errorf("unknown whether the loop is still running: %w", err))
	}
	f.last = err != nil || running
	return f.last
}

func (f *follower) check(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, host.AskTimeout)
	defer cancel()
	if f.at.Backend.Driver == nil {
		at, err := f.host.Locate(ctx, f.sandbox)
		if err != nil {
			return false, err
		}
		f.at = at
	}
	if f.at.Sandbox.State != lifecycle.Running {
		return false, nil
	}
	return run.Runs(ctx, f.at.Backend.Driver, f.at.Sandbox, f.id)
}

// follow prints the output of a loop until that has ended, and returns its exit code.
// wait returns after a tick, or earlier; its error ends following.
func follow(ctx context.Context, done func(context.Context) (int, bool, error), show func(last bool) error, wait func(tick <-chan time.Time) error) (int, error) {
	tick := time.NewTicker(logEvery)
	defer tick.Stop()
	for {
		code, ended, err := done(ctx) // before the rest of the output is read
		if showErr := show(ended); showErr != nil {
			return 0, showErr
		}
		if ended {
			return code, err
		}
		if err := wait(tick.C); err != nil {
			return 0, err
		}
	}
}
