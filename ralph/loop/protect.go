package loop

import (
	"context"
	"fmt"
	"strings"

	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// begin begins a run in the backlog.
func (l *loop) begin() (err error) {
	if l.Backlog != nil {
		l.runEnv, err = l.Backlog.Begin()
	}
	return err
}

// restoreBacklog repairs the backlog before anything is decided by it. A run is never
// made without a backlog: it would cost money and have nothing to do.
func (l *loop) restoreBacklog(ctx context.Context) error {
	if l.Backlog == nil {
		return nil
	}
	damage, err := l.Backlog.Restore(context.WithoutCancel(ctx), l.AgentID)
	if damage != "" {
		l.warnf("between two runs, %s; restored", damage)
	}
	return err
}

// restoreAfter repairs the backlog after a run, which has failed if it did the
// damage, and finds out what other agents have taken over from it.
func (l *loop) restoreAfter(ctx context.Context, it *iteration) error {
	if l.Backlog == nil {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	var err error
	if it.damage, err = l.Backlog.Restore(ctx, l.AgentID); err != nil {
		return err
	}
	it.lost, err = l.Backlog.Overtaken(ctx)
	if len(it.lost) > 0 {
		l.warnf("%s; this run is kept, but not counted", it.overtaken())
	}
	return err
}

// restoreLog brings back what an agent has removed of the loop's log.
func (l *loop) restoreLog() {
	if l.Log == nil {
		return
	}
	if err := l.Log.Restore(); err != nil {
		l.warnOnce("log", "%s; continuing without that log", err)
	}
}

// overtaken says why a run does not count.
func (o outcome) overtaken() string {
	return fmt.Sprintf("another agent has claimed %s, because the lease had expired", termsafe.Strip(strings.Join(o.lost, ", ")))
}

// checkClaims ends the run if another agent has claimed its task.
func (w *watch) checkClaims(ctx context.Context) {
	if w.loop.Backlog == nil {
		return
	}
	if lost, err := w.loop.Backlog.Overtaken(ctx); err == nil && len(lost) > 0 {
		w.kill(endOvertaken)
	}
}
