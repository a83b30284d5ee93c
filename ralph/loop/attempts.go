package loop

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/ralph/attempt"
	"github.com/docker-ralph/docker-ralph/wire/attemptref"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Attempts keeps what runs have left, apart from the next one: see [attempt.Worktree].
type Attempts interface {
	Begin(attempt.Begun) error
	Begun() (*attempt.Begun, error)
	SetAside(ctx context.Context, id attemptref.ID, before attempt.State) (attempt.Saved, error)
	End() error
	Keep(ctx context.Context, id attemptref.ID, commit string) (ref string, err error)
	Publish(ctx context.Context, id attemptref.ID, ref string) (published string, err error)
	List(ctx context.Context) map[string][]string
}

// attemptID names what a run leaves after the task that is unfinished, or else finished. Of several it is the first.
func (l *loop) attemptID(ctx context.Context, it *iteration) attemptref.ID {
	if l.Attempts != nil && l.AgentID != "" {
		after := l.observeAfter(ctx, it.before)
		for _, slugs := range [][]string{
			it.released, it.lost, it.before.failedByAgent(after, it.released), it.before.asked(after), it.before.finished(after, l.AgentID),
		} {
			if len(slugs) > 0 {
				id := attemptref.ID{Task: slices.Min(slugs)}
				if id.N = after.tasks[id.Task].Attempt; slices.Contains(it.lost, id.Task) { // which is that of another agent
					id.N = it.before.tasks[id.Task].Attempt + 1
				}
				return id
			}
		}
	}
	return attemptref.ID{Task: withoutTask, N: it.n}
}

// withoutTask names the attempts of runs without a task.
const withoutTask = "run"

// unassigned is the last run without a task that was not accepted.
type unassigned struct{ ref, reason string }

// settle keeps what a run has left under a ref. Unless its commits were accepted, it resets the branch to those that
// were. Only the first call has an effect.
func (l *loop) settle(ctx context.Context, it *iteration) {
	if it.settled {
		return
	}
	it.settled = true
	if it.consequence().next != wait { // else no agent has seen it
		l.unassigned = unassigned{}
	}
	if l.Attempts == nil || it.noGit != nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	reset := l.mayReset(it.head)
	if l.keepAttempt(ctx, it, reset); it.noGit != nil {
		return
	}
	switch {
	case reset:
		it.noGit = l.reset(ctx, it)
	case len(it.offBranch) > 0 && it.id.Task == withoutTask:
		l.unassigned = unassigned{it.attempt, it.rejected}
	case it.aside.Files > 0 && !it.aside.Raw:
		l.printSetAside(it, it.attempt)
	}
	if it.aside.Raw {
		l.printSetAside(it, it.aside.Ref)
	}
}

// keepAttempt keeps what the run has left under a ref, which the host fetches unless it would refuse that. Uncommitted
// changes that it would refuse have a ref of their own.
func (l *loop) keepAttempt(ctx context.Context, it *iteration, reset bool) {
	if it.attempt = it.aside.Ref; (it.attempt == "" || it.aside.Raw) && (reset || len(it.offBranch) > 0) {
		commit := it.head
		if !reset {
			commit = it.offBranch[0]
		}
		if it.attempt, it.noGit = l.Attempts.Keep(ctx, it.id, commit); it.noGit != nil {
			return
		}
	}
	if it.attempt == "" || it.verdict.Refused != "" || it.aside.Raw && it.attempt == it.aside.Ref {
		return
	}
	var err error
	if it.attempt, err = l.Attempts.Publish(ctx, it.id, it.attempt); err != nil {
		l.warnf("%s; it stays in the sandbox", err)
	}
}

func (l *loop) printSetAside(it *iteration, ref string) {
	l.printf("Set aside %s that the run did not commit: %s\n", count(it.aside.Files, "change"), ref)
}

// mayReset reports whether the branch has commits that were not accepted, and only those of the loop's own runs.
func (l *loop) mayReset(head string) bool {
	if l.Reset == nil || head == l.accepted {
		return false
	}
	other := l.otherSession()
	if other != "" {
		l.warnOnce("reset", "commits that were not accepted stay on the branch while %q runs in this sandbox: they may be its own", other)
	}
	return other == ""
}

// reset resets the branch to the accepted commit.
func (l *loop) reset(ctx context.Context, it *iteration) error {
	kept := count(l.Count(ctx, l.accepted, it.head), "commit")
	notes, err := l.Reset(ctx, l.accepted)
	if err != nil {
		return err
	}
	if it.aside.Files > 0 && !it.aside.Raw {
		kept += " and " + count(it.aside.Files, "change")
	}
	l.printf("Not accepted: %s, now at %s\n", kept, it.attempt)
	l.printf("Reset the branch to %s\n", cmp.Or(short(l.accepted), "no commit"))
	for _, note := range notes {
		l.warnf("%s", note)
	}
	if it.id.Task == withoutTask {
		l.unassigned = unassigned{it.attempt, it.rejected}
	}
	return nil
}

// settleEarlier settles what an earlier loop has left, which was killed: its commits, and the uncommitted changes of its
// run. The branch of this one starts at what the host has taken, also if an agent had rewritten or removed that: no run on
// top of other commits is accepted.
func (l *loop) settleEarlier(ctx context.Context) error {
	head := l.Head(ctx)
	if l.accepted = head; l.Reset == nil {
		return nil
	}
	if l.Accepted != "" && l.Has(ctx, l.Accepted) {
		l.accepted = l.Accepted
	}
	begun, err := l.Attempts.Begun()
	if err != nil {
		l.warnf("%s; the next run starts with what that did not commit", err)
	}
	if begun == nil && !l.mayReset(head) {
		return nil
	}
	it := &iteration{id: l.earlierID(ctx, begun), head: head}
	if begun != nil {
		l.before = changes{*begun, true}
		l.setAsideLeft(ctx, it)
	}
	l.settle(ctx, it)
	return it.noGit
}

// earlierID names what a killed loop has left after the task that its run has claimed. Without a record of the run, it
// is the last one whose agent has died.
func (l *loop) earlierID(ctx context.Context, begun *attempt.Begun) attemptref.ID {
	tasks := l.observe(ctx).tasks
	if n := len(l.Died); begun == nil && n > 0 {
		slug := l.Died[n-1].Slug
		return attemptref.ID{Task: slug, N: tasks[slug].Attempt}
	}
	for _, slug := range slices.Sorted(maps.Keys(tasks)) {
		if task := tasks[slug]; begun != nil && task.ClaimedBy == begun.Agent && !slices.Contains(begun.Claims, claimOf(slug, task)) {
			return attemptref.ID{Task: slug, N: task.Attempt}
		}
	}
	return attemptref.ID{Task: withoutTask, N: len(l.Earlier)}
}

// attemptsNote lists for the prompt what earlier runs of open tasks have left.
func (l *loop) attemptsNote() string {
	var lines []string
	for _, slug := range slices.Sorted(maps.Keys(l.attempts)) {
		if task, ok := l.last.tasks[slug]; ok && isOpen(task) {
			lines = append(lines, fmt.Sprintf("- `%s`: `%s`", termsafe.Line(slug), l.attempts[slug][0]))
		}
	}
	if more := len(lines) - attemptsInPrompt; more > 0 {
		lines = append(lines[:attemptsInPrompt], fmt.Sprintf("- %d more: see `ralph task show <id>`", more))
	}
	if l.unassigned.ref != "" {
		lines = append(lines, fmt.Sprintf("- without a task: `%s`", l.unassigned.ref))
	}
	if len(lines) == 0 {
		return ""
	}
	return "Earlier sessions left commits or uncommitted changes for these open tasks. They are not on the branch. If you claim such a\n" +
		"task, look at them with `git diff HEAD...REF`, and take over what is right with `git cherry-pick --no-commit HEAD..REF`.\n\n" +
		strings.Join(lines, "\n") + "\n"
}

// attemptsInPrompt limits their list in a prompt.
const attemptsInPrompt = 20
