package dispatch

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitrepo/worktrees"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// WorktreeRemoval says which worktree is to be removed, and what may be lost.
type WorktreeRemoval struct {
	Name string
	// Force removes it with work that is nowhere else, and while something runs
	// in its sandbox.
	Force bool
	// DeleteBranch deletes its branch too.
	DeleteBranch bool
	// CredScan is as in [Options].
	CredScan string
}

// removal is one that is under way.
type removal struct {
	WorktreeRemoval
	host  Host
	repo  *worktrees.Repository
	tree  worktrees.Tree
	boxes []located
	stray []string // refs with commits of the sandboxes that are on no branch
	// lost is what would be lost, line by line.
	lost []string
}

// RemoveWorktree removes a worktree below .worktrees together with its sandbox.
// Commits that are in the sandbox only are brought into the repository before.
// It is an error, and nothing is removed, if that would lose work.
func RemoveWorktree(ctx context.Context, h Host, opts WorktreeRemoval) error {
	connected := once(h.connect())
	wt, err := gitrepo.Detect(ctx, h.Dir, anyScope)
	if err != nil {
		return err
	}
	r := &removal{WorktreeRemoval: opts, host: h}
	if r.repo, err = worktrees.Open(wt); err != nil {
		return err
	}
	unlock, err := h.lockWorktrees(ctx, wt)
	if err != nil {
		return err
	}
	defer unlock()
	if err := r.find(ctx); err != nil {
		return err
	}
	free, err := r.takeSandboxes(ctx, connected)
	defer free()
	if err != nil {
		return err
	}
	if err := r.look(ctx); err != nil {
		return err
	}
	if len(r.lost) > 0 && !r.Force {
		return r.refuse()
	}
	return r.remove(ctx)
}

// find finds the worktree.
func (r *removal) find(ctx context.Context) error {
	t, found, err := r.repo.Find(ctx, r.Name)
	switch {
	case err != nil:
		return err
	case !found:
		return fmt.Errorf("there is no worktree %q below %s: see \"docker ralph worktree ls\"", r.Name, worktrees.Folder)
	case t.Current:
		return fmt.Errorf("you are in the worktree %q: leave its folder first", r.Name)
	}
	r.tree = t
	return t.CheckLock()
}

// takeSandboxes finds the worktree's sandboxes, keeps other commands from using
// them until free is called, and brings their commits home.
func (r *removal) takeSandboxes(ctx context.Context, connected func() (API, error)) (free func(), err error) {
	var locks []*flock.Flock
	free = func() {
		for _, l := range locks {
			_ = l.Close()
		}
	}
	all, err := r.host.sandboxes(ctx, connected)
	if err != nil {
		err = fmt.Errorf("it cannot be told whether the worktree %q has a sandbox: %w", r.Name, err)
		if !r.Force || ctx.Err() != nil {
			return free, err
		}
		r.host.report(fmt.Sprintf("Warning: %v", err))
	}
	for _, box := range all {
		if box.sb.Root != r.tree.Path {
			continue
		}
		lock := flock.New(filepath.Join(r.host.lockDir(), box.sb.Name+".lock"))
		taken, err := lock.TryLock()
		if err == nil && !taken {
			err = fmt.Errorf("another command is setting up the sandbox %s: wait for it", box.sb.Name)
		}
		if err != nil {
			return free, err
		}
		locks = append(locks, lock)
		if err := r.quieten(ctx, &box); err != nil {
			return free, err
		}
		if err := r.bringHome(ctx, box); err != nil {
			return free, err
		}
		r.boxes = append(r.boxes, box)
	}
	return free, nil
}

// quieten refuses a sandbox that something runs in. If that may be lost, the
// sandbox is stopped.
func (r *removal) quieten(ctx context.Context, box *located) error {
	sb, err := box.at.driver.Lookup(ctx, box.sb.Name)
	if err != nil {
		return err
	}
	box.sb = sb
	if sb.State != lifecycle.Running {
		return nil
	}
	busy, err := box.at.driver.Busy(ctx, sb)
	if err != nil || !busy {
		return err
	}
	if !r.Force {
		return fmt.Errorf("%s in the sandbox %s of the worktree %q: wait for it, or end it and remove the worktree with --force", r.whatRuns(ctx, *box), sb.Name, r.Name)
	}
	if err := box.at.driver.Stop(ctx, sb); err != nil {
		return err
	}
	box.sb, err = box.at.driver.Lookup(ctx, sb.Name)
	return err
}

// whatRuns names the commands that run in a sandbox.
func (r *removal) whatRuns(ctx context.Context, box located) string {
	var commands []string
	running, err := box.at.driver.Dispatches(ctx, box.sb)
	for _, d := range running {
		if len(d.Command) > 0 {
			words := append([]string{path.Base(d.Command[0])}, d.Command[1:]...)
			commands = append(commands, fmt.Sprintf("%q", strings.Join(words, " ")))
		}
	}
	if err != nil || len(commands) == 0 {
		return "something runs"
	}
	return strings.Join(commands, " and ") + " runs"
}

// bringHome fetches the commits that only the sandbox has. That it cannot be
// done is work that would be lost, too.
func (r *removal) bringHome(ctx context.Context, box located) error {
	sb, h := box.sb, r.host
	if !sb.Private || box.at.kind == config.DriverContainer && gitsync.Saved(h.StateDir, sb.Name) {
		return nil
	}
	err := r.fetch(ctx, box)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		r.lost = append(r.lost, fmt.Sprintf("commits that may be in the sandbox %s only: %v", sb.Name, err))
	}
	return nil
}

func (r *removal) fetch(ctx context.Context, box located) error {
	sb, h, driver := box.sb, r.host, box.at.driver
	if r.tree.Missing {
		return errors.New("they cannot be fetched, because the worktree's folder is gone")
	}
	wt, err := r.repo.Worktree(ctx, r.tree)
	if err != nil {
		return err
	}
	wt.Scope = sb.Scope
	at := box.at
	at.inspect = &inspection{host: h, root: wt.Root, mode: r.CredScan, connected: func() (API, error) { return box.at.api, nil }}
	if at.kind != config.DriverContainer {
		return h.save(at, wt)(ctx, sb)
	}
	repo, err := gitsync.Open(wt, sb.Name, h.StateDir)
	if err != nil {
		return err
	}
	if sb.State != lifecycle.Running {
		if err := driver.Start(ctx, sb); err != nil {
			return err
		}
	}
	repo = repo.Gated(at.inspect.incoming(sb.Name))
	res, err := repo.Out(ctx, shell(driver, sb), true)
	if errors.Is(err, lifecycle.ErrNotPrepared) {
		return errors.New("it was made by another version of docker-ralph: run \"docker ralph task list\" in the worktree to have them fetched")
	}
	if isBroken(err) {
		g := &ownGit{}
		if _, err = g.repair(ctx, repo, shell(driver, sb), err); err == nil {
			h.reportRepairs(g)
			res, err = repo.Out(ctx, shell(driver, sb), true)
		}
	}
	h.reportSync(res)
	return explainHeld(driver, sb, err)
}

// shownLines is how much is named of what would be lost.
const shownLines = 5

// look looks for work that is nowhere else.
func (r *removal) look(ctx context.Context) error {
	if !r.tree.Missing {
		s, err := r.repo.Status(ctx, r.tree)
		if err != nil && !r.Force {
			return err
		}
		if n := len(s.Changed); n > 0 {
			r.lost = append(r.lost, fmt.Sprintf("uncommitted changes of %s: %s", number(n, "file"), some(s.Changed)))
		}
	}
	// What came home may have moved the branch, or HEAD.
	t, found, err := r.repo.Find(ctx, r.Name)
	if err != nil {
		return err
	}
	if found {
		r.tree = t
	}
	commits, n, err := r.repo.Unmerged(ctx, r.tree, shownLines)
	if err != nil {
		return err
	}
	if n > 0 {
		r.lost = append(r.lost, r.describe(commits, n))
	}
	for _, box := range r.boxes {
		stray, err := r.repo.Stray(ctx, collected(box.sb.Name), "@base", "@merged")
		if err != nil {
			return err
		}
		r.stray = append(r.stray, stray...)
		for _, ref := range stray {
			r.lost = append(r.lost, fmt.Sprintf("commits of the sandbox that are on no branch: they stay at %s", ref))
		}
	}
	return nil
}

// describe names commits that are not merged, and says whether they stay.
func (r *removal) describe(commits []worktrees.Commit, n int) string {
	var lines []string
	for _, c := range commits {
		lines = append(lines, fmt.Sprintf("%s %q", c.ID, c.Subject))
	}
	what := fmt.Sprintf("%s not merged: %s", number(n, "commit"), strings.Join(lines, ", "))
	if more := n - len(lines); more > 0 {
		what += fmt.Sprintf(" and %d more", more)
	}
	switch {
	case r.tree.Branch == "":
		return what + "; they are on no branch"
	case r.DeleteBranch:
		return what + "; they go with the branch " + r.tree.Branch
	default:
		return what + "; they stay on the branch " + r.tree.Branch
	}
}

func number(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// some names the first of them.
func some(names []string) string {
	var first []string
	for _, name := range names[:min(len(names), shownLines)] {
		first = append(first, shown(name))
	}
	text := strings.Join(first, ", ")
	if more := len(names) - len(first); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func (r *removal) refuse() error {
	return fmt.Errorf("the worktree %q has work that is nowhere else, so it was left as it is:\n  %s\nCommit and merge what you need, or remove the worktree with --force",
		r.Name, strings.Join(r.lost, "\n  "))
}

// remove removes the sandboxes, the worktree and, if it was wanted, the branch.
func (r *removal) remove(ctx context.Context) error {
	for _, line := range r.lost {
		r.host.report("Warning: the worktree had " + line)
	}
	for _, box := range r.boxes {
		if err := r.removeSandbox(ctx, box); err != nil {
			return err
		}
	}
	if err := r.tree.CheckLock(); err != nil {
		return err
	}
	aside, err := r.repo.SetAside(r.Name, time.Now())
	if err != nil {
		return err
	}
	if aside != "" {
		r.host.report("Its backlog and logs are in " + aside)
	}
	if err := r.repo.Remove(ctx, r.tree); err != nil {
		return err
	}
	r.host.report("Removed the worktree " + filepath.Join(worktrees.Folder, r.Name))
	if r.DeleteBranch && r.tree.Branch != "" {
		if err := r.repo.DeleteBranch(ctx, r.tree.Branch); err != nil {
			return err
		}
		r.host.report("Deleted the branch " + r.tree.Branch)
	}
	return nil
}

// removeSandbox removes a sandbox, and the refs of its commits that are on a
// branch as well. A volume that is left with others needs the refs.
func (r *removal) removeSandbox(ctx context.Context, box located) error {
	saved := !box.sb.Private || box.at.kind != config.DriverContainer || gitsync.Saved(r.host.StateDir, box.sb.Name)
	if err := box.at.driver.Remove(ctx, box.sb); err != nil {
		return err
	}
	r.host.report("Removed the sandbox " + box.sb.Name)
	if !saved {
		volume := "ralph-git-" + box.sb.Name
		r.host.report(fmt.Sprintf("Warning: the volume %s stays, as it may have the only copy of commits\nHint: %s", volume, discardHint("--all")))
		return nil
	}
	return r.repo.Forget(ctx, collected(box.sb.Name), r.stray)
}
