package loop

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// The pause after a run that found nothing to claim, because others hold all
// that is left: it doubles from the first to the last.
const (
	firstPause = time.Second
	lastPause  = 5 * time.Minute
	// lookEvery is how often a pausing loop looks whether it can go on.
	lookEvery = 2 * time.Second
)

// countFailure warns of a failed run and counts those in a row that changed
// nothing: each may cost money.
func (l *loop) countFailure(it *iteration) {
	l.failed = it.failed() && (len(it.finished) == 0 || it.damage != "")
	if len(it.lost) > 0 { // it has been said
		l.lastFailure, l.failures = it.describe(), 0
		return
	}
	if !it.failed() || it.end == endOverCost || it.end == endOverTokens {
		l.failures = 0
		return
	}
	l.lastFailure = it.describe()
	l.warnf("the agent %s", l.lastFailure)
	if it.cause != nil {
		l.print(l.errs, "Hint: "+it.cause.remedy+"\n")
	}
	if it.before.achieved(it.after) {
		l.failures = 0
		return
	}
	l.failures++
}

// countParked says which tasks the run was one attempt too many of. The others
// are still tried, unless so many in a row end like this that it is not the
// tasks' fault.
func (l *loop) countParked(it *iteration) {
	if it.before.progressed(it.after) {
		l.parked = 0
	}
	for _, slug := range it.before.parked(it.after) {
		l.parked++
		l.failures, l.stalled = 0, 0
		reason, _, _ := strings.Cut(it.after.tasks[slug].Reason, "\n")
		l.warnf("task %s is blocked: it failed too often in a row: %s", slug, cut(reason))
		l.hint("reopen it with %q", l.taskCommand("update "+termsafe.Strip(slug)+" --status open"))
	}
}

// forgive keeps a run that its tasks are not to blame for from having them
// blocked.
func (l *loop) forgive(ctx context.Context, it *iteration) {
	if l.Backlog == nil || !it.blameless() {
		return
	}
	for _, slug := range slices.Concat(it.released, it.givenBack) {
		if err := l.Backlog.Forgive(ctx, slug); err != nil {
			l.warnf("task %s: %s", termsafe.Strip(slug), err)
		}
	}
}

// blameless says that what ended the run had nothing to do with its tasks.
func (it *iteration) blameless() bool {
	switch it.end {
	case endInterrupted, endOverTime, endOverCost, endOverTokens:
		return true
	}
	return it.limit != nil || it.noKey != ""
}

// countStall counts runs in a row that brought nothing. One that only found
// that others hold all that is left is no such run.
func (l *loop) countStall(it *iteration) {
	switch {
	case it.before.progressed(it.after):
		l.stalled = 0
	case !it.after.held():
		l.stalled++
	}
}

// held says whether all that is left is in the hands of others, who keep their
// leases.
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

// setPause makes the loop slow down while others hold all that is left, since
// a run can then do nothing but start and end.
func (l *loop) setPause(it *iteration) {
	s := it.after
	waiting := s.known && s.status.Open == 0 && s.status.Active > 0 && !it.before.achieved(s)
	if !waiting {
		l.pause = 0
		return
	}
	l.pause = min(max(firstPause, 2*l.pause), lastPause)
}

// othersHold says, after a pause, whether an agent would find nothing to claim
// still: each one that is started costs money.
func (l *loop) othersHold(ctx context.Context, before snapshot) bool {
	if l.pause == 0 || l.Backlog == nil || !before.held() {
		return false
	}
	claimable, err := l.Backlog.Claimable(ctx)
	return err == nil && !claimable
}

// interruptedDuring waits for d, or until a task can be claimed, and says
// whether a signal came, or had come before.
func (l *loop) interruptedDuring(ctx context.Context, d time.Duration) bool {
	if d > 0 {
		l.printf("Others hold the remaining tasks. Next look in %s.\n", d)
	}
	return l.waitFor(ctx, d, func() bool {
		if l.Backlog == nil {
			return false
		}
		claimable, err := l.Backlog.Claimable(ctx)
		return err == nil && claimable
	})
}

// waitFor waits for d, or until enough says so, and says whether a signal came,
// or somebody asked for the end, now or before.
func (l *loop) waitFor(ctx context.Context, d time.Duration, enough func() bool) (interrupted bool) {
	if l.interrupted {
		return true
	}
	select {
	case sig := <-l.Signals:
		l.farewell(sig)
		return true
	case <-l.Finish:
		l.finishing = true
		return true
	default:
	}
	over := time.NewTimer(d)
	defer over.Stop()
	again := time.NewTicker(min(lookEvery, max(d, time.Millisecond)))
	defer again.Stop()
	for {
		select {
		case sig := <-l.Signals:
			l.farewell(sig)
			return true
		case <-l.Finish:
			l.finishing = true
			return true
		case <-ctx.Done():
			return true
		case <-over.C:
			return false
		case <-again.C:
			if enough() {
				return false
			}
		}
	}
}

// left is why a loop ends that was not to wait any longer.
func (l *loop) left() Stop {
	if l.finishing {
		return Stopped
	}
	return Interrupted
}

// farewell ends the line on which the terminal shows ^C.
func (l *loop) farewell(sig os.Signal) {
	if sig == os.Interrupt {
		l.printf("\n")
	}
}
