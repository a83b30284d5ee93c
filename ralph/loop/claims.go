package loop

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// claims are the tasks of a running agent.
type claims struct {
	overtaken bool // another agent has claimed one of them
	held      []string
	tasks     map[string]session.Task // for the titles
	status    *session.Status         // nil if unknown
}

// followClaims renews the leases of the running agent, and returns its claims whenever they change, until stop is
// called. It does not delay the supervision of the run: the host of the backlog may be away.
func (l *loop) followClaims(ctx context.Context) (changes <-chan claims, stop func()) {
	if l.Backlog == nil || l.AgentID == "" {
		return nil, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	found, ended := make(chan claims), make(chan struct{})
	go func() {
		defer close(ended)
		renew := time.NewTicker(renewInterval)
		defer renew.Stop()
		poll := time.NewTicker(l.timing.poll)
		defer poll.Stop()
		var held []string
		for {
			select {
			case <-ctx.Done():
				return
			case <-renew.C:
				l.renew(ctx)
			case <-poll.C:
				now, changed := l.claims(ctx, held)
				if !changed {
					continue
				}
				held = now.held
				select {
				case found <- now:
				case <-ctx.Done():
				}
			}
		}
	}()
	return found, func() { cancel(); <-ended }
}

// claims returns the agent's claims, and whether they have changed. It renews a new claim: its lease may be short.
func (l *loop) claims(ctx context.Context, before []string) (now claims, changed bool) {
	if lost, err := l.Backlog.Overtaken(ctx, l.AgentID); err == nil && len(lost) > 0 {
		return claims{overtaken: true, held: before}, true
	}
	held, err := l.Backlog.Held(ctx, l.AgentID)
	if err != nil || slices.Equal(held, before) {
		return claims{}, false
	}
	now.held = held
	now.tasks, _ = l.Backlog.Tasks(ctx)
	if s, err := l.Backlog.Status(ctx); err == nil {
		now.status = &s
	}
	l.renew(ctx)
	return now, true
}

// renew renews the leases of the agent. It does not wait until an error is printed.
func (l *loop) renew(ctx context.Context) {
	err := l.Backlog.Renew(ctx, l.AgentID)
	if err == nil || ctx.Err() != nil {
		return
	}
	if _, warned := l.warned.LoadOrStore("renew", true); !warned {
		l.errs.writeAsync(fmt.Sprintf("Warning: renewing the leases of agent %s: %s\n", l.AgentID, termsafe.Strip(err.Error())))
	}
}

// updateClaims logs the tasks that the agent has claimed, and stops a run that another agent has overtaken.
func (w *watch) updateClaims(c claims) {
	if c.overtaken {
		w.kill(endOvertaken)
		return
	}
	l := w.loop
	now := &l.events.now
	for _, slug := range c.held {
		if !slices.Contains(now.Tasks, slug) {
			l.emit(&runlog.TaskChange{N: now.N, ID: slug, Title: c.tasks[slug].Title, Status: statusActive})
		}
	}
	now.Tasks, now.Title = c.held, ""
	if len(c.held) > 0 {
		now.Title = c.tasks[c.held[0]].Title
	}
	if c.status != nil {
		now.Counts = counts(*c.status)
	}
	l.saveNow(true)
}
