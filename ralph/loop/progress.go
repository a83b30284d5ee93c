package loop

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// The pause after a run that found nothing to claim, because others hold all
// that is left: it doubles from the first to the last.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

// progress returns what changes when a run achieves something.
func (l *loop) progress(ctx context.Context) string {
	head := l.Head(ctx)
	if l.Backlog == nil {
		return head
	}
	status, err := l.Backlog.Status(ctx)
	if err != nil {
		return head
	}
	return head + "\n" + status.Fingerprint
}

// judge warns of a failed run, and gives up when too many in a row failed
// without changing anything: each may cost money.
func (l *loop) judge(run runResult, changed bool) error {
	if !run.failed() {
		l.failures = 0
		return nil
	}
	l.warnf("the agent %s", run.describe())
	if changed {
		l.failures = 0
		return nil
	}
	if l.failures++; l.failures < maxFailures {
		return nil
	}
	return fmt.Errorf("the agent %s failed %d times in a row without changing the backlog or the branch: it %s. "+
		"Repair that, then start again", l.Agent.Name(), l.failures, run.describe())
}

// failed says whether the run did no proper work, as far as can be told.
func (r runResult) failed() bool { return r.code != 0 || r.Failed }

// describe says how a failed run ended, after "the agent".
func (r runResult) describe() string {
	what := fmt.Sprintf("exited with code %d", r.code)
	if r.code == 0 {
		what = "reported an error"
	}
	for _, said := range []string{r.complaint, r.Text} {
		if said = strings.TrimSpace(said); said != "" {
			first, _, _ := strings.Cut(said, "\n")
			return what + ": " + first
		}
	}
	return what
}

// setPause makes the loop slow down while others hold all that is left, since
// a run can then do nothing but start and end.
func (l *loop) setPause(ctx context.Context, changed bool) {
	waiting := false
	if l.Backlog != nil && !changed {
		status, err := l.Backlog.Status(ctx)
		waiting = err == nil && status.Open == 0 && status.Active > 0
	}
	if !waiting {
		l.pause = 0
		return
	}
	l.pause = min(max(firstPause, 2*l.pause), lastPause)
}

// interruptedDuring waits for d and says whether a signal came, or had come
// before.
func (l *loop) interruptedDuring(d time.Duration) bool {
	if d > 0 {
		l.printf("Others hold the remaining tasks. Next look in %s.\n", d)
	}
	select {
	case sig := <-l.Signals:
		l.farewell(sig)
		return true
	default:
	}
	select {
	case sig := <-l.Signals:
		l.farewell(sig)
		return true
	case <-time.After(d):
		return false
	}
}

// farewell ends the line on which the terminal shows ^C.
func (l *loop) farewell(sig os.Signal) {
	if sig == os.Interrupt {
		l.printf("\n")
	}
}
