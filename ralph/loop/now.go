package loop

import (
	"context"
	"slices"

	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// noteTasks keeps the log's note of which tasks the agent has claimed, and renews
// a new claim: it may have been made for a short time only.
func (w *watch) noteTasks(ctx context.Context) {
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
	l.noteNow(w.now)
}

// noteNow notes what the loop is at, for who looks from outside.
func (l *loop) noteNow(now runlog.Now) {
	if l.Log == nil {
		return
	}
	if err := l.Log.SetNow(now); err != nil {
		l.warnOnce("now", "%s. Whoever looks from outside does not see which task is worked on", err)
	}
}
