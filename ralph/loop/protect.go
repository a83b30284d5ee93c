package loop

import (
	"context"
	"fmt"
	"strings"

	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

func (l *loop) begin() (err error) {
	if l.Backlog != nil {
		l.runEnv, err = l.Backlog.Begin()
	}
	return err
}

// restoreBacklog repairs the backlog before a run.
func (l *loop) restoreBacklog(ctx context.Context) error {
	if l.Backlog == nil {
		return nil
	}
	damage, err := l.Backlog.Restore(context.WithoutCancel(ctx), l.AgentID)
	if damage != "" {
		l.warnf("restored the backlog: %s between two runs", damage)
	}
	return err
}

// restoreAfter repairs the backlog after a run, and detects tasks that other agents
// have claimed since. A run that damaged the backlog has failed.
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
		l.warnf("%s; the run does not count", it.overtaken())
	}
	return err
}

// restoreLog recreates the log files that an agent has removed.
func (l *loop) restoreLog() {
	if l.Log == nil {
		return
	}
	if err := l.Log.Restore(); err != nil {
		l.warnOnce("log", "%s; continuing without that log", err)
	}
}

func (o outcome) overtaken() string {
	return fmt.Sprintf("another agent has claimed %s, because the lease had expired", termsafe.Strip(strings.Join(o.lost, ", ")))
}

// checkClaims stops the run if another agent has claimed its task.
func (w *watch) checkClaims(ctx context.Context) {
	if w.loop.Backlog == nil {
		return
	}
	if lost, err := w.loop.Backlog.Overtaken(ctx); err == nil && len(lost) > 0 {
		w.kill(endOvertaken)
	}
}
