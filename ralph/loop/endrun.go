package loop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// acceptable reports whether the host may take the commits of a run: those of finished tasks, and those of a run that
// has succeeded without any task.
func (l *loop) acceptable(it *iteration) bool {
	return l.countsCommits(it) && (len(it.finished) > 0 || it.head != l.accepted)
}

// countsCommits reports whether commits of a run are acceptable, if it has made some.
func (l *loop) countsCommits(it *iteration) bool {
	switch {
	case it.rejected != "" || l.Backlog == nil:
		return false
	case len(it.finished) > 0:
		return true
	}
	return l.Reset != nil && it.noGit == nil && it.class == classNone && len(it.tasks()) == 0
}

// endRun has the host take the commits of a run whose checks have passed; then its finished tasks are done. Otherwise
// they are open again.
func (l *loop) endRun(ctx context.Context, it *iteration) (Stop, error) {
	if l.AgentID == "" { // a plan, which has no checks
		if err := l.checkBranch(ctx, it); err != nil {
			return Failed, err
		}
	}
	if !l.acceptable(it) {
		return noStop, nil
	}
	entry := l.entry(it)
	entry.Done = it.finished
	verdict, stop, err := l.take(ctx, session.EndOfRun{Agent: l.AgentID, Commit: it.head, Tasks: it.finished, Run: entry})
	switch {
	case stop != noStop || err != nil:
		it.blameless = true
		reason := "the host could not take its commits"
		if err != nil {
			reason = err.Error()
		}
		return stop, errors.Join(err, l.reject(ctx, it, reason, "the host could not take its commits"))
	case verdict.Refused != "":
		it.verdict = verdict
		l.warnf("the commits of the run were refused: %s", verdict.Refused)
		return noStop, l.reject(ctx, it, verdict.Refused, "its commits were refused")
	}
	l.note, l.accepted = "", it.head
	if verdict.Finish != "" {
		l.warnf("the loop stops after this run: %s", verdict.Finish)
		l.finishing = true
	}
	return noStop, nil
}

// take asks the host to take the commits of a run. While the host cannot, e.g. because its disk is full, it is asked
// again with growing pauses.
func (l *loop) take(ctx context.Context, r session.EndOfRun) (v session.Verdict, stop Stop, err error) {
	var waited time.Duration
	for pause := l.timing.outage; ; pause = min(2*pause, maxLimitPause) {
		v, err = l.Backlog.EndRun(context.WithoutCancel(ctx), r)
		switch most := l.Bounds.MaxWait; {
		case err == nil:
			if waited > 0 {
				l.setState(runlog.StateWorking, time.Time{}, "")
			}
			return v, noStop, nil
		case !errors.Is(err, session.ErrEnvironment):
			return v, noStop, fmt.Errorf("ending the run: %w", err)
		case most > 0 && waited+pause > most:
			err = fmt.Errorf("the host cannot take the commits of the run, for longer than max_wait (%s): %w", rough(most), err)
			return v, Failed, hint.Wrap(err, "start the loop again later, or raise max_wait")
		}
		waited += pause
		text := "the host cannot take the commits of the run: " + brief(err.Error())
		l.warnf("%s; asking again in %s", text, rough(pause))
		l.setState(runlog.StateWaiting, time.Now().Add(pause).UTC(), text)
		finishing := l.finishing
		if l.waitFor(ctx, pause, func() bool { return false }) && l.finishing == finishing {
			return v, Interrupted, nil
		}
	}
}

// reject reopens the finished tasks of a run that is not accepted. Unless nothing in the run is to blame, the next agent
// gets the reason.
func (l *loop) reject(ctx context.Context, it *iteration, reason, because string) error {
	it.rejected = reason
	it.reopened, it.finished = it.finished, nil
	switch tasks := strings.Join(it.reopened, ", "); {
	case it.blameless:
	case tasks != "":
		l.note = fmt.Sprintf("The task %s was finished before and is open again, because %s. Fix that first.\n\n%s\n", tasks, because, reason)
	default:
		l.note = fmt.Sprintf("The commits of the session before are no longer on the branch, because %s:\n\n%s\n", because, reason)
	}
	var failed []error
	for _, slug := range it.reopened {
		if err := l.Backlog.Reopen(ctx, slug, reason); err != nil {
			failed = append(failed, fmt.Errorf("reopening task %s: %w", slug, err))
			continue
		}
		l.printf("reopened %s\n", termsafe.Strip(slug))
	}
	return errors.Join(failed...)
}
