package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// counts returns the status for the log.
func counts(s session.Status) runlog.Counts {
	return runlog.Counts{Open: s.Open, Active: s.Active, Done: s.Done, Blocked: s.Blocked, Waiting: s.Waiting, Question: s.Question}
}

const (
	statusOpen     = "open"
	statusActive   = "active"
	statusFinished = "finished" // an agent says so
	statusDone     = "done"
	statusDeleted  = "deleted"
	statusBlocked  = "blocked"
	statusQuestion = "question"
)

// snapshot is the state before or after a run.
type snapshot struct {
	head   string
	tasks  map[string]session.Task // nil if unknown
	status session.Status
	known  bool // whether status is
}

// observe takes a snapshot.
func (l *loop) observe(ctx context.Context) snapshot {
	l.last = l.snapshot(ctx)
	return l.last
}

// observeAfter takes a snapshot after a run, in which tasks that other loops have worked
// on since are foreign. A task that is done is not: it has to be checked.
func (l *loop) observeAfter(ctx context.Context, before snapshot) snapshot {
	after := l.observe(ctx)
	for slug, a := range after.tasks {
		b := before.tasks[slug]
		held := b.Foreign && b.Leased && b.Status == statusActive && b.Assignee != l.AgentID
		if a.Status != statusDone && (held || a.Attempt > b.Attempt) && !l.claimed(b, a) {
			a.Foreign = true
			after.tasks[slug] = a
		}
	}
	return after
}

// claimed reports whether the loop's agent has claimed a task since.
func (l *loop) claimed(before, after session.Task) bool {
	return after.ClaimedBy == l.AgentID && after.Attempt > before.Attempt
}

func (l *loop) snapshot(ctx context.Context) snapshot {
	s := snapshot{head: l.Head(ctx)}
	if l.Backlog == nil {
		return s
	}
	var err error
	if s.status, err = l.Backlog.Status(ctx); err != nil {
		l.readFailed(err)
		return s
	}
	s.known = true
	if !l.DryRun || !l.last.known { // of the backlog, not of its copy
		l.events.now.Counts = counts(s.status)
	}
	if left := counts(s.status).Left(); l.Session.Mode == agent.Build {
		l.totals.Left = &left
	}
	if s.tasks, err = l.Backlog.Tasks(ctx); err != nil {
		l.readFailed(err)
	}
	return s
}

// readFailed ends a loop that has lost its host. Otherwise the backlog may be readable later.
func (l *loop) readFailed(err error) {
	if !errors.Is(err, session.ErrNoHost) && !errors.Is(err, session.ErrInterrupted) {
		l.warnOnce("backlog", "reading the backlog: %s", err)
	} else if l.lostHost == nil {
		l.lostHost = fmt.Errorf("reading the backlog: %w", err)
	}
}

// achieved reports whether a run committed or changed the backlog other than by
// claiming and releasing tasks.
func (before snapshot) achieved(after snapshot) bool {
	if before.head != after.head || len(before.tasks) != len(after.tasks) {
		return true
	}
	if before.known && after.known && before.status.Done != after.status.Done {
		return true
	}
	for slug, a := range after.tasks {
		b, existed := before.tasks[slug]
		if !existed || a.Content != b.Content || (a.Status != b.Status && final(a.Status, b.Status)) {
			return true
		}
	}
	return false
}

func final(states ...string) bool {
	for _, s := range states {
		if s != statusOpen && s != statusActive {
			return true
		}
	}
	return false
}

// finished lists the tasks that became finished or done, claimed or not, except those of agents of
// other loops: every task that counts as done must have been checked.
func (before snapshot) finished(after snapshot, agentID string) []string {
	var slugs []string
	for slug, a := range after.tasks {
		b := before.tasks[slug].Status
		ours := a.Assignee == agentID || !a.Foreign && b != statusFinished
		if (a.Status == statusFinished || a.Status == statusDone) && ours && b != statusDone {
			slugs = append(slugs, slug)
		}
	}
	slices.Sort(slugs)
	return slugs
}

// failedByAgent lists the tasks that the agent failed itself.
func (before snapshot) failedByAgent(after snapshot, without []string) []string {
	var slugs []string
	for slug, a := range after.tasks {
		if (a.Status == statusOpen || a.Status == statusBlocked) && !a.Foreign && a.Retries > before.tasks[slug].Retries && !slices.Contains(without, slug) {
			slugs = append(slugs, slug)
		}
	}
	return slugs
}

// asked lists the tasks that wait for an answer since the run.
func (before snapshot) asked(after snapshot) []string {
	var slugs []string
	for slug, a := range after.tasks {
		if a.Question != nil && !a.Foreign && before.tasks[slug].Status != statusQuestion {
			slugs = append(slugs, slug)
		}
	}
	slices.Sort(slugs)
	return slugs
}

// newlyBlocked lists the tasks that were blocked after too many failures, except by other loops.
func (before snapshot) newlyBlocked(after snapshot) []string {
	var slugs []string
	for slug, a := range after.tasks {
		if a.Status == statusBlocked && !a.Foreign && before.tasks[slug].Status != statusBlocked {
			slugs = append(slugs, slug)
		}
	}
	slices.Sort(slugs)
	return slugs
}

// progressed reports whether a run committed or finished a task.
func (before snapshot) progressed(after snapshot) bool {
	if before.head != after.head || !before.known || !after.known {
		return before.head != after.head
	}
	return after.status.Done > before.status.Done
}
