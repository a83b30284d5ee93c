package loop

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// recordBranches returns a function that finds the commits of a run that the branch lacks, or nil.
func (l *loop) recordBranches(ctx context.Context) func(context.Context, []string) ([]string, error) {
	if l.OffBranch == nil {
		return nil
	}
	find, err := l.OffBranch(ctx)
	if err != nil {
		l.warnOnce("off branch", "%s; commits outside of the branch are not noticed", err)
		return nil
	}
	return find
}

// checkBranch rejects a run that has committed outside of the branch: neither its checks nor the user would see that.
func (l *loop) checkBranch(ctx context.Context, it *iteration) error {
	if it.findOffBranch == nil || it.noGit != nil || !l.countsCommits(it) {
		return nil
	}
	var named []string
	for _, slug := range it.finished {
		if commit := l.last.tasks[slug].Commit; commit != "" {
			named = append(named, commit)
		}
	}
	found, err := it.findOffBranch(context.WithoutCancel(ctx), named)
	if err != nil {
		l.warnOnce("off branch", "%s", err)
	}
	if len(found) == 0 {
		return nil
	}
	if other := l.otherSession(); other != "" && !it.owns(found, named) {
		l.warnf("%s, which may be commits of %q", offBranchLine(found), other)
		return nil
	}
	it.offBranch = found
	reason := offBranchLine(found) + ": commit to the branch that was checked out at the beginning, and delete branches that are not needed"
	l.warnf("the run was not accepted: %s", offBranchLine(found))
	return l.reject(ctx, it, reason, "the session committed outside of the branch")
}

// owns reports whether commits elsewhere are those of the run, and not of another session: its task names one, or was
// finished without a commit on the branch.
func (it *iteration) owns(elsewhere, named []string) bool {
	if len(it.finished) > 0 && it.head == it.before.head {
		return true
	}
	return slices.ContainsFunc(named, func(name string) bool {
		return slices.ContainsFunc(elsewhere, func(id string) bool { return strings.HasPrefix(id, name) })
	})
}

// offBranchLine names commits that the branch lacks.
func offBranchLine(commits []string) string {
	var names []string
	for _, id := range commits[:min(len(commits), maxLeftOut)] {
		names = append(names, short(id))
	}
	return fmt.Sprintf("%s not on the branch: %s", count(len(commits), "commit"), strings.Join(names, ", "))
}

// restoreBranch switches the worktree back to the loop's branch.
func (l *loop) restoreBranch(ctx context.Context) error {
	if l.Restore == nil {
		return nil
	}
	notes, err := l.Restore(context.WithoutCancel(ctx))
	for _, note := range notes {
		l.warnf("%s", note)
	}
	return err
}
