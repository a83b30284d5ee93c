package loop

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// maxPause bounds the pause after a run that found no claimable task.
const maxPause = 5 * time.Minute

// countFailure warns of a failed run and counts those in a row that changed nothing.
func (l *loop) countFailure(it *iteration) {
	l.failed = it.failed() && len(it.finished) == 0
	if len(it.lost) > 0 { // reported already
		l.lastFailure, l.lastEnd, l.failures = it.describe(), it.end, 0
		return
	}
	if !it.consequence().fails {
		l.failures = 0
		return
	}
	l.lastFailure, l.lastEnd = it.describe(), it.end
	l.warnf("the agent %s", l.lastFailure)
	if it.cause != nil {
		l.print(l.errs, "Hint: "+it.cause.remedy+"\n")
	}
	if it.committed() || it.before.achieved(it.after) {
		l.failures = 0
		return
	}
	l.failures++
}

// countBlocked warns of tasks that the run's failure has blocked, and counts those in a
// row: too many are not the tasks' fault.
func (l *loop) countBlocked(it *iteration) {
	if it.before.progressed(it.after) {
		l.blocked = 0
	}
	for _, slug := range it.before.newlyBlocked(it.after) {
		l.blocked++
		l.failures, l.stalled = 0, 0
		l.warnf("task %s is blocked after repeated failures: %s", slug, brief(it.after.tasks[slug].Reason))
		l.hint("reopen it with %q", l.taskCommand("reopen "+termsafe.Strip(slug)))
	}
}

// forgive does not count a blameless run against its tasks.
func (l *loop) forgive(ctx context.Context, it *iteration) {
	var blameless []string
	if it.consequence().forgive {
		blameless = slices.Concat(it.released, it.failedByAgent)
	}
	if it.cutShort || it.blameless {
		blameless = append(blameless, it.reopened...)
	}
	for _, slug := range blameless {
		if err := l.Backlog.Forgive(ctx, slug); err != nil {
			l.warnf("resetting the failures of task %s: %s", termsafe.Strip(slug), err)
		}
	}
}

// committed reports whether a run has made commits, even if they were not accepted: another attempt can use them. Without
// a task, no run may ever be accepted.
func (it *iteration) committed() bool {
	return it.head != it.before.head && (it.rejected == "" || len(it.reopened) > 0)
}

// countStall counts runs in a row without progress, except those that found all tasks
// claimed by others. Failed runs count towards max_failures only.
func (l *loop) countStall(it *iteration) {
	switch {
	case it.committed(), it.before.progressed(it.after):
		l.stalled = 0
	case it.consequence().fails && l.Bounds.MaxFailures > 0:
	case len(it.asked) > 0: // neither progress nor its lack
	case !it.after.held():
		l.stalled++
	}
}

// held reports whether other agents hold unexpired leases on all remaining tasks.
func (s snapshot) held() bool {
	if !s.known || s.status.Open > 0 || s.status.Active == 0 || s.tasks == nil {
		return false
	}
	for _, t := range s.tasks {
		if t.Status == statusActive && !t.Leased {
			return false
		}
	}
	return true
}

// setPause slows the loop down while other agents hold all remaining tasks.
func (l *loop) setPause(it *iteration) {
	s := it.after
	waiting := s.known && s.status.Open == 0 && s.status.Active > 0 && !it.before.achieved(s)
	if !waiting {
		l.pause = 0
		return
	}
	l.pause = min(max(l.timing.pause, 2*l.pause), maxPause)
}

// allClaimed reports whether other agents hold all remaining tasks: a run would find none.
func (l *loop) allClaimed(ctx context.Context, before snapshot) bool {
	if l.Backlog == nil || l.Session.Mode != agent.Build || !before.held() {
		return false
	}
	claimable, err := l.Backlog.Claimable(ctx)
	return err == nil && !claimable
}

// pauseInterrupted waits for d, or until a task is claimable, and reports whether it was
// interrupted.
func (l *loop) pauseInterrupted(ctx context.Context, d time.Duration) bool {
	if d > 0 {
		l.setState(runlog.StateWaiting, time.Now().Add(d).UTC(), "")
		l.printf("All remaining tasks are claimed by other agents. Retrying in %s.\n", d)
	}
	return l.waitFor(ctx, d, func() bool {
		if l.Backlog == nil {
			return false
		}
		claimable, err := l.Backlog.Claimable(ctx)
		return err == nil && claimable
	})
}

// waitFor waits for d, or until done returns true, and reports whether it was
// interrupted or asked to finish.
func (l *loop) waitFor(ctx context.Context, d time.Duration, done func() bool) (interrupted bool) {
	if l.interrupted {
		return true
	}
	select { // a signal takes precedence over d
	case sig := <-l.Signals:
		l.endPromptLine(sig)
		return true
	case <-l.Finish:
		l.finishing = true
		return true
	default:
	}
	timeout := time.NewTimer(d)
	defer timeout.Stop()
	again := time.NewTicker(min(l.timing.poll, max(d, time.Millisecond)))
	defer again.Stop()
	for {
		select {
		case sig := <-l.Signals:
			l.endPromptLine(sig)
			return true
		case <-l.Finish:
			l.finishing = true
			return true
		case <-ctx.Done():
			return true
		case <-timeout.C:
			return false
		case <-again.C:
			if done() {
				return false
			}
		}
	}
}

// waitStopped returns why a wait was interrupted.
func (l *loop) waitStopped() Stop {
	if l.finishing {
		return Stopped
	}
	return Interrupted
}

// endPromptLine ends the line on which the terminal shows ^C.
func (l *loop) endPromptLine(sig os.Signal) {
	if sig == os.Interrupt {
		l.printf("\n")
	}
}
