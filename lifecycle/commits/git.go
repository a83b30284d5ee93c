package commits

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/approval"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// Git is the private git directory of a container while a command runs.
type Git struct {
	Host   host.Host
	Driver lifecycle.Driver
	Repo   *gitsync.Repo
	aside  *gitsync.Repo // the same, while an agent uses the terminal

	mu     sync.Mutex
	result gitsync.Result // of all syncs so far
	// repairs are messages about repairs of the git directory.
	repairs []string
}

// While an agent works, commits are fetched every syncEvery, and after each of its runs. A fetch
// that runs when the command ends may take fetchGrace.
const (
	syncEvery  = 30 * time.Second
	fetchGrace = 10 * time.Second
)

// directWarning is printed once per sandbox.
const directWarning = `Warning: with sandbox.git = "direct" the agent can write into your git directory: its hooks and configuration count when you use git here`

// Check rejects repositories that cannot have a private git directory and, for an agent,
// unfinished operations of git. It needs no engine.
func Check(ctx context.Context, h host.Host, wt gitrepo.Worktree, name, command string, clone bool) error {
	repo, err := gitsync.Open(wt, name, h.StateDir)
	if err != nil {
		return err
	}
	if clone {
		repo = repo.AsClone()
	}
	switch {
	case command != host.TaskCommand:
		return repo.Check(ctx)
	case !container.Known(h.StateDir, name):
		return repo.CheckKind(ctx)
	}
	return nil
}

// Open opens the private git directory of a container; nil if its spec has none.
func Open(ctx context.Context, h host.Host, wt gitrepo.Worktree, at host.Backend, i *Scan, spec *lifecycle.Spec, withChanges bool) (*Git, error) {
	if at.Kind != config.DriverContainer {
		return nil, nil
	}
	if !spec.Private {
		if !container.Known(h.StateDir, spec.Name) {
			h.Report(directWarning)
		}
		return nil, nil
	}
	repo, err := gitsync.Open(wt, spec.Name, h.StateDir)
	if err != nil {
		return nil, err
	}
	alternates, err := approval.ApproveAlternates(ctx, h, wt)
	if err != nil {
		return nil, err
	}
	repo = repo.WithAlternates(alternates)
	if spec.Clone {
		repo = repo.AsClone().WithProgress(sending(h, spec.Name))
		if withChanges {
			repo = repo.WithChanges()
		}
	} else {
		spec.Mounts, spec.Probe = nil, probe(wt.Root)
	}
	g := &Git{
		Host: h, Driver: at.Driver,
		Repo: repo.WithGate(i.Incoming(spec.Name)), aside: repo.WithGate(i.incomingAside(spec.Name)),
	}
	spec.Git = func(ctx context.Context) (*gitsync.Layout, error) {
		if err := repo.CheckKind(ctx); err != nil {
			return nil, err
		}
		return repo.Layout(ctx)
	}
	return g, nil
}

// probe returns a file that identifies the worktree; empty if there is none.
func probe(root string) string {
	entries, err := os.ReadDir(root)
	if err != nil {
		return ""
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && info.Size() < 1<<20 && e.Name() != ".git" {
			return filepath.Join(root, e.Name())
		}
	}
	return ""
}

// Enter pushes to the sandbox before a command starts an agent or a shell in it, and fetches
// commits until leave is called.
func (g *Git) Enter(ctx context.Context, sb lifecycle.Sandbox, command string) (leave func(), err error) {
	done := false
	if host.IsLoop(command) { // it is restarted after a repair of git
		done, err = g.pushUnchanged(ctx, sb)
	}
	if !done && err == nil {
		err = g.push(ctx, sb)
	}
	if c, is := errors.AsType[*gitsync.Conflict](err); is && c.FixedInSandbox() && command == host.ShellCommand {
		reportConflict(g.Host, c)
		err = nil
	}
	if err != nil {
		return nil, err
	}
	if err := g.Repo.MarkDirty(ctx); err != nil {
		return nil, err
	}
	stop := g.follow(ctx, sb.Root, func(ctx context.Context, last string, ended bool) (gitsync.Result, string, error) {
		res, tip, err := g.aside.Follow(ctx, Shell(g.Driver, sb), last, ended)
		if ended && IsBroken(err) { // for the next run
			res, err = g.Repair(ctx, g.aside, Shell(g.Driver, sb), err)
		}
		return res, tip, err
	})
	hooks, err := g.Repo.Hooks(ctx)
	if err != nil {
		stop()
		return nil, err
	}
	return func() {
		g.reportHooks(hooks)
		stop()
	}, nil
}

// RepairAfter repairs a broken private git directory after a failed command without an agent.
func (g *Git) RepairAfter(ctx context.Context, sb lifecycle.Sandbox) {
	unlock, err := g.Host.TryLockAgents(sb.Name)
	if err != nil || unlock == nil {
		return
	}
	defer unlock()
	if !Idle(ctx, g.Driver, sb) {
		return
	}
	if _, err = g.Repo.Fetch(ctx, Shell(g.Driver, sb), true); !IsBroken(err) {
		return
	}
	res, err := g.Repair(ctx, g.Repo, Shell(g.Driver, sb), err)
	g.ReportRepairs()
	ReportSync(g.Host, res)
	if err != nil {
		g.Host.Report(fmt.Sprintf("Warning: %v", err))
		return
	}
	g.Host.Report("Hint: run the command again")
}

// FetchInterrupted fetches commits of a killed command, before a command without an agent.
func (g *Git) FetchInterrupted(ctx context.Context, sb lifecycle.Sandbox) error {
	if !g.Repo.Unfinished() {
		return nil
	}
	unlock, err := g.Host.TryLockAgents(sb.Name)
	if err != nil || unlock == nil {
		return nil //nolint:nilerr // a running command does it
	}
	defer unlock()
	idle := Idle(ctx, g.Driver, sb)
	res, err := g.Repo.Fetch(ctx, Shell(g.Driver, sb), idle)
	if idle && IsBroken(err) {
		res, err = g.Repair(ctx, g.Repo, Shell(g.Driver, sb), err)
		g.ReportRepairs()
	}
	if errors.Is(err, lifecycle.ErrNotPrepared) {
		return err
	}
	if err != nil {
		g.Host.Report(fmt.Sprintf("Warning: %v", heldHint(sb, err)))
	}
	ReportSync(g.Host, res)
	return nil
}

// pushUnchanged pushes to a sandbox that has not changed since its last command.
func (g *Git) pushUnchanged(ctx context.Context, sb lifecycle.Sandbox) (done bool, err error) {
	res, done, err := g.Repo.PushUnchanged(ctx, Shell(g.Driver, sb))
	if done && err == nil {
		reportUncommitted(g.Host, sb, res.Uncommitted)
	}
	return done, err
}

// push pushes to the sandbox. While another command runs in it, it only fetches.
func (g *Git) push(ctx context.Context, sb lifecycle.Sandbox) error {
	if !Idle(ctx, g.Driver, sb) {
		res, err := g.Repo.Fetch(ctx, Shell(g.Driver, sb), false)
		ReportSync(g.Host, res)
		return recreateHint(sb, err)
	}
	res, err := g.Repo.Push(ctx, Shell(g.Driver, sb))
	if IsBroken(err) {
		var repaired gitsync.Result
		if repaired, err = g.Repair(ctx, g.Repo, Shell(g.Driver, sb), err); err == nil {
			g.ReportRepairs()
			ReportSync(g.Host, repaired)
			res, err = g.Repo.Push(ctx, Shell(g.Driver, sb))
		}
	}
	ReportSync(g.Host, res)
	reportUncommitted(g.Host, sb, res.Uncommitted)
	if n := len(res.Sent); n > 0 {
		g.Host.Report(fmt.Sprintf("Your uncommitted changes of %s were sent, and are left out of the sandbox's commits: %s", host.Count(n, "file"), host.Some(res.Sent)))
	}
	return recreateHint(sb, err)
}

// Sync fetches the commits of a sandbox, and repairs its git directory. A command that
// runs in it does that itself.
func (g *Git) Sync(ctx context.Context, sb lifecycle.Sandbox) error {
	if g == nil {
		return nil
	}
	unlock, err := g.Host.TryLockAgents(sb.Name)
	if err != nil || unlock == nil {
		return err
	}
	defer unlock()
	return g.push(ctx, sb)
}

// recreateHint adds the remedy to the error for a git directory that does not work.
func recreateHint(sb lifecycle.Sandbox, err error) error {
	if isHeld(err) {
		return heldHint(sb, err)
	}
	if !gitsync.Permanent(err) {
		return err
	}
	return hint.Wrap(err, "recreate the sandbox with --recreate; commits that cannot be fetched are lost, your files are kept")
}

// Idle reports that no process that could commit runs in a sandbox.
func Idle(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox) bool {
	busy, err := driver.Busy(ctx, sb)
	return err == nil && !busy
}

// follow fetches commits after each run of an agent in the worktree top, and regularly during
// a long one, until stop is called. Results are reported at the end, because the agent uses the
// terminal. A running fetch may finish, because its process in the sandbox would look like an
// agent that commits.
func (g *Git) follow(ctx context.Context, top string,
	fetch func(ctx context.Context, last string, ended bool) (res gitsync.Result, tip string, err error),
) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stopping, stopped := make(chan struct{}), make(chan struct{})
	last, seen, synced := "", runlog.Latest(top), time.Now()
	go func() {
		defer close(stopped)
		look := time.NewTicker(host.PollInterval)
		defer look.Stop()
		for {
			select {
			case <-stopping:
				return
			case <-look.C:
			}
			latest := runlog.Latest(top)
			ended := latest.After(seen)
			if !ended && time.Since(synced) < syncEvery {
				continue
			}
			res, tip, err := fetch(ctx, last, ended)
			last, seen, synced = tip, latest, time.Now()
			if err == nil { // the last fetch reports errors
				g.add(res)
			}
		}
	}()
	return func() {
		defer cancel()
		close(stopping)
		select {
		case <-stopped:
		case <-time.After(fetchGrace):
			cancel()
			<-stopped
		}
	}
}

// add adds up the results of several syncs. Refused refs are those of the last one.
func (g *Git) add(res gitsync.Result) gitsync.Result {
	g.mu.Lock()
	defer g.mu.Unlock()
	res.Commits += g.result.Commits
	if res.Others == nil { // nothing was fetched
		res.Others, res.Submodules, res.Kept = map[string]string{}, map[string]string{}, map[string]string{}
	}
	for name, ref := range g.result.Others {
		if _, later := res.Others[name]; !later {
			res.Others[name] = ref
			if path := g.result.Submodules[name]; path != "" {
				res.Submodules[name] = path
			}
		}
	}
	for ref, kept := range g.result.Kept {
		if _, later := res.Kept[ref]; !later {
			res.Kept[ref] = kept
		}
	}
	g.result = res
	return res
}

// fetch fetches and reports the commits of a command. Another command may commit meanwhile;
// without one, none can start.
func (g *Git) fetch(ctx context.Context, sb lifecycle.Sandbox) error {
	unlock, err := g.Host.TryLockAgents(sb.Name)
	if unlock != nil {
		defer unlock()
	}
	done := g.Host.ReportSlow("Fetching commits from the sandbox " + sb.Name)
	ended := err == nil && unlock != nil && Idle(ctx, g.Driver, sb)
	res, err := g.Repo.Fetch(ctx, Shell(g.Driver, sb), ended)
	if ended && IsBroken(err) {
		if res, err = g.Repair(ctx, g.Repo, Shell(g.Driver, sb), err); err == nil {
			g.add(res)
			res, err = g.Repo.Fetch(ctx, Shell(g.Driver, sb), ended)
		}
	}
	done()
	g.ReportRepairs()
	if err != nil {
		ReportSync(g.Host, g.result) // earlier results
	}
	if isHeld(err) {
		return heldHint(sb, err)
	}
	if err != nil {
		return fmt.Errorf("commits stay in the sandbox %s: %w", sb.Name, err)
	}
	ReportSync(g.Host, g.add(res))
	return nil
}

// IsBroken reports whether an agent has broken the private git directory.
func IsBroken(err error) bool {
	_, broken := errors.AsType[*gitsync.BrokenError](err)
	return broken
}

// Repair repairs the private git directory. [Git.ReportRepairs] reports it.
func (g *Git) Repair(ctx context.Context, repo *gitsync.Repo, sh gitsync.Shell, broken error) (gitsync.Result, error) {
	res, lost, err := repo.Repair(ctx, sh)
	if err != nil {
		return res, err
	}
	note := fmt.Sprintf("Warning: %v; it was restored from your repository", broken)
	if lost != nil {
		note += fmt.Sprintf(", without commits that were not fetched before (%v): what it had is in .git/%s in the sandbox", lost, gitsync.LostFolder)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.repairs = append(g.repairs, note)
	return res, nil
}
