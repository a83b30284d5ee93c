package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/ralph/leftover"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// changes are the uncommitted changes before a run.
type changes struct {
	leftover.State
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
	if l.SetAside == nil || l.AgentID == "" || !before.known {
		return
	}
	ctx = context.WithoutCancel(ctx)
	if other := l.otherSession(); other != "" {
		l.warnOnce("other session", "uncommitted changes are not set aside while %q runs in this sandbox: they may be its own", other)
		return
	}
	var err error
	if it.aside, err = l.SetAside(ctx, l.workedOn(ctx, it), before.State); err != nil {
		l.warnf("%s; the next run starts with them", err)
		return
	}
	if it.aside.Ref != "" {
		l.printf("Set aside %s that the run did not commit: %s\n", count(it.aside.Files, "change"), it.aside.Ref)
	}
}

// otherSession returns the command of another session in the sandbox, or "".
func (l *loop) otherSession() string {
	if l.OtherSession == nil {
		return ""
	}
	return l.OtherSession()
}

// workedOn returns the task that a run has left unfinished, or else finished. Of several
// it is the first.
func (l *loop) workedOn(ctx context.Context, it *iteration) string {
	after := l.observeAfter(ctx, it.before)
	for _, slugs := range [][]string{
		it.released, it.lost, it.before.failedByAgent(after, it.released), it.before.asked(after), it.before.finished(after, l.AgentID),
	} {
		if len(slugs) > 0 {
			return slices.Min(slugs)
		}
	}
	return fmt.Sprintf("run-%d", it.n)
}

// leftovers lists for the prompt what earlier runs of open tasks did not commit.
func (l *loop) leftovers() string {
	var lines []string
	for _, slug := range slices.Sorted(maps.Keys(l.left)) {
		if task, ok := l.last.tasks[slug]; ok && isOpen(task) {
			lines = append(lines, fmt.Sprintf("- `%s`: `%s`", termsafe.Line(slug), l.left[slug][0]))
		}
	}
	if len(lines) == 0 {
		return ""
	}
	if more := len(lines) - leftoversInPrompt; more > 0 {
		lines = append(lines[:leftoversInPrompt], fmt.Sprintf("- %d more: see `ralph task show <id>`", more))
	}
	return "Earlier sessions left uncommitted changes for these open tasks. They are not in the worktree. If you claim such a task, look at\n" +
		"them with `git show REF`, and take over what is right with `git cherry-pick --no-commit REF`.\n\n" + strings.Join(lines, "\n") + "\n"
}

// leftoversInPrompt limits their list in a prompt.
const leftoversInPrompt = 20

// warnUncommitted warns of finished tasks whose commit is not on the branch, and of new
// uncommitted changes. The tasks still count: there may have been nothing to commit.
func (l *loop) warnUncommitted(ctx context.Context, it *iteration, before changes) {
	if len(it.finished) == 0 {
		return
	}
	for _, slug := range it.finished {
		commit := commitOf(it.after.tasks[slug].Result)
		if commit != "" && l.Committed != nil && !l.Committed(ctx, commit) {
			l.warnf("task %s is done, but its commit %s is not on the branch", slug, cut(commit))
		}
	}
	if it.unwritten != "" && it.after.head == it.before.head {
		l.warnf("%s done without a commit, although a tool call failed: %s", strings.Join(it.finished, ", "), it.unwritten)
	}
	left := it.aside.Files
	if it.aside == (leftover.Saved{}) {
		left = len(slices.DeleteFunc(l.uncommitted(ctx).Files, func(file string) bool { return slices.Contains(before.Files, file) }))
	}
	if left > 0 {
		l.warnf("%s done, but %s not committed", strings.Join(it.finished, ", "), count(left, "change"))
	}
}

// commitOf returns the commit in a task's result, or "".
func commitOf(result string) string {
	var named struct {
		Commit string `json:"commit"`
	}
	if json.Unmarshal([]byte(result), &named) != nil {
		return ""
	}
	return termsafe.Strip(named.Commit)
}
