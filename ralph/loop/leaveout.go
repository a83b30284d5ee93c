package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/ralph/amend"
	"github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// recordCommits returns a function that removes from the commits of a run what cannot leave the
// sandbox, or nil.
func (l *loop) recordCommits(ctx context.Context) func(context.Context) (amend.LeftOut, error) {
	if l.LeaveOut == nil {
		return nil
	}
	remove, err := l.LeaveOut(ctx)
	if err != nil {
		l.warnf("%s; the commits of this run stay as they are", err)
		return nil
	}
	return remove
}

// leaveOut removes from the commits of a run what cannot leave the sandbox: the host would refuse
// all of them, and all later ones.
func (l *loop) leaveOut(ctx context.Context, it *iteration, remove func(context.Context) (amend.LeftOut, error)) {
	if it.consequence().next != wait { // else no agent has seen it
		l.leftOut = ""
	}
	if remove == nil {
		return
	}
	var err error
	if it.leftOut, err = remove(context.WithoutCancel(ctx)); err != nil {
		l.warnf("%s", err)
	}
	for _, f := range it.leftOut.Files {
		if it.leftOut.Commits == nil {
			l.warnf("the commits of this run cannot leave the sandbox: %s", f.Reason())
		} else {
			l.warnf("left out of the commits: %s", f.Reason())
		}
	}
}

// maxLeftOut limits the paths in a reason.
const maxLeftOut = 10

// leftOutReason returns why a task is not done whose commits lack something; empty if it can be.
// A repository in a subdirectory that an earlier run left is not the fault of another task.
func (l *loop) leftOutReason(it *iteration, slug string) string {
	known := it.before.tasks[slug].Reason
	var reasons []string
	for _, f := range it.leftOut.Files {
		if f.Filter == "" && slices.Contains(l.before.Files, f.Path+"/") && !strings.Contains(known, f.Reason()) {
			continue
		}
		reasons = append(reasons, f.Reason())
	}
	if more := len(reasons) - maxLeftOut; more > 0 {
		reasons = append(reasons[:maxLeftOut], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(reasons, "\n")
}

// reopenLeftOut reopens the finished tasks whose commits lack something. The results of the others
// name the commits as they are now.
func (l *loop) reopenLeftOut(ctx context.Context, it *iteration) error {
	if len(it.leftOut.Files) > 0 {
		defer func() { l.leftOut = it.leftOutNote() }()
	}
	if l.Backlog == nil || l.AgentID == "" || len(it.leftOut.Files)+len(it.leftOut.Commits) == 0 {
		return nil
	}
	after := l.observeAfter(ctx, it.before)
	if it.before.tasks == nil || after.tasks == nil {
		return nil
	}
	var failed []error
	for _, slug := range it.before.finished(after, l.AgentID) {
		reason := l.leftOutReason(it, slug)
		if reason == "" {
			l.renameCommit(ctx, it, slug, after.tasks[slug])
			continue
		}
		if err := l.Backlog.Reopen(ctx, slug, reason); err != nil {
			failed = append(failed, fmt.Errorf("reopening task %s: %w", slug, err))
			continue
		}
		it.released = append(it.released, slug)
		it.incomplete = true
		l.printf("reopened %s\n", termsafe.Strip(slug))
	}
	return errors.Join(failed...)
}

// renameCommit records the new ID of a finished task's commit.
func (l *loop) renameCommit(ctx context.Context, it *iteration, slug string, task session.Task) {
	named := task.Commit
	if named == "" {
		return
	}
	for old, id := range it.leftOut.Commits {
		if !strings.HasPrefix(old, named) {
			continue
		}
		if err := l.Backlog.RenameCommit(ctx, slug, named, id); err != nil {
			l.warnf("recording the commit of task %s: %s", termsafe.Strip(slug), err)
		}
	}
}

// leftOutNote tells the next agent what the commits lack.
func (it *iteration) leftOutNote() string {
	text := "This was left out of the commits of the previous session, because it cannot leave the sandbox"
	if it.incomplete {
		text += "; its task is open again"
	}
	var lines []string
	for _, f := range it.leftOut.Files[:min(len(it.leftOut.Files), maxLeftOut)] {
		lines = append(lines, "- "+termsafe.Line(f.Reason()))
	}
	return text + ":\n\n" + strings.Join(lines, "\n") + "\n"
}
