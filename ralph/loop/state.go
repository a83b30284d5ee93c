package loop

import (
	"context"
	"slices"

	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// updateTasks logs the tasks that the agent has claimed, and renews a new claim: its
// lease may be short.
func (w *watch) updateTasks(ctx context.Context) {
	l := w.loop
	if l.Backlog == nil || l.AgentID == "" {
		return
	}
	tasks, err := l.Backlog.Held(ctx, l.AgentID)
	if err != nil || slices.Equal(tasks, w.now.Tasks) {
		return
	}
	w.now.Tasks = tasks
	l.renew(ctx)
	l.setNow(w.now)
}

// setNow logs the current state of the loop for the host.
func (l *loop) setNow(now runlog.Now) {
	if l.Log == nil {
		return
	}
	if err := l.Log.SetNow(now); err != nil {
		l.warnOnce("now", "%s; the current task is not shown to other commands", err)
	}
}
