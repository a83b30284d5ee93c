package commits

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// fetchAll starts a sandbox and fetches all of its commits. If its git directory had to be
// repaired, lost says why some could not be fetched.
func fetchAll(ctx context.Context, h host.Host, driver lifecycle.Driver, i *Scan, wt gitrepo.Worktree, sb lifecycle.Sandbox) (lost, err error) {
	if madeBySbx(driver, sb) {
		return nil, errMadeBySbx(sb)
	}
	repo, err := gitsync.Open(wt, sb.Name, h.StateDir)
	if err == nil && sb.State != lifecycle.Running {
		err = driver.Start(ctx, sb)
	}
	if err != nil {
		return nil, err
	}
	repo, sh := repo.WithGate(i.Incoming(sb.Name)), Shell(driver, sb)
	if sb.Clone { // else an earlier version made it: the files are the user's
		err = repo.SaveUncommitted(ctx, sh)
	}
	if _, broken := errors.AsType[*gitsync.ScriptError](err); err != nil && !broken { // which the fetch reports
		return nil, err
	}
	done := h.ReportSlow("Fetching commits from sandbox " + sb.Name)
	res, err := repo.Fetch(ctx, sh, true)
	done()
	if IsBroken(err) {
		h.Warn(err)
		if res, lost, err = repo.Repair(ctx, sh); err == nil {
			ReportSync(h, res)
			res, err = repo.Fetch(ctx, sh, true)
		}
	}
	ReportSync(h, res)
	if sb.Clone && err == nil {
		err = checkLFS(ctx, repo, sh, sb)
	}
	if sb.Clone && err == nil {
		err = checkRefused(ctx, repo, sh, sb)
	}
	if err == nil {
		err = refused(sb, res)
	}
	if err == nil {
		err = unfetched(ctx, sh, sb, lost)
	}
	return lost, err
}

// madeBySbx reports whether sbx made the clone of a sandbox, as for earlier versions.
func madeBySbx(driver lifecycle.Driver, sb lifecycle.Sandbox) bool {
	return sb.Private && !sb.Clone && driver.Name() == config.DriverSbx
}

func errMadeBySbx(sb lifecycle.Sandbox) error {
	return hint.Wrap(fmt.Errorf("sbx made the clone in sandbox %s, for an earlier version of docker-ralph", sb.Name),
		"fetch its commits with %q, then remove it with %q", fmt.Sprintf("sbx exec %s true && git fetch sandbox-%[1]s", sb.Name), "docker ralph clean --discard-commits "+sb.Name)
}

// checkLFS keeps a clone with Git LFS objects that the repository lacks: no fetch gets them.
func checkLFS(ctx context.Context, repo *gitsync.Repo, sh gitsync.Shell, sb lifecycle.Sandbox) error {
	n, err := repo.OnlyLFS(ctx, sh)
	if err != nil || n == 0 {
		return err
	}
	return hint.Wrap(fmt.Errorf("your repository is missing %s", host.Count(n, "Git LFS object")),
		"push them with \"git lfs push --all origin\" in %q, then run \"git lfs fetch --all\", or %s", "docker ralph shell", DiscardHint(sb.Name))
}

// checkRefused keeps a clone with commits of runs that the user's repository has refused.
func checkRefused(ctx context.Context, repo *gitsync.Repo, sh gitsync.Shell, sb lifecycle.Sandbox) error {
	refs, err := repo.OnlyRefused(ctx, sh)
	if err != nil || len(refs) == 0 {
		return err
	}
	return hint.Wrap(fmt.Errorf("what a run has left whose commits were refused is only in the sandbox: %s", host.Some(refs)), "%s", DiscardHint(sb.Name))
}

// refused returns an error if a sandbox has refs that cannot be fetched: it has the only copy of
// their commits.
func refused(sb lifecycle.Sandbox, res gitsync.Result) error {
	refs := slices.Sorted(maps.Keys(res.Refused))
	if len(refs) == 0 {
		return nil
	}
	return hint.Wrap(fmt.Errorf("%q cannot be fetched: %s", refs[0], res.Refused[refs[0]]), "%s", DiscardHint(sb.Name))
}

// unfetched returns an error if a clone has commits that a repair could not fetch.
func unfetched(ctx context.Context, sh gitsync.Shell, sb lifecycle.Sandbox, lost error) error {
	if lost == nil {
		lost = sh(ctx, `[ ! -e "$1" ]`, []string{gitsync.Folder + "/" + gitsync.LostFolder}, nil, io.Discard)
		if _, found := errors.AsType[*gitsync.ScriptError](lost); found { // by an earlier repair
			lost = fmt.Errorf("unfetched objects are in .git/%s there", gitsync.LostFolder)
		}
	}
	return hint.Wrap(lost, "%s", DiscardHint(sb.Name))
}

// ReleaseClone records that the commits of a running clone are discarded.
func ReleaseClone(ctx context.Context, h host.Host, l host.Located) error {
	sb := l.Sandbox
	if !sb.Clone || sb.State != lifecycle.Running {
		return nil
	}
	wt, err := worktreeOf(ctx, h, sb)
	if err != nil {
		return err
	}
	return release(ctx, h, wt, sb)
}

// release records that a sandbox has nothing that the host lacks.
func release(ctx context.Context, h host.Host, wt gitrepo.Worktree, sb lifecycle.Sandbox) error {
	repo, err := gitsync.Open(wt, sb.Name, h.StateDir)
	if err != nil {
		return err
	}
	return repo.SetReleased(ctx, true)
}

// FetchAll fetches all commits of a sandbox, which is not removed if that fails. The remains
// of a broken git directory are reported as lost.
func FetchAll(ctx context.Context, h host.Host, l host.Located, i *Scan, wt gitrepo.Worktree) error {
	lost, err := fetchAll(ctx, h, l.Backend.Driver, i, wt, l.Sandbox)
	if errors.Is(err, lifecycle.ErrNotPrepared) {
		return errUnprepared
	}
	if err == nil {
		err = release(ctx, h, wt, l.Sandbox)
	}
	if lost != nil {
		h.Report(fmt.Sprintf("Warning: unfetched commits are lost: %v", lost))
	}
	return heldHint(l.Sandbox, err)
}

// saveClone fetches all commits before a sandbox is removed. Without ralph of this
// version in it nothing can be fetched; then its git directory stays for the next
// container of that name.
func saveClone(ctx context.Context, h host.Host, driver lifecycle.Driver, i *Scan, wt gitrepo.Worktree, sb lifecycle.Sandbox) error {
	ctx = context.WithoutCancel(ctx)
	lost, err := fetchAll(ctx, h, driver, i, wt, sb)
	switch {
	case errors.Is(err, lifecycle.ErrNotPrepared) && !sb.Clone && !gitsync.AllFetched(h.StateDir, sb.Name):
		return hint.Wrap(fmt.Errorf("sandbox %s, which an earlier version of docker-ralph made, has commits that were not fetched", sb.Name),
			"fetch them with that version and %q, or %s", "docker ralph task list", DiscardHint(sb.Name))
	case errors.Is(err, lifecycle.ErrNotPrepared) && driver.Name() != config.DriverContainer && !gitsync.Saved(h.StateDir, sb.Name):
		err = errUnprepared // they go with a microVM
	case errors.Is(err, lifecycle.ErrNotPrepared):
		return nil // the next container of that name has the same volumes
	}
	if err == nil {
		err = lost // it stays in the volume, which goes
	}
	if err != nil {
		return recreateHint(sb, fmt.Errorf("sandbox %s cannot be removed without losing commits: %w", sb.Name, err))
	}
	ReopenUnmerged(ctx, h, sb)
	return release(ctx, h, wt, sb)
}

// DiscardHint is the remedy that discards commits which only a sandbox has.
func DiscardHint(which string) string {
	return fmt.Sprintf("discard them with %q", "docker ralph clean --discard-commits "+which)
}
