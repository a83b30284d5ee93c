package loop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// WaitingForHost is what a loop prints and shows as its state while its host is away.
const WaitingForHost = "Waiting for docker ralph on the host"

// showWait shows that the loop waits for its host. During a run the agent works on, and only the end of the
// run waits.
func (l *loop) showWait(waiting bool) {
	if l.running.Load() {
		return
	}
	now := l.events.now
	switch {
	case waiting:
		if _, printed := l.warned.LoadOrStore("host", true); !printed {
			l.print(l.errs, WaitingForHost+"\n")
		}
		if now.State != "" { // else the loop has not begun
			l.setState(runlog.StateWaiting, time.Time{}, WaitingForHost)
		}
	case now.State == runlog.StateWaiting:
		l.setState(runlog.StateWorking, time.Time{}, "")
	}
}

// withoutHost returns how a loop ends that cannot reach its host.
func (l *loop) withoutHost(err error) (Stop, error) {
	if errors.Is(err, session.ErrInterrupted) {
		return Interrupted, nil
	}
	return Failed, err
}

// flush waits until the host has the log of a run.
func (l *loop) flush(ctx context.Context) error {
	if l.Flush == nil || l.Log == nil {
		return nil
	}
	err := l.Flush(context.WithoutCancel(ctx))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, session.ErrNoHost), errors.Is(err, session.ErrInterrupted):
		return fmt.Errorf("logging the run: %w", err)
	}
	l.warnOnce("log", "%s; continuing without that log", err)
	return nil
}

// beginRun tells the backlog that a run begins.
func (l *loop) beginRun(ctx context.Context) error {
	if l.Backlog == nil || l.AgentID == "" {
		return nil
	}
	if err := l.Backlog.BeginRun(ctx, l.AgentID); err != nil {
		return fmt.Errorf("starting a run: %w", err)
	}
	return nil
}

// checkOvertaken finds the tasks of a run that other agents have claimed since.
func (l *loop) checkOvertaken(ctx context.Context, it *iteration) (err error) {
	if l.Backlog == nil || l.AgentID == "" {
		return nil
	}
	if it.lost, err = l.Backlog.Overtaken(context.WithoutCancel(ctx), l.AgentID); err != nil {
		return fmt.Errorf("checking the claims of the run: %w", err)
	}
	if len(it.lost) > 0 {
		l.warnf("%s; the run does not count", it.overtaken())
	}
	return nil
}

func (o outcome) overtaken() string {
	return fmt.Sprintf("another agent has claimed %s, because the lease had expired", termsafe.Strip(strings.Join(o.lost, ", ")))
}
