package dispatch

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/wire/looplog"
)

// ownGit is the git directory of a container's own, while a command runs.
type ownGit struct {
	repo  *gitsync.Repo
	aside *gitsync.Repo // the same, while the terminal belongs to the agent
	alive *flock.Flock  // held while an agent may commit

	mu     sync.Mutex
	result gitsync.Result // of all syncs so far
	// repairs are what is to be said about a git directory that was broken.
	repairs []string
}

// syncEvery is how often commits are fetched while an agent works, and lookEvery
// how often it is looked whether one has ended, after which they are fetched too.
// A fetch that is under way when the command ends has fetchGrace to end.
const (
	syncEvery  = 30 * time.Second
	lookEvery  = time.Second
	fetchGrace = 10 * time.Second
)

// directWarning is told once per sandbox.
const directWarning = `Warning: with sandbox.git = "direct" the agent can write into your git directory: its hooks and configuration count when you use git here`

// checkGit refuses repositories that a container cannot have a private git directory
// for, before an engine is needed, and to start an agent while the user has to finish
// something first.
func (h Host) checkGit(ctx context.Context, wt gitrepo.Worktree, name, command string) error {
	repo, err := gitsync.Open(wt, name, h.StateDir)
	switch {
	case err != nil:
		return err
	case command != taskCommand:
		return repo.Check(ctx)
	case !container.Known(h.StateDir, name):
		return repo.CheckKind(ctx)
	}
	return nil
}

// ownGit lets a container have a git directory of its own over that of the work
// tree.
func (h Host) ownGit(ctx context.Context, wt gitrepo.Worktree, at *place, spec *lifecycle.Spec) error {
	if at.kind != config.DriverContainer {
		return nil
	}
	if !spec.Private {
		if !container.Known(h.StateDir, spec.Name) {
			h.report(directWarning)
		}
		return nil
	}
	repo, err := gitsync.Open(wt, spec.Name, h.StateDir)
	if err != nil {
		return err
	}
	alternates, err := h.approveAlternates(ctx, wt)
	if err != nil {
		return err
	}
	repo = repo.Borrowing(alternates)
	at.git = &ownGit{repo: repo.Gated(at.inspect.incoming(spec.Name)), aside: repo.Gated(at.inspect.incomingAside(spec.Name)), alive: flock.New(filepath.Join(h.lockDir(), spec.Name+".git-alive"))}
	spec.Mounts, spec.Probe = nil, probe(wt.Root)
	spec.Git = func(ctx context.Context) (*gitsync.Layout, error) {
		if err := repo.CheckKind(ctx); err != nil {
			return nil, err
		}
		return repo.Layout(ctx)
	}
	return nil
}

// probe returns a file by which one can tell the work tree; empty if there is
// none.
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

// shell runs scripts of ours in a sandbox.
func shell(driver lifecycle.Driver, sb lifecycle.Sandbox) gitsync.Shell {
	return func(ctx context.Context, script string, args []string, stdin io.Reader, stdout io.Writer) error {
		ctx, cancel := context.WithTimeout(ctx, collectLimit) // an agent can make its git hang
		defer cancel()
		var stderr bytes.Buffer
		code, err := driver.Exec(ctx, sb, lifecycle.Process{
			ID: rand.Text(), Args: append([]string{"sh", "-c", script, "sh"}, args...), Dir: sb.Root,
			Stdin: stdin, Stdout: stdout, Stderr: &limited{buf: &stderr, left: 4096},
		})
		if err == nil && code != 0 {
			err = &gitsync.ScriptError{Code: code, Words: stderr.String()}
		}
		return err
	}
}

// limited keeps the beginning of what is written.
type limited struct {
	buf  *bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	_, _ = l.buf.Write(p[:n])
	return len(p), nil
}

// executeSynced executes a command in a sandbox. If that has a git directory of its
// own, it is brought up to date before, and its commits are fetched meanwhile.
func (h Host) executeSynced(ctx context.Context, at place, sb lifecycle.Sandbox, command string, execute func() (int, error)) (int, error) {
	if at.git == nil {
		return execute()
	}
	if command == taskCommand {
		if err := h.takeUp(ctx, at, sb); err != nil {
			return 0, err
		}
		code, err := execute()
		if err == nil && code != 0 {
			h.repairAfter(ctx, at, sb)
		}
		return code, err
	}
	// Another command that ends may hold it while it fetches.
	if _, err := at.git.alive.TryRLockContext(ctx, 10*time.Millisecond); err != nil {
		return 0, fmt.Errorf("locking %s: %w", at.git.alive.Path(), err)
	}
	defer func() { _ = at.git.alive.Close() }()
	err := h.takeIn(ctx, at, sb)
	if c, is := errors.AsType[*gitsync.Conflict](err); is && c.Mendable() && command == shellCommand {
		h.reportConflict(c)
		err = nil
	}
	if err != nil {
		return 0, err
	}
	if err := at.git.repo.Begin(ctx); err != nil {
		return 0, err
	}
	stop := at.git.follow(ctx, sb.Root, func(ctx context.Context, last string, ended bool) (gitsync.Result, string, error) {
		res, tip, err := at.git.aside.Watch(ctx, shell(at.driver, sb), last, ended)
		if ended && isBroken(err) { // the next run shall be able to commit
			res, err = at.git.repair(ctx, at.git.aside, shell(at.driver, sb), err)
		}
		return res, tip, err
	})
	defer stop()
	hooks, err := at.git.repo.Hooks(ctx)
	if err != nil {
		return 0, err
	}
	defer h.reportHooks(context.WithoutCancel(ctx), at.git.repo, hooks)
	return execute()
}

// reportHooks names hooks in the worktree that have changed while an agent worked:
// the user's next git command may run them.
func (h Host) reportHooks(ctx context.Context, repo *gitsync.Repo, before gitsync.Hooks) {
	now, err := repo.Hooks(ctx)
	if err != nil {
		h.report(fmt.Sprintf("Warning: %v", err))
		return
	}
	if changed := now.Changed(before); len(changed) > 0 {
		h.report(fmt.Sprintf("Warning: hooks of your git in the worktree have changed: %s", strings.Join(changed, ", ")))
		h.report("Hint: look at them before you use git here, because git status, too, can run hooks")
	}
}

// repairAfter restores the sandbox's git directory if a command that starts no agent
// has failed because that is broken.
func (h Host) repairAfter(ctx context.Context, at place, sb lifecycle.Sandbox) {
	if free, err := at.git.alive.TryLock(); err != nil || !free {
		return
	}
	defer func() { _ = at.git.alive.Close() }()
	if !h.idle(ctx, at.driver, sb) {
		return
	}
	_, err := at.git.repo.Out(ctx, shell(at.driver, sb), true)
	if !isBroken(err) {
		return
	}
	res, err := at.git.repair(ctx, at.git.repo, shell(at.driver, sb), err)
	h.reportRepairs(at.git)
	h.reportSync(res)
	if err != nil {
		h.report(fmt.Sprintf("Warning: %v", err))
		return
	}
	h.report("Hint: run the command again")
}

// takeUp fetches what an earlier command, which was killed, has left, before a
// command that starts no agent.
func (h Host) takeUp(ctx context.Context, at place, sb lifecycle.Sandbox) error {
	if !at.git.repo.Unfinished() {
		return nil
	}
	if free, err := at.git.alive.TryLock(); err != nil || !free {
		return nil //nolint:nilerr // a command that lives does it
	}
	defer func() { _ = at.git.alive.Close() }()
	idle := h.idle(ctx, at.driver, sb)
	res, err := at.git.repo.Out(ctx, shell(at.driver, sb), idle)
	if idle && isBroken(err) {
		res, err = at.git.repair(ctx, at.git.repo, shell(at.driver, sb), err)
		h.reportRepairs(at.git)
	}
	if errors.Is(err, lifecycle.ErrNotPrepared) {
		return err
	}
	if err != nil {
		h.report(fmt.Sprintf("Warning: %v", explainHeld(at.driver, sb, err)))
	}
	h.reportSync(res)
	return nil
}

// takeIn brings the sandbox up to date. While something else runs in it, commits
// only come out.
func (h Host) takeIn(ctx context.Context, at place, sb lifecycle.Sandbox) error {
	if !h.idle(ctx, at.driver, sb) {
		res, err := at.git.repo.Out(ctx, shell(at.driver, sb), false)
		h.reportSync(res)
		return beyondRepair(at.driver, sb, err)
	}
	res, err := at.git.repo.In(ctx, shell(at.driver, sb))
	if isBroken(err) {
		var repaired gitsync.Result
		if repaired, err = at.git.repair(ctx, at.git.repo, shell(at.driver, sb), err); err == nil {
			h.reportRepairs(at.git)
			h.reportSync(repaired)
			res, err = at.git.repo.In(ctx, shell(at.driver, sb))
		}
	}
	h.reportSync(res)
	h.reportUncommitted(res.Users)
	return beyondRepair(at.driver, sb, err)
}

// beyondRepair adds what to do when a sandbox's git directory does not work: an
// agent can have broken it.
func beyondRepair(driver lifecycle.Driver, sb lifecycle.Sandbox, err error) error {
	if isHeld(err) {
		return explainHeld(driver, sb, err)
	}
	if !gitsync.Lasting(err) {
		return err
	}
	return hint.Wrap(err, "run the command with --recreate for a new sandbox; commits that cannot be fetched are lost by that, your files are not touched")
}

// idle says that nothing runs in a sandbox that could commit.
func (h Host) idle(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox) bool {
	busy, err := driver.Busy(ctx, sb)
	return err == nil && !busy
}

func (h Host) reportSync(res gitsync.Result) {
	for _, note := range res.Notes() {
		h.report(note)
	}
	if res.Conflict != nil {
		h.reportConflict(res.Conflict)
	}
}

func (h Host) reportConflict(c *gitsync.Conflict) {
	h.report("Warning: " + c.Error())
	h.report("Hint: " + c.Hint())
}

// follow fetches commits after each run of an agent in the work tree top, and
// again and again while one takes long, until it is stopped. fetch is
// [gitsync.Repo.Watch]. What came is told at the end, because the terminal
// belongs to the agent.
//
// A fetch that is under way when it is stopped comes to its end, if that is near:
// what would be left of it in the sandbox looks like somebody who still commits.
func (g *ownGit) follow(ctx context.Context, top string,
	fetch func(ctx context.Context, last string, ended bool) (res gitsync.Result, tip string, err error),
) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stopping, stopped := make(chan struct{}), make(chan struct{})
	last, seen, synced := "", looplog.Latest(top), time.Now()
	go func() {
		defer close(stopped)
		look := time.NewTicker(lookEvery)
		defer look.Stop()
		for {
			select {
			case <-stopping:
				return
			case <-look.C:
			}
			latest := looplog.Latest(top)
			ended := latest.After(seen)
			if !ended && time.Since(synced) < syncEvery {
				continue
			}
			res, tip, err := fetch(ctx, last, ended)
			last, seen, synced = tip, latest, time.Now()
			if err == nil { // or else the last one tells
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

// add sums up what several syncs have brought.
func (g *ownGit) add(res gitsync.Result) gitsync.Result {
	g.mu.Lock()
	defer g.mu.Unlock()
	res.Commits += g.result.Commits
	if res.Others == nil { // nothing was fetched
		res.Others, res.Kept = map[string]string{}, map[string]string{}
	}
	for name, ref := range g.result.Others {
		if _, later := res.Others[name]; !later {
			res.Others[name] = ref
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

// bringOut fetches what a command has committed and tells where it is. As long as
// another one may commit, which need not run in the sandbox yet, more can come. None
// begins meanwhile.
func (h Host) bringOut(ctx context.Context, at place, sb lifecycle.Sandbox) error {
	alone, err := at.git.alive.TryLock()
	if alone {
		defer func() { _ = at.git.alive.Close() }()
	}
	ended := err == nil && alone && h.idle(ctx, at.driver, sb)
	res, err := at.git.repo.Out(ctx, shell(at.driver, sb), ended)
	if ended && isBroken(err) {
		if res, err = at.git.repair(ctx, at.git.repo, shell(at.driver, sb), err); err == nil {
			at.git.add(res)
			res, err = at.git.repo.Out(ctx, shell(at.driver, sb), ended)
		}
	}
	h.reportRepairs(at.git)
	if isHeld(err) {
		h.reportSync(at.git.result) // what came before
		return explainHeld(at.driver, sb, err)
	}
	if err != nil {
		return fmt.Errorf("the sandbox's commits are only in the sandbox %s yet: %w", sb.Name, err)
	}
	h.reportSync(at.git.add(res))
	return nil
}

// isBroken says that an agent has broken the sandbox's git directory.
func isBroken(err error) bool {
	_, broken := errors.AsType[*gitsync.BrokenError](err)
	return broken
}

// repair restores the sandbox's git directory. What is to be said about that is
// said when the terminal is ours again.
func (g *ownGit) repair(ctx context.Context, repo *gitsync.Repo, sh gitsync.Shell, broken error) (gitsync.Result, error) {
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

func (h Host) reportRepairs(g *ownGit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, note := range g.repairs {
		h.report(note)
	}
	g.repairs = nil
}

// saveOwn fetches everything before a container is removed. If there is no ralph
// of this version in it, nothing can be fetched; then its git directory stays,
// for the next container of that name.
func (h Host) saveOwn(ctx context.Context, at place, wt gitrepo.Worktree, sb lifecycle.Sandbox) error {
	ctx, driver := context.WithoutCancel(ctx), at.driver
	repo, err := gitsync.Open(wt, sb.Name, h.StateDir)
	if err != nil {
		return err
	}
	if sb.State != lifecycle.Running {
		if gone(sb.Root) {
			return nil // it cannot be started; its git directory stays for the next one of that name
		}
		if err := driver.Start(ctx, sb); err != nil {
			return err
		}
	}
	repo = repo.Gated(at.inspect.incoming(sb.Name))
	res, err := repo.Out(ctx, shell(driver, sb), true)
	if errors.Is(err, lifecycle.ErrNotPrepared) {
		return nil
	}
	if isBroken(err) {
		h.report(fmt.Sprintf("Warning: %v", err))
		var lost error
		if res, lost, err = repo.Repair(ctx, shell(driver, sb)); err == nil {
			err = lost // it stays in the volume, which goes
		}
	}
	h.reportSync(res)
	for _, ref := range slices.Sorted(maps.Keys(res.Refused)) {
		h.report(fmt.Sprintf("Warning: %q is lost with the sandbox %s, as it cannot be fetched: %s", ref, sb.Name, res.Refused[ref]))
	}
	if gitsync.Lasting(err) {
		h.report(fmt.Sprintf("Warning: commits that were not fetched before are lost with the sandbox %s: %v", sb.Name, err))
		return gitsync.Abandon(h.StateDir, sb.Name)
	}
	if err != nil {
		return beyondRepair(driver, sb, fmt.Errorf("the sandbox %s cannot be removed without losing commits: %w", sb.Name, err))
	}
	return nil
}
