package loop

import (
	"context"
	"strings"
)

// maxOffBranch bounds the commits that a log has of one run.
const maxOffBranch = 50

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

// findOffBranch records the commits of a run that the branch lacks: the loop has not succeeded for the
// user until the branch has them.
func (l *loop) findOffBranch(ctx context.Context, it *iteration, find func(context.Context, []string) ([]string, error)) {
	if find == nil {
		return
	}
	var named []string
	for _, slug := range it.finished {
		if commit := l.last.tasks[slug].Commit; commit != "" {
			named = append(named, commit)
		}
	}
	found, err := find(context.WithoutCancel(ctx), named)
	if err != nil {
		l.warnOnce("off branch", "%s", err)
	}
	it.offBranch = found[:min(len(found), maxOffBranch)]
}

// offBranchLine names commits that the branch lacks.
func offBranchLine(commits []string) string {
	var names []string
	for _, id := range commits[:min(len(commits), maxLeftOut)] {
		names = append(names, short(id))
	}
	return "not on the branch: " + strings.Join(names, ", ")
}
