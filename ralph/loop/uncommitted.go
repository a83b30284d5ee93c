package loop

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/ralph/attempt"
	"github.com/docker-ralph/docker-ralph/ralph/session"
)

// changes are the uncommitted changes before a run.
type changes struct {
	attempt.Begun
	known bool
}

func (l *loop) uncommitted(ctx context.Context) changes {
	if l.Uncommitted == nil || l.Backlog == nil {
		return changes{}
	}
	state, err := l.Uncommitted(ctx)
	if err != nil {
		l.warnOnce("uncommitted", "%s", err)
	}
	return changes{attempt.Begun{State: state}, err == nil}
}

// recordUncommitted records the uncommitted changes before a run: in a clone also for the next loop, if this one is
// killed.
func (l *loop) recordUncommitted(ctx context.Context) {
	l.before = l.uncommitted(ctx)
	if l.Reset == nil || l.Attempts == nil || l.AgentID == "" || !l.before.known {
		return
	}
	l.before.Agent = l.AgentID
	for slug, task := range l.last.tasks {
		if task.ClaimedBy == l.AgentID {
			l.before.Claims = append(l.before.Claims, claimOf(slug, task))
		}
	}
	if err := l.Attempts.Begin(l.before.Begun); err != nil {
		l.warnOnce("record", "%s", err)
	}
}

// claimOf identifies a claim of a task.
func claimOf(slug string, task session.Task) string { return fmt.Sprintf("%s %d", slug, task.Attempt) }

// setAside keeps what a run has left uncommitted out of the checks and of the commits of
// other tasks. What was uncommitted before the run stays: it is the user's.
func (l *loop) setAside(ctx context.Context, it *iteration) {
	it.id = l.attemptID(ctx, it)
	if l.Attempts != nil && l.AgentID != "" && l.before.known {
		l.setAsideLeft(ctx, it)
	}
}

func (l *loop) setAsideLeft(ctx context.Context, it *iteration) {
	other, failed := l.otherSession(), error(nil)
	if other != "" {
		l.warnOnce("other session", "uncommitted changes are not set aside while %q runs in this sandbox: they may be its own", other)
	} else if it.aside, failed = l.Attempts.SetAside(context.WithoutCancel(ctx), it.id, l.before.State); failed != nil {
		l.warnf("%s; the next run starts with them", failed)
	}
	switch {
	case l.Reset == nil:
	case failed != nil:
		_ = l.Attempts.Begin(l.before.Begun) // again: an agent can have removed it with the git directory
	default:
		if err := l.Attempts.End(); err != nil {
			l.warnOnce("record", "%s", err)
		}
	}
}

// otherSession returns the command of another session in the sandbox, or "".
func (l *loop) otherSession() string {
	if l.OtherSession == nil {
		return ""
	}
	return l.OtherSession()
}

// warnUncommitted warns of finished tasks whose commit is not on the branch, and of new
// uncommitted changes. The tasks still count: there may have been nothing to commit.
func (l *loop) warnUncommitted(ctx context.Context, it *iteration) {
	if len(it.finished) == 0 {
		return
	}
	for _, slug := range it.finished {
		commit := it.after.tasks[slug].Commit
		if commit != "" && l.Committed != nil && !l.Committed(ctx, commit) {
			l.warnf("task %s is done, but its commit %s is not on the branch", slug, cut(commit))
		}
	}
	if it.unwritten != "" && it.after.head == it.before.head {
		l.warnf("%s done without a commit, although a tool call failed: %s", strings.Join(it.finished, ", "), it.unwritten)
	}
	left := it.aside.Files
	if it.aside == (attempt.Saved{}) {
		left = len(slices.DeleteFunc(l.uncommitted(ctx).Files, func(file string) bool { return slices.Contains(l.before.Files, file) }))
	}
	if left > 0 {
		l.warnf("%s done, but %s not committed", strings.Join(it.finished, ", "), count(left, "change"))
	}
}
