package loop

import (
	"context"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/ralph/attempt"
)

// changes are the uncommitted changes before a run.
type changes struct {
	attempt.State
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
	return changes{state, err == nil}
}

// setAside keeps what a run has left uncommitted out of the checks and of the commits of
// other tasks. What was uncommitted before the run stays: it is the user's.
func (l *loop) setAside(ctx context.Context, it *iteration, before changes) {
	it.id = l.attemptID(ctx, it)
	if l.Attempts == nil || l.AgentID == "" || !before.known {
		return
	}
	if other := l.otherSession(); other != "" {
		l.warnOnce("other session", "uncommitted changes are not set aside while %q runs in this sandbox: they may be its own", other)
		return
	}
	var err error
	if it.aside, err = l.Attempts.SetAside(context.WithoutCancel(ctx), it.id, before.State); err != nil {
		l.warnf("%s; the next run starts with them", err)
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
func (l *loop) warnUncommitted(ctx context.Context, it *iteration, before changes) {
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
		left = len(slices.DeleteFunc(l.uncommitted(ctx).Files, func(file string) bool { return slices.Contains(before.Files, file) }))
	}
	if left > 0 {
		l.warnf("%s done, but %s not committed", strings.Join(it.finished, ", "), count(left, "change"))
	}
}
